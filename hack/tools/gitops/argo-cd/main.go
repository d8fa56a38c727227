// Program argo-cd syncs a repository to Capstan with the engine of Argo CD,
// and prints the result of each check.
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

// A check is a sentence and the function that proves it.
type check struct {
	name string
	run  func(context.Context, *application) error
}

// The order matters: each check starts from the state that the one before it left.
var checks = []check{
	{"the cache holds and follows every kind of ours, and has its schema", caches},
	{"a sync by kubectl's own apply creates everything, and nothing differs", syncs},
	{"a change by hand is seen as it happens, and healed", heals},
	{"a sync by server-side apply takes over what kubectl's had set", takesOver},
	{"the server-side diff is empty, sees a change by hand, and is empty again", serverSideDiff},
	{"what the repository replaces is replaced", replaces},
	{"what leaves the repository is pruned, and nothing else", prunes},
	{"an application is taken away whole", vanishes},
	{"the cache followed all the while without an error", followed},
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "how to reach Capstan")
	namespace := flag.String("namespace", "", "where to work; must exist")
	repository := flag.String("repository", "", "the manifests to keep")
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
	// The deprecation warning of the older version comes at every step, as expected.
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
