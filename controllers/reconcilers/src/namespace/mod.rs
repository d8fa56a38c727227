//! Namespace controller: empties a namespace of Capstan's own store that is being deleted.
//!
//! If the host cluster has a namespace of the same name, the objects are in that one: they stay, and only the Namespace of
//! Capstan's own store is removed. The host cluster empties its namespaces itself. The same applies to a namespace that it
//! has lost during an outage, and may get back.
//!
//! The order lets every cloud resource be deleted: first Clusters, which take their Machines and networks
//! along, then classes, then the rest, and last the objects that others need for their deletion (credentials). A class that
//! Clusters of other namespaces use cannot be deleted, and keeps its templates.

mod conditions;

use std::sync::Arc;
use std::time::Duration;

use controllers_runtime::{
    Backoff, ControllerContext, ControllerSpec, PolicyRule, ReconcileLoop, Requeue, SecretSource, api_text,
};
use k8s_openapi::api::core::v1::{Namespace, NamespaceStatus};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use k8s_openapi::jiff::Timestamp;
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, PartialObjectMeta, PostParams};
use kube::{Api, Client, ResourceExt};
use tokio_util::sync::CancellationToken;

use conditions::Remains;

/// Finalizer of a namespace that is not empty.
const FINALIZER: &str = "kubernetes";

/// Interval of a namespace that is not empty, and the shortest one after a refusal.
const WAITING: Duration = Duration::from_secs(2);

/// Interval while it is not known whether the host cluster has a namespace.
const UNKNOWN: Duration = Duration::from_secs(10);

/// Number of namespaces that are reconciled at the same time: as many as upstream does.
const CONCURRENCY: u16 = 10;

/// Stage whose objects without owners are deleted together with earlier stages: a Cluster may wait for them, and does not
/// delete them itself.
const ALONGSIDE: u8 = 2;

/// Specification of this controller.
pub(crate) const CONTROLLER: ControllerSpec = ControllerSpec {
    identity: "namespace-controller",
    rules: &[
        PolicyRule {
            groups: &["*"],
            resources: &["*"],
            verbs: &["get", "list", "watch", "delete", "deletecollection"],
        },
        PolicyRule {
            groups: &[""],
            resources: &["namespaces/finalize", "namespaces/status"],
            verbs: &["update"],
        },
    ],
    run: |context, shutdown| Box::pin(run(context, shutdown)),
};

/// Reconciler that empties namespaces.
struct NamespaceReconciler {
    client: Client,
    /// Source of Namespaces: those of the host cluster, else those of Capstan's own store.
    namespaces: Arc<dyn SecretSource>,
    kinds: Vec<ApiResource>,
    /// Refusals in a row, for example of a class that Clusters of other namespaces use.
    failures: Backoff,
}

impl std::fmt::Debug for NamespaceReconciler {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("NamespaceReconciler").field("kinds", &self.kinds.len()).finish_non_exhaustive()
    }
}

/// Returns the stage of a kind's deletion: kinds that delete others first, kinds that others need last.
fn stage(group: &str, kind: &str) -> u8 {
    match (group, kind) {
        ("cluster.x-k8s.io", "Cluster") => 0,
        ("cluster.x-k8s.io", "ClusterClass") => 1,
        (group, _) if group.ends_with("cluster.x-k8s.io") => ALONGSIDE,
        ("capstan.dev", _) => 3,
        _ => 4,
    }
}

impl NamespaceReconciler {
    /// Creates a reconciler over the namespaced kinds.
    fn new(context: &ControllerContext) -> Self {
        let kinds = context.kinds.iter().filter(|kind| kind.namespaced).map(|kind| kind.resource.clone());
        let mut kinds: Vec<ApiResource> = kinds.collect();
        kinds.sort_by_key(|kind| stage(&kind.group, &kind.kind));
        let (client, namespaces) = (context.client.clone(), Arc::clone(&context.secrets));
        Self { client, namespaces, kinds, failures: Backoff::default() }
    }

