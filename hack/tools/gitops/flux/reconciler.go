package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/polling"
	"github.com/fluxcd/pkg/ssa"
	"github.com/fluxcd/pkg/ssa/normalize"
	"github.com/fluxcd/pkg/ssa/utils"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// A reconciler applies objects as kustomize-controller does: with its resource manager and as its field manager.
type reconciler struct {
	client     client.Client
	manager    *ssa.ResourceManager
	namespace  string
	repository []byte
}

func newReconciler(config *rest.Config, namespace, repository string) (*reconciler, error) {
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	mapper, err := apiutil.NewDynamicRESTMapper(config, httpClient)
	if err != nil {
		return nil, err
	}
	direct, err := client.New(config, client.Options{HTTPClient: httpClient, Mapper: mapper})
	if err != nil {
		return nil, err
	}
	manifests, err := os.ReadFile(repository)
	if err != nil {
		return nil, err
	}
	owner := ssa.Owner{Field: "kustomize-controller", Group: "kustomize.toolkit.fluxcd.io"}
	manager := ssa.NewResourceManager(direct, polling.NewStatusPoller(direct, mapper, polling.Options{}), owner)
	manager.SetConcurrency(4)
	return &reconciler{client: direct, manager: manager, namespace: namespace, repository: manifests}, nil
}

// objects returns the objects of the repository, prepared as kustomize-controller prepares them.
func (r *reconciler) objects() ([]*unstructured.Unstructured, error) {
	objects, err := utils.ReadObjects(bytes.NewReader(r.repository))
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		object.SetNamespace(r.namespace)
	}
	if err := normalize.UnstructuredList(objects); err != nil {
		return nil, err
	}
	r.manager.SetOwnerLabels(objects, "kept", r.namespace)
	return objects, nil
}

// object returns the object of a kind in the repository.
func (r *reconciler) object(kind string) (*unstructured.Unstructured, error) {
	objects, err := r.objects()
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		if object.GetKind() == kind {
			return object, nil
		}
	}
	return nil, fmt.Errorf("the repository has no %s", kind)
}

// live returns the current object of the server, in the API version of the repository.
func (r *reconciler) live(ctx context.Context, object *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	found := &unstructured.Unstructured{}
	found.SetGroupVersionKind(object.GroupVersionKind())
	return found, r.client.Get(ctx, client.ObjectKeyFromObject(object), found)
}

// change sets a field of an object as another client.
func (r *reconciler) change(ctx context.Context, object *unstructured.Unstructured, value any, path ...string) error {
	found, err := r.live(ctx, object)
	if err != nil {
		return err
	}
	before := found.DeepCopy()
	if err := unstructured.SetNestedField(found.Object, value, path...); err != nil {
		return err
	}
	return r.client.Patch(ctx, found, client.MergeFrom(before), client.FieldOwner("another-client"))
}

// applyAll applies all objects, and compares the action on each object with the expected one.
func (r *reconciler) applyAll(
	ctx context.Context, opts ssa.ApplyOptions, expected ssa.Action, exceptions map[string]ssa.Action,
) error {
	objects, err := r.objects()
	if err != nil {
		return err
	}
	changes, err := r.manager.ApplyAll(ctx, objects, opts)
	if err != nil {
		return err
	}
	return expect(changes, len(objects), expected, exceptions)
}

// expect compares the action of each change with the expected one. Kinds in exceptions have another action.
func expect(changes *ssa.ChangeSet, count int, expected ssa.Action, exceptions map[string]ssa.Action) error {
	if len(changes.Entries) != count {
		return fmt.Errorf("%d changes for %d objects: %s", len(changes.Entries), count, changes)
	}
	for _, entry := range changes.Entries {
		action, isException := exceptions[entry.ObjMetadata.GroupKind.Kind]
		if !isException {
			action = expected
		}
		if entry.Action != action {
			return fmt.Errorf("%s instead of %s", entry.String(), action)
		}
	}
	return nil
}

func applyOptions() ssa.ApplyOptions {
	options := ssa.DefaultApplyOptions()
	options.WaitInterval, options.WaitTimeout = 200*time.Millisecond, 20*time.Second
	return options
}

func waitOptions(timeout time.Duration) ssa.WaitOptions {
	return ssa.WaitOptions{Interval: 200 * time.Millisecond, Timeout: timeout}
}
