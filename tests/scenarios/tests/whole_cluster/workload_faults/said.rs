//! Messages in the conditions and Events of a cluster.

use std::collections::BTreeSet;
use std::fmt::Debug;

use apiserver_types::{
    Cluster, KubeadmConfig, KubeadmControlPlane, Machine, MachineDeployment, MachineSet, OpenStackMachine,
};
use k8s_openapi::api::core::v1::Event;
use kube::api::{DeleteParams, ListParams};
use kube::core::NamespaceResourceScope;
use kube::{Api, Client, Resource, ResourceExt};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// Reader of all messages of a namespace.
pub(crate) struct Messages {
    pub(crate) client: Client,
    pub(crate) namespace: String,
}

impl Messages {
    /// Returns each message with the object that it is about.
    pub(crate) async fn all(&self) -> BTreeSet<String> {
        let mut all = BTreeSet::new();
        self.conditions::<Cluster>(&mut all).await;
        self.conditions::<KubeadmControlPlane>(&mut all).await;
        self.conditions::<KubeadmConfig>(&mut all).await;
        self.conditions::<Machine>(&mut all).await;
        self.conditions::<MachineDeployment>(&mut all).await;
        self.conditions::<MachineSet>(&mut all).await;
        self.conditions::<OpenStackMachine>(&mut all).await;
        for event in self.events().list(&ListParams::default()).await.unwrap() {
            let object = &event.involved_object;
            let about = format!(
                "{} {}",
                object.kind.clone().unwrap_or_default(),
                object.name.clone().unwrap_or_default()
            );
            let reason = event.reason.unwrap_or_default();
            all.insert(format!("{about}, Event {reason}: {}", event.message.unwrap_or_default()));
        }
        all
    }

    async fn conditions<K>(&self, all: &mut BTreeSet<String>)
    where
        K: Resource<DynamicType = (), Scope = NamespaceResourceScope>,
        K: Clone + Debug + DeserializeOwned + Serialize,
    {
        let api: Api<K> = Api::namespaced(self.client.clone(), &self.namespace);
        for object in api.list(&ListParams::default()).await.unwrap() {
            let about = format!("{} {}", K::kind(&()), object.name_any());
            let value = serde_json::to_value(&object).unwrap();
            let conditions = value.pointer("/status/conditions").and_then(Value::as_array);
            for condition in conditions.into_iter().flatten() {
                let text = |field: &str| condition[field].as_str().unwrap_or_default().to_owned();
                all.insert(format!("{about}, {} {}: {}", text("type"), text("reason"), text("message")));
            }
        }
    }

    /// Deletes the Events so far.
    pub(crate) async fn forget_events(&self) {
        for event in self.events().list(&ListParams::default()).await.unwrap() {
            let deleted = self.events().delete(&event.name_any(), &DeleteParams::default()).await;
            if let Err(kube::Error::Api(status)) = deleted {
                assert_eq!(status.code, 404, "{status}");
            }
        }
    }

    fn events(&self) -> Api<Event> {
        Api::namespaced(self.client.clone(), &self.namespace)
    }
}
