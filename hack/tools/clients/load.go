package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"
)

var errTwoLeaders = errors.New("two candidates lead at the same time")

// loaders is the number of concurrent writers: enough that a request is in flight at any time.
const loaders = 8

// underLoad writes objects as controllers do, and watches them. No write may fail, and the informer must have the last
// version of every object at the end.
func underLoad(ctx context.Context, lab lab, duration time.Duration) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dynamicClient, err := dynamic.NewForConfig(lab.config)
	if err != nil {
		return err
	}
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(dynamicClient, 0, lab.namespace, nil)
	informer := factory.ForResource(machines).Informer()
	var last sync.Map
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { recordVersion(&last, object) },
		UpdateFunc: func(_, object any) { recordVersion(&last, object) },
	})
	if err != nil {
		return err
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.HasSynced) {
		return errors.New("the informer did not sync")
	}
	var writes atomic.Int64
	var all sync.WaitGroup
	failures := make(chan error, loaders)
	end := time.Now().Add(duration)
	for number := range loaders {
		all.Go(func() {
			failures <- loader(ctx, lab, dynamicClient, fmt.Sprintf("load-%d", number), end, &writes, &last)
		})
	}
	all.Wait()
	close(failures)
	for err := range failures {
		if err != nil {
			return err
		}
	}
	fmt.Printf("%d writes, 0 failed\n", writes.Load())
	return nil
}

func recordVersion(last *sync.Map, object any) {
	if read, ok := object.(metav1.Object); ok {
		last.Store(read.GetName(), read.GetResourceVersion())
	}
}

func loader(ctx context.Context, lab lab, client dynamic.Interface, name string, end time.Time, writes *atomic.Int64, last *sync.Map) error {
	objects := client.Resource(machines).Namespace(lab.namespace)
	if err := remove(ctx, client, machines, lab.namespace, name); err != nil {
		return err
	}
	created, err := objects.Create(ctx, machine(lab.namespace, name), metav1.CreateOptions{})
	if err != nil {
		return fmt.Errorf("create %s: %w", name, err)
	}
	version := created.GetResourceVersion()
	for number := 0; time.Now().Before(end); number++ {
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"count":"%d"}}}`, number)
		written, err := objects.Patch(ctx, name, "application/merge-patch+json", patch, metav1.PatchOptions{})
		if err != nil {
			return fmt.Errorf("write %d of %s: %w", number, name, err)
		}
		version = written.GetResourceVersion()
		writes.Add(1)
	}
	return until(ctx, "the informer has the last version of "+name, func() bool {
		latest, _ := last.Load(name)
		return latest == version
	})
}
