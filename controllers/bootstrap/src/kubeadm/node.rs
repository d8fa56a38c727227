//! kubeadm InitConfiguration and JoinConfiguration: settings of one node.

use apiserver_types::{InitConfiguration, JoinConfiguration};
use serde_json::{Map, Value};

use super::api_version::ApiVersion;
use super::component::arguments_to_map;
use super::duration::{of_seconds, rename_seconds};
use super::{RenderError, fields};

/// Time-outs: the field of Cluster API, and that of kubeadm v1beta4.
const TIMEOUTS: [(&str, &str); 6] = [
    ("controlPlaneComponentHealthCheckSeconds", "controlPlaneComponentHealthCheck"),
    ("kubeletHealthCheckSeconds", "kubeletHealthCheck"),
    ("kubernetesAPICallSeconds", "kubernetesAPICall"),
    ("etcdAPICallSeconds", "etcdAPICall"),
    ("tlsBootstrapSeconds", "tlsBootstrap"),
    ("discoverySeconds", "discovery"),
];

/// Returns the fields of the InitConfiguration.
pub(super) fn init(node: &InitConfiguration, api: ApiVersion) -> Result<Map<String, Value>, RenderError> {
    let mut init = fields(node)?;
    init.entry("localAPIEndpoint").or_insert_with(|| Map::new().into());
    registration(&mut init, api);
    timeouts(&mut init, api);
    for token in init.get_mut("bootstrapTokens").and_then(Value::as_array_mut).into_iter().flatten() {
        if let Some(token) = token.as_object_mut() {
            rename_seconds(token, "ttlSeconds", "ttl");
        }
    }
    Ok(init)
}

/// Returns the fields of the JoinConfiguration.
pub(super) fn join(node: &JoinConfiguration, api: ApiVersion) -> Result<Map<String, Value>, RenderError> {
    let mut join = fields(node)?;
    if let Some(Value::Object(control_plane)) = join.get_mut("controlPlane") {
        control_plane.entry("localAPIEndpoint").or_insert_with(|| Map::new().into());
    }
    let discovery = join.entry("discovery").or_insert_with(|| Map::new().into());
    if let Some(Value::Object(file)) = discovery.get_mut("file") {
        // This kubeconfig is a file of its own on the node; kubeadm reads it from the path.
        file.remove("kubeConfig");
    }
    // v1beta3 has one time for both; upstream takes that of the TLS bootstrap.
    let limit = node.timeouts.as_ref().and_then(|it| it.tls_bootstrap_seconds.or(it.discovery_seconds));
    if let (ApiVersion::V1Beta3, Some(seconds), Some(fields)) = (api, limit, discovery.as_object_mut()) {
        fields.insert("timeout".to_owned(), of_seconds(seconds.into()).into());
    }
    registration(&mut join, api);
    timeouts(&mut join, api);
    Ok(join)
}

/// Converts the registration of the node. Unset taints are `null`: kubeadm then adds those of the control plane.
fn registration(node: &mut Map<String, Value>, api: ApiVersion) {
    let registration = node.entry("nodeRegistration").or_insert_with(|| Map::new().into());
    let Some(registration) = registration.as_object_mut() else { return };
    registration.entry("taints").or_insert(Value::Null);
    if api == ApiVersion::V1Beta3 {
        registration.remove("imagePullSerial");
        arguments_to_map(registration, "kubeletExtraArgs");
    }
}

fn timeouts(node: &mut Map<String, Value>, api: ApiVersion) {
    if api == ApiVersion::V1Beta3 {
        node.remove("timeouts");
    }
    if let Some(Value::Object(timeouts)) = node.get_mut("timeouts") {
        for (from, to) in TIMEOUTS {
            rename_seconds(timeouts, from, to);
        }
    }
}
