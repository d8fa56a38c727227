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

func caches(ctx context.Context, a *application) error {
	stop, err := a.engine.Run()
	if err != nil {
		return err
	}
	a.stop = stop
	ours := 0
	for _, api := range a.cache.GetAPIResources() {
		if !strings.HasSuffix(api.GroupKind.Group, "cluster.x-k8s.io") && api.GroupKind.Group != "capstan.dev" {
			continue
		}
		ours++
		kind := api.GroupVersionResource.GroupVersion().WithKind(api.GroupKind.Kind)
		if _, err := a.cache.IsNamespaced(api.GroupKind); err != nil {
			return fmt.Errorf("%s is not held: %w", kind, err)
		}
		if a.cache.GetGVKParser().Type(kind) == nil || a.cache.GetOpenAPISchema().LookupResource(kind) == nil {
			return fmt.Errorf("%s has no schema", kind)
		}
	}
	// Upstream serves about twenty kinds, most of them in two versions.
	if ours < 40 {
		return fmt.Errorf("only %d kinds in their versions", ours)
	}
	// Objects that an earlier run may have left.
	return vanishes(ctx, a)
}

func syncs(ctx context.Context, a *application) error {
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
	if err := a.expectDiffering(ctx, objects, nil); err != nil {
		return err
	}
	results, err = a.sync(ctx, objects)
	if err != nil {
		return err
	}
	for _, object := range objects {
		// kubectl cannot detect that stringData is applied already.
		if message := results[object.GetKind()].Message; object.GetKind() != "Secret" && !strings.HasSuffix(message, " unchanged") {
			return fmt.Errorf("again: %s: %s", object.GetKind(), message)
		}
	}
	return nil
}

// change makes a change by hand; the cache must receive it.
func (a *application) change(ctx context.Context, resource schema.GroupVersionResource, kind, patch string) error {
	told := make(chan struct{}, 1)
	unsubscribe := a.cache.OnResourceUpdated(func(after, before *cache.Resource, _ map[kube.ResourceKey]*cache.Resource) {
		if after != nil && before != nil && after.Ref.Kind == kind && after.Ref.Namespace == a.namespace {
			select {
			case told <- struct{}{}:
			default:
			}
		}
	})
	defer unsubscribe()
	objects := a.dynamic.Resource(resource).Namespace(a.namespace)
	options := metav1.PatchOptions{FieldManager: "somebody"}
	if _, err := objects.Patch(ctx, "kept", types.MergePatchType, []byte(patch), options); err != nil {
		return err
	}
	select {
	case <-told:
		return nil
	case <-time.After(15 * time.Second):
		return fmt.Errorf("nobody told the cache of a change of %s", kind)
	}
}

func heals(ctx context.Context, a *application) error {
	return a.heal(ctx, nil, nil)
}

// heal changes two objects by hand, checks that exactly these differ, and restores them.
func (a *application) heal(ctx context.Context, options []enginesync.SyncOpt, comparison []diff.Option) error {
	objects, err := a.objects()
	if err != nil {
		return err
	}
	if err := errors.Join(
		a.change(ctx, clusters, "Cluster", `{"metadata":{"labels":{"tier":"gold","somebody":"theirs"}}}`),
		a.change(ctx, deployments, "MachineDeployment", `{"spec":{"replicas":7}}`),
	); err != nil {
		return err
	}
	if err := a.expectDiffering(ctx, objects, []string{"Cluster", "MachineDeployment"}, comparison...); err != nil {
		return err
	}
	if _, err := a.sync(ctx, objects, options...); err != nil {
		return err
	}
	cluster, err := a.dynamic.Resource(clusters).Namespace(a.namespace).Get(ctx, "kept", metav1.GetOptions{})
	if err != nil {
		return err
	}
	if labels := cluster.GetLabels(); labels["tier"] != "silver" || labels["somebody"] != "theirs" {
		return fmt.Errorf("the Cluster's labels are %v", labels)
	}
	return a.expectDiffering(ctx, objects, nil, comparison...)
}

func takesOver(ctx context.Context, a *application) error {
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
		applies := false
		for _, entry := range live.GetManagedFields() {
			if entry.Manager == "kubectl-client-side-apply" {
				return fmt.Errorf("%s: kubectl still has %s", gvk.Kind, entry.FieldsV1)
			}
			applies = applies || entry.Manager == manager && entry.Operation == metav1.ManagedFieldsOperationApply
		}
		if !applies {
			return fmt.Errorf("%s: Argo CD applies nothing: %v", gvk.Kind, live.GetManagedFields())
		}
	}
	return a.expectDiffering(ctx, objects, nil, diff.WithStructuredMergeDiff(true))
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
	// With and without the fields that webhooks may have added, which only the schema can tell.
	for _, ignore := range []bool{true, false} {
		comparison := []diff.Option{diff.WithServerSideDiff(true), dryRunner, diff.WithIgnoreMutationWebhook(ignore)}
		if err := a.expectDiffering(ctx, objects, nil, comparison...); err != nil {
			return err
		}
		if err := a.heal(ctx, []enginesync.SyncOpt{enginesync.WithServerSideApply(true)}, comparison); err != nil {
			return err
		}
	}
	return nil
}

func replaces(ctx context.Context, a *application) error {
	objects, err := a.objects()
	if err != nil {
		return err
	}
	var template *unstructured.Unstructured
	for _, object := range objects {
		if object.GetKind() == "OpenStackMachineTemplate" {
			template = object
		}
	}
	if err := unstructured.SetNestedField(template.Object, "m1.large", "spec", "template", "spec", "flavor", "filter", "name"); err != nil {
		return err
	}
	if _, err := a.sync(ctx, objects); err == nil || !strings.Contains(err.Error(), "immutable") {
		return fmt.Errorf("what cannot be changed is met with %w", err)
	}
	annotations := template.GetAnnotations()
	annotations[common.AnnotationSyncOptions] = "Force=true,Replace=true"
	template.SetAnnotations(annotations)
	results, err := a.sync(ctx, objects)
	if err != nil {
		return err
	}
	if message := results[template.GetKind()].Message; !strings.Contains(message, "replaced") {
		return fmt.Errorf("the template: %s", message)
	}
	return a.expectDiffering(ctx, objects, nil)
}

func prunes(ctx context.Context, a *application) error {
	objects, err := a.objects("MachineHealthCheck", "OpenStackMachineTemplate")
	if err != nil {
		return err
	}
	// Without permission to prune, there is only a difference.
	if err := a.expectDiffering(ctx, objects, []string{stray, stray}); err != nil {
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
	return a.expectDiffering(ctx, objects, nil)
}

// vanishes prunes everything, in the background: the host's own Secrets are not garbage-collected here.
func vanishes(ctx context.Context, a *application) error {
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
			return fmt.Errorf("%s outlives its application: %w", object.GetKind(), err)
		}
	}
	return nil
}

func followed(_ context.Context, a *application) error {
	if seen := a.trouble.all(); len(seen) > 0 {
		return fmt.Errorf("%d failures: %s", len(seen), strings.Join(seen, "; "))
	}
	return nil
}
