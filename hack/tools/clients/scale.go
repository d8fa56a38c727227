package main

import (
	"context"
	"errors"
	"fmt"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/restmapper"
	scaleclient "k8s.io/client-go/scale"
	"k8s.io/client-go/util/retry"
)

// The annotations that cluster-autoscaler's provider for Cluster API uses.
const (
	minSize       = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-min-size"
	maxSize       = "cluster.x-k8s.io/cluster-api-autoscaler-node-group-max-size"
	deleteMachine = "cluster.x-k8s.io/delete-machine"
)

func scales(lab lab) (scaleclient.ScalesGetter, error) {
	found, err := discovery.NewDiscoveryClientForConfig(lab.config)
	if err != nil {
		return nil, err
	}
	mapper := restmapper.NewDeferredDiscoveryRESTMapper(memory.NewMemCacheClient(found))
	return scaleclient.NewForConfig(lab.config, mapper, dynamic.LegacyAPIPathResolverFunc,
		scaleclient.NewDiscoveryScaleKindResolver(found))
}

func scale(ctx context.Context, lab lab) error {
	const name = "scaled"
	dynamicClient, err := dynamic.NewForConfig(lab.config)
	if err != nil {
		return err
	}
	if err := remove(ctx, dynamicClient, deployments, lab.namespace, name); err != nil {
		return err
	}
	objects := dynamicClient.Resource(deployments).Namespace(lab.namespace)
	if _, err := objects.Create(ctx, deployment(lab.namespace, name, nil), metav1.CreateOptions{}); err != nil {
		return err
	}
	getter, err := scales(lab)
	if err != nil {
		return err
	}
	resource := schema.GroupResource{Group: group, Resource: "machinedeployments"}
	var read, written *autoscalingv1.Scale
	// The controller of MachineDeployments also writes the new object.
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		if read, err = getter.Scales(lab.namespace).Get(ctx, resource, name, metav1.GetOptions{}); err != nil {
			return err
		}
		changed := &autoscalingv1.Scale{ObjectMeta: read.ObjectMeta, Spec: autoscalingv1.ScaleSpec{Replicas: 4}}
		written, err = getter.Scales(lab.namespace).Update(ctx, resource, changed, metav1.UpdateOptions{})
		return err
	})
	if err != nil {
		return err
	}
	if read.Spec.Replicas != 1 || written.Spec.Replicas != 4 {
		return fmt.Errorf("scaled from %d to %d replicas, not from 1 to 4", read.Spec.Replicas, written.Spec.Replicas)
	}
	if err := replicas(ctx, objects, name, 4); err != nil {
		return err
	}
	return remove(ctx, dynamicClient, deployments, lab.namespace, name)
}

func replicas(ctx context.Context, objects dynamic.ResourceInterface, name string, expected int64) error {
	object, err := objects.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if found, _, _ := unstructured.NestedInt64(object.Object, "spec", "replicas"); found != expected {
		return fmt.Errorf("%s has %d replicas instead of %d", name, found, expected)
	}
	return nil
}

// autoscaler sends the requests of cluster-autoscaler's provider for Cluster API, in the same order.
func autoscaler(ctx context.Context, lab lab) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	found, err := discovery.NewDiscoveryClientForConfig(lab.config)
	if err != nil {
		return err
	}
	if err := checkDiscovery(found, "machines", "machinesets", "machinedeployments", "machinepools"); err != nil {
		return err
	}
	dynamicClient, err := dynamic.NewForConfig(lab.config)
	if err != nil {
		return err
	}
	for _, name := range []string{"node-group", "no-node-group"} {
		if err := remove(ctx, dynamicClient, deployments, lab.namespace, name); err != nil {
			return err
		}
	}
	if err := remove(ctx, dynamicClient, machines, lab.namespace, "surplus"); err != nil {
		return err
	}
	objects := dynamicClient.Resource(deployments).Namespace(lab.namespace)
	group := deployment(lab.namespace, "node-group", map[string]any{minSize: "1", maxSize: "5"})
	for _, each := range []*unstructured.Unstructured{group, deployment(lab.namespace, "no-node-group", nil)} {
		if _, err := objects.Create(ctx, each, metav1.CreateOptions{}); err != nil {
			return err
		}
	}
	if err := findGroup(ctx, lab, dynamicClient); err != nil {
		return err
	}
	patch := []byte(`{"spec":{"replicas":3}}`)
	_, err = objects.Patch(ctx, "node-group", "application/merge-patch+json", patch, metav1.PatchOptions{}, "scale")
	if err != nil {
		return err
	}
	if err := replicas(ctx, objects, "node-group", 3); err != nil {
		return err
	}
	return annotateForDeletion(ctx, lab, dynamicClient)
}

func checkDiscovery(found discovery.DiscoveryInterface, expected ...string) error {
	list, err := found.ServerResourcesForGroupVersion(group + "/v1beta2")
	if err != nil {
		return err
	}
	names := map[string]bool{}
	for _, resource := range list.APIResources {
		names[resource.Name] = true
	}
	for _, name := range expected {
		if !names[name] {
			return fmt.Errorf("discovery has no %s", name)
		}
	}
	return nil
}

func findGroup(ctx context.Context, lab lab, dynamicClient dynamic.Interface) error {
	factory := dynamicinformer.NewFilteredDynamicSharedInformerFactory(dynamicClient, 0, lab.namespace, nil)
	informer := factory.ForResource(deployments)
	informer.Informer()
	factory.Start(ctx.Done())
	for resource, synced := range factory.WaitForCacheSync(ctx.Done()) {
		if !synced {
			return fmt.Errorf("%s never synced", resource)
		}
	}
	keys := informer.Informer().GetStore().List()
	for _, key := range keys {
		object, ok := key.(*unstructured.Unstructured)
		if ok && object.GetName() == "node-group" && object.GetAnnotations()[maxSize] == "5" {
			return nil
		}
	}
	return errors.New("the informer has no MachineDeployment with the annotations of a node group")
}

func annotateForDeletion(ctx context.Context, lab lab, dynamicClient dynamic.Interface) error {
	objects := dynamicClient.Resource(machines).Namespace(lab.namespace)
	if _, err := objects.Create(ctx, machine(lab.namespace, "surplus"), metav1.CreateOptions{}); err != nil {
		return err
	}
	// Controllers also write the object. After a conflict the autoscaler sets the annotation in its next iteration.
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		read, err := objects.Get(ctx, "surplus", metav1.GetOptions{})
		if err != nil {
			return err
		}
		annotations := read.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		annotations[deleteMachine] = "now"
		read.SetAnnotations(annotations)
		written, err := objects.Update(ctx, read, metav1.UpdateOptions{})
		if err == nil && written.GetAnnotations()[deleteMachine] != "now" {
			return errors.New("the update did not store the annotation")
		}
		return err
	})
	if err != nil {
		return err
	}
	return remove(ctx, dynamicClient, machines, lab.namespace, "surplus")
}
