package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/argoproj/argo-cd/gitops-engine/pkg/cache"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/diff"
	enginesync "github.com/argoproj/argo-cd/gitops-engine/pkg/sync"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/sync/common"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/utils/kube"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

var (
	clusters    = schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: "clusters"}
	deployments = schema.GroupVersionResource{Group: "cluster.x-k8s.io", Version: "v1beta2", Resource: "machinedeployments"}
)

func clusterCache(ctx context.Context, a *application) error {
	stop, err := a.engine.Run()
	if err != nil {
		return err
	}
	a.stop = stop
	kinds := 0
	for _, api := range a.cache.GetAPIResources() {
		if !strings.HasSuffix(api.GroupKind.Group, "cluster.x-k8s.io") && api.GroupKind.Group != "capstan.dev" {
			continue
		}
		kinds++
		kind := api.GroupVersionResource.GroupVersion().WithKind(api.GroupKind.Kind)
		if _, err := a.cache.IsNamespaced(api.GroupKind); err != nil {
			return fmt.Errorf("the cluster cache does not have %s: %w", kind, err)
		}
		if a.cache.GetGVKParser().Type(kind) == nil || a.cache.GetOpenAPISchema().LookupResource(kind) == nil {
			return fmt.Errorf("%s has no schema", kind)
		}
	}
	// Upstream serves about twenty kinds, most of them in two versions.
	if kinds < 40 {
		return fmt.Errorf("the cluster cache has only %d kinds in all versions", kinds)
	}
	// An earlier run may have left objects behind.
	return applicationDeletion(ctx, a)
}

func clientSideSync(ctx context.Context, a *application) error {
	objects, err := a.objects()
	if err != nil {
		return err
	}
	results, err := a.sync(ctx, objects)
	if err != nil {
		return err
	}
	for _, object := range objects {
		if message := results[object.GetKind()].Message; !strings.HasSuffix(message, " created") {
			return fmt.Errorf("%s: %s", object.GetKind(), message)
		}
	}
	if err := a.expectOutOfSync(ctx, objects, nil); err != nil {
		return err
	}
	results, err = a.sync(ctx, objects)
	if err != nil {
		return err
	}
	for _, object := range objects {
		// kubectl cannot detect that stringData is applied already.
		if message := results[object.GetKind()].Message; object.GetKind() != "Secret" && !strings.HasSuffix(message, " unchanged") {
			return fmt.Errorf("second sync: %s: %s", object.GetKind(), message)
		}
	}
	return nil
}

// change patches an object as another client, and waits until the cluster cache has received the change.
func (a *application) change(ctx context.Context, resource schema.GroupVersionResource, kind, patch string) error {
	updated := make(chan struct{}, 1)
	unsubscribe := a.cache.OnResourceUpdated(func(after, before *cache.Resource, _ map[kube.ResourceKey]*cache.Resource) {
		if after != nil && before != nil && after.Ref.Kind == kind && after.Ref.Namespace == a.namespace {
			select {
			case updated <- struct{}{}:
			default:
			}
		}
	})
	defer unsubscribe()
	objects := a.dynamic.Resource(resource).Namespace(a.namespace)
	options := metav1.PatchOptions{FieldManager: "another-client"}
	if _, err := objects.Patch(ctx, "kept", types.MergePatchType, []byte(patch), options); err != nil {
		return err
	}
	select {
	case <-updated:
		return nil
	case <-time.After(15 * time.Second):
		return fmt.Errorf("the cluster cache has not received a change of %s within 15 s", kind)
	}
}

func drift(ctx context.Context, a *application) error {
	return a.correctDrift(ctx, nil, nil)
}

