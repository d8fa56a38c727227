//! Testbed: a namespace with a MachineDeployment and a MachineHealthCheck, and rounds of their controllers.

use std::fmt::Debug;
use std::sync::Arc;

use apiserver_types::{
    Condition, ConditionStatus, KubeadmConfig, Machine, MachineHealthCheck, MachineStatus, OpenStackMachine,
    Time, set_condition,
};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::core::v1::Event;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, Client, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};
use tests_scenarios::{Controllers, CrashPoint, World};

/// Objects of a namespace: a Cluster, templates, and the MachineDeployment `md` with two Machines.
const MANIFEST: &str = include_str!("../sets/sets.yaml");

/// Rounds in which every test is over.
const ROUNDS: usize = 20;

/// Machines of a MachineDeployment with a health check.
pub(crate) struct Bed {
    pub(crate) world: World,
    pub(crate) client: Client,
    pub(crate) namespace: &'static str,
}

impl Bed {
    /// Starts a server with two Machines, whose labels include `label`, and with a health check of this spec.
    pub(crate) async fn start(namespace: &'static str, label: &str, check: &Value) -> Self {
        let world = World::start().await.unwrap();
        let manifest = MANIFEST
            .replace("NAMESPACE", namespace)
            .replace("BOOTSTRAP", "{dataSecretName: bootstrap}")
            .replace("labels: {team: a}", &format!("labels: {{team: a, {label}: \"\"}}"));
        world.create(&manifest).await.unwrap();
        let bed = Self { client: world.admin(), world, namespace };
        bed.set_milestone().await;
        let controllers = bed.controllers(&Arc::new(CrashPoint::never()));
        for _ in 0..3 {
            bed.round(&controllers).await;
        }
        assert_eq!(bed.list::<Machine>().await.len(), 2);
        let object = json!({
            "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineHealthCheck",
            "metadata": {"name": "mhc", "namespace": namespace}, "spec": check,
        });
        let object: MachineHealthCheck = serde_json::from_value(object).unwrap();
        bed.api::<MachineHealthCheck>().create(&PostParams::default(), &object).await.unwrap();
        bed
    }

    /// Starts controllers that crash at `crash`.
    pub(crate) fn controllers(&self, crash: &Arc<CrashPoint>) -> Controllers {
        Controllers::start(&self.world, crash)
    }

    pub(crate) fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>,
    {
        Api::namespaced(self.client.clone(), self.namespace)
    }

    /// Lists objects of the namespace.
    pub(crate) async fn list<K>(&self) -> Vec<K>
    where
        K: kube::Resource<DynamicType = (), Scope = NamespaceResourceScope>
            + Clone
            + Debug
            + DeserializeOwned,
    {
        self.api::<K>().list(&ListParams::default()).await.unwrap().items
    }

    pub(crate) async fn check(&self) -> MachineHealthCheck {
        self.api::<MachineHealthCheck>().get("mhc").await.unwrap()
    }

    /// Returns the names of the Machines, by age.
    pub(crate) async fn names(&self) -> Vec<String> {
        self.list::<Machine>().await.iter().map(ResourceExt::name_any).collect()
    }

    /// Changes a Machine.
    pub(crate) async fn annotate(&self, machine: &str, key: &str, value: Value) {
        let change = Patch::Merge(json!({"metadata": {"annotations": {key: value}}}));
        self.api::<Machine>().patch(machine, &PatchParams::default(), &change).await.unwrap();
    }

    /// Changes the health check.
    pub(crate) async fn change_check(&self, change: Value) {
        let change = Patch::Merge(change);
        self.api::<MachineHealthCheck>().patch("mhc", &PatchParams::default(), &change).await.unwrap();
    }

    /// Makes a pass over the health check, and one over each owner of Machines. Then the Machines proceed.
    pub(crate) async fn round(&self, controllers: &Controllers) {
        controllers.round_of_health_checks().await.unwrap();
        controllers.round_of_sets().await.unwrap();
        self.proceed().await;
    }

    /// Makes as many rounds as every test needs.
    pub(crate) async fn rounds(&self, controllers: &Controllers) {
        for _ in 0..ROUNDS {
            self.round(controllers).await;
        }
    }

    /// Returns the Events of a reason.
    pub(crate) async fn events(&self, reason: &str) -> Vec<String> {
        let events = self.list::<Event>().await;
        let ours = events.into_iter().filter(|event| event.reason.as_deref() == Some(reason));
        ours.map(|event| {
            format!("{} x{}", event.message.unwrap_or_default(), event.count.unwrap_or_default())
        })
        .collect()
    }

    /// Lets Machines that are being deleted go, and makes the others available.
    async fn proceed(&self) {
        let api = self.api::<Machine>();
        for machine in self.list::<Machine>().await {
            let name = machine.name_any();
            if machine.metadata.deletion_timestamp.is_some() {
                drop(self.api::<OpenStackMachine>().delete(&name, &DeleteParams::default()).await);
                drop(self.api::<KubeadmConfig>().delete(&name, &DeleteParams::default()).await);
                let change = Patch::Merge(json!({"metadata": {"finalizers": null}}));
                api.patch(&name, &PatchParams::default(), &change).await.unwrap();
                continue;
            }
            let mut new = machine.clone();
            let status = new.status.get_or_insert_default();
            ["Ready", "Available", "NodeReady", "UpToDate"].iter().for_each(|kind| hold(status, kind));
            if new != machine {
                api.replace_status(&name, &PostParams::default(), &new).await.unwrap();
            }
        }
    }

    /// Lets the infrastructure of the Cluster be ready.
    async fn set_milestone(&self) {
        let api = self.api::<apiserver_types::Cluster>();
        let mut cluster = api.get("c").await.unwrap();
        let now = Time("2026-11-21T06:00:00Z".to_owned());
        let ready = Condition::new("InfrastructureReady", ConditionStatus::True, "Ready", "", now);
        cluster.status.get_or_insert_default().conditions = Some(vec![ready]);
        api.replace_status("c", &PostParams::default(), &cluster).await.unwrap();
    }
}

fn hold(status: &mut MachineStatus, kind: &str) {
    let now = Time("2026-11-21T06:00:00Z".to_owned());
    let condition = Condition::new(kind, ConditionStatus::True, "Told", "", now);
    set_condition(status.conditions.get_or_insert_default(), condition);
}
