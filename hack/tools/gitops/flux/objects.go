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
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func immutable(ctx context.Context, k *keeper) error {
	template, err := k.object("OpenStackMachineTemplate")
	if err != nil {
		return err
	}
	before, err := k.live(ctx, template)
	if err != nil {
		return err
	}
	if err := unstructured.SetNestedField(template.Object, "m1.large", "spec", "template", "spec", "flavor", "filter", "name"); err != nil {
		return err
	}
	if _, err := k.manager.Apply(ctx, template, applyOptions()); err == nil || !strings.Contains(err.Error(), "immutable") {
		return fmt.Errorf("without force: %w", err)
	}
	if _, _, _, err := k.manager.Diff(ctx, template, ssa.DefaultDiffOptions()); err == nil || !strings.Contains(err.Error(), "(Invalid)") {
		return fmt.Errorf("the difference without force: %w", err)
	}
	entry, _, _, err := k.manager.Diff(ctx, template, ssa.DiffOptions{Force: true})
	if err != nil || entry.Action != ssa.CreatedAction {
		return fmt.Errorf("the difference with force: %s: %w", entry, err)
	}
	options := applyOptions()
	options.Force = true
	entry, err = k.manager.Apply(ctx, template, options)
	if err != nil || entry.Action != ssa.CreatedAction {
		return fmt.Errorf("with force: %s: %w", entry, err)
	}
	after, err := k.live(ctx, template)
	if err != nil {
		return err
	}
	if after.GetUID() == before.GetUID() {
		return errors.New("the object is still the same one")
	}
	// The change back, with all objects at once, as in kustomize-controller.
	return k.applyAll(ctx, options, ssa.UnchangedAction, map[string]ssa.Action{"OpenStackMachineTemplate": ssa.CreatedAction})
}

func migration(ctx context.Context, k *keeper) error {
	check, err := k.object("MachineHealthCheck")
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
	if _, err := k.manager.Apply(ctx, check.DeepCopy(), options); err != nil {
		return err
	}
	found, err := k.live(ctx, check)
	if err != nil {
		return err
	}
	for _, entry := range found.GetManagedFields() {
		if entry.APIVersion != check.GetAPIVersion() {
			return fmt.Errorf("%s still has fields of %s", entry.Manager, entry.APIVersion)
		}
	}
	entry, err := k.manager.Apply(ctx, check, options)
	if err != nil || entry.Action != ssa.UnchangedAction {
		return fmt.Errorf("again: %s: %w", entry, err)
	}
	// The objects that the repository still has in the older version are the same.
	return k.applyAll(ctx, applyOptions(), ssa.UnchangedAction, nil)
}

// takeover applies an object with kubectl, and lets Flux take over every field that kubectl had set.
func takeover(ctx context.Context, k *keeper) error {
	cluster, err := k.object("Cluster")
	if err != nil {
		return err
	}
	if _, err := k.manager.Delete(ctx, cluster, ssa.DefaultDeleteOptions()); err != nil {
		return err
	}
	if err := k.manager.WaitForTermination([]*unstructured.Unstructured{cluster}, waitOptions(20*time.Second)); err != nil {
		return err
	}
	byHand := cluster.DeepCopy()
	byHand.SetLabels(map[string]string{"tier": "silver", "set-by": "kubectl"})
	written, err := json.Marshal(byHand)
	if err != nil {
		return err
	}
	byHand.SetAnnotations(map[string]string{corev1.LastAppliedConfigAnnotation: string(written)})
	if err := k.client.Create(ctx, byHand, client.FieldOwner("kubectl-client-side-apply")); err != nil {
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
	if err := k.applyAll(ctx, options, ssa.UnchangedAction, map[string]ssa.Action{"Cluster": ssa.ConfiguredAction}); err != nil {
		return err
	}
	found, err := k.live(ctx, cluster)
	if err != nil {
		return err
	}
	if _, annotated := found.GetAnnotations()[corev1.LastAppliedConfigAnnotation]; annotated || found.GetLabels()["set-by"] != "" {
		return fmt.Errorf("kubectl's are still there: %v %v", found.GetLabels(), found.GetAnnotations())
	}
	for _, entry := range found.GetManagedFields() {
		if strings.HasPrefix(entry.Manager, "kubectl") {
			return fmt.Errorf("%s still has %s", entry.Manager, entry.FieldsV1)
		}
	}
	return k.applyAll(ctx, options, ssa.UnchangedAction, nil)
}

// readiness is computed by kstatus from a MachineDeployment, whose controller the check imitates.
func readiness(ctx context.Context, k *keeper) error {
	deployment, err := k.object("MachineDeployment")
	if err != nil {
		return err
	}
	set := object.UnstructuredSetToObjMetadataSet([]*unstructured.Unstructured{deployment})
	for _, step := range []struct {
		ready   string
		current bool
	}{{"Unknown", false}, {"True", true}} {
		found, err := k.live(ctx, deployment)
		if err != nil {
			return err
		}
		found.Object["status"] = map[string]any{
			"observedGeneration": found.GetGeneration(),
			"conditions": []any{map[string]any{
				"type": "Ready", "status": step.ready, "reason": "Played", "message": "",
				"lastTransitionTime": time.Now().UTC().Format(time.RFC3339),
			}},
		}
		if err := k.client.Status().Update(ctx, found, client.FieldOwner("controller")); err != nil {
			return err
		}
		timeout := time.Second
		if step.current {
			timeout = 20 * time.Second
		}
		err = k.manager.WaitForSetWithContext(ctx, set, waitOptions(timeout))
		if step.current != (err == nil) {
			return fmt.Errorf("ready %s: %w", step.ready, err)
		}
		// The library's last poll may be the one that comes too late.
		if err != nil && !strings.Contains(err.Error(), "InProgress") && !strings.Contains(err.Error(), "context deadline") {
			return err
		}
	}
	// Fields that a controller sets are no drift.
	return k.applyAll(ctx, applyOptions(), ssa.UnchangedAction, nil)
}
