//! Machines at rest: complete machines whose Node is healthy. They need few calls, since the Node says sooner than Nova
//! that its server is lost.

use std::time::Duration;

use apiserver_types::{Condition, Machine, OpenStackCluster, OpenStackMachine};
use controllers_infrastructure::Server;
use controllers_runtime::OwnershipTag;
use jiff::{SignedDuration, Timestamp};

/// Interval in which a machine at rest is compared with the shared list of servers, which is up to ten minutes old.
pub(super) const RESYNC: Duration = Duration::from_mins(5);

/// Time after which a server that is up has settled: the passes before that learn the addresses that it got last.
const SETTLING: SignedDuration = SignedDuration::from_secs(45);

/// Condition of a Machine that is false or unknown if its Node does not respond.
const NODE_HEALTHY: &str = "NodeHealthy";

/// Returns true if the machine has been complete for a while, this generation of its spec is applied, and its Node is
/// healthy.
pub(super) fn is_at_rest(object: &OpenStackMachine, machine: &Machine, now: Timestamp) -> bool {
    let generation = object.metadata.generation;
    let ready = object.condition("InstanceReady").filter(|it| it.holds());
    let applied = ready.filter(|it| it.observed_generation == generation);
    let since = applied.and_then(|it| it.last_transition_time.0.parse::<Timestamp>().ok());
    since.is_some_and(|since| now.duration_since(since) >= SETTLING)
        && machine.condition(NODE_HEALTHY).is_some_and(Condition::holds)
}

/// Returns true if Nova knows that the server has the address of the cluster's API. A healthy Node was read through
/// that address.
pub(super) fn has_endpoint(server: &Server, cluster: &OpenStackCluster) -> bool {
    let endpoint = cluster.spec.control_plane_endpoint.as_ref();
    let host = endpoint.and_then(|endpoint| endpoint.host.as_ref());
    host.is_some_and(|host| server.addresses.iter().any(|known| known.address == *host))
}

/// Returns true if a server with the address of the cluster's API works, as far as Nova knows. If it does not, the API is
/// not reached, and no Machine of the cluster is at rest.
pub(super) fn serves_endpoint(server: &Server, cluster: &OpenStackCluster) -> bool {
    server.status == "ACTIVE"
        && server.task_state.as_deref() != Some("deleting")
        && server.tags.iter().any(|tag| tag.starts_with(OwnershipTag::PREFIX))
        && has_endpoint(server, cluster)
}

/// Returns true if the Node of a Machine was there, and does not respond any more.
pub(super) fn has_lost_node(machine: &Machine) -> bool {
    let has_node = machine.status.as_ref().is_some_and(|status| status.node_ref.is_some());
    has_node && !machine.condition(NODE_HEALTHY).is_some_and(Condition::holds)
}

#[cfg(test)]
mod tests {
    use apiserver_types::{ConditionStatus, MachineSpec, OpenStackMachineSpec};
    use controllers_runtime::now;

    use super::*;

    fn condition(kind: &str, status: ConditionStatus) -> Option<Vec<Condition>> {
        Some(vec![Condition::new(kind, status, "Reason", "", now())])
    }

    #[test]
    fn a_machine_is_at_rest_while_its_server_and_its_node_are_ready() {
        use ConditionStatus::{False, True, Unknown};
        for (instance, node, expected) in
            [(True, True, true), (False, True, false), (True, False, false), (True, Unknown, false)]
        {
            let mut object = OpenStackMachine::new("m", OpenStackMachineSpec::default());
            object.status.get_or_insert_default().conditions = condition("InstanceReady", instance);
            let mut machine = Machine::new("m", MachineSpec::default());
            machine.status.get_or_insert_default().conditions = condition(NODE_HEALTHY, node);
            let later = Timestamp::now() + SETTLING;
            assert_eq!(is_at_rest(&object, &machine, later + SETTLING), expected);
            assert!(!is_at_rest(&object, &machine, Timestamp::now()), "it has just come up");
            object.metadata.generation = Some(2);
            assert!(!is_at_rest(&object, &machine, later + SETTLING), "a change is not applied yet");
        }
    }
}
