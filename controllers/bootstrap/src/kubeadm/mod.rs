//! kubeadm configuration files: the input of `kubeadm init` and `kubeadm join` on a node.
//!
//! The version of the machine selects the API version of the file, because the kubeadm on the machine reads it.

mod api_version;
mod cluster;
mod component;
mod duration;
mod environment;
mod feature_gates;
mod flags;
mod node;
mod record;
mod refusals;
#[cfg(test)]
mod tests;
mod without_effect;

use apiserver_types::{ClusterConfiguration, ClusterNetwork, InitConfiguration, JoinConfiguration};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::certificates::CertificateKey;
use api_version::ApiVersion;
pub use environment::environment_patches;
pub use feature_gates::{doubtful_feature_gates, feature_gates, forced_feature_gates, unknown_feature_gates};
pub use flags::is_removed_from_api_server;
pub use record::recorded;
pub use refusals::{Refusal, is_changed_by_commands, refusals_of_init, refusals_of_join};
pub use without_effect::{ALL_FIELDS_FROM, without_effect};

/// Input of the file for `kubeadm init`.
#[derive(Debug, Clone, Copy)]
pub struct Init<'a> {
    /// Name of the Cluster.
    pub cluster_name: &'a str,
    /// `spec.version` of the Machine, e.g. `v1.36.3`.
    pub version: &'a str,
    /// Control plane endpoint of the Cluster as `host:port`, once it is known.
    pub endpoint: Option<&'a str>,
    /// Networks of the Cluster, if it names any.
    pub network: Option<&'a ClusterNetwork>,
    /// Settings of the whole cluster. Its own fields have priority over those of the Cluster.
    pub cluster: &'a ClusterConfiguration,
    /// Settings of the first node.
    pub node: &'a InitConfiguration,
}

/// Error of a file that cannot be rendered.
#[derive(Debug, thiserror::Error)]
pub enum RenderError {
    /// The version of the Machine is no version.
    #[error("version {version:?} is not a Kubernetes version such as v1.36.3: {detail}")]
    Version {
        /// The version.
        version: String,
        /// The parser's message.
        detail: String,
    },
    /// No supported kubeadm has this version.
    #[error("version {0:?} is not supported: the first supported version of Kubernetes is v1.22.0")]
    TooOld(String),
    /// A value has no form in YAML or JSON.
    #[error("the kubeadm configuration cannot be encoded: {0}")]
    Encoding(String),
}

/// Returns the file for `kubeadm init`: a ClusterConfiguration and an InitConfiguration.
///
/// # Errors
/// The version is not valid or not supported.
pub fn init(input: &Init<'_>) -> Result<String, RenderError> {
    let api = ApiVersion::of(input.version)?;
    let cluster = document(api, "ClusterConfiguration", cluster::configuration(input, api)?)?;
    let node = document(api, "InitConfiguration", node::init(input.node, api)?)?;
    Ok(format!("---\n{cluster}---\n{node}"))
}

/// Returns the file for `kubeadm join`. The discovery of `join` is complete: the caller has filled in token and hashes.
///
/// # Errors
/// The version is not valid or not supported.
pub fn join(version: &str, join: &JoinConfiguration) -> Result<String, RenderError> {
    join_with_key(version, join, None)
}

/// Returns the file for `kubeadm join` of a control plane node that fetches the certificates of the cluster, and decrypts
/// them with this key. Without a key, the node has them already.
///
/// # Errors
/// The version is not valid or not supported.
pub fn join_with_key(
    version: &str,
    join: &JoinConfiguration,
    key: Option<&CertificateKey>,
) -> Result<String, RenderError> {
    let api = ApiVersion::of(version)?;
    let mut fields = node::join(join, api)?;
    let control_plane = fields.get_mut("controlPlane").and_then(Value::as_object_mut);
    if let Some((control_plane, key)) = control_plane.zip(key) {
        control_plane.insert("certificateKey".to_owned(), key.text().into());
    }
    Ok(format!("---\n{}", document(api, "JoinConfiguration", fields)?))
}

/// Returns the YAML of a document. `serde_json` sorts the keys.
fn document(api: ApiVersion, kind: &str, mut fields: Map<String, Value>) -> Result<String, RenderError> {
    fields.insert("apiVersion".to_owned(), api.text().into());
    fields.insert("kind".to_owned(), kind.into());
    let text = serde_saphyr::to_string(&fields).map_err(|error| RenderError::Encoding(error.to_string()))?;
    Ok(if text.ends_with('\n') { text } else { text + "\n" })
}

/// Returns the JSON fields of one of Cluster API's types. Most have the same names in kubeadm.
fn fields(value: &impl Serialize) -> Result<Map<String, Value>, RenderError> {
    match serde_json::to_value(value).map_err(|error| RenderError::Encoding(error.to_string()))? {
        Value::Object(fields) => Ok(fields),
        other => Err(RenderError::Encoding(format!("{other} is no object"))),
    }
}
