//! kubeadm configuration files: the input of `kubeadm init` and `kubeadm join` on a node.
//!
//! The version of the machine selects the API version of the file, because the kubeadm on the machine reads it.

mod api_version;
mod cluster;
mod component;
mod duration;
mod feature_gates;
mod node;
#[cfg(test)]
mod tests;

use apiserver_types::{ClusterConfiguration, ClusterNetwork, InitConfiguration, JoinConfiguration};
use serde::Serialize;
use serde_json::{Map, Value};

use api_version::ApiVersion;
pub use feature_gates::{feature_gates, unknown_feature_gates};

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
    let api = ApiVersion::of(version)?;
    Ok(format!("---\n{}", document(api, "JoinConfiguration", node::join(join, api)?)?))
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
