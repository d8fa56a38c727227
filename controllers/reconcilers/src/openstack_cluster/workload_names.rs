//! Names that OpenStack's cloud provider and the Cinder CSI driver have for the workload cluster: flags of their programs.

use std::time::Duration;

use controllers_runtime::ControllerContext;
use controllers_workload::ClusterKey;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use k8s_openapi::api::core::v1::{Container, PodSpec};
use kube::api::ListParams;
use kube::{Api, Client};

use super::workload_notes::WorkloadNotes;

/// Timeout of one look at a workload API.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Name that the cloud provider has for a cluster without a flag.
const CLOUD_PROVIDER_DEFAULT: &str = "kubernetes";

/// Name that the CSI driver has for a cluster without a flag.
const CSI_DEFAULT: &str = "";

/// Reads the names from the workload API, if it answers. The next pass looks again.
pub(super) async fn learn(
    context: &ControllerContext,
    namespace: &str,
    cluster: &str,
    notes: &mut WorkloadNotes,
) {
    let key = ClusterKey { namespace: namespace.to_owned(), name: cluster.to_owned() };
    let Ok(client) = context.workloads.client(&key) else { return };
    let Ok(Ok(pods)) = tokio::time::timeout(TIMEOUT, pods(&client)).await else { return };
    if let Some(name) =
        name(&pods, "openstack-cloud-controller-manager", "--cluster-name", CLOUD_PROVIDER_DEFAULT)
    {
        notes.cloud_provider_name = Some(name);
    }
    if let Some(name) = name(&pods, "cinder-csi-plugin", "--cluster", CSI_DEFAULT) {
        notes.csi_name = Some(name);
    }
}

async fn pods(client: &Client) -> Result<Vec<PodSpec>, kube::Error> {
    let all = ListParams::default();
    let daemons = Api::<DaemonSet>::all(client.clone()).list(&all).await?.items;
    let daemons = daemons.into_iter().filter_map(|it| it.spec?.template.spec);
    let deployments = Api::<Deployment>::all(client.clone()).list(&all).await?.items;
    let deployments = deployments.into_iter().filter_map(|it| it.spec?.template.spec);
    Ok(daemons.chain(deployments).collect())
}

/// Returns the value of a program's flag, else its default; `None` if no Pod runs the program, or the value is elsewhere,
/// as in a Secret. Pure.
fn name(pods: &[PodSpec], program: &str, flag: &str, default: &str) -> Option<String> {
    let containers = pods.iter().flat_map(|pod| &pod.containers);
    let running: Vec<&Container> = containers.filter(|container| runs(container, program)).collect();
    let given = running.iter().find_map(|container| value(container, flag));
    let is_flag = |word: &str| word == flag || word.strip_prefix(flag).is_some_and(|it| it.starts_with('='));
    let has_flag = running.iter().any(|container| words(container).any(is_flag));
    given.or_else(|| (!has_flag && !running.is_empty()).then(|| default.to_owned()))
}

fn words(container: &Container) -> impl Iterator<Item = &str> {
    let lists = container.command.iter().chain(&container.args);
    lists.flatten().flat_map(|text| text.split_whitespace())
}

fn runs(container: &Container, program: &str) -> bool {
    let of_image = container.image.as_deref().is_some_and(|image| image.contains(program));
    of_image || words(container).any(|word| word.contains(program))
}

/// Returns the value of a flag, with the environment of the container in place of `$(NAME)`.
fn value(container: &Container, flag: &str) -> Option<String> {
    let mut words = words(container);
    let raw = loop {
        let word = words.next()?;
        if word == flag {
            break words.next()?;
        }
        if let Some(value) = word.strip_prefix(flag).and_then(|rest| rest.strip_prefix('=')) {
            break value;
        }
    };
    let raw = raw.trim_matches(['"', '\'']);
    let Some(variable) = raw.strip_prefix("$(").and_then(|rest| rest.strip_suffix(')')) else {
        return Some(raw.to_owned());
    };
    container.env.iter().flatten().find(|it| it.name == variable)?.value.clone()
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    const MANAGER: &str = "openstack-cloud-controller-manager";

    fn found(container: &Value) -> Option<String> {
        let pod: PodSpec = serde_json::from_value(json!({"containers": [container]})).unwrap();
        name(&[pod], MANAGER, "--cluster-name", CLOUD_PROVIDER_DEFAULT)
    }

    #[test]
    fn r17_3_the_name_of_the_workload_cluster_is_the_flag_of_its_cloud_provider() {
        let image = "registry.k8s.io/provider-os/openstack-cloud-controller-manager:v1.34.0";
        let flag = |text: &str| json!({"name": "m", "image": image, "args": ["--v=1", text]});
        assert_eq!(found(&flag("--cluster-name=prod")).as_deref(), Some("prod"));
        assert_eq!(found(&flag("--cloud-config=/etc/cloud")).as_deref(), Some("kubernetes"));
        let variable = json!({"name": "m", "image": image, "env": [{"name": "CLUSTER_NAME", "value": "prod"}],
            "args": ["/bin/openstack-cloud-controller-manager", "--cluster-name=$(CLUSTER_NAME)"]});
        assert_eq!(found(&variable).as_deref(), Some("prod"));
        let shell = "exec openstack-cloud-controller-manager --cluster-name 'prod' --v=1";
        let shell = json!({"name": "m", "image": "mirror/manager", "command": ["sh", "-c", shell]});
        assert_eq!(found(&shell).as_deref(), Some("prod"));
        assert_eq!(found(&json!({"name": "m", "image": "nginx", "args": ["--cluster-name=other"]})), None);
    }
}
