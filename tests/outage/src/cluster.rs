//! Cluster whose workers are rolled.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow, bail, ensure};
use serde_json::{Value, json};

use crate::call::{Answer, Caller};
use crate::record::{Realm, Recorder};

/// Longest time until all workers are as they should be, also with failovers, and beside twenty other clusters.
const TIMEOUT: Duration = Duration::from_secs(1800);

/// Interval between two looks.
const INTERVAL: Duration = Duration::from_millis(500);

/// Label of a Machine with the name of its MachineDeployment.
const DEPLOYMENT_NAME: &str = "cluster.x-k8s.io%2Fdeployment-name";

/// Group of Machines and MachineDeployments.
const CORE: &str = "cluster.x-k8s.io";

/// Cluster of a manifest, as its administrator sees it on the direct endpoint.
#[derive(Debug, Clone)]
pub(crate) struct Cluster {
    admin: PathBuf,
    namespace: String,
    deployment: String,
    control_plane: String,
}

/// Returns the path of the collection of a document's kind.
fn collection(document: &Value) -> anyhow::Result<String> {
    let text = |pointer: &str| document.pointer(pointer).and_then(Value::as_str);
    let (version, kind) = (text("/apiVersion").unwrap_or_default(), text("/kind").unwrap_or_default());
    let plural = format!("{}s", kind.to_lowercase());
    if kind == "Namespace" {
        return Ok(format!("/api/v1/{plural}"));
    }
    let namespace = text("/metadata/namespace").context("a document has no namespace")?;
    let root = if version == "v1" { "/api/v1".to_owned() } else { format!("/apis/{version}") };
    Ok(format!("{root}/namespaces/{namespace}/{plural}"))
}

impl Cluster {
    /// Creates all objects of a manifest.
    pub(crate) async fn create(admin: &Path, manifest: &Path) -> anyhow::Result<Self> {
        let text = std::fs::read_to_string(manifest)?;
        let documents: Vec<Value> =
            serde_saphyr::from_multiple(&text).map_err(|error| anyhow!("the manifest: {error}"))?;
        let mut caller = Caller::new("admin", Realm::Own, admin, &Recorder::start()).await?;
        let (mut namespace, mut deployment, mut control_plane) = (None, None, None);
        for document in documents.iter().filter(|document| !document.is_null()) {
            let path = collection(document)?;
            let answer = caller.call("POST", &path, document).await?.0;
            // The namespace may be that of the host.
            if !matches!(answer, Answer::Object(_) | Answer::Refused(403 | 409)) {
                bail!("{path}: {answer:?}");
            }
            let name = document.pointer("/metadata/name").and_then(Value::as_str).map(str::to_owned);
            match document["kind"].as_str() {
                Some("Namespace") => namespace = name,
                Some("MachineDeployment") => deployment = name,
                Some("KubeadmControlPlane") => control_plane = name,
                _ => {}
            }
        }
        let namespace = namespace.context("the manifest has no Namespace")?;
        let deployment = deployment.context("the manifest has no MachineDeployment")?;
        let control_plane = control_plane.context("the manifest has no KubeadmControlPlane")?;
        Ok(Self { admin: admin.to_owned(), namespace, deployment, control_plane })
    }

    /// Returns the path of a collection of the cluster's namespace.
    fn collection(&self, group: &str, plural: &str) -> String {
        format!("/apis/{group}/v1beta2/namespaces/{}/{plural}", self.namespace)
    }

    fn path_of_workers(&self) -> String {
        format!("{}/{}", self.collection(CORE, "machinedeployments"), self.deployment)
    }

    async fn caller(&self) -> anyhow::Result<Caller> {
        Caller::new("admin", Realm::Own, &self.admin, &Recorder::start()).await
    }

    /// Waits until all Machines exist, are up to date and are available.
    pub(crate) async fn wait(&self) -> anyhow::Result<()> {
        self.wait_without(&BTreeSet::new()).await
    }

    /// Returns true if an object has all its Machines. Otherwise keeps its status for the error.
    async fn has_all(&self, caller: &mut Caller, path: &str, last: &mut Value) -> anyhow::Result<bool> {
        let (Answer::Object(object), _) = caller.call("GET", path, &Value::Null).await? else {
            return Ok(false);
        };
        *last = object["status"].clone();
        Ok(is_complete(&object))
    }