// correctDrift changes two objects as another client, checks that exactly these are out of sync, and syncs them.
func (a *application) correctDrift(ctx context.Context, options []enginesync.SyncOpt, comparison []diff.Option) error {
	objects, err := a.objects()
	if err != nil {
		return err
	}
	if err := errors.Join(
		a.change(ctx, clusters, "Cluster", `{"metadata":{"labels":{"tier":"gold","another-client":"yes"}}}`),
		a.change(ctx, deployments, "MachineDeployment", `{"spec":{"replicas":7}}`),
	); err != nil {
		return err
	}
	if err := a.expectOutOfSync(ctx, objects, []string{"Cluster", "MachineDeployment"}, comparison...); err != nil {
		return err
	}
	if _, err := a.sync(ctx, objects, options...); err != nil {
		return err
	}
	cluster, err := a.dynamic.Resource(clusters).Namespace(a.namespace).Get(ctx, "kept", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if labels := cluster.GetLabels(); labels["tier"] != "silver" || labels["another-client"] != "yes" {
		return fmt.Errorf("the Cluster's labels are %v", labels)
	}
	return a.expectOutOfSync(ctx, objects, nil, comparison...)
}

func serverSideSync(ctx context.Context, a *application) error {
	objects, err := a.objects()
	if err != nil {
		return err
	}
	results, err := a.sync(ctx, objects, enginesync.WithServerSideApply(true))
	if err != nil {
		return err
	}
	for _, object := range objects {
		if message := results[object.GetKind()].Message; !strings.HasSuffix(message, " serverside-applied") {
			return fmt.Errorf("%s: %s", object.GetKind(), message)
		}
		gvk := object.GroupVersionKind()
		live, err := a.kubectl.GetResource(ctx, a.config, gvk, object.GetName(), a.namespace)
		if err != nil {
			return err
		}
		hasApplied := false
		for _, entry := range live.GetManagedFields() {
			if entry.Manager == "kubectl-client-side-apply" {
				return fmt.Errorf("%s: field manager kubectl-client-side-apply still owns %s", gvk.Kind, entry.FieldsV1)
			}
			hasApplied = hasApplied || entry.Manager == manager && entry.Operation == metav1.ManagedFieldsOperationApply
		}
		if !hasApplied {
			return fmt.Errorf("%s: field manager %s applies no field: %v", gvk.Kind, manager, live.GetManagedFields())
		}
	}
	return a.expectOutOfSync(ctx, objects, nil, diff.WithStructuredMergeDiff(true))
}

func serverSideDiff(ctx context.Context, a *application) error {
	applier, cleanup, err := a.kubectl.ManageServerSideDiffDryRuns(a.config)
	if err != nil {
		return err
	}
	defer cleanup()
	objects, err := a.objects()
	if err != nil {
		return err
	}
	dryRunner := diff.WithServerSideDryRunner(diff.NewK8sServerSideDryRunner(applier))
	// With and without the fields that mutating webhooks may have set. Argo CD needs the schema to ignore them.
	for _, ignore := range []bool{true, false} {
		comparison := []diff.Option{diff.WithServerSideDiff(true), dryRunner, diff.WithIgnoreMutationWebhook(ignore)}
		if err := a.expectOutOfSync(ctx, objects, nil, comparison...); err != nil {
			return err
		}
		options := []enginesync.SyncOpt{enginesync.WithServerSideApply(true)}
		if err := a.correctDrift(ctx, options, comparison); err != nil {
			return err
		}
	}
	return nil
}

func replacement(ctx context.Context, a *application) error {
	objects, err := a.objects()
	if err != nil {
		return err
	}
	var check *unstructured.Unstructured
	for _, object := range objects {
		if object.GetKind() == "MachineHealthCheck" {
			check = object
		}
	}
	if err := unstructured.SetNestedField(check.Object, "other", "spec", "clusterName"); err != nil {
		return err
	}
	if _, err := a.sync(ctx, objects); err == nil || !strings.Contains(err.Error(), "immutable") {
		return fmt.Errorf("changing an immutable field returned %w", err)
	}
	annotations := check.GetAnnotations()
	annotations[common.AnnotationSyncOptions] = "Force=true,Replace=true"
	check.SetAnnotations(annotations)
	results, err := a.sync(ctx, objects)
	if err != nil {
		return err
	}
	if message := results[check.GetKind()].Message; !strings.Contains(message, "replaced") {
		return fmt.Errorf("%s: %s", check.GetKind(), message)
	}
	return a.expectOutOfSync(ctx, objects, nil)
}

func pruning(ctx context.Context, a *application) error {
	objects, err := a.objects("MachineHealthCheck", "OpenStackMachineTemplate")
	if err != nil {
		return err
	}
	// If pruning is disabled, the objects are reported as out of sync and not deleted.
	if err := a.expectOutOfSync(ctx, objects, []string{requiresPruning, requiresPruning}); err != nil {
		return err
	}
	results, err := a.sync(ctx, objects, enginesync.WithPrune(true))
	if err != nil {
		return err
	}
	for kind, result := range results {
		pruned := kind == "MachineHealthCheck" || kind == "OpenStackMachineTemplate"
		if pruned != (result.Status == common.ResultCodePruned) {
			return fmt.Errorf("%s: %s: %s", kind, result.Status, result.Message)
		}
	}
	return a.expectOutOfSync(ctx, objects, nil)
}

// applicationDeletion prunes all objects. It uses background deletion: foreground deletion of the host's Secrets needs
// the host's garbage collector, which does not run in this test.
func applicationDeletion(ctx context.Context, a *application) error {
	policy := metav1.DeletePropagationBackground
	if _, err := a.sync(ctx, nil, enginesync.WithPrune(true), enginesync.WithPrunePropagationPolicy(&policy)); err != nil {
		return err
	}
	objects, err := a.objects()
	if err != nil {
		return err
	}
	for _, object := range objects {
		_, err := a.kubectl.GetResource(ctx, a.config, object.GroupVersionKind(), object.GetName(), a.namespace)
		if !apierrors.IsNotFound(err) {
			return fmt.Errorf("%s still exists after the deletion of its application: %w", object.GetKind(), err)
		}
	}
	return nil
}

func noCacheErrors(_ context.Context, a *application) error {
	if logged := a.errors.all(); len(logged) > 0 {
		return fmt.Errorf("the engine logged %d errors: %s", len(logged), strings.Join(logged, "; "))
	}
	return nil
}
