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

func creation(ctx context.Context, r *reconciler) error {
	// An earlier run may have left objects behind.
	if err := deleteAll(ctx, r); err != nil {
		return err
	}
	objects, err := r.objects()
	if err != nil {
		return err
	}
	for _, object := range objects {
		entry, _, _, err := r.manager.Diff(ctx, object, ssa.DefaultDiffOptions())
		if err != nil {
			return err
		}
		if entry.Action != ssa.CreatedAction {
			return fmt.Errorf("the diff before the creation is %s", entry)
		}
	}
	changes, err := r.manager.ApplyAllStaged(ctx, objects, applyOptions())
	if err != nil {
		return err
	}
	if err := expect(changes, len(objects), ssa.CreatedAction, nil); err != nil {
		return err
	}
	deployment, err := r.object("MachineDeployment")
	if err != nil {
		return err
	}
	// No controller observes the MachineDeployment in this test. A separate check covers its readiness.
	awaited := ssa.NewChangeSet()
	for _, entry := range changes.Entries {
		if entry.ObjMetadata.GroupKind != deployment.GroupVersionKind().GroupKind() {
			awaited.Add(entry)
		}
	}
	return r.manager.WaitForSetWithContext(ctx, awaited.ToObjMetadataSet(), waitOptions(20*time.Second))
}

func unchanged(ctx context.Context, r *reconciler) error {
	objects, err := r.objects()
	if err != nil {
		return err
	}
	versions := map[string]string{}
	for _, object := range objects {
		found, err := r.live(ctx, object)
		if err != nil {
			return err
		}
		versions[object.GetKind()] = found.GetResourceVersion()
		entry, _, _, err := r.manager.Diff(ctx, object, ssa.DefaultDiffOptions())
		if err != nil {
			return err
		}
		if entry.Action != ssa.UnchangedAction {
			return fmt.Errorf("the diff after the apply is %s", entry)
		}
	}
	if err := r.applyAll(ctx, applyOptions(), ssa.UnchangedAction, nil); err != nil {
		return err
	}
	for _, object := range objects {
		found, err := r.live(ctx, object)
		if err != nil {
			return err
		}
		if found.GetResourceVersion() != versions[object.GetKind()] {
			return fmt.Errorf("%s was written, although nothing changed", object.GetKind())
		}
	}
	return nil
}

func drift(ctx context.Context, r *reconciler) error {
	cluster, err := r.object("Cluster")
	if err != nil {
		return err
	}
	deployment, err := r.object("MachineDeployment")
	if err != nil {
		return err
	}
	check, err := r.object("MachineHealthCheck")
	if err != nil {
		return err
	}
	// A label and a field of the repository, a field in the older API version, and a label of another field manager.
	if err := errors.Join(
		r.change(ctx, cluster, "gold", "metadata", "labels", "tier"),
		r.change(ctx, deployment, "v1.34.0", "spec", "template", "spec", "version"),
		r.change(ctx, check, "50%", "spec", "maxUnhealthy"),
		r.change(ctx, check, "yes", "metadata", "labels", "another-client"),
	); err != nil {
		return err
	}
	entry, live, merged, err := r.manager.Diff(ctx, deployment.DeepCopy(), ssa.DefaultDiffOptions())
	if err != nil {
		return err
	}
	if entry.Action != ssa.ConfiguredAction {
		return fmt.Errorf("the diff is %s", entry)
	}
	if before, after := version(live), version(merged); before != "v1.34.0" || after != "v1.33.0" {
		return fmt.Errorf("the diff changes the version from %q to %q", before, after)
	}
	changed := map[string]ssa.Action{
		"Cluster": ssa.ConfiguredAction, "MachineDeployment": ssa.ConfiguredAction, "MachineHealthCheck": ssa.ConfiguredAction,
	}
	if err := r.applyAll(ctx, applyOptions(), ssa.UnchangedAction, changed); err != nil {
		return err
	}
	if found, err := r.live(ctx, check); err != nil || found.GetLabels()["another-client"] != "yes" {
		return fmt.Errorf("the label of the other field manager is gone: %w", err)
	}
	if found, err := r.live(ctx, deployment); err != nil || version(found) != "v1.33.0" {
		return fmt.Errorf("spec.template.spec.version is %q: %w", version(found), err)
	}
	return r.applyAll(ctx, applyOptions(), ssa.UnchangedAction, nil)
}

func version(deployment *unstructured.Unstructured) string {
	found, _, _ := unstructured.NestedString(deployment.Object, "spec", "template", "spec", "version")
	return found
}

