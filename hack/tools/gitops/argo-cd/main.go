// Program argo-cd syncs a repository to Capstan with Argo CD's gitops-engine, and prints the result of each check.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// A check is a sentence that must hold, and the function that checks it.
type check struct {
	name string
	run  func(context.Context, *application) error
}

// The order matters: each check starts from the state that the previous check leaves.
var checks = []check{
	{"the cluster cache watches every kind of Capstan and has its schema", clusterCache},
	{"a sync with client-side apply creates all objects, and repeating it changes nothing", clientSideSync},
	{"drift by another client is detected through the watch and corrected", drift},
	{"a sync with server-side apply takes over the fields that client-side apply set", serverSideSync},
	{"server-side diff is empty, detects drift by another client, and is empty after the next sync", serverSideDiff},
	{"a change of an immutable field is rejected, and with Force and Replace the object is replaced", replacement},
	{"objects removed from the repository are pruned, and no others", pruning},
	{"deleting an application deletes all its objects", applicationDeletion},
	{"the cluster cache had no error during the checks", noCacheErrors},
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "path of the kubeconfig for Capstan")
	namespace := flag.String("namespace", "", "existing namespace for the objects of the checks")
	repository := flag.String("repository", "", "path of the manifests to sync")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	if err := run(ctx, *kubeconfig, *namespace, *repository, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "FAILED:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, kubeconfig, namespace, repository string, out io.Writer) error {
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	if err != nil {
		return err
	}
	config.QPS, config.Burst = 200, 400
	// Each request in the deprecated version returns a warning, as expected.
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	config.UserAgent = "capstan-argo-cd/1"
	application, err := newApplication(config, namespace, repository)
	if err != nil {
		return err
	}
	defer application.close()
	for _, each := range checks {
		limited, cancel := context.WithTimeout(ctx, time.Minute)
		started := time.Now()
		err := each.run(limited, application)
		cancel()
		if err != nil {
			return fmt.Errorf("%s: %w", each.name, err)
		}
		fmt.Fprintf(out, "ok      argo-cd: %s (%.1f s)\n", each.name, time.Since(started).Seconds())
	}
	return nil
}
