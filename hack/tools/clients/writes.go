package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// writers is the number of concurrent writers of one object.
const writers = 12

func conflictRetries(ctx context.Context, lab lab) error {
	const name = "contended"
	dynamicClient, err := dynamic.NewForConfig(lab.config)
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
	backoff := retry.DefaultRetry
	backoff.Steps = 50
	var all sync.WaitGroup
	failures := make(chan error, writers)
	for number := range writers {
		all.Go(func() {
			failures <- retry.RetryOnConflict(backoff, func() error {
				read, err := objects.Get(ctx, name, metav1.GetOptions{})
				if err != nil {
					return err
				}
				labels := read.GetLabels()
				labels[fmt.Sprintf("writer-%d", number)] = "was-here"
				read.SetLabels(labels)
				_, err = objects.Update(ctx, read, metav1.UpdateOptions{})
				return err
			})
		})
	}
	all.Wait()
	close(failures)
	for err := range failures {
		if err != nil {
			return err
		}
	}
	read, err := objects.Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	for number := range writers {
		if label := fmt.Sprintf("writer-%d", number); read.GetLabels()[label] != "was-here" {
			return fmt.Errorf("label %s is missing in %v", label, read.GetLabels())
		}
	}
	return remove(ctx, dynamicClient, machines, lab.namespace, name)
}

func applies(ctx context.Context, lab lab) error {
	const name = "applied"
	dynamicClient, err := dynamic.NewForConfig(lab.config)
	if err != nil {
		return err
	}
	direct, err := client.New(lab.config, client.Options{})
	if err != nil {
		return err
	}
	if err := remove(ctx, dynamicClient, machines, lab.namespace, name); err != nil {
		return err
	}
	desired := func(version string) runtime.ApplyConfiguration {
		object := machine(lab.namespace, name)
		_ = unstructured.SetNestedField(object.Object, version, "spec", "version")
		return client.ApplyConfigurationFromUnstructured(object)
	}
	if err := direct.Apply(ctx, desired("v1.33.0"), client.FieldOwner("first")); err != nil {
		return err
	}
	err = direct.Apply(ctx, desired("v1.34.0"), client.FieldOwner("second"))
	if !apierrors.IsConflict(err) || !apierrors.HasStatusCause(err, metav1.CauseTypeFieldManagerConflict) {
		return fmt.Errorf("applying a field of another field manager returned %v, not a conflict", err)
	}
	if err := direct.Apply(ctx, desired("v1.34.0"), client.FieldOwner("second"), client.ForceOwnership); err != nil {
		return err
	}
	before, err := observed(ctx, dynamicClient, lab.namespace, name)
	if err != nil {
		return err
	}
	if err := direct.Apply(ctx, desired("v1.34.0"), client.FieldOwner("second")); err != nil {
		return err
	}
	after, err := dynamicClient.Resource(machines).Namespace(lab.namespace).Get(ctx, name, metav1.GetOptions{})
	if err != nil {
		return err
	}
	if before.GetResourceVersion() != after.GetResourceVersion() {
		return errors.New("applying the same configuration again wrote the object")
	}
	if version, _, _ := unstructured.NestedString(after.Object, "spec", "version"); version != "v1.34.0" {
		return fmt.Errorf("spec.version is %q", version)
	}
	return remove(ctx, dynamicClient, machines, lab.namespace, name)
}

func status(ctx context.Context, lab lab) error {
	const name = "with-status"
	dynamicClient, err := dynamic.NewForConfig(lab.config)
	if err != nil {
		return err
	}
	direct, err := client.New(lab.config, client.Options{})
	if err != nil {
		return err
	}
	if err := remove(ctx, dynamicClient, machines, lab.namespace, name); err != nil {
		return err
	}
	if err := direct.Create(ctx, machine(lab.namespace, name)); err != nil {
		return err
	}
	object, err := observed(ctx, dynamicClient, lab.namespace, name)
	if err != nil {
		return err
	}
	base := client.MergeFromWithOptions(object.DeepCopy(), client.MergeFromWithOptimisticLock{})
	_ = unstructured.SetNestedField(object.Object, "Provisioned", "status", "phase")
	_ = unstructured.SetNestedField(object.Object, "other", "spec", "clusterName")
	if err := direct.Status().Patch(ctx, object, base); err != nil {
		return err
	}
	phase, _, _ := unstructured.NestedString(object.Object, "status", "phase")
	cluster, _, _ := unstructured.NestedString(object.Object, "spec", "clusterName")
	if phase != "Provisioned" || cluster != "none" {
		return fmt.Errorf("the phase is %q, and the cluster name is %q", phase, cluster)
	}
	stale := object.DeepCopy()
	stale.SetResourceVersion("1")
	if err := direct.Status().Update(ctx, stale); !apierrors.IsConflict(err) {
		return fmt.Errorf("a stale update of the status returned %v, not a conflict", err)
	}
	return remove(ctx, dynamicClient, machines, lab.namespace, name)
}
