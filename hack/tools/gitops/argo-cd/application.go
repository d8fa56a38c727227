package main

import (
	"context"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/argoproj/argo-cd/gitops-engine/pkg/cache"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/diff"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/engine"
	enginesync "github.com/argoproj/argo-cd/gitops-engine/pkg/sync"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/sync/common"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/utils/kube"
	"github.com/argoproj/argo-cd/gitops-engine/pkg/utils/tracing"
	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

const (
	// tracking is the annotation by which Argo CD finds the objects of an application.
	tracking = "argocd.argoproj.io/tracking-id"
	// manager is Argo CD's field manager for server-side apply.
	manager = "argocd-controller"
	// requiresPruning precedes the kind of an object of the application that is not in the repository.
	requiresPruning = "requires pruning"
)

// An application is an Application of Argo CD, with the parts of its controller that call the API server.
type application struct {
	config     *rest.Config
	dynamic    dynamic.Interface
	kubectl    *kube.KubectlCmd
	cache      cache.ClusterCache
	engine     engine.GitOpsEngine
	namespace  string
	repository []byte
	errors     *errorLog
	stop       engine.StopFunc
}

func newApplication(config *rest.Config, namespace, repository string) (*application, error) {
	manifests, err := os.ReadFile(repository)
	if err != nil {
		return nil, err
	}
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	logged := &errorLog{}
	log := funcr.New(logged.record, funcr.Options{Verbosity: 1})
	kubectl := &kube.KubectlCmd{Log: log, Tracer: tracing.NopTracer{}}
	clusterCache := cache.NewClusterCache(config, cache.SetKubectl(kubectl), cache.SetLogr(log),
		cache.SetPopulateResourceInfoHandler(func(object *unstructured.Unstructured, _ bool) (any, bool) {
			tracked := object.GetAnnotations()[tracking]
			return tracked, tracked != ""
		}))
	return &application{
		config: config, dynamic: client, kubectl: kubectl, cache: clusterCache,
		namespace: namespace, repository: manifests,
		engine: engine.NewEngine(config, clusterCache, engine.WithLogr(logr.Discard()), engine.WithKubectl(kubectl)),
		errors: logged, stop: func() {},
	}, nil
}

func (a *application) close() {
	a.stop()
}

// objects returns the objects of the repository, without the omitted kinds.
func (a *application) objects(omitted ...string) ([]*unstructured.Unstructured, error) {
	objects, err := kube.SplitYAML(a.repository)
	if err != nil {
		return nil, err
	}
	var included []*unstructured.Unstructured
	for _, object := range objects {
		if slices.Contains(omitted, object.GetKind()) {
			continue
		}
		object.SetNamespace(a.namespace)
		annotations := object.GetAnnotations()
		if annotations == nil {
			annotations = map[string]string{}
		}
		group := object.GroupVersionKind().Group
		annotations[tracking] = fmt.Sprintf("kept:%s/%s:%s/%s", group, object.GetKind(), a.namespace, object.GetName())
		object.SetAnnotations(annotations)
		included = append(included, object)
	}
	return included, nil
}

// isManaged reports whether an object in the cache belongs to the application.
func (a *application) isManaged(resource *cache.Resource) bool {
	tracked, _ := resource.Info.(string)
	return strings.HasPrefix(tracked, "kept:") && resource.Ref.Namespace == a.namespace
}

// sync applies all objects. The result of each object must be Synced or Pruned.
func (a *application) sync(ctx context.Context, objects []*unstructured.Unstructured, options ...enginesync.SyncOpt) (map[string]common.ResourceSyncResult, error) {
	options = append(options, enginesync.WithLogr(logr.Discard()), enginesync.WithServerSideApplyManager(manager))
	results, err := a.engine.Sync(ctx, objects, a.isManaged, "a revision", a.namespace, options...)
	if err != nil {
		return nil, fmt.Errorf("%w: %v", err, results)
	}
	byKind := map[string]common.ResourceSyncResult{}
	for _, result := range results {
		if result.Status != common.ResultCodeSynced && result.Status != common.ResultCodePruned {
			return nil, fmt.Errorf("%s: %s: %s", result.ResourceKey.Kind, result.Status, result.Message)
		}
		byKind[result.ResourceKey.Kind] = result
	}
	return byKind, nil
}

// outOfSync compares as Argo CD's controller does, and returns the kinds that are out of sync.
func (a *application) outOfSync(objects []*unstructured.Unstructured, options ...diff.Option) ([]string, error) {
	managed, err := a.cache.GetManagedLiveObjs(objects, a.isManaged)
	if err != nil {
		return nil, err
	}
	result := enginesync.Reconcile(objects, managed, a.namespace, a.cache)
	options = append(options, diff.WithLogr(logr.Discard()), diff.WithManager(manager), diff.WithGVKParser(a.cache.GetGVKParser()))
	var kinds []string
	for i, target := range result.Target {
		if target == nil {
			kinds = append(kinds, requiresPruning+": "+result.Live[i].GetKind())
			continue
		}
		found, err := diff.Diff(target, result.Live[i], options...)
		if err != nil {
			return nil, err
		}
		if found.Modified {
			kinds = append(kinds, fmt.Sprintf("%s: %s -> %s", target.GetKind(), found.NormalizedLive, found.PredictedLive))
		}
	}
	return kinds, nil
}

// expectOutOfSync waits until exactly one object of each of these kinds is out of sync.
func (a *application) expectOutOfSync(
	ctx context.Context, objects []*unstructured.Unstructured, expected []string, options ...diff.Option,
) error {
	var last []string
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, 15*time.Second, true, func(context.Context) (bool, error) {
		copies := make([]*unstructured.Unstructured, len(objects))
		for i, object := range objects {
			copies[i] = object.DeepCopy()
		}
		found, err := a.outOfSync(copies, options...)
		if err != nil {
			return false, err
		}
		last = found
		for _, kind := range expected {
			if !slices.ContainsFunc(found, func(each string) bool { return strings.HasPrefix(each, kind+":") }) {
				return false, nil
			}
		}
		return len(found) == len(expected), nil
	})
	if err != nil {
		return fmt.Errorf("%w: expected %v to be out of sync, and found %v", err, expected, last)
	}
	return nil
}

// errorLog collects the errors that the engine logs.
type errorLog struct {
	lock    sync.Mutex
	entries []string
}

func (e *errorLog) record(_, args string) {
	// The engine logs this message for a watch that must restart, and an error for all other failures.
	if !strings.Contains(args, `"msg"="Failed to watch`) && !strings.Contains(args, `"error"=`) {
		return
	}
	e.lock.Lock()
	defer e.lock.Unlock()
	e.entries = append(e.entries, args)
}

func (e *errorLog) all() []string {
	e.lock.Lock()
	defer e.lock.Unlock()
	return append([]string(nil), e.entries...)
}
