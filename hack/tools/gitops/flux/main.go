// Program flux applies the manifests of a repository to Capstan with the libraries of Flux's controllers, and prints
// the result of each check.
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

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// A check is a sentence that must hold, and the function that checks it.
type check struct {
	name string
	run  func(context.Context, *reconciler) error
}

// The order matters: each check starts from the state that the previous check leaves.
var checks = []check{
	{"all objects are created in stages and become ready", creation},
	{"applying the same manifests again changes nothing and writes no object", unchanged},
	{"drift by another client is detected, reported and corrected, and nothing else changes", drift},
	{"a drift ignore rule preserves the replicas that an autoscaler sets", driftIgnoreRule},
	{"a field removed from the repository is removed from the object", removal},
	{"helm-controller's drift detection finds the same drift", helmDrift},
	{"a change of an immutable field is rejected, and with force the object is recreated", immutable},
	{"an object is migrated to the newer API version", migration},
	{"all fields that kubectl applied are taken over", takeover},
	{"waiting for readiness succeeds for a ready object and fails for one that is not ready", readiness},
	{"all objects are deleted, and the wait for their termination succeeds", deletion},
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "path of the kubeconfig for Capstan")
	namespace := flag.String("namespace", "", "existing namespace for the objects of the checks")
	repository := flag.String("repository", "", "path of the manifests to apply")
	flag.Parse()
	log.SetLogger(logr.Discard())
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
	config.UserAgent = "capstan-flux/1"
	flux, err := newReconciler(config, namespace, repository)
	if err != nil {
		return err
	}
	for _, each := range checks {
		limited, cancel := context.WithTimeout(ctx, time.Minute)
		started := time.Now()
		err := each.run(limited, flux)
		cancel()
		if err != nil {
			return fmt.Errorf("%s: %w", each.name, err)
		}
		fmt.Fprintf(out, "ok      flux: %s (%.1f s)\n", each.name, time.Since(started).Seconds())
	}
	return nil
}
