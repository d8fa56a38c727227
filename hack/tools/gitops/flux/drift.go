package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/fluxcd/pkg/ssa"
	"github.com/fluxcd/pkg/ssa/jsondiff"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func creates(ctx context.Context, k *keeper) error {
	// Objects that an earlier run may have left.
	if err := deleteAll(ctx, k); err != nil {
		return err
	}
	objects, err := k.objects()
	if err != nil {
		return err
	}
	for _, object := range objects {
		entry, _, _, err := k.manager.Diff(ctx, object, ssa.DefaultDiffOptions())
		if err != nil {
			return err
		}
		if entry.Action != ssa.CreatedAction {
			return fmt.Errorf("before there is anything: %s", entry)
		}
	}
	changes, err := k.manager.ApplyAllStaged(ctx, objects, applyOptions())
	if err != nil {
		return err
	}
	if err := expect(changes, len(objects), ssa.CreatedAction, nil); err != nil {
		return err
	}
	deployment, err := k.object("MachineDeployment")
	if err != nil {
		return err
	}
	// No controller observes it here, and readiness is a check of its own.
	settled := ssa.NewChangeSet()
	for _, entry := range changes.Entries {
		if entry.ObjMetadata.GroupKind != deployment.GroupVersionKind().GroupKind() {
			settled.Add(entry)
		}
	}
	return k.manager.WaitForSetWithContext(ctx, settled.ToObjMetadataSet(), waitOptions(20*time.Second))
}

func unchanged(ctx context.Context, k *keeper) error {
	objects, err := k.objects()
	if err != nil {
		return err
	}
	versions := map[string]string{}
	for _, object := range objects {
		found, err := k.live(ctx, object)
		if err != nil {
			return err
		}
		versions[object.GetKind()] = found.GetResourceVersion()
		entry, _, _, err := k.manager.Diff(ctx, object, ssa.DefaultDiffOptions())
		if err != nil {
			return err
		}
		if entry.Action != ssa.UnchangedAction {
			return fmt.Errorf("the difference of what was just applied: %s", entry)
		}
	}
	if err := k.applyAll(ctx, applyOptions(), ssa.UnchangedAction, nil); err != nil {
		return err
	}
	for _, object := range objects {
		found, err := k.live(ctx, object)
		if err != nil {
			return err
		}
		if found.GetResourceVersion() != versions[object.GetKind()] {
			return fmt.Errorf("%s was written", object.GetKind())
		}
	}
	return nil
}

func drift(ctx context.Context, k *keeper) error {
	cluster, err := k.object("Cluster")
	if err != nil {
		return err
	}
	deployment, err := k.object("MachineDeployment")
	if err != nil {
		return err
	}
	check, err := k.object("MachineHealthCheck")
	if err != nil {
		return err
	}
	// A label of the repository, a field of it, a field of the older version, and a label of another manager.
	if err := errors.Join(
		k.change(ctx, cluster, "gold", "metadata", "labels", "tier"),
		k.change(ctx, deployment, "v1.34.0", "spec", "template", "spec", "version"),
		k.change(ctx, check, "50%", "spec", "maxUnhealthy"),
		k.change(ctx, check, "theirs", "metadata", "labels", "somebody"),
	); err != nil {
		return err
	}
	entry, live, merged, err := k.manager.Diff(ctx, deployment.DeepCopy(), ssa.DefaultDiffOptions())
	if err != nil {
		return err
	}
	if entry.Action != ssa.ConfiguredAction {
		return fmt.Errorf("the difference is %s", entry)
	}
	if is, wanted := version(live), version(merged); is != "v1.34.0" || wanted != "v1.33.0" {
		return fmt.Errorf("the difference is from %q to %q", is, wanted)
	}
	changed := map[string]ssa.Action{
		"Cluster": ssa.ConfiguredAction, "MachineDeployment": ssa.ConfiguredAction, "MachineHealthCheck": ssa.ConfiguredAction,
	}
	if err := k.applyAll(ctx, applyOptions(), ssa.UnchangedAction, changed); err != nil {
		return err
	}
	if found, err := k.live(ctx, check); err != nil || found.GetLabels()["somebody"] != "theirs" {
		return fmt.Errorf("somebody else's label is gone: %w", err)
	}
	if found, err := k.live(ctx, deployment); err != nil || version(found) != "v1.33.0" {
		return fmt.Errorf("the version is %q: %w", version(found), err)
	}
	return k.applyAll(ctx, applyOptions(), ssa.UnchangedAction, nil)
}

func version(deployment *unstructured.Unstructured) string {
	found, _, _ := unstructured.NestedString(deployment.Object, "spec", "template", "spec", "version")
	return found
}

