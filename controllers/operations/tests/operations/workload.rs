//! Fake workload cluster with one Node, and the parts that the operations controller does not play: the controller of
//! KubeadmConfigs, which keeps the bootstrap token, and kubeadm, which joins with it.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use controllers_workload::{ClusterKey, WorkloadClusters, WorkloadConnector, WorkloadError};
use kube::Client;
use serde_json::{Value, json};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::api::FakeApi;
use crate::crash_point::CrashPoint;
use crate::world::{MACHINE, World};

const NODE: &str = "/api/v1/nodes/m1";
const PODS: &str = "/api/v1/pods/";
const TOKEN: &str = "/api/v1/namespaces/kube-system/secrets/bootstrap-token-abcdef";
const ATTACHMENT: &str = "/apis/storage.k8s.io/v1/volumeattachments/va1";
const CONFIG: &str = "/apis/bootstrap.cluster.x-k8s.io/v1beta2/namespaces/ns/kubeadmconfigs/m1";

/// Workload cluster of the Machine.
pub(crate) struct Workload {
    pub(crate) api: FakeApi,
    pub(crate) clusters: Arc<WorkloadClusters>,
    _running: JoinSet<()>,
}

#[derive(Debug)]
struct Connector(FakeApi);

#[async_trait]
impl WorkloadConnector for Connector {
    async fn client(&self, _kubeconfig: &[u8]) -> Result<Client, WorkloadError> {
        Ok(self.0.client())
    }
}

fn key() -> ClusterKey {
    ClusterKey { namespace: "ns".to_owned(), name: "c1".to_owned() }
}

fn node(uid: &str) -> Value {
    json!({"metadata": {"uid": uid}, "spec": {}, "status": {
        "nodeInfo": {"bootID": format!("boot of {uid}"), "architecture": "", "containerRuntimeVersion": "",
            "kernelVersion": "", "kubeProxyVersion": "", "kubeletVersion": "", "machineID": "",
            "operatingSystem": "", "osImage": "", "systemUUID": ""},
        "conditions": [{"type": "Ready", "status": "True"}],
    }})
}

impl Workload {
    pub(crate) fn new(crash_point: &Arc<CrashPoint>) -> Self {
        let api = FakeApi::new(Arc::clone(crash_point));
        let clusters = Arc::new(WorkloadClusters::new(Arc::new(Connector(api.clone()))));
        let mut running = JoinSet::new();
        let own = Arc::clone(&clusters);
        running.spawn(async move { own.run(CancellationToken::new()).await });
        Self { api, clusters, _running: running }
    }

    pub(crate) fn is_followed(&self) -> bool {
        self.api.get(NODE).is_some()
    }

    /// Waits until there is a connection.
    pub(crate) async fn connected(&self) {
        while self.clusters.client(&key()).is_err() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}

impl World {
    /// Makes the Machine a worker whose node has joined, and whose token is deleted.
    pub(crate) fn with_node(&self) {
        self.workload.api.put(NODE, node("before"));
        self.workload.clusters.follow(&key(), b"kubeconfig");
        let token = json!({"bootstrapToken": {"token": "abcdef.0123456789abcdef"}});
        self.api.put(CONFIG, json!({"spec": {"joinConfiguration": {"discovery": token}}}));
        self.api.change(MACHINE, |machine| {
            machine["status"]["nodeRef"]["name"] = json!("m1");
            machine["spec"]["bootstrap"]["configRef"] =
                json!({"apiGroup": "bootstrap.cluster.x-k8s.io", "kind": "KubeadmConfig", "name": "m1"});
        });
    }

    /// Reports whether the Node is cordoned; `None` without a Node.
    pub(crate) fn is_cordoned(&self) -> Option<bool> {
        let node = self.workload.api.get(NODE)?;
        Some(node["spec"]["unschedulable"] == json!(true))
    }

    /// Returns the Node's annotation of the operation that has cordoned it.
    pub(crate) fn cordoned_by(&self) -> Option<String> {
        let node = self.workload.api.get(NODE)?;
        node["metadata"]["annotations"]["capstan.dev/cordoned-by"].as_str().map(str::to_owned)
    }

    /// Cordons the Node as a user does.
    pub(crate) fn cordon_by_hand(&self) {
        self.workload.api.change(NODE, |node| node["spec"]["unschedulable"] = json!(true));
    }

    /// Runs a Pod on the Node. With the label `budget`, no eviction of it is admitted. With a finalizer, it never ends.
    pub(crate) fn run_pod(&self, name: &str, metadata: Value) {
        let mut pod = json!({});
        pod["metadata"] = metadata;
        self.workload.api.put(&format!("{PODS}{name}"), pod);
    }

    /// Returns the names of the Pods on the Node.
    pub(crate) fn pods(&self) -> Vec<String> {
        let pods = self.workload.api.under(PODS);
        pods.iter().filter_map(|pod| pod["metadata"]["name"].as_str().map(str::to_owned)).collect()
    }

    /// Attaches a volume to the Node.
    pub(crate) fn attach_volume(&self) {
        let attachment = json!({"spec": {"attacher": "csi", "nodeName": "m1",
            "source": {"persistentVolumeName": "pv1"}}, "status": {"attached": true}});
        self.workload.api.put(ATTACHMENT, attachment);
    }

    /// Detaches it.
    pub(crate) fn detach_volume(&self) {
        self.workload.api.remove(ATTACHMENT);
    }

    /// Plays the controller of KubeadmConfigs, and the boot of a server with a new disk.
    pub(crate) fn play_node(&self) {
        if self.api.get(CONFIG).is_none() {
            return;
        }
        let machine = self.api.get(MACHINE).unwrap();
        let wanted = machine["metadata"]["annotations"]["capstan.dev/rejoin"].is_string();
        match (wanted, self.workload.api.get(TOKEN)) {
            (true, None) => self.workload.api.put(TOKEN, json!({})),
            (false, Some(_)) => self.workload.api.remove(TOKEN),
            _ => {}
        }
        if !self.has_new_disk() {
            return;
        }
        match self.workload.api.get(NODE) {
            None => {
                assert!(self.workload.api.get(TOKEN).is_some(), "kubeadm: the token is not valid");
                self.workload.api.put(NODE, node("after"));
            }
            Some(node) => assert_eq!(node["metadata"]["uid"], "after", "kubeadm: the name is taken"),
        }
    }

    fn has_new_disk(&self) -> bool {
        let nova = self.nova();
        let mut instances = nova.instances.values();
        instances.any(|it| {
            let image = it.server.image_id.as_deref();
            it.server.status == "ACTIVE" && image == Some("image-kube-v1.30.0")
        })
    }

    /// Checks that the node has joined again, and that nothing is left of what the operation needed for it.
    pub(crate) fn has_rejoined(&self, case: &str) {
        self.play_node();
        let node = self.workload.api.get(NODE).unwrap();
        assert_eq!(node["metadata"]["uid"], "after", "{case}");
        assert_eq!(node["spec"], json!({}), "{case}: the Node is not schedulable");
        assert_eq!(self.workload.api.get(TOKEN), None, "{case}: the token is left");
    }
}
