//! Objects of one cluster, and their creation.

use anyhow::{Context, anyhow};
use kube::Client;
use serde_json::Value;

/// Cluster in the form of upstream's template without a load balancer.
const MANIFEST: &str = include_str!("cluster.yaml");

/// Cluster to be created.
#[derive(Debug, Clone)]
pub(super) struct NewCluster {
    /// Namespace, which is the cluster's alone.
    pub(super) namespace: String,
    pub(super) control_plane: usize,
    pub(super) workers: usize,
    /// Credentials of its project.
    pub(super) clouds_yaml: String,
}

impl NewCluster {
    /// Returns the number of its Machines.
    pub(super) fn machines(&self) -> usize {
        self.control_plane + self.workers
    }

    /// Creates all objects in the order of the manifest, as `kubectl create` does.
    pub(super) async fn create(&self, client: &Client) -> anyhow::Result<()> {
        for document in self.documents()? {
            let path = path_of(&document).context("a document of the manifest has no kind")?;
            let request = http::Request::post(&path).header("content-type", "application/json");
            let created = client.request::<Value>(request.body(serde_json::to_vec(&document)?)?).await;
            created.with_context(|| format!("{}: {path}", self.namespace))?;
        }
        Ok(())
    }

    fn documents(&self) -> anyhow::Result<Vec<Value>> {
        let text = MANIFEST
            .replace("NAMESPACE", &self.namespace)
            .replace("CONTROL_PLANE", &self.control_plane.to_string())
            .replace("WORKERS", &self.workers.to_string())
            .replace("CLOUDS", &Value::from(self.clouds_yaml.as_str()).to_string());
        serde_saphyr::from_multiple(&text).map_err(|error| anyhow!("the manifest is not valid: {error}"))
    }
}

/// Returns the path at which objects of a document's kind are created.
fn path_of(document: &Value) -> Option<String> {
    let text = |pointer: &str| document.pointer(pointer).and_then(Value::as_str);
    let version = text("/apiVersion")?;
    let root = if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
    let plural = format!("{}s", text("/kind")?.to_lowercase());
    Some(match text("/metadata/namespace") {
        Some(namespace) => format!("{root}/namespaces/{namespace}/{plural}"),
        None => format!("{root}/{plural}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_manifest_has_the_numbers_and_the_credentials_of_the_cluster() {
        let cluster = NewCluster {
            namespace: "c-1".to_owned(),
            control_plane: 3,
            workers: 10,
            clouds_yaml: "clouds:\n  openstack: {}\n".to_owned(),
        };
        let documents = cluster.documents().unwrap();
        let of = |kind: &str| documents.iter().find(|it| it["kind"] == kind).unwrap();
        assert_eq!(of("KubeadmControlPlane")["spec"]["replicas"], 3);
        assert_eq!(of("MachineDeployment")["spec"]["replicas"], 10);
        assert_eq!(of("Secret")["stringData"]["clouds.yaml"], cluster.clouds_yaml);
        let path = path_of(of("OpenStackCluster")).unwrap();
        assert_eq!(path, "/apis/infrastructure.cluster.x-k8s.io/v1beta2/namespaces/c-1/openstackclusters");
        assert!(documents.iter().skip(1).all(|it| it["metadata"]["namespace"] == "c-1"));
    }
}
