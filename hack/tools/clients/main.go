// Program clients runs the operations of operators' Go programs against Capstan, and prints the result of each.
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

// A lab is the environment of a check: a connection, a namespace of its own, and whether Capstan serves Leases.
type lab struct {
	config    *rest.Config
	namespace string
	direct    bool
}

// A check is a sentence and the function that proves it.
type check struct {
	name   string
	run    func(context.Context, lab) error
	direct bool
}

var checks = []check{
	{name: "informers sync, follow and see deletions, with WatchList and without", run: informers},
	{name: "a metadata informer sees objects without their contents", run: metadataInformer},
	{name: "a manager's cache serves whole objects and metadata alone", run: managerCache},
	{name: "conflicts are retried until everybody's change is in", run: conflictRetries},
	{name: "apply creates, reports conflicts, and takes over fields by force", run: applies},
	{name: "status is written by its own subresource alone", run: status},
	{name: "a MachineDeployment is scaled through its scale", run: scale},
	{name: "an autoscaler finds its groups, grows one and marks a Machine", run: autoscaler},
	{name: "one of two candidates leads, and the other follows when it lets go", run: election, direct: true},
}

func main() {
	kubeconfig := flag.String("kubeconfig", "", "how to reach Capstan")
	namespace := flag.String("namespace", "", "where to work; must exist")
	direct := flag.Bool("direct", false, "whether this is Capstan's own endpoint, and not a host")
	load := flag.Duration("load", 0, "instead of checks: write and watch for so long, and say what failed")
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
	place := lab{config: config, namespace: *namespace, direct: *direct}
	if *load > 0 {
		if err := underLoad(ctx, place, *load); err != nil {
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
		err := each.run(limited, place)
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
