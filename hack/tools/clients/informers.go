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

// gates lets a check choose how informers begin.
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
	usual := clientfeatures.FeatureGates()
	defer clientfeatures.ReplaceFeatureGates(usual)
	for _, watchList := range []bool{true, false} {
		clientfeatures.ReplaceFeatureGates(gates{Gates: usual, watchList: watchList})
		if err := informer(ctx, lab, fmt.Sprintf("informed-%t", watchList)); err != nil {
			return fmt.Errorf("with WatchList %t: %w", watchList, err)
		}
	}
	return nil
}

type seen struct{ added, updated, deleted atomic.Int32 }

func (s *seen) handlers() cache.ResourceEventHandlerFuncs {
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(any) { s.added.Add(1) },
		UpdateFunc: func(any, any) { s.updated.Add(1) },
		DeleteFunc: func(any) { s.deleted.Add(1) },
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
	var counts seen
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(dynamicClient, 0, lab.namespace,
		func(options *metav1.ListOptions) { options.FieldSelector = "metadata.name=" + name })
	shared := factory.ForResource(machines).Informer()
	if _, err := shared.AddEventHandler(counts.handlers()); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), shared.HasSynced) {
		return errors.New("never synced")
	}
	return follow(ctx, objects, name, &counts)
}

// follow changes and deletes the object, and waits until a watcher has received both.
func follow(ctx context.Context, objects dynamic.ResourceInterface, name string, counts *seen) error {
	if err := until(ctx, "the object that was there is seen", func() bool { return counts.added.Load() == 1 }); err != nil {
		return err
	}
	patch := []byte(`{"metadata":{"labels":{"changed":"yes"}}}`)
	if _, err := objects.Patch(ctx, name, "application/merge-patch+json", patch, metav1.PatchOptions{}); err != nil {
		return err
	}
	if err := until(ctx, "the change is seen", func() bool { return counts.updated.Load() >= 1 }); err != nil {
		return err
	}
	if err := objects.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
		return err
	}
	unfinalized := []byte(`{"metadata":{"finalizers":null}}`)
	_, _ = objects.Patch(ctx, name, "application/merge-patch+json", unfinalized, metav1.PatchOptions{})
	return until(ctx, "the deletion is seen", func() bool { return counts.deleted.Load() == 1 })
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
	var counts seen
	factory := metadatainformer.NewFilteredSharedInformerFactory(metadataClient, 0, lab.namespace,
		func(options *metav1.ListOptions) { options.FieldSelector = "metadata.name=" + name })
	informer := factory.ForResource(machines)
	if _, err := informer.Informer().AddEventHandler(counts.handlers()); err != nil {
		return err
	}
	factory.Start(ctx.Done())
	if !cache.WaitForCacheSync(ctx.Done(), informer.Informer().HasSynced) {
		return errors.New("never synced")
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
		return fmt.Errorf("the metadata are %v", found)
	}
	return follow(ctx, objects, name, &counts)
}

func managerCache(ctx context.Context, lab lab) error {
	const name = "cached"
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	whole, err := cluster.New(lab.config)
	if err != nil {
		return err
	}
	go func() { _ = whole.Start(ctx) }()
	dynamicClient, err := dynamic.NewForConfig(lab.config)
	if err != nil {
		return err
	}
	if err := remove(ctx, dynamicClient, machines, lab.namespace, name); err != nil {
		return err
	}
	if err := whole.GetClient().Create(ctx, machine(lab.namespace, name)); err != nil {
		return err
	}
	read := &unstructured.Unstructured{}
	read.SetGroupVersionKind(machineKind)
	key := client.ObjectKey{Namespace: lab.namespace, Name: name}
	if err := until(ctx, "the cache has the object", func() bool { return whole.GetCache().Get(ctx, key, read) == nil }); err != nil {
		return err
	}
	if found, _, _ := unstructured.NestedString(read.Object, "spec", "clusterName"); found != "none" {
		return fmt.Errorf("the cached object is %v", read.Object)
	}
	only := &metav1.PartialObjectMetadata{}
	only.SetGroupVersionKind(machineKind)
	started := time.Now()
	if err := until(ctx, "the cache has the metadata", func() bool { return whole.GetCache().Get(ctx, key, only) == nil }); err != nil {
		return err
	}
	if only.UID != read.GetUID() {
		return fmt.Errorf("after %s the metadata are of %s, the object is %s", time.Since(started), only.UID, read.GetUID())
	}
	return remove(ctx, dynamicClient, machines, lab.namespace, name)
}
