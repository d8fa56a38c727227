//! Checks of a KubeadmConfig, before bootstrap data exists with which a machine would never become a node.

use apiserver_types::{ClusterConfiguration, KubeadmConfigSpec};
use controllers_bootstrap::kubeadm::{self, Refusal};

use super::stop::Failure;

/// Refuses a gate that the kubeadm of this version does not know, and a flag that its API server does not have. With
/// either, the machine would not become a node.
pub(super) fn versioned(version: &str, configuration: &ClusterConfiguration) -> Result<(), Failure> {
    let given = configuration.feature_gates.iter().flatten().map(|(name, on)| (name.clone(), *on));
    let unknown = kubeadm::unknown_feature_gates(version, &given.collect());
    if unknown.is_empty() {
        return flags(version, configuration);
    }
    Err(Failure::data(format!(
        "spec.clusterConfiguration.featureGates: kubeadm {version} does not know {}. Remove it, or choose a version that \
         knows it",
        unknown.join(" and ")
    )))
}

/// Refuses a flag with which the API server of this version would not start.
fn flags(version: &str, configuration: &ClusterConfiguration) -> Result<(), Failure> {
    let server = configuration.api_server.as_ref();
    let arguments = server.and_then(|server| server.extra_args.as_deref()).unwrap_or_default();
    let removed = |name: &str| kubeadm::is_removed_from_api_server(version, name);
    let Some(index) = arguments.iter().position(|argument| removed(&argument.name)) else { return Ok(()) };
    let name = arguments.get(index).map(|argument| argument.name.as_str()).unwrap_or_default();
    Err(Failure::data(format!(
        "spec.clusterConfiguration.apiServer.extraArgs[{index}]: kube-apiserver {version} does not have the flag {name}, \
         and does not start. Remove it"
    )))
}

/// Refuses values that kubeadm would refuse on the machine, unless commands of the user change its file before.
pub(super) fn values(spec: &KubeadmConfigSpec, refusals: &[Refusal]) -> Result<(), Failure> {
    if refusals.is_empty() || kubeadm::is_changed_by_commands(spec) {
        return Ok(());
    }
    let refusals: Vec<String> = refusals.iter().map(ToString::to_string).collect();
    let fields = if refusals.len() == 1 { "field" } else { "fields" };
    Err(Failure::data(format!("kubeadm refuses {}. Correct the {fields}", refusals.join("; "))))
}
