//! Workload cluster, as its administrator sees it.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, ensure};
use k8s_openapi::api::core::v1::{Node, Pod, Secret};
use kube::api::{ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::process::Command;

/// Key of the Secret with the kubeconfig, by the contract of Cluster API.
const KEY: &str = "value";

/// Name of the pod that makes a drain visible.
const POD: &str = "visitor";

/// Connection to a workload cluster.
#[derive(Clone)]
pub(crate) struct Workload {
    client: Client,
    kubeconfig: Vec<u8>,
}

/// One Node.
#[derive(Debug, Clone)]
pub(crate) struct NodeView {
    pub(crate) name: String,
    pub(crate) is_ready: bool,
    pub(crate) is_schedulable: bool,
    pub(crate) version: String,
    pub(crate) boot_id: String,
}

impl NodeView {
    fn of(node: &Node) -> Self {
        let status = node.status.clone().unwrap_or_default();
        let conditions = status.conditions.unwrap_or_default();
        let info = status.node_info.unwrap_or_default();
        let unschedulable = node.spec.as_ref().and_then(|spec| spec.unschedulable);
        Self {
            name: node.name_any(),
            is_ready: conditions.iter().any(|it| it.type_ == "Ready" && it.status == "True"),
            is_schedulable: unschedulable != Some(true),
            version: info.kubelet_version,
            boot_id: info.boot_id,
        }
    }
}

impl Workload {
    /// Connects with the kubeconfig that the control plane has created. Returns `None` as long as there is none.
    pub(crate) async fn connect(
        client: &Client,
        namespace: &str,
        cluster: &str,
    ) -> anyhow::Result<Option<Self>> {
        let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
        let Some(secret) = secrets.get_opt(&format!("{cluster}-kubeconfig")).await? else { return Ok(None) };
        let Some(bytes) = secret.data.and_then(|mut data| data.remove(KEY)) else { return Ok(None) };
        let kubeconfig = Kubeconfig::from_yaml(std::str::from_utf8(&bytes.0)?)?;
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
        Ok(Some(Self { client: Client::try_from(config)?, kubeconfig: bytes.0 }))
    }

    /// Writes the kubeconfig to a file that only its owner can read.
    pub(crate) fn write_kubeconfig(&self, path: &Path) -> anyhow::Result<()> {
        use std::io::Write;
        use std::os::unix::fs::OpenOptionsExt;

        let mut options = std::fs::OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(path);
        file.and_then(|mut file| file.write_all(&self.kubeconfig))
            .with_context(|| format!("{} cannot be written", path.display()))
    }

    /// Returns all Nodes by name.
    pub(crate) async fn nodes(&self) -> anyhow::Result<BTreeMap<String, NodeView>> {
        let nodes = Api::<Node>::all(self.client.clone()).list(&ListParams::default()).await?;
        Ok(nodes.iter().map(NodeView::of).map(|node| (node.name.clone(), node)).collect())
    }

    /// Returns one Node.
    pub(crate) async fn node(&self, name: &str) -> anyhow::Result<NodeView> {
        Ok(NodeView::of(&Api::<Node>::all(self.client.clone()).get(name).await?))
    }

    fn pods(&self) -> Api<Pod> {
        Api::namespaced(self.client.clone(), "default")
    }

    /// Runs a pod on a Node.
    pub(crate) async fn run_pod(&self, node: &str) -> anyhow::Result<()> {
        let pod: Pod = serde_json::from_value(json!({
            "metadata": {"name": POD},
            "spec": {"nodeName": node, "containers": [{"name": POD, "image": "registry.k8s.io/pause:3.10"}]},
        }))?;
        match self.pods().create(&PostParams::default(), &pod).await {
            Err(kube::Error::Api(status)) if status.code == 409 => Ok(()),
            result => result.map(|_| ()).context("a pod cannot be created"),
        }
    }

    /// Returns true if the pod of [`Self::run_pod`] exists.
    pub(crate) async fn has_pod(&self) -> anyhow::Result<bool> {
        Ok(self.pods().get_opt(POD).await?.is_some())
    }
}

/// Returns what `kubectl get nodes` prints, or `None` if kubectl is not installed.
pub(crate) async fn kubectl_get_nodes(kubeconfig: &Path) -> anyhow::Result<Option<String>> {
    let mut kubectl = Command::new("kubectl");
    kubectl.arg("--kubeconfig").arg(kubeconfig).args(["get", "nodes"]);
    let output = match kubectl.output().await {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        output => output?,
    };
    let error = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "kubectl get nodes: {}", error.trim());
    Ok(Some(String::from_utf8_lossy(&output.stdout).trim_end().to_owned()))
}
