package main

import (
	"context"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

func election(ctx context.Context, lab lab) error {
	clients, err := kubernetes.NewForConfig(lab.config)
	if err != nil {
		return err
	}
	leading := make(chan string, 2)
	candidate := func(ctx context.Context, name string) error {
		lock, err := resourcelock.New(resourcelock.LeasesResourceLock, lab.namespace, "clients",
			clients.CoreV1(), clients.CoordinationV1(), resourcelock.ResourceLockConfig{Identity: name})
		if err != nil {
			return err
		}
		go leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
			Lock: lock, ReleaseOnCancel: true, LeaseDuration: 6 * time.Second, RenewDeadline: 4 * time.Second,
			RetryPeriod: 500 * time.Millisecond,
			Callbacks: leaderelection.LeaderCallbacks{
				OnStartedLeading: func(context.Context) { leading <- name },
				OnStoppedLeading: func() {},
			},
		})
		return nil
	}
	first, release := context.WithCancel(ctx)
	defer release()
	if err := candidate(first, "first"); err != nil {
		return err
	}
	var leader string
	if err := until(ctx, "the first candidate leads", func() bool { return received(leading, &leader) }); err != nil {
		return err
	}
	if err := candidate(ctx, "second"); err != nil {
		return err
	}
	time.Sleep(time.Second)
	if received(leading, &leader) {
		return errTwoLeaders
	}
	release()
	return until(ctx, "the second candidate leads after the first has released the Lease", func() bool {
		return received(leading, &leader)
	})
}

func received(from chan string, into *string) bool {
	select {
	case *into = <-from:
		return true
	default:
		return false
	}
}
