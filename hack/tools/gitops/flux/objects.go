package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/fluxcd/cli-utils/pkg/object"
	"github.com/fluxcd/pkg/ssa"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func immutable(ctx context.Context, r *reconciler) error {
	check, err := r.object("MachineHealthCheck")
	if err != nil {
		return err
	}
	before, err := r.live(ctx, check)
	if err != nil {
		return err
	}
	if err := unstructured.SetNestedField(check.Object, "other", "spec", "clusterName"); err != nil {
		return err
	}
	_, err = r.manager.Apply(ctx, check, applyOptions())
	if err == nil || !strings.Contains(err.Error(), "immutable") {
		return fmt.Errorf("apply without force: %w", err)
	}
	_, _, _, err = r.manager.Diff(ctx, check, ssa.DefaultDiffOptions())
	if err == nil || !strings.Contains(err.Error(), "(Invalid)") {
		return fmt.Errorf("diff without force: %w", err)
	}
	entry, _, _, err := r.manager.Diff(ctx, check, ssa.DiffOptions{Force: true})
	if err != nil || entry.Action != ssa.CreatedAction {
		return fmt.Errorf("diff with force: %s: %w", entry, err)
	}
	options := applyOptions()
	options.Force = true
	entry, err = r.manager.Apply(ctx, check, options)
	if err != nil || entry.Action != ssa.CreatedAction {
		return fmt.Errorf("apply with force: %s: %w", entry, err)
	}
	after, err := r.live(ctx, check)
	if err != nil {
		return err
	}
	if after.GetUID() == before.GetUID() {
		return errors.New("the object was not recreated: its UID is the same")
	}
	// Revert the change by applying all objects at once, as kustomize-controller does.
	recreated := map[string]ssa.Action{"MachineHealthCheck": ssa.CreatedAction}
	return r.applyAll(ctx, options, ssa.UnchangedAction, recreated)
}

func migration(ctx context.Context, r *reconciler) error {
	check, err := r.object("MachineHealthCheck")
	if err != nil {
		return err
	}
	check.SetAPIVersion("cluster.x-k8s.io/v1beta2")
	check.Object["spec"] = map[string]any{
		"clusterName": "kept",
		"selector":    map[string]any{"matchLabels": map[string]any{"pool": "kept"}},
		"checks": map[string]any{
			"nodeStartupTimeoutSeconds": int64(600),
			"unhealthyNodeConditions": []any{
				map[string]any{"type": "Ready", "status": "Unknown", "timeoutSeconds": int64(300)},
				map[string]any{"type": "Ready", "status": "False", "timeoutSeconds": int64(300)},
			},
		},
		"remediation": map[string]any{
			"triggerIf": map[string]any{"unhealthyLessThanOrEqualTo": "40%"},
		},
	}
	options := applyOptions()
	options.MigrateAPIVersion = true
	if _, err := r.manager.Apply(ctx, check.DeepCopy(), options); err != nil {
		return err
	}
	found, err := r.live(ctx, check)
	if err != nil {
		return err
	}
	for _, entry := range found.GetManagedFields() {
		if entry.APIVersion != check.GetAPIVersion() {
			return fmt.Errorf("field manager %s still has fields in version %s", entry.Manager, entry.APIVersion)
		}
	}
	entry, err := r.manager.Apply(ctx, check, options)
	if err != nil || entry.Action != ssa.UnchangedAction {
		return fmt.Errorf("second apply: %s: %w", entry, err)
	}
	// Applying the repository, which still has the older version, changes nothing.
	return r.applyAll(ctx, applyOptions(), ssa.UnchangedAction, nil)
}

