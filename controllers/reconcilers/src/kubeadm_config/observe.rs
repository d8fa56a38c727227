//! Observation of the objects around a KubeadmConfig.

use apiserver_types::{Cluster, KubeadmConfig, Machine, MachinePool};
use controllers_runtime::{ControllerContext, ReconcileError};
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, ResourceExt};

use super::pool;
use super::stop::cause;
use crate::endpoint_hosts::host_and_port;

/// Group of Machines. The version in a reference has no meaning.
const GROUP: &str = "cluster.x-k8s.io";

/// Label of control plane Machines, with any value.
pub(super) const CONTROL_PLANE_LABEL: &str = "cluster.x-k8s.io/control-plane";

/// Objects around a KubeadmConfig.
#[derive(Debug, Clone, Default)]
pub(super) struct Observed {
    /// The Machine that owns the KubeadmConfig, or the one that its MachinePool describes.
    pub machine: Option<Machine>,
    /// The MachinePool that owns the KubeadmConfig instead.
    pub pool: Option<MachinePool>,
    pub cluster: Option<Cluster>,
    /// The Secret with the KubeadmConfig's name.
    pub secret: Option<Secret>,
    /// Reason why that Secret cannot be read. For people.
    pub unreadable: Option<String>,
}

/// Reads the objects around a KubeadmConfig.
pub(super) async fn observe(
    context: &ControllerContext,
    config: &KubeadmConfig,
) -> Result<Observed, ReconcileError> {
    let namespace = config.namespace().unwrap_or_default();
    let (machine, pool) = if let Some(name) = owner(config, "Machine") {
        let machines: Api<Machine> = Api::namespaced(context.client.clone(), &namespace);
        (machines.get_opt(name).await?, None)
    } else if let Some(name) = owner(config, "MachinePool") {
        let pools: Api<MachinePool> = Api::namespaced(context.client.clone(), &namespace);
        let pool = pools.get_opt(name).await?;
        (pool.as_ref().map(pool::machine_of), pool)
    } else {
        (None, None)
    };
    let Some(machine) = machine else { return Ok(Observed::default()) };
    let clusters: Api<Cluster> = Api::namespaced(context.client.clone(), &namespace);
    let name = config.name_any();
    let (secret, unreadable) = match context.secrets.secret(&namespace, &name).await {
        Ok(secret) => (secret, None),
        // The host cluster is down, and Capstan's own store has no such Secret. Capstan has made none yet, so it makes
        // one there: machines must not wait for the host.
        Err(error) if is_unavailable(&error) && !has_data(config) => (None, None),
        // A host cluster may refuse it.
        Err(error) => (None, Some(format!("Secret {namespace}/{name} cannot be read: {}", cause(&error)))),
    };
    let cluster = clusters.get_opt(&machine.spec.cluster_name).await?;
    Ok(Observed { cluster, secret, unreadable, machine: Some(machine), pool })
}

/// Returns true if the source of Secrets does not answer.
fn is_unavailable(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 503)
}

/// Returns true if bootstrap data was made before.
fn has_data(config: &KubeadmConfig) -> bool {
    let status = config.status.as_ref();
    status.is_some_and(|status| {
        status.data_secret_name.is_some()
            || status.initialization.as_ref().is_some_and(|it| it.data_secret_created == Some(true))
    })
}

/// Returns the name of the first owner of a kind: Machine or MachinePool.
fn owner<'a>(config: &'a KubeadmConfig, kind: &str) -> Option<&'a str> {
    let mut owners = config.metadata.owner_references.iter().flatten();
    let is_ours = |version: &str| version.split_once('/').is_some_and(|(group, _)| group == GROUP);
    owners.find(|it| it.kind == kind && is_ours(&it.api_version)).map(|it| it.name.as_str())
}

/// Returns true if the Machine is one of the control plane.
pub(super) fn is_control_plane(machine: &Machine) -> bool {
    machine.labels().contains_key(CONTROL_PLANE_LABEL)
}

/// Returns the control plane endpoint as `host:port`. An IPv6 address is in brackets.
pub(super) fn endpoint(cluster: &Cluster) -> Option<String> {
    let endpoint = cluster.spec.control_plane_endpoint.as_ref()?;
    let host = endpoint.host.as_deref().filter(|host| !host.is_empty())?;
    let port = endpoint.port.filter(|port| *port > 0)?;
    Some(host_and_port(host, port))
}

#[cfg(test)]
mod tests {
    use apiserver_types::{ApiEndpoint, ClusterSpec};

    use super::*;

    #[test]
    fn a1_the_version_of_the_owner_reference_is_ignored_and_its_group_is_not() {
        let of = |version: &str, kind: &str| {
            let owner = serde_json::json!({"apiVersion": version, "kind": kind, "name": "o", "uid": "u"});
            let config =
                serde_json::json!({"metadata": {"name": "m", "ownerReferences": [owner]}, "spec": {}});
            let config: KubeadmConfig = serde_json::from_value(config).unwrap();
            (owner_name(&config, "Machine"), owner_name(&config, "MachinePool"))
        };
        let name = || Some("o".to_owned());
        assert_eq!(of("cluster.x-k8s.io/v1alpha3", "Machine"), (name(), None));
        assert_eq!(of("cluster.x-k8s.io/v1beta2", "MachinePool"), (None, name()));
        assert_eq!(of("other.io/v1beta2", "Machine"), (None, None));
        assert_eq!(of("cluster.x-k8s.io/v1beta2", "MachineSet"), (None, None));
    }

    fn owner_name(config: &KubeadmConfig, kind: &str) -> Option<String> {
        owner(config, kind).map(str::to_owned)
    }

    #[test]
    fn an_ipv6_endpoint_is_in_brackets_and_an_incomplete_one_is_unknown() {
        let of = |host: &str, port| {
            let given = ApiEndpoint { host: Some(host.to_owned()), port };
            endpoint(&Cluster::new(
                "c",
                ClusterSpec { control_plane_endpoint: Some(given), ..ClusterSpec::default() },
            ))
        };
        assert_eq!(of("fd00::1", Some(6443)).as_deref(), Some("[fd00::1]:6443"));
        assert_eq!(of("api.lab", Some(443)).as_deref(), Some("api.lab:443"));
        assert_eq!((of("", Some(443)), of("api.lab", None), of("api.lab", Some(0))), (None, None, None));
    }
}
