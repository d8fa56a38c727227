//! kubeadm ClusterConfiguration, completed from the Cluster.

use apiserver_types::NetworkRanges;
use serde_json::{Map, Value};

use super::api_version::ApiVersion;
use super::duration::{of_seconds, rename_days};
use super::{Init, RenderError, component, fields};

/// Structures that are written even if they are empty, as kubeadm's own encoder does.
const STRUCTURES: [&str; 6] = ["apiServer", "controllerManager", "dns", "etcd", "networking", "scheduler"];

/// Components with flags and an environment.
const COMPONENTS: [&str; 3] = ["apiServer", "controllerManager", "scheduler"];

/// Returns the fields of the ClusterConfiguration.
pub(super) fn configuration(input: &Init<'_>, api: ApiVersion) -> Result<Map<String, Value>, RenderError> {
    let mut cluster = fields(input.cluster)?;
    cluster.insert("clusterName".to_owned(), input.cluster_name.into());
    cluster.insert("kubernetesVersion".to_owned(), input.version.into());
    if let Some(endpoint) = input.endpoint.filter(|_| !cluster.contains_key("controlPlaneEndpoint")) {
        cluster.insert("controlPlaneEndpoint".to_owned(), endpoint.into());
    }
    cluster.insert("networking".to_owned(), networking(input).into());
    for name in STRUCTURES {
        cluster.entry(name).or_insert_with(|| Map::new().into());
    }
    for name in COMPONENTS {
        if let Some(Value::Object(part)) = cluster.get_mut(name) {
            component::convert(part, api);
        }
    }
    if let Some(Value::Object(local)) = cluster.get_mut("etcd").and_then(|etcd| etcd.get_mut("local")) {
        // kubeadm's own encoder writes this field always. kubeadm fills in its default for an empty one.
        local.entry("dataDir").or_insert_with(|| "".into());
        component::convert(local, api);
    }
    match api {
        ApiVersion::V1Beta3 => for_v1beta3(&mut cluster, input),
        ApiVersion::V1Beta4 => {
            cluster.insert("proxy".to_owned(), Map::new().into());
            rename_days(&mut cluster, "certificateValidityPeriodDays", "certificateValidityPeriod");
            rename_days(&mut cluster, "caCertificateValidityPeriodDays", "caCertificateValidityPeriod");
        }
    }
    Ok(cluster)
}

/// Removes the fields that v1beta3 lacks. The time-out of the control plane is a field of the API server there.
fn for_v1beta3(cluster: &mut Map<String, Value>, input: &Init<'_>) {
    for name in ["certificateValidityPeriodDays", "caCertificateValidityPeriodDays", "encryptionAlgorithm"] {
        cluster.remove(name);
    }
    let timeouts = input.node.timeouts.as_ref();
    let seconds = timeouts.and_then(|it| it.control_plane_component_health_check_seconds);
    if let (Some(seconds), Some(Value::Object(server))) = (seconds, cluster.get_mut("apiServer")) {
        server.insert("timeoutForControlPlane".to_owned(), of_seconds(seconds.into()).into());
    }
}

fn networking(input: &Init<'_>) -> Map<String, Value> {
    let Some(network) = input.network else { return Map::new() };
    let ranges = |ranges: &Option<NetworkRanges>| {
        ranges.as_ref().map(|it| it.cidr_blocks.join(",")).filter(|text| !text.is_empty())
    };
    let fields = [
        ("dnsDomain", network.service_domain.clone()),
        ("serviceSubnet", ranges(&network.services)),
        ("podSubnet", ranges(&network.pods)),
    ];
    fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?.into()))).collect()
}
