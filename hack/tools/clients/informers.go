package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	clientfeatures "k8s.io/client-go/features"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/cluster"
)

// gates overrides the feature gate WatchListClient, which selects how informers read their initial list.
type gates struct {
	clientfeatures.Gates
	watchList bool
}

func (g gates) Enabled(feature clientfeatures.Feature) bool {
	if feature == clientfeatures.WatchListClient {
		return g.watchList
	}
	return g.Gates.Enabled(feature)
}

func informers(ctx context.Context, lab lab) error {
	defaults := clientfeatures.FeatureGates()
	defer clientfeatures.ReplaceFeatureGates(defaults)
	for _, watchList := range []bool{true, false} {
		clientfeatures.ReplaceFeatureGates(gates{Gates: defaults, watchList: watchList})
		if err := informer(ctx, lab, fmt.Sprintf("informed-%t", watchList)); err != nil {
			return fmt.Errorf("with WatchList %t: %w", watchList, err)
		}
	}
	return nil
}

type eventCounts struct{ added, updated, deleted atomic.Int32 }

func (c *eventCounts) handlers() cache.ResourceEventHandlerFuncs {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { c.added.Add(1) },
		UpdateFunc: func(any, any) { c.updated.Add(1) },
		DeleteFunc: func(any) { c.deleted.Add(1) },
	}
}

func informer(ctx context.Context, lab lab, name string) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dynamicClient, err := dynamic.NewForConfig(lab.config)
	if err != nil {
		return err
	}
	objects := dynamicClient.Resource(machines).Namespace(lab.namespace)
	if err := remove(ctx, dynamicClient, machines, lab.namespace, name); err != nil {
		return err
	}
	if _, err := objects.Create(ctx, machine(lab.namespace, name), metav1.CreateOptions{}); err != nil {
		return err
	}
	var counts eventCounts
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(dynamicClient, 0, lab.namespace,
		func(options *metav1.ListOptions) { options.FieldSelector = "metadata.name=" + name })
	shared := factory.ForResource(machines).Informer()
	if _, err := shared.AddEventHandler(counts.handlers()); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), shared.HasSynced) {
		return errors.New("the informer did not sync")
	}
	return checkEvents(ctx, objects, name, &counts)
}

// checkEvents updates and deletes the object, and waits until the informer has received each event.
func checkEvents(ctx context.Context, objects dynamic.ResourceInterface, name string, counts *eventCounts) error {
	err := until(ctx, "the informer has the existing object", func() bool { return counts.added.Load() == 1 })
	if err != nil {
		return err
	}
	patch := []byte(`{"metadata":{"labels":{"changed":"yes"}}}`)
	if _, err := objects.Patch(ctx, name, "application/merge-patch+json", patch, metav1.PatchOptions{}); err != nil {
		return err
	}
	err = until(ctx, "the informer has received the update", func() bool { return counts.updated.Load() >= 1 })
	if err != nil {
		return err
	}
	if err := objects.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	unfinalized := []byte(`{"metadata":{"finalizers":null}}`)
	_, _ = objects.Patch(ctx, name, "application/merge-patch+json", unfinalized, metav1.PatchOptions{})
	return until(ctx, "the informer has received the deletion", func() bool { return counts.deleted.Load() == 1 })
}

func metadataInformer(ctx context.Context, lab lab) error {
	const name = "informed-metadata"
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	dynamicClient, err := dynamic.NewForConfig(lab.config)
	if err != nil {
		return err
	}
	metadataClient, err := metadata.NewForConfig(lab.config)
	if err != nil {
		return err
	}
	if err := remove(ctx, dynamicClient, machines, lab.namespace, name); err != nil {
		return err
	}
	objects := dynamicClient.Resource(machines).Namespace(lab.namespace)
	if _, err := objects.Create(ctx, machine(lab.namespace, name), metav1.CreateOptions{}); err != nil {
		return err
	}
	var counts eventCounts
	factory := metadatainformer.NewFilteredSharedInformerFactory(metadataClient, 0, lab.namespace,
		func(options *metav1.ListOptions) { options.FieldSelector = "metadata.name=" + name })
	informer := factory.ForResource(machines)
	if _, err := informer.Informer().AddEventHandler(counts.handlers()); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.Informer().HasSynced) {
		return errors.New("the informer did not sync")
	}
	found, err := informer.Lister().ByNamespace(lab.namespace).Get(name)
	if err != nil {
		return err
	}
	read, err := meta.Accessor(found)
	if err != nil {
		return err
	}
	if read.GetLabels()["check"] != "yes" || read.GetUID() == "" {
		return fmt.Errorf("unexpected metadata: %v", found)
	}
	return checkEvents(ctx, objects, name, &counts)
}

func managerCache(ctx context.Context, lab lab) error {
	const name = "cached"
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	manager, err := cluster.New(lab.config)
	if err != nil {
		return err
	}
	go func() { _ = manager.Start(ctx) }()
	dynamicClient, err := dynamic.NewForConfig(lab.config)
	if err != nil {
		return err
	}
	if err := remove(ctx, dynamicClient, machines, lab.namespace, name); err != nil {
		return err
	}
	if err := manager.GetClient().Create(ctx, machine(lab.namespace, name)); err != nil {
		return err
	}
	read := &unstructured.Unstructured{}
	read.SetGroupVersionKind(machineKind)
	key := client.ObjectKey{Namespace: lab.namespace, Name: name}
	err = until(ctx, "the cache has the object", func() bool { return manager.GetCache().Get(ctx, key, read) == nil })
	if err != nil {
		return err
	}
	if found, _, _ := unstructured.NestedString(read.Object, "spec", "clusterName"); found != "none" {
		return fmt.Errorf("unexpected object in the cache: %v", read.Object)
	}
	partial := &metav1.PartialObjectMetadata{}
	partial.SetGroupVersionKind(machineKind)
	started := time.Now()
	err = until(ctx, "the metadata are cached", func() bool { return manager.GetCache().Get(ctx, key, partial) == nil })
	if err != nil {
		return err
	}
	if partial.UID != read.GetUID() {
		return fmt.Errorf("after %s the cached metadata have UID %s, and the object has %s",
			time.Since(started), partial.UID, read.GetUID())
	}
	return remove(ctx, dynamicClient, machines, lab.namespace, name)
}