func ignored(ctx context.Context, k *keeper) error {
	deployment, err := k.object("MachineDeployment")
	if err != nil {
		return err
	}
	scale := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": int64(5)}}}
	scale.SetAPIVersion("autoscaling/v1")
	scale.SetKind("Scale")
	by := client.WithSubResourceBody(scale)
	if err := k.client.SubResource("scale").Update(ctx, deployment.DeepCopy(), by); err != nil {
		return err
	}
	rule := jsondiff.IgnoreRule{Paths: []string{"/spec/replicas"}, Selector: &jsondiff.Selector{Kind: "MachineDeployment"}}
	options := applyOptions()
	options.DriftIgnoreRules = []jsondiff.IgnoreRule{rule}
	if err := k.applyAll(ctx, options, ssa.UnchangedAction, nil); err != nil {
		return err
	}
	// Another difference of the object is corrected, and the replicas are still left unchanged.
	if err := k.change(ctx, deployment, "v1.34.0", "spec", "template", "spec", "version"); err != nil {
		return err
	}
	changed := map[string]ssa.Action{"MachineDeployment": ssa.ConfiguredAction}
	if err := k.applyAll(ctx, options, ssa.UnchangedAction, changed); err != nil {
		return err
	}
	found, err := k.live(ctx, deployment)
	if err != nil {
		return err
	}
	if replicas, _, _ := unstructured.NestedInt64(found.Object, "spec", "replicas"); replicas != 5 || version(found) != "v1.33.0" {
		return fmt.Errorf("%d replicas of %s", replicas, version(found))
	}
	return k.applyAll(ctx, applyOptions(), ssa.UnchangedAction, changed)
}

func removal(ctx context.Context, k *keeper) error {
	cluster, err := k.object("Cluster")
	if err != nil {
		return err
	}
	unstructured.RemoveNestedField(cluster.Object, "spec", "clusterNetwork", "services")
	unstructured.RemoveNestedField(cluster.Object, "metadata", "labels", "tier")
	entry, err := k.manager.Apply(ctx, cluster, applyOptions())
	if err != nil {
		return err
	}
	found, err := k.live(ctx, cluster)
	if err != nil {
		return err
	}
	_, services, _ := unstructured.NestedMap(found.Object, "spec", "clusterNetwork", "services")
	_, tier := found.GetLabels()["tier"]
	if entry.Action != ssa.ConfiguredAction || services || tier {
		return fmt.Errorf("%s; services %t, label %t", entry, services, tier)
	}
	return k.applyAll(ctx, applyOptions(), ssa.UnchangedAction, map[string]ssa.Action{"Cluster": ssa.ConfiguredAction})
}

func helmDrift(ctx context.Context, k *keeper) error {
	objects, err := k.objects()
	if err != nil {
		return err
	}
	options := []jsondiff.ListOption{jsondiff.FieldOwner("kustomize-controller"), jsondiff.Graceful(true)}
	before, err := jsondiff.UnstructuredList(ctx, k.client, objects, options...)
	if err != nil {
		return err
	}
	if before.HasChanges() {
		return fmt.Errorf("nothing has changed, and there is %v", before)
	}
	deployment, err := k.object("MachineDeployment")
	if err != nil {
		return err
	}
	if err := k.change(ctx, deployment, "v1.34.0", "spec", "template", "spec", "version"); err != nil {
		return err
	}
	found, err := jsondiff.Unstructured(ctx, k.client, deployment, jsondiff.FieldOwner("kustomize-controller"))
	if err != nil {
		return err
	}
	if found.Type != jsondiff.DiffTypeUpdate || len(found.Patch) != 1 || found.Patch[0].Path != "/spec/template/spec/version" {
		return fmt.Errorf("the difference is %s: %s", found.Type, found.Patch)
	}
	return k.applyAll(ctx, applyOptions(), ssa.UnchangedAction, map[string]ssa.Action{"MachineDeployment": ssa.ConfiguredAction})
}

func deletion(ctx context.Context, k *keeper) error {
	if err := deleteAll(ctx, k); err != nil {
		return err
	}
	objects, err := k.objects()
	if err != nil {
		return err
	}
	for _, object := range objects {
		if _, err := k.live(ctx, object); !apierrors.IsNotFound(err) {
			return fmt.Errorf("%s outlives its deletion: %w", object.GetKind(), err)
		}
	}
	return nil
}

func deleteAll(ctx context.Context, k *keeper) error {
	objects, err := k.objects()
	if err != nil {
		return err
	}
	// Only objects that still have the labels with which they were applied.
	options := ssa.DefaultDeleteOptions()
	options.Inclusions = k.manager.GetOwnerLabels("kept", k.namespace)
	changes, err := k.manager.DeleteAll(ctx, objects, options)
	if err != nil {
		return err
	}
	if err := expect(changes, len(objects), ssa.DeletedAction, nil); err != nil {
		return err
	}
	return k.manager.WaitForSetTermination(changes, waitOptions(30*time.Second))
}