func driftIgnoreRule(ctx context.Context, r *reconciler) error {
	deployment, err := r.object("MachineDeployment")
	if err != nil {
		return err
	}
	scale := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"replicas": int64(5)}}}
	scale.SetAPIVersion("autoscaling/v1")
	scale.SetKind("Scale")
	by := client.WithSubResourceBody(scale)
	if err := r.client.SubResource("scale").Update(ctx, deployment.DeepCopy(), by); err != nil {
		return err
	}
	rule := jsondiff.IgnoreRule{Paths: []string{"/spec/replicas"}, Selector: &jsondiff.Selector{Kind: "MachineDeployment"}}
	options := applyOptions()
	options.DriftIgnoreRules = []jsondiff.IgnoreRule{rule}
	if err := r.applyAll(ctx, options, ssa.UnchangedAction, nil); err != nil {
		return err
	}
	// Other drift of the object is corrected, and the replicas still stay unchanged.
	if err := r.change(ctx, deployment, "v1.34.0", "spec", "template", "spec", "version"); err != nil {
		return err
	}
	changed := map[string]ssa.Action{"MachineDeployment": ssa.ConfiguredAction}
	if err := r.applyAll(ctx, options, ssa.UnchangedAction, changed); err != nil {
		return err
	}
	found, err := r.live(ctx, deployment)
	if err != nil {
		return err
	}
	if replicas, _, _ := unstructured.NestedInt64(found.Object, "spec", "replicas"); replicas != 5 || version(found) != "v1.33.0" {
		return fmt.Errorf("%d replicas and version %q instead of 5 and v1.33.0", replicas, version(found))
	}
	return r.applyAll(ctx, applyOptions(), ssa.UnchangedAction, changed)
}

func removal(ctx context.Context, r *reconciler) error {
	cluster, err := r.object("Cluster")
	if err != nil {
		return err
	}
	unstructured.RemoveNestedField(cluster.Object, "spec", "clusterNetwork", "services")
	unstructured.RemoveNestedField(cluster.Object, "metadata", "labels", "tier")
	entry, err := r.manager.Apply(ctx, cluster, applyOptions())
	if err != nil {
		return err
	}
	found, err := r.live(ctx, cluster)
	if err != nil {
		return err
	}
	_, services, _ := unstructured.NestedMap(found.Object, "spec", "clusterNetwork", "services")
	_, tier := found.GetLabels()["tier"]
	if entry.Action != ssa.ConfiguredAction || services || tier {
		return fmt.Errorf("%s; services present: %t, label present: %t", entry, services, tier)
	}
	return r.applyAll(ctx, applyOptions(), ssa.UnchangedAction, map[string]ssa.Action{"Cluster": ssa.ConfiguredAction})
}

func helmDrift(ctx context.Context, r *reconciler) error {
	objects, err := r.objects()
	if err != nil {
		return err
	}
	options := []jsondiff.ListOption{jsondiff.FieldOwner("kustomize-controller"), jsondiff.Graceful(true)}
	before, err := jsondiff.UnstructuredList(ctx, r.client, objects, options...)
	if err != nil {
		return err
	}
	if before.HasChanges() {
		return fmt.Errorf("there is drift before any change: %v", before)
	}
	deployment, err := r.object("MachineDeployment")
	if err != nil {
		return err
	}
	if err := r.change(ctx, deployment, "v1.34.0", "spec", "template", "spec", "version"); err != nil {
		return err
	}
	found, err := jsondiff.Unstructured(ctx, r.client, deployment, jsondiff.FieldOwner("kustomize-controller"))
	if err != nil {
		return err
	}
	if found.Type != jsondiff.DiffTypeUpdate || len(found.Patch) != 1 || found.Patch[0].Path != "/spec/template/spec/version" {
		return fmt.Errorf("the diff is %s: %s", found.Type, found.Patch)
	}
	changed := map[string]ssa.Action{"MachineDeployment": ssa.ConfiguredAction}
	return r.applyAll(ctx, applyOptions(), ssa.UnchangedAction, changed)
}

func deletion(ctx context.Context, r *reconciler) error {
	if err := deleteAll(ctx, r); err != nil {
		return err
	}
	objects, err := r.objects()
	if err != nil {
		return err
	}
	for _, object := range objects {
		if _, err := r.live(ctx, object); !apierrors.IsNotFound(err) {
			return fmt.Errorf("%s still exists after its deletion: %w", object.GetKind(), err)
		}
	}
	return nil
}

func deleteAll(ctx context.Context, r *reconciler) error {
	objects, err := r.objects()
	if err != nil {
		return err
	}
	// Delete only objects that still have the owner labels with which they were applied.
	options := ssa.DefaultDeleteOptions()
	options.Inclusions = r.manager.GetOwnerLabels("kept", r.namespace)
	changes, err := r.manager.DeleteAll(ctx, objects, options)
	if err != nil {
		return err
	}
	if err := expect(changes, len(objects), ssa.DeletedAction, nil); err != nil {
		return err
	}
	return r.manager.WaitForSetTermination(changes, waitOptions(30*time.Second))
}