// takeover creates an object as `kubectl apply` does, and lets Flux take over every field that kubectl set.
func takeover(ctx context.Context, r *reconciler) error {
	cluster, err := r.object("Cluster")
	if err != nil {
		return err
	}
	if _, err := r.manager.Delete(ctx, cluster, ssa.DefaultDeleteOptions()); err != nil {
		return err
	}
	deleted := []*unstructured.Unstructured{cluster}
	if err := r.manager.WaitForTermination(deleted, waitOptions(20*time.Second)); err != nil {
		return err
	}
	applied := cluster.DeepCopy()
	applied.SetLabels(map[string]string{"tier": "silver", "set-by": "kubectl"})
	lastApplied, err := json.Marshal(applied)
	if err != nil {
		return err
	}
	applied.SetAnnotations(map[string]string{corev1.LastAppliedConfigAnnotation: string(lastApplied)})
	if err := r.client.Create(ctx, applied, client.FieldOwner("kubectl-client-side-apply")); err != nil {
		return err
	}
	options := applyOptions()
	options.Cleanup = ssa.ApplyCleanupOptions{
		Annotations: []string{corev1.LastAppliedConfigAnnotation},
		FieldManagers: []ssa.FieldManager{
			{Name: "kubectl", OperationType: metav1.ManagedFieldsOperationApply},
			{Name: "kubectl", OperationType: metav1.ManagedFieldsOperationUpdate},
			{Name: "before-first-apply", OperationType: metav1.ManagedFieldsOperationUpdate},
		},
	}
	changed := map[string]ssa.Action{"Cluster": ssa.ConfiguredAction}
	if err := r.applyAll(ctx, options, ssa.UnchangedAction, changed); err != nil {
		return err
	}
	found, err := r.live(ctx, cluster)
	if err != nil {
		return err
	}
	if _, annotated := found.GetAnnotations()[corev1.LastAppliedConfigAnnotation]; annotated || found.GetLabels()["set-by"] != "" {
		return fmt.Errorf("a label or annotation of kubectl remains: %v %v", found.GetLabels(), found.GetAnnotations())
	}
	for _, entry := range found.GetManagedFields() {
		if strings.HasPrefix(entry.Manager, "kubectl") {
			return fmt.Errorf("field manager %s still owns %s", entry.Manager, entry.FieldsV1)
		}
	}
	return r.applyAll(ctx, options, ssa.UnchangedAction, nil)
}

// readiness checks the readiness that kstatus computes for a MachineDeployment. The check sets the status in place of a
// controller.
func readiness(ctx context.Context, r *reconciler) error {
	deployment, err := r.object("MachineDeployment")
	if err != nil {
		return err
	}
	set := object.UnstructuredSetToObjMetadataSet([]*unstructured.Unstructured{deployment})
	for _, step := range []struct {
		ready   string
		current bool
	}{{"Unknown", false}, {"True", true}} {
		if err := r.setReady(ctx, deployment, step.ready); err != nil {
			return err
		}
		timeout := time.Second
		if step.current {
			timeout = 20 * time.Second
		}
		err := r.manager.WaitForSetWithContext(ctx, set, waitOptions(timeout))
		if step.current != (err == nil) {
			return fmt.Errorf("waiting with condition Ready=%s: %w", step.ready, err)
		}
		// The last poll of the library may exceed the deadline.
		if err != nil && !strings.Contains(err.Error(), "InProgress") && !strings.Contains(err.Error(), "context deadline") {
			return err
		}
	}
	// Fields that a controller sets are not drift.
	return r.applyAll(ctx, applyOptions(), ssa.UnchangedAction, nil)
}

// setReady writes the condition Ready. Capstan's own controller writes the status, too, so a conflict is tried again.
func (r *reconciler) setReady(ctx context.Context, deployment *unstructured.Unstructured, ready string) error {
	return retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		found, err := r.live(ctx, deployment)
		if err != nil {
			return err
		}
		found.Object["status"] = map[string]any{
			"observedGeneration": found.GetGeneration(),
			"conditions": []any{map[string]any{
				"type": "Ready", "status": ready, "reason": "Simulated", "message": "",
				"lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
			}},
		}
		return r.client.Status().Update(ctx, found, client.FieldOwner("controller"))
	})
}