    /// Makes one pass. Returns when the next one is due.
    ///
    /// # Errors
    /// The API's own failure.
    async fn reconcile(&self, namespace: &Namespace) -> Result<Option<Duration>, kube::Error> {
        let finalizers =
            namespace.spec.as_ref().and_then(|spec| spec.finalizers.as_deref()).unwrap_or_default();
        // Without the finalizer, the work is done: those of others may keep the Namespace longer than the host cluster's.
        if namespace.metadata.deletion_timestamp.is_none() || !finalizers.iter().any(|it| it == FINALIZER) {
            return Ok(None);
        }
        let name = namespace.name_any();
        let (remains, pause) = match self.namespaces.namespace(&name).await {
            Ok(None) => return Ok(None),
            // It is the host cluster's.
            Ok(Some(found)) if found.uid() != namespace.uid() => {
                return self.finalize(namespace.clone()).await;
            }
            Ok(Some(_)) => (self.empty(namespace).await, WAITING),
            // It was the host cluster's, and may be again.
            Err(_) if self.namespaces.is_uncertain(&name) => return self.finalize(namespace.clone()).await,
            Err(error) => (Remains::unknown(&error), UNKNOWN),
        };
        let Some(reported) = self.report(namespace, &remains).await? else { return Ok(None) };
        let uid = namespace.uid().unwrap_or_default();
        if remains.has_failures() {
            return Ok(Some(self.failures.failed(&uid, pause)));
        }
        self.failures.reset(&uid);
        if !remains.is_nothing() {
            return Ok(Some(pause));
        }
        self.finalize(reported).await
    }

    /// Removes the finalizer. Those of others are left.
    async fn finalize(&self, mut namespace: Namespace) -> Result<Option<Duration>, kube::Error> {
        let finalizers = namespace.spec.as_mut().and_then(|spec| spec.finalizers.as_mut());
        let Some(finalizers) = finalizers.filter(|all| all.iter().any(|it| it == FINALIZER)) else {
            return Ok(None);
        };
        finalizers.retain(|it| it != FINALIZER);
        namespace.metadata.managed_fields = None;
        let name = namespace.name_any();
        let api: Api<Namespace> = Api::all(self.client.clone());
        match api.replace_subresource("finalize", &name, &PostParams::default(), &namespace).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            result => result.map(|_| None),
        }
    }

    /// Writes the remaining objects into the namespace's conditions. `None` if the namespace does not exist any more.
    async fn report(
        &self,
        namespace: &Namespace,
        remains: &Remains,
    ) -> Result<Option<Namespace>, kube::Error> {
        let status = namespace.status.clone().unwrap_or_default();
        let old = status.conditions.as_deref().unwrap_or_default();
        let Some(conditions) = remains.conditions(old, &Time(Timestamp::now())) else {
            return Ok(Some(namespace.clone()));
        };
        let mut reported = namespace.clone();
        reported.metadata.managed_fields = None;
        reported.status = Some(NamespaceStatus { conditions: Some(conditions), ..status });
        let api: Api<Namespace> = Api::all(self.client.clone());
        match api.replace_status(&namespace.name_any(), &PostParams::default(), &reported).await {
            Err(kube::Error::Api(status)) if status.code == 404 => Ok(None),
            result => result.map(Some),
        }
    }

    /// Deletes objects, stage by stage, and returns those that remain.
    async fn empty(&self, namespace: &Namespace) -> Remains {
        let mut waiting_for = None;
        let mut remains = Remains::default();
        for kind in &self.kinds {
            let stage = stage(&kind.group, &kind.kind);
            let early = waiting_for.is_some_and(|waiting| waiting < stage);
            let api: Api<DynamicObject> =
                Api::namespaced_with(self.client.clone(), &namespace.name_any(), kind);
            let left = match self.delete_all(namespace, &api, kind, early).await {
                Ok(left) => left,
                // Objects that others need must not be deleted before it is known whether these exist.
                Err(error) => {
                    remains.failed(&error);
                    let error = api_text(&error);
                    tracing::warn!(%error, namespace = namespace.name_any(), kind = kind.kind, "cannot delete the objects of a kind in a namespace; retrying");
                    waiting_for.get_or_insert(stage);
                    continue;
                }
            };
            if !left.is_empty() {
                waiting_for.get_or_insert(stage);
            }
            remains.count(kind, &left);
        }
        remains
    }

    /// Returns true if the objects in a namespace are those of Capstan's own one. The host cluster may have created one of
    /// this name, with objects, since the pass began.
    async fn is_own(&self, namespace: &Namespace) -> Result<bool, kube::Error> {
        let found = self.namespaces.namespace(&namespace.name_any()).await?;
        Ok(found.is_some_and(|found| found.uid() == namespace.uid()))
    }

    /// Deletes the objects of a kind, as far as their stage has come. Returns those that are left.
    async fn delete_all(
        &self,
        namespace: &Namespace,
        api: &Api<DynamicObject>,
        kind: &ApiResource,
        early: bool,
    ) -> Result<Vec<PartialObjectMeta<DynamicObject>>, kube::Error> {
        let left = api.list_metadata(&ListParams::default()).await?.items;
        let is_alive =
            |object: &PartialObjectMeta<DynamicObject>| object.metadata.deletion_timestamp.is_none();
        if !left.iter().any(is_alive) || (early && stage(&kind.group, &kind.kind) != ALONGSIDE) {
            return Ok(left);
        }
        if !self.is_own(namespace).await? {
            return Ok(left);
        }
        if early {
            self.delete_ownerless(api, &left).await?;
        } else {
            api.delete_collection(&DeleteParams::background(), &ListParams::default()).await?;
            tracing::info!(namespace = namespace.name_any(), kind = kind.kind, "deleted all objects");
        }
        Ok(api.list_metadata(&ListParams::default()).await?.items)
    }
}

