// Program clients checks that client-go and controller-runtime work with Capstan, and prints the result of each check.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/log"
)

// A lab is the environment of a check: a connection, a namespace, and whether the connection uses the direct
// endpoint, which serves Leases.
type lab struct {
	config    *rest.Config
	namespace string
	direct    bool
}

// A check is a sentence that must hold, and the function that checks it.
type check struct {
	name   string
	run    func(context.Context, lab) error
	direct bool
}

var checks = []check{
	{name: "informers sync and receive updates and deletions, with and without WatchList", run: informers},
	{name: "a metadata informer receives objects without spec and status", run: metadataInformer},
	{name: "a manager's cache returns full objects and PartialObjectMetadata", run: managerCache},
	{name: "concurrent writers that retry on conflict lose no update", run: conflictRetries},
	{name: "server-side apply creates objects, reports conflicts, and takes over fields by force", run: applies},
	{name: "the status subresource changes only status, and rejects stale updates", run: status},
	{name: "a MachineDeployment is scaled through its scale subresource", run: scale},
	{name: "cluster-autoscaler finds a node group, scales it up and annotates a Machine for deletion", run: autoscaler},
	{name: "of two candidates only one leads, until it releases the Lease", run: election, direct: true},
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "path of the kubeconfig for Capstan")
	namespace := flag.String("namespace", "", "existing namespace for the objects of the checks")
	direct := flag.Bool("direct", false, "true for the direct endpoint, false for a host cluster")
	load := flag.Duration("load", 0, "duration of writes and watches in place of the checks; no write may fail")
	flag.Parse()
	log.SetLogger(logr.Discard())
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, os.Interrupt)
	defer stop()
	config, err := clientcmd.BuildConfigFromFlags("", *kubeconfig)
	if err != nil {
		fail(err)
	}
	config.QPS, config.Burst = 200, 400
	config.UserAgent = "capstan-clients/1"
	environment := lab{config: config, namespace: *namespace, direct: *direct}
	if *load > 0 {
		if err := underLoad(ctx, environment, *load); err != nil {
			fail(err)
		}
		return
	}
	for _, each := range checks {
		if each.direct && !*direct {
			continue
		}
		limited, cancel := context.WithTimeout(ctx, time.Minute)
		started := time.Now()
		err := each.run(limited, environment)
		cancel()
		if err != nil {
			fail(fmt.Errorf("%s: %w", each.name, err))
		}
		fmt.Printf("ok      go: %s (%.1f s)\n", each.name, time.Since(started).Seconds())
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "FAILED:", err)
	os.Exit(1)
}
