//! Reader of the objects of a cluster: their health at a rest, and the state of a node group.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use apiserver_types::{Machine, MachineDeployment};
use kube::Api;
use kube::api::{ListParams, Patch, PatchParams};
use serde_json::{Value, json};

use super::WORKERS;
use super::rules::{argo_cd, flux};
use crate::objects::{INTERVAL, Namespace, PATIENCE, STILL, Stillness, text};

/// Kinds that users put into a repository, or look at in a dashboard.
const KINDS: [(&str, &str); 7] = [
    ("cluster.x-k8s.io", "clusters"),
    ("cluster.x-k8s.io", "machinedeployments"),
    ("cluster.x-k8s.io", "machinehealthchecks"),
    ("cluster.x-k8s.io", "machines"),
    ("controlplane.cluster.x-k8s.io", "kubeadmcontrolplanes"),
    ("infrastructure.cluster.x-k8s.io", "openstackclusters"),
    ("infrastructure.cluster.x-k8s.io", "openstackmachines"),
];

/// Time without a change after which lines are recorded that are not the expected ones.
const SETTLED: Duration = Duration::from_secs(10);

/// Reader of the health.
pub(super) struct Reader {
    pub(super) namespace: Namespace,
    /// File with the recorded lines.
    file: PathBuf,
    golden: String,
    pub(super) lines: Vec<String>,
}

impl Reader {
    pub(super) fn new(namespace: Namespace, file: &str) -> Self {
        let manifest = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap());
        let file = manifest.join("tests/templates/health").join(file);
        let golden = std::fs::read_to_string(&file).unwrap_or_default();
        Self { namespace, file, golden, lines: Vec::new() }
    }

    async fn objects(&self, version: &str) -> Vec<Value> {
        let mut objects = Vec::new();
        for (group, plural) in KINDS {
            objects.extend(self.namespace.list(&format!("/apis/{group}/{version}"), plural).await);
        }
        objects
    }

    /// Records the health of all objects when nothing changes any more, and a Machine is in this phase. If the health
    /// is not the expected one, it waits longer.
    pub(super) async fn rest(&mut self, step: &str, phase: &str) {
        let mut stillness = Stillness::new();
        let is_there = |it: &Value| it["kind"] == "Machine" && text(it, "/status/phase") == phase;
        loop {
            let objects = self.objects("v1beta2").await;
            let still = stillness.of(&objects);
            if still >= STILL && objects.iter().any(is_there) {
                let lines = self.health(step).await;
                if still >= SETTLED || lines == self.expected(step) {
                    self.lines.extend(lines);
                    return;
                }
            }
            assert!(still < PATIENCE, "{step}: nothing changes any more, and no Machine is {phase}");
            tokio::time::sleep(INTERVAL).await;
        }
    }

    async fn health(&self, step: &str) -> Vec<String> {
        let mut lines = Vec::new();
        for version in ["v1beta2", "v1beta1"] {
            let objects = self.objects(version).await;
            lines.extend(objects.iter().map(|it| line(step, version, it)).collect::<BTreeSet<_>>());
        }
        lines
    }

    fn expected(&self, step: &str) -> Vec<String> {
        let of_step = |line: &&str| line.split(' ').next() == Some(step);
        self.golden.lines().filter(of_step).map(str::to_owned).collect()
    }

    /// Compares the lines with the recorded ones. With `CAPSTAN_WRITE_GOLDENS` it writes them.
    pub(super) fn compare(&self) {
        let found = self.lines.join("\n") + "\n";
        if std::env::var_os("CAPSTAN_WRITE_GOLDENS").is_some() {
            std::fs::write(&self.file, &found).unwrap();
        }
        assert_eq!(found, std::fs::read_to_string(&self.file).unwrap());
    }

    pub(super) fn api<K>(&self) -> Api<K>
    where
        K: kube::Resource<DynamicType = (), Scope = kube::core::NamespaceResourceScope>,
    {
        Api::namespaced(self.namespace.client.clone(), &self.namespace.name)
    }

    /// Scales the MachineDeployment by the subresource.
    pub(super) async fn scale(&self, replicas: usize) {
        let change = Patch::Merge(json!({"spec": {"replicas": replicas}}));
        let api = self.api::<MachineDeployment>();
        api.patch_scale(WORKERS, &PatchParams::default(), &change).await.unwrap();
    }

    /// Returns the selector of the workers, as the subresource has it.
    pub(super) async fn selector(&self) -> String {
        let scale = self.api::<MachineDeployment>().get_scale(WORKERS).await.unwrap();
        scale.status.and_then(|it| it.selector).unwrap()
    }

    /// Waits until this number of workers exists, and all are available.
    pub(super) async fn until_workers(&self, replicas: usize) {
        let wanted = ListParams::default().labels(&self.selector().await);
        let mut stillness = Stillness::new();
        loop {
            let workers = self.api::<Machine>().list(&wanted).await.unwrap().items;
            let deployment = self.api::<MachineDeployment>().get(WORKERS).await.unwrap();
            let available = deployment.status.unwrap_or_default().available_replicas;
            if workers.len() == replicas && available == i32::try_from(replicas).ok() {
                return;
            }
            assert!(stillness.of(&self.objects("v1beta2").await) < PATIENCE, "no {replicas} workers");
            tokio::time::sleep(INTERVAL).await;
        }
    }

    /// Marks a Machine as the one to be deleted, as cluster-autoscaler does before it lowers the number.
    pub(super) async fn mark(&self, machine: &str) {
        let mark = json!({"metadata": {"annotations": {"cluster.x-k8s.io/delete-machine": "now"}}});
        let api = self.api::<Machine>();
        api.patch(machine, &PatchParams::default(), &Patch::Merge(&mark)).await.unwrap();
    }
}

/// Returns kind, role, phase and health of an object, without its generated name.
fn line(step: &str, version: &str, object: &Value) -> String {
    let labels = object["metadata"]["labels"].as_object();
    let is_control_plane = labels.is_some_and(|it| it.contains_key("cluster.x-k8s.io/control-plane"));
    let role = if is_control_plane { " of the control plane" } else { "" };
    let phase = Some(text(object, "/status/phase")).filter(|it| !it.is_empty()).unwrap_or("-");
    let kind = text(object, "/kind");
    format!("{step} {version} {kind}{role}: phase={phase} argo-cd={} flux={}", argo_cd(object), flux(object))
}
