// Program flux syncs a repository to Capstan with the code of Flux's controllers,
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

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// A check is a sentence and the function that proves it.
type check struct {
	name string
	run  func(context.Context, *keeper) error
}

// The order matters: each check starts from the state that the one before it left.
var checks = []check{
	{"everything is created, in stages, and settles", creates},
	{"applied again, nothing has changed, and nothing is written", unchanged},
	{"what somebody else changed is noticed, shown and set right, and nothing more", drift},
	{"replicas that an autoscaler sets are left alone when so told", ignored},
	{"a field that leaves the repository leaves the object", removal},
	{"helm-controller's own comparison finds the same drift", helmDrift},
	{"what cannot be changed is refused, and replaced by force", immutable},
	{"an object moves on to the newer version", migration},
	{"what kubectl applied before is taken over whole", takeover},
	{"readiness is waited for, and its absence told", readiness},
	{"everything is deleted, and waited for", deletion},
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "how to reach Capstan")
	namespace := flag.String("namespace", "", "where to work; must exist")
	repository := flag.String("repository", "", "the manifests to keep")
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
	// The deprecation warning of the older version comes at every step, as expected.
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
	config.UserAgent = "capstan-flux/1"
	keeper, err := newKeeper(config, namespace, repository)
	if err != nil {
		return err
	}
	for _, each := range checks {
		limited, cancel := context.WithTimeout(ctx, time.Minute)
		started := time.Now()
		err := each.run(limited, keeper)
		cancel()
		if err != nil {
			return fmt.Errorf("%s: %w", each.name, err)
		}
		fmt.Fprintf(out, "ok      flux: %s (%.1f s)\n", each.name, time.Since(started).Seconds())
	}
	return nil
}
