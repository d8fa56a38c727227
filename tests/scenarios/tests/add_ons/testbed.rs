//! Testbed: a Cluster with a label, its workload cluster, and sets that select it.

use std::time::Duration;

use apiserver_types::{Cluster, ClusterResourceSet, ClusterResourceSetBinding};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::{Patch, PatchParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tests_hollow_cluster::HollowClusters;
use tests_scenarios::World;

pub(crate) const NAMESPACE: &str = "add-ons";

/// Cluster with one control plane Machine.
const MANIFEST: &str = include_str!("cluster.yaml");

/// Looks after which a state does not come any more; they take at least four minutes.
const LOOKS: usize = 2400;

pub(crate) struct Testbed {
    pub(crate) world: World,
    pub(crate) hollow: HollowClusters,
}

impl Testbed {
    pub(crate) async fn start() -> Self {
        let (world, hollow) = World::start_with_hollow_clusters().await.unwrap();
        let namespace = json!({"metadata": {"name": NAMESPACE}});
        let _: Value = world.post("/api/v1/namespaces", &namespace).await.unwrap();
        Self { world, hollow }
    }

    pub(crate) async fn create_cluster(&self) {
        let clouds = self.world.cloud.clouds_yaml("demo");
        let clouds: String = clouds.lines().map(|line| format!("    {line}\n")).collect();
        self.world
            .create(&MANIFEST.replace("NAMESPACE", NAMESPACE).replace("CLOUDS\n", &clouds))
            .await
            .unwrap();
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.world.admin(), NAMESPACE)
    }

    /// Creates a set of the Clusters with the label `add-ons: on`.
    pub(crate) async fn create_set(&self, name: &str, strategy: &str, resources: Value, annotations: Value) {
        let set = json!({
            "apiVersion": "addons.cluster.x-k8s.io/v1beta2", "kind": "ClusterResourceSet",
            "metadata": {"name": name, "annotations": annotations},
            "spec": {"strategy": strategy, "resources": resources,
                "clusterSelector": {"matchLabels": {"add-ons": "on"}}},
        });
        let path =
            format!("/apis/addons.cluster.x-k8s.io/v1beta2/namespaces/{NAMESPACE}/clusterresourcesets");
        let _: Value = self.world.post(&path, &set).await.unwrap();
    }

    /// Creates or replaces a ConfigMap with one manifest.
    pub(crate) async fn put_map(&self, name: &str, manifest: &str) {
        let map = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
            "data": {"manifest.yaml": manifest}});
        let parameters = PatchParams::apply("user").force();
        self.api::<ConfigMap>().patch(name, &parameters, &Patch::Apply(&map)).await.unwrap();
    }

    pub(crate) async fn create_secret(&self, name: &str, kind: &str, manifest: &str) {
        let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": name}, "type": kind, "stringData": {"manifest.yaml": manifest}});
        let _: Value =
            self.world.post(&format!("/api/v1/namespaces/{NAMESPACE}/secrets"), &secret).await.unwrap();
    }

    /// Waits until something about an object holds. Panics with the last state.
    pub(crate) async fn until<K>(&self, name: &str, holds: impl Fn(&K) -> bool) -> K
    where
        K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned,
    {
        let api = self.api::<K>();
        let mut last = None;
        for _ in 0..LOOKS {
            last = api.get_opt(name).await.unwrap();
            if let Some(found) = last.as_ref().filter(|found| holds(found)) {
                return found.clone();
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{name} is not as expected: {last:#?}");
    }

    /// Waits until the condition of a set has this reason. Returns its message.
    pub(crate) async fn until_reason(&self, set: &str, reason: &str) -> String {
        let is_so = |set: &ClusterResourceSet| {
            set.condition("ResourcesApplied")
                .is_some_and(|it| it.reason == reason && it.observed_generation == set.metadata.generation)
        };
        let set = self.until::<ClusterResourceSet>(set, is_so).await;
        set.condition("ResourcesApplied").unwrap().message.clone()
    }

    /// Waits until the message of the condition of a set contains this text. A status from before the cluster was
    /// connected may have the same reason.
    pub(crate) async fn until_message(&self, set: &str, text: &str) {
        let is_so = |set: &ClusterResourceSet| {
            set.condition("ResourcesApplied").is_some_and(|it| it.message.contains(text))
        };
        self.until::<ClusterResourceSet>(set, is_so).await;
    }

    pub(crate) async fn until_gone<K>(&self, name: &str)
    where
        K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + std::fmt::Debug
            + DeserializeOwned,
    {
        for _ in 0..LOOKS {
            if self.api::<K>().get_opt(name).await.unwrap().is_none() {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{name} is still there: {:#?}", self.api::<K>().get(name).await);
    }

    pub(crate) async fn binding(&self) -> ClusterResourceSetBinding {
        self.api().get("blue").await.unwrap()
    }

    /// Returns the record of the only resource of a set: applied, and its hash.
    pub(crate) async fn recorded(&self, set: &str) -> Vec<(bool, Option<String>)> {
        let bindings = self.binding().await.spec.bindings.unwrap_or_default();
        let entry = bindings.into_iter().find(|it| it.cluster_resource_set_name == set);
        let resources = entry.and_then(|it| it.resources).unwrap_or_default();
        resources.into_iter().map(|it| (it.applied, it.hash)).collect()
    }

    pub(crate) async fn label_cluster(&self, value: Value) {
        let patch = Patch::Merge(json!({"metadata": {"labels": {"add-ons": value}}}));
        self.api::<Cluster>().patch("blue", &PatchParams::default(), &patch).await.unwrap();
    }

    /// Returns a client of the workload cluster, once there is a kubeconfig.
    pub(crate) async fn workload(&self) -> Client {
        let secret = self.until::<Secret>("blue-kubeconfig", |_| true).await;
        let text = String::from_utf8(secret.data.unwrap()["value"].0.clone()).unwrap();
        let kubeconfig = Kubeconfig::from_yaml(&text).unwrap();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await;
        Client::try_from(config.unwrap()).unwrap()
    }

    /// Returns the value of `data.value` of a ConfigMap of the workload cluster; `None` while the cluster does not answer.
    pub(crate) async fn workload_value(&self, name: &str) -> Option<String> {
        let api: Api<ConfigMap> = Api::namespaced(self.workload().await, "kube-system");
        api.get_opt(name).await.ok()??.data?.remove("value")
    }

    /// Waits until that value is this one.
    pub(crate) async fn until_value(&self, name: &str, value: &str) {
        for _ in 0..LOOKS {
            if self.workload_value(name).await.as_deref() == Some(value) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        panic!("{name} has {:?}, not {value}", self.workload_value(name).await);
    }
}

/// Returns the manifest of a ConfigMap in the workload cluster.
pub(crate) fn map(name: &str, value: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}, namespace: kube-system}}\ndata: {{value: {value:?}}}\n"
    )
}

/// Returns the reference to a resource.
pub(crate) fn resource(kind: &str, name: &str) -> Value {
    json!({"kind": kind, "name": name})
}
