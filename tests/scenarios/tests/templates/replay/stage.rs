//! The cluster of the replay: its objects, and the user who changes them.

use std::time::Duration;

use apiserver_types::{Cluster, Machine, MachineDeployment};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::Value;
use tests_scenarios::World;

use crate::objects::{INTERVAL, Namespace, PATIENCE, STILL, Stillness};

/// Name of the cluster.
const CLUSTER: &str = "capo-without-lb";

/// Time without a change after which objects are compared that do not fit. A busy machine may be slow between two
/// changes.
const SETTLED: Duration = Duration::from_secs(15);

/// State of the Machines at a rest: their number, a phase, and the number of Machines in it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Machines(pub(super) usize, pub(super) &'static str, pub(super) usize);

impl Machines {
    fn are_there(self, objects: &[Value]) -> bool {
        let Self(all, phase, in_phase) = self;
        let phases = objects.iter().filter(|it| it["kind"] == "Machine").map(|it| &it["status"]["phase"]);
        let phases: Vec<&Value> = phases.collect();
        phases.len() == all && phases.iter().filter(|it| **it == phase).count() == in_phase
    }
}

pub(super) struct Stage {
    namespace: Namespace,
}

impl Stage {
    pub(super) fn new(world: &World, namespace: &str) -> Self {
        Self { namespace: Namespace { client: world.admin(), name: namespace.to_owned() } }
    }

    /// Returns the namespace of the cluster.
    pub(super) fn namespace(&self) -> &str {
        &self.namespace.name
    }

    /// Returns the Secrets.
    pub(super) async fn secrets(&self) -> Vec<Value> {
        self.namespace.secrets().await
    }

    /// Waits until the Machines are in a state, and nothing changes any more. Returns all objects. If they do not fit,
    /// it waits longer.
    pub(super) async fn rest(&self, machines: Machines, fits: impl Fn(&[Value]) -> bool) -> Vec<Value> {
        let mut stillness = Stillness::new();
        loop {
            let objects = self.namespace.objects().await;
            let still = stillness.of(&objects);
            if still >= STILL && machines.are_there(&objects) && (still >= SETTLED || fits(&objects)) {
                return objects;
            }
            assert!(still < PATIENCE, "nothing changes any more, and not {machines:?}: {objects:#?}");
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Changes the MachineDeployment.
    pub(super) async fn change_workers(&self, change: &Value) {
        let api: Api<MachineDeployment> = self.api();
        let name = format!("{CLUSTER}-md-0");
        api.patch(&name, &PatchParams::default(), &Patch::Merge(change)).await.unwrap();
    }

    fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        Api::namespaced(self.namespace.client.clone(), &self.namespace.name)
    }

    /// Returns the name of a worker.
    pub(super) async fn worker(&self) -> String {
        let workers = ListParams::default().labels("cluster.x-k8s.io/deployment-name");
        self.api::<Machine>().list(&workers).await.unwrap().items.pop().unwrap().name_any()
    }

    /// Deletes the cluster.
    pub(super) async fn begin_to_delete(&self) {
        self.api::<Cluster>().delete(CLUSTER, &DeleteParams::background()).await.unwrap();
    }

    /// Waits until the cluster is gone, with its Machines.
    pub(super) async fn until_gone(&self) {
        let mut stillness = Stillness::new();
        loop {
            let mut objects = self.namespace.objects().await;
            objects.retain(|it| ["Cluster", "Machine"].iter().any(|kind| it["kind"] == *kind));
            if objects.is_empty() {
                return;
            }
            assert!(stillness.of(&objects) < PATIENCE, "objects are left: {objects:#?}");
            tokio::time::sleep(INTERVAL).await;
        }
    }
}
