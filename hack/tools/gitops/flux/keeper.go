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

// A keeper acts as kustomize-controller on the API server: its resource manager, under its name.
type keeper struct {
	client     client.Client
	manager    *ssa.ResourceManager
	namespace  string
	repository []byte
}

func newKeeper(config *rest.Config, namespace, repository string) (*keeper, error) {
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
	return &keeper{client: direct, manager: manager, namespace: namespace, repository: manifests}, nil
}

// objects returns the objects of the repository, prepared as by kustomize-controller.
func (k *keeper) objects() ([]*unstructured.Unstructured, error) {
	objects, err := utils.ReadObjects(bytes.NewReader(k.repository))
	if err != nil {
		return nil, err
	}
	for _, object := range objects {
		object.SetNamespace(k.namespace)
	}
	if err := normalize.UnstructuredList(objects); err != nil {
		return nil, err
	}
	k.manager.SetOwnerLabels(objects, "kept", k.namespace)
	return objects, nil
}

// object returns the object of a kind in the repository.
func (k *keeper) object(kind string) (*unstructured.Unstructured, error) {
	objects, err := k.objects()
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

// live returns the server's version of an object, in the API version that the repository names.
func (k *keeper) live(ctx context.Context, wanted *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	found := &unstructured.Unstructured{}
	found.SetGroupVersionKind(wanted.GroupVersionKind())
	return found, k.client.Get(ctx, client.ObjectKeyFromObject(wanted), found)
}

// change makes a change by hand.
func (k *keeper) change(ctx context.Context, object *unstructured.Unstructured, value any, path ...string) error {
	found, err := k.live(ctx, object)
	if err != nil {
		return err
	}
	before := found.DeepCopy()
	if err := unstructured.SetNestedField(found.Object, value, path...); err != nil {
		return err
	}
	return k.client.Patch(ctx, found, client.MergeFrom(before), client.FieldOwner("somebody"))
}

// applyAll applies everything, and compares the action on each object with the expected one.
func (k *keeper) applyAll(ctx context.Context, opts ssa.ApplyOptions, usually ssa.Action, but map[string]ssa.Action) error {
	objects, err := k.objects()
	if err != nil {
		return err
	}
	changes, err := k.manager.ApplyAll(ctx, objects, opts)
	if err != nil {
		return err
	}
	return expect(changes, len(objects), usually, but)
}

// expect compares a set of changes with the default action and with the kinds that have another one.
func expect(changes *ssa.ChangeSet, count int, usually ssa.Action, but map[string]ssa.Action) error {
	if len(changes.Entries) != count {
		return fmt.Errorf("%d changes of %d objects: %s", len(changes.Entries), count, changes)
	}
	for _, entry := range changes.Entries {
		wanted, other := but[entry.ObjMetadata.GroupKind.Kind]
		if !other {
			wanted = usually
		}
		if entry.Action != wanted {
			return fmt.Errorf("%s instead of %s", entry.String(), wanted)
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
