package main

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
)

const group = "cluster.x-k8s.io"

var (
	machines    = schema.GroupVersionResource{Group: group, Version: "v1beta2", Resource: "machines"}
	deployments = schema.GroupVersionResource{Group: group, Version: "v1beta2", Resource: "machinedeployments"}
	machineKind = schema.GroupVersionKind{Group: group, Version: "v1beta2", Kind: "Machine"}
)

func reference(kind, name string) map[string]any {
	return map[string]any{"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": kind, "name": name}
}

func machine(namespace, name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + "/v1beta2", "kind": "Machine",
		// The Machine is paused, so its controller only writes the condition Paused.
		"metadata": map[string]any{"name": name, "namespace": namespace, "labels": map[string]any{"check": "yes"},
			"annotations": map[string]any{"cluster.x-k8s.io/paused": ""}},
		"spec": map[string]any{
			"clusterName":       "none",
			"bootstrap":         map[string]any{"dataSecretName": "none"},
			"infrastructureRef": reference("OpenStackMachine", name),
		},
	}}
}

func deployment(namespace, name string, annotations map[string]any) *unstructured.Unstructured {
	labels := map[string]any{"pool": name}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": group + "/v1beta2", "kind": "MachineDeployment",
		"metadata": map[string]any{"name": name, "namespace": namespace, "annotations": annotations},
		"spec": map[string]any{
			"clusterName": "none",
			"replicas":    int64(1),
			"selector":    map[string]any{"matchLabels": labels},
			"template": map[string]any{
				"metadata": map[string]any{"labels": labels},
				"spec": map[string]any{
					"clusterName":       "none",
					"bootstrap":         map[string]any{"dataSecretName": "none"},
					"infrastructureRef": reference("OpenStackMachineTemplate", name),
				},
			},
		},
	}}
}

// remove deletes the object that an earlier run may have left behind, and waits for the end of its deletion.
func remove(ctx context.Context, client dynamic.Interface, resource schema.GroupVersionResource, namespace, name string) error {
	objects := client.Resource(resource).Namespace(namespace)
	patch := []byte(`{"metadata":{"finalizers":null}}`)
	_, _ = objects.Patch(ctx, name, "application/merge-patch+json", patch, metav1.PatchOptions{})
	_ = objects.Delete(ctx, name, metav1.DeleteOptions{})
	return until(ctx, name+" is deleted", func() bool {
		_, err := objects.Get(ctx, name, metav1.GetOptions{})
		return err != nil
	})
}

// observed waits until a Machine's controller has reported that it has seen the current generation of a paused Machine.
// The controller writes no more until another client changes the object, so the resourceVersion stays the same until then.
func observed(ctx context.Context, client dynamic.Interface, namespace, name string) (*unstructured.Unstructured, error) {
	var found *unstructured.Unstructured
	err := until(ctx, "the controller has observed "+name, func() bool {
		read, err := client.Resource(machines).Namespace(namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false
		}
		found = read
		return pauseGeneration(read) == read.GetGeneration()
	})
	return found, err
}

// pauseGeneration returns the generation of the condition Paused, or -1 if there is none.
func pauseGeneration(object *unstructured.Unstructured) int64 {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, item := range conditions {
		condition, _ := item.(map[string]any)
		if condition["type"] == "Paused" {
			generation, _, _ := unstructured.NestedInt64(condition, "observedGeneration")
			return generation
		}
	}
	return -1
}

func until(ctx context.Context, condition string, holds func() bool) error {
	poll := func(context.Context) (bool, error) { return holds(), nil }
	if err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 20*time.Second, true, poll); err != nil {
		return fmt.Errorf("timed out after 20 s, waiting until %s", condition)
	}
	return nil
}