    /// Waits for the same, and until these Machines are gone: the counts are of an earlier look.
    async fn wait_without(&self, old: &BTreeSet<String>) -> anyhow::Result<()> {
        let mut caller = self.caller().await?;
        let workers = self.path_of_workers();
        let nodes = self.collection("controlplane.cluster.x-k8s.io", "kubeadmcontrolplanes");
        let nodes = format!("{nodes}/{}", self.control_plane);
        let mut last = Value::Null;
        let complete = async {
            loop {
                if self.has_all(&mut caller, &workers, &mut last).await?
                    && self.has_all(&mut caller, &nodes, &mut last).await?
                    && self.workers(&mut caller).await?.is_disjoint(old)
                {
                    return anyhow::Ok(());
                }
                tokio::time::sleep(INTERVAL).await;
            }
        };
        match tokio::time::timeout(TIMEOUT, complete).await {
            Ok(result) => result,
            Err(_) => bail!("the Machines are not complete: {last}"),
        }
    }

    /// Orders a rollout, and waits until all workers are replaced. Returns their number.
    pub(crate) async fn roll(&self) -> anyhow::Result<usize> {
        let mut caller = self.caller().await?;
        let old = self.workers(&mut caller).await?;
        let path = self.path_of_workers();
        loop {
            let (Answer::Object(mut object), _) = caller.call("GET", &path, &Value::Null).await? else {
                bail!("MachineDeployment {} cannot be read", self.deployment);
            };
            let after = object.pointer("/spec/rollout/after").and_then(Value::as_str).map(str::to_owned);
            let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
            if after.as_ref() == Some(&now) {
                tokio::time::sleep(INTERVAL).await;
                continue;
            }
            object["spec"]["rollout"]["after"] = json!(now);
            match caller.call("PUT", &path, &object).await?.0 {
                Answer::Object(_) => {
                    self.wait_without(&old).await?;
                    return Ok(old.len());
                }
                Answer::Refused(409) | Answer::None => {}
                Answer::Refused(code) => bail!("the rollout cannot be ordered: {code}"),
            }
        }
    }

    /// Returns the names of the workers. A Machine that has failed is an error.
    async fn workers(&self, caller: &mut Caller) -> anyhow::Result<BTreeSet<String>> {
        let selector = format!("?labelSelector={DEPLOYMENT_NAME}%3D{}", self.deployment);
        let mut names = BTreeSet::new();
        for item in self.machines(caller, &selector).await? {
            let text = |pointer: &str| item.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
            let name = text("/metadata/name");
            ensure!(text("/status/phase") != "Failed", "Machine {name} has failed: {}", item["status"]);
            names.insert(name.to_owned());
        }
        Ok(names)
    }

    async fn machines(&self, caller: &mut Caller, selector: &str) -> anyhow::Result<Vec<Value>> {
        let path = format!("{}{selector}", self.collection(CORE, "machines"));
        let (Answer::Object(mut list), _) = caller.call("GET", &path, &Value::Null).await? else {
            bail!("Machines cannot be listed");
        };
        Ok(list["items"].as_array_mut().map(std::mem::take).unwrap_or_default())
    }

    /// Returns the ids of the servers of all Machines.
    pub(crate) async fn servers(&self) -> anyhow::Result<Vec<String>> {
        let mut caller = self.caller().await?;
        let items = self.machines(&mut caller, "").await?;
        let id = |item: &Value| {
            let text = item.pointer("/spec/providerID")?.as_str()?;
            Some(text.rsplit('/').next()?.to_owned())
        };
        Ok(items.iter().filter_map(id).collect())
    }
}

/// Returns true if the status is that of the last change, and counts only workers that are up to date.
fn is_complete(object: &Value) -> bool {
    let number = |pointer: &str| object.pointer(pointer).and_then(Value::as_i64).unwrap_or_default();
    let wanted = number("/spec/replicas");
    let counts = ["/status/replicas", "/status/upToDateReplicas", "/status/availableReplicas"];
    number("/status/observedGeneration") >= number("/metadata/generation")
        && counts.iter().all(|pointer| number(pointer) == wanted)
}
