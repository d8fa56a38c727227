//! Control plane machines of a cluster, which are the members of the pools.

use apiserver_types::{Cluster, ConditionStatus, Machine, OpenStackMachine};
use controllers_runtime::{ControllerContext, Journal, ReconcileError};
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};

use crate::{names, pre_terminate, templates};

/// Machine that serves the API, or will.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(in super::super) struct Backend {
    /// Name of the OpenStackMachine.
    pub machine: String,
    /// Tags by which its members are known. New members get the first one.
    pub tags: [String; 2],
    /// Ids of its ports.
    pub ports: Vec<String>,
    /// Its address on the cluster's network and the subnet, as soon as they are known.
    pub address: Option<(String, Option<String>)>,
}

impl Backend {
    /// Returns the tag of the machine's new members.
    pub(in super::super) fn tag(&self) -> String {
        let [tag, _] = &self.tags;
        tag.clone()
    }
}

/// Returns the number of machines that the control plane of a Cluster is to have; 0 if the Cluster does not name one.
pub(in super::super) async fn replicas(
    context: &ControllerContext,
    cluster: &Cluster,
) -> Result<usize, ReconcileError> {
    let Some(reference) = &cluster.spec.control_plane_ref else { return Ok(0) };
    let namespace = cluster.namespace().unwrap_or_default();
    if !templates::is_served(context, reference) {
        return Ok(0);
    }
    let found = templates::read(context, &namespace, reference).await?;
    let replicas = found.and_then(|it| it.data.pointer("/spec/replicas")?.as_u64());
    Ok(replicas.and_then(|it| usize::try_from(it).ok()).unwrap_or_default())
}

/// Lists the control plane machines of a cluster that are not being deleted.
pub(in super::super) async fn backends(
    client: &Client,
    namespace: &str,
    cluster: &str,
) -> Result<Vec<Backend>, kube::Error> {
    let labels = format!("{}={cluster},{}", crate::CLUSTER_NAME_LABEL, names::CONTROL_PLANE_LABEL);
    let params = ListParams::default().labels(&labels);
    let machines = Api::<Machine>::namespaced(client.clone(), namespace).list(&params).await?;
    let api: Api<OpenStackMachine> = Api::namespaced(client.clone(), namespace);
    let mut backends = Vec::new();
    for machine in serving(&machines.items) {
        let reference = &machine.spec.infrastructure_ref;
        if reference.kind != "OpenStackMachine" {
            continue;
        }
        let Some(found) = api.get_opt(&reference.name).await? else { continue };
        if found.metadata.deletion_timestamp.is_none() {
            backends.push(backend(&found));
        }
    }
    backends.sort_by(|a, b| a.machine.cmp(&b.machine));
    Ok(backends)
}

/// Returns the Machines that are to receive connections. The API server of a Machine ends with its member of etcd, which
/// leaves while the Machine waits for its pre-terminate hook. It then receives none, if another Machine serves.
fn serving(machines: &[Machine]) -> Vec<&Machine> {
    let serves = |machine: &Machine| {
        let has_node = machine.status.as_ref().is_some_and(|status| status.node_ref.is_some());
        let fails =
            machine.condition("APIServerPodHealthy").is_some_and(|it| it.status == ConditionStatus::False);
        has_node && !fails && machine.metadata.deletion_timestamp.is_none()
    };
    let is_replaced = machines.iter().any(serves);
    machines.iter().filter(|machine| !(is_replaced && pre_terminate::waits(machine))).collect()
}

fn backend(machine: &OpenStackMachine) -> Backend {
    let journal = Journal::of(machine);
    let ports = journal.of_kind(names::PORT).filter_map(|entry| entry.id.clone());
    Backend {
        machine: machine.name_any(),
        tags: names::member_tags(machine),
        ports: ports.collect(),
        address: None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn machine(name: &str, reason: Option<&str>) -> Machine {
        let conditions: Vec<_> = reason
            .into_iter()
            .map(|reason| {
                json!({"type": "Deleting", "status": "True", "reason": reason, "message": "",
                    "lastTransitionTime": "2026-11-26T00:00:00Z"})
            })
            .collect();
        let mut machine = Machine::new(name, apiserver_types::MachineSpec::default());
        let status = json!({"nodeRef": {"name": name}, "conditions": conditions});
        machine.status = serde_json::from_value(status).unwrap();
        if reason.is_some() {
            let now = jiff::Timestamp::UNIX_EPOCH;
            let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(now);
            machine.metadata.deletion_timestamp = Some(now);
        }
        machine
    }

    /// The load balancer sent connections to an API server whose member of etcd had left.
    #[test]
    fn a_machine_that_gives_up_its_member_of_etcd_receives_no_connections_if_another_one_serves() {
        let hook = Some("WaitingForPreTerminateHook");
        let drains = Some("DrainingNode");
        let table = [
            (vec![("a", None), ("b", None)], vec!["a", "b"]),
            (vec![("a", drains), ("b", None)], vec!["a", "b"]),
            (vec![("a", hook), ("b", None)], vec!["b"]),
            (vec![("a", hook), ("b", drains)], vec!["a", "b"]),
            (vec![("a", hook)], vec!["a"]),
        ];
        for (machines, expected) in table {
            let machines: Vec<Machine> =
                machines.into_iter().map(|(name, reason)| machine(name, reason)).collect();
            let found: Vec<String> = serving(&machines).into_iter().map(ResourceExt::name_any).collect();
            assert_eq!(found, expected);
        }
    }
}