impl NamespaceReconciler {
    /// Deletes objects without owners, while those with owners wait for their stage.
    async fn delete_ownerless(
        &self,
        api: &Api<DynamicObject>,
        objects: &[PartialObjectMeta<DynamicObject>],
    ) -> Result<(), kube::Error> {
        let staying = |object: &&PartialObjectMeta<DynamicObject>| {
            object.metadata.deletion_timestamp.is_none() && object.owner_references().is_empty()
        };
        for object in objects.iter().filter(staying) {
            match api.delete(&object.name_any(), &DeleteParams::background()).await {
                Err(kube::Error::Api(status)) if status.code == 404 => {}
                result => {
                    result?;
                }
            }
        }
        Ok(())
    }
}

/// Reconciles until `shutdown`.
async fn run(context: ControllerContext, shutdown: CancellationToken) {
    let namespaces: Api<Namespace> = Api::all(context.client.clone());
    let reconciler = Arc::new(NamespaceReconciler::new(&context));
    let pass = move |namespace: Arc<Namespace>| {
        let reconciler = Arc::clone(&reconciler);
        async move { reconciler.reconcile(&namespace).await.map(Requeue::from) }
    };
    ReconcileLoop::new(namespaces, CONCURRENCY, &context.queues, "namespace").run(pass, shutdown).await;
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use apiserver_types::{ClusterClass, OpenStackMachineTemplate};
    use async_trait::async_trait;
    use controllers_runtime::ServedKind;
    use k8s_openapi::api::core::v1::{ConfigMap, Secret};
    use kube::core::Status;
    use serde_json::json;

    use super::*;
    use crate::api_in_memory::FakeApi;

    /// Namespace of which the API, which is also the host cluster here, knows one with the uid `uid-team`.
    const TEAM: &str = "/api/v1/namespaces/team";

    const MAPS: &str = "/api/v1/namespaces/team/configmaps";

    const FINALIZE: &str = "/api/v1/namespaces/team/finalize";

    /// Host cluster that reports namespaces with these uids, the last one first. Then it has lost the namespace in an outage.
    #[derive(Debug)]
    struct Host(Mutex<Vec<&'static str>>);

    #[async_trait]
    impl SecretSource for Host {
        async fn secret(&self, _: &str, _: &str) -> Result<Option<Secret>, kube::Error> {
            Ok(None)
        }

        async fn namespace(&self, name: &str) -> Result<Option<Namespace>, kube::Error> {
            let Some(uid) = self.0.lock().unwrap().pop() else {
                let status = Status::failure("lost", "ServiceUnavailable").with_code(503);
                return Err(kube::Error::Api(status.boxed()));
            };
            let namespace =
                json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "uid": uid}});
            Ok(Some(serde_json::from_value(namespace).unwrap()))
        }

        fn is_uncertain(&self, _: &str) -> bool {
            self.0.lock().unwrap().is_empty()
        }

        async fn create(&self, secret: &Secret) -> Result<Secret, kube::Error> {
            Ok(secret.clone())
        }

        async fn replace(&self, secret: &Secret) -> Result<Secret, kube::Error> {
            Ok(secret.clone())
        }
    }

    async fn pass(api: &FakeApi, uid: &str) -> Option<Duration> {
        pass_in(api, api.context(CONTROLLER.identity), uid).await
    }

    /// Makes a pass over a terminating namespace with this uid and one ConfigMap.
    async fn pass_in(api: &FakeApi, context: ControllerContext, uid: &str) -> Option<Duration> {
        let (reconciler, namespace) = prepared(api, context, uid);
        reconciler.reconcile(&namespace).await.unwrap()
    }

    fn prepared(api: &FakeApi, context: ControllerContext, uid: &str) -> (NamespaceReconciler, Namespace) {
        api.put(TEAM, json!({"apiVersion": "v1", "kind": "Namespace"}));
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}});
        api.put(MAPS, json!({"apiVersion": "v1", "kind": "ConfigMapList", "items": [map]}));
        api.put(FINALIZE, json!({}));
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "spec": {"finalizers": ["kubernetes"]},
            "metadata": {"name": "team", "uid": uid, "deletionTimestamp": "2026-11-21T12:00:00Z"}});
        let namespace: Namespace = serde_json::from_value(namespace).unwrap();
        let resource = ApiResource::erase::<ConfigMap>(&());
        let kind = ServedKind { resource, namespaced: true, versions: vec!["v1".to_owned()] };
        let context = ControllerContext { kinds: Arc::from([kind]), ..context };
        (NamespaceReconciler::new(&context), namespace)
    }

    #[tokio::test]
    async fn a_refused_deletion_is_tried_again_after_longer_intervals() {
        let api = FakeApi::default();
        let (reconciler, namespace) = prepared(&api, api.context(CONTROLLER.identity), "uid-team");
        api.refuse_writes(Some(MAPS));
        let mut seconds = Vec::new();
        for _ in 0..5 {
            seconds.push(reconciler.reconcile(&namespace).await.unwrap().unwrap().as_secs());
        }
        assert_eq!(seconds, [2, 2, 4, 8, 16]);
        let going = json!({"name": "a", "deletionTimestamp": "2026-11-21T12:00:00Z"});
        let going = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": going});
        api.put(MAPS, json!({"apiVersion": "v1", "kind": "ConfigMapList", "items": [going]}));
        assert_eq!(reconciler.reconcile(&namespace).await.unwrap(), Some(WAITING), "nothing is refused");
    }

    #[tokio::test]
    async fn the_objects_of_an_own_namespace_are_deleted_before_it() {
        let api = FakeApi::default();
        assert_eq!(pass(&api, "uid-team").await, Some(WAITING));
        assert_eq!(api.get(MAPS), None);
        assert!(api.replaced().is_empty(), "it waits until they are gone");
    }

    /// Clusters of other namespaces lost the templates, and could not be changed any more.
    #[tokio::test]
    async fn the_templates_of_a_class_that_cannot_be_deleted_stay() {
        let classes = "/apis/cluster.x-k8s.io/v1beta2/namespaces/team/clusterclasses";
        let templates =
            "/apis/infrastructure.cluster.x-k8s.io/v1beta2/namespaces/team/openstackmachinetemplates";
        let api = FakeApi::default();
        api.put(TEAM, json!({"apiVersion": "v1", "kind": "Namespace"}));
        let list = |version: &str, kind: &str, metadata: serde_json::Value| {
            let item = json!({"apiVersion": version, "kind": kind, "metadata": metadata});
            json!({"apiVersion": version, "kind": format!("{kind}List"), "items": [item]})
        };
        let version = "cluster.x-k8s.io/v1beta2";
        api.put(classes, list(version, "ClusterClass", json!({"name": "c"})));
        let owner = json!({"apiVersion": version, "kind": "ClusterClass", "name": "c", "uid": "u"});
        let metadata = json!({"name": "t", "ownerReferences": [owner]});
        let version = "infrastructure.cluster.x-k8s.io/v1beta2";
        api.put(templates, list(version, "OpenStackMachineTemplate", metadata));
        api.refuse_writes(Some(classes));
        let kind = |resource| ServedKind { resource, namespaced: true, versions: vec!["v1beta2".to_owned()] };
        let kinds = [
            kind(ApiResource::erase::<OpenStackMachineTemplate>(&())),
            kind(ApiResource::erase::<ClusterClass>(&())),
        ];
        let context = ControllerContext { kinds: Arc::from(kinds), ..api.context(CONTROLLER.identity) };
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "spec": {"finalizers": ["kubernetes"]},
            "metadata": {"name": "team", "uid": "uid-team", "deletionTimestamp": "2026-11-21T12:00:00Z"}});
        let namespace: Namespace = serde_json::from_value(namespace).unwrap();
        let pause = NamespaceReconciler::new(&context).reconcile(&namespace).await.unwrap();
        assert_eq!(pause, Some(WAITING));
        assert!(api.get(classes).is_some() && api.get(templates).is_some());
    }

    #[tokio::test]
    async fn a_namespace_that_the_host_has_too_keeps_its_objects_and_is_finalized() {
        let api = FakeApi::default();
        assert_eq!(pass(&api, "uid-own").await, None);
        assert!(api.get(MAPS).is_some());
        assert_eq!(api.replaced(), [FINALIZE]);
        assert_eq!(api.get(FINALIZE).unwrap()["spec"]["finalizers"], json!([]));
    }

    #[tokio::test]
    async fn a_namespace_keeps_its_objects_and_says_why_while_the_host_does_not_answer() {
        let api = FakeApi::default();
        api.silence(Some(TEAM));
        assert_eq!(pass(&api, "uid-team").await, Some(UNKNOWN));
        assert!(api.get(MAPS).is_some() && api.replaced().is_empty());
        let conditions = api.get(TEAM).unwrap()["status"]["conditions"].to_string();
        assert!(conditions.contains("ServiceUnavailable. No object is deleted"), "{conditions}");
    }

    #[tokio::test]
    async fn a_namespace_that_the_host_has_lost_in_an_outage_keeps_its_objects_and_is_finalized() {
        let api = FakeApi::default();
        let secrets = Arc::new(Host(Mutex::default()));
        let context = ControllerContext { secrets, ..api.context(CONTROLLER.identity) };
        assert_eq!(pass_in(&api, context, "uid-own").await, None);
        assert!(api.get(MAPS).is_some());
        assert_eq!(api.replaced(), [FINALIZE]);
    }

    #[tokio::test]
    async fn objects_stay_if_the_host_gets_the_namespace_during_a_pass() {
        let api = FakeApi::default();
        let secrets = Arc::new(Host(Mutex::new(vec!["uid-host", "uid-own"])));
        let context = ControllerContext { secrets, ..api.context(CONTROLLER.identity) };
        assert_eq!(pass_in(&api, context, "uid-own").await, Some(WAITING));
        assert!(api.get(MAPS).is_some() && api.replaced().is_empty());
    }

    #[test]
    fn credentials_are_deleted_after_the_objects_that_use_them() {
        let order = [
            ("cluster.x-k8s.io", "Cluster"),
            ("cluster.x-k8s.io", "ClusterClass"),
            ("cluster.x-k8s.io", "Machine"),
            ("capstan.dev", "MachineOperation"),
            ("", "Secret"),
        ];
        assert!(order.is_sorted_by_key(|(group, kind)| stage(group, kind)));
        assert!(stage("infrastructure.cluster.x-k8s.io", "OpenStackCluster") < stage("", "Secret"));
    }
}
