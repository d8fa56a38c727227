//! Status of an OpenStackMachine, from the observed resources and the end of the pass.

use apiserver_types::{
    Condition, ConditionStatus, Initialization, MachineResources, NodeAddress, OpenStackMachine,
    OpenStackMachineStatus, PortStatus, ResolvedMachineSpec, Time, set_condition,
};
use controllers_infrastructure::{FloatingIp, Server, ServerAddress};
use controllers_runtime::{AFTER_RESTORE_REASON, ReconcileError};

use super::decide::{Desired, Membership, Observed, Waiting};
use super::failed_builds::{self, REPLACE};

/// End of a pass.
pub(super) enum Ending<'a> {
    /// Nothing is left to do.
    Complete,
    /// The pass waits.
    Waiting(&'a Waiting),
    /// An error stopped the pass.
    Stopped(&'a ReconcileError),
}

/// Writes the observed resources into the status.
pub(super) fn report(
    object: &mut OpenStackMachine,
    desired: &Desired,
    resolved: Option<&ResolvedMachineSpec>,
    observed: &Observed,
    ending: &Ending<'_>,
    now: &Time,
) {
    let generation = object.metadata.generation;
    let status = object.status.get_or_insert_default();
    if let Some(resolved) = resolved {
        status.resolved = Some(resolved.clone());
    }
    if !observed.ports.is_empty() {
        let ports = desired.ports.iter().filter_map(|spec| observed.ports.get(&spec.name));
        let ports = ports.map(|port| PortStatus { id: port.id.clone() }).collect();
        status.resources = Some(MachineResources { ports: Some(ports) });
    }
    report_server(status, desired, observed, ending);
    if matches!(ending, Ending::Complete) && observed.provider_id.is_some() {
        status.initialization = Some(Initialization { provisioned: Some(true) });
    }
    let instance = instance(observed, ending, now);
    let ready = ready(&instance, ending, now);
    let ingress = match desired.balancer {
        Some(_) => membership(&observed.membership, now),
        None => desired.takes_endpoint.then(|| ingress(observed, now)).flatten(),
    };
    let conditions = status.conditions.get_or_insert_default();
    for condition in [Some(instance), ingress, Some(ready)].into_iter().flatten() {
        set_condition(conditions, condition.at_generation(generation));
    }
}

/// Writes one more condition.
pub(super) fn add(object: &mut OpenStackMachine, condition: Option<Condition>) {
    let generation = object.metadata.generation;
    let conditions = object.status.get_or_insert_default().conditions.get_or_insert_default();
    if let Some(condition) = condition {
        set_condition(conditions, condition.at_generation(generation));
    }
}

/// Writes one more condition, without which the object is not ready.
pub(super) fn require(object: &mut OpenStackMachine, condition: Option<Condition>) {
    if let Some(failed) = condition.as_ref().filter(|condition| !condition.holds()) {
        add(object, Some(Condition { kind: "Ready".to_owned(), ..failed.clone() }));
    }
    add(object, condition);
}

/// Writes the server's id, state and addresses, or that there is none.
fn report_server(
    status: &mut OpenStackMachineStatus,
    desired: &Desired,
    observed: &Observed,
    ending: &Ending<'_>,
) {
    let Some(server) = &observed.server else {
        let gone = observed.provisioned && !observed.in_operation && !matches!(ending, Ending::Stopped(_));
        status.instance_state = gone.then(|| "DELETED".to_owned()).or_else(|| status.instance_state.take());
        if !observed.provisioned && observed.provider_id.is_none() {
            // A server that was given up must not be taken for the next one.
            status.instance_id = None;
            status.instance_state = None;
        }
        return;
    };
    status.instance_id = Some(server.id.clone());
    status.instance_state = Some(server.status.clone());
    let addresses = addresses(&with_endpoint(server, observed, desired), &desired.network_name);
    if !addresses.is_empty() {
        status.addresses = Some(addresses);
    }
}

/// Condition `APIServerIngressReady`: the floating IP of the API server is associated. Unset without a floating IP.
fn ingress(observed: &Observed, now: &Time) -> Option<Condition> {
    let ip = observed.endpoint_ip.as_ref()?;
    let (holds, reason, message) = match ip.port_id {
        Some(_) => (ConditionStatus::True, "Ready", String::new()),
        None => {
            let message = format!("floating IP {} is not associated yet", ip.address);
            (ConditionStatus::False, "NotAssociated", message)
        }
    };
    Some(Condition::new("APIServerIngressReady", holds, reason, &message, now.clone()))
}

/// Condition `APIServerIngressReady` with a load balancer: the machine is a member of every pool.
fn membership(membership: &Membership, now: &Time) -> Option<Condition> {
    let no = ConditionStatus::False;
    let (holds, reason, message) = match membership {
        Membership::Unknown => return None,
        Membership::Complete | Membership::Leaving => (ConditionStatus::True, "Ready", String::new()),
        Membership::Removed => {
            let message =
                "the load balancer sends the machine no connections, because its Machine is being deleted";
            (no, "LoadBalancerMemberRemoved", message.to_owned())
        }
        Membership::Pending => {
            let message = "the load balancer does not have the machine in every pool yet";
            (no, "LoadBalancerMemberPending", message.to_owned())
        }
        Membership::Broken => {
            (no, "LoadBalancerMemberError", "a member of the load balancer is in ERROR".to_owned())
        }
        Membership::Taken(member) => {
            let message =
                format!("member {member} of another owner has the address of the machine. Remove it");
            (no, "LoadBalancerMemberError", message)
        }
    };
    Some(Condition::new("APIServerIngressReady", holds, reason, &message, now.clone()))
}

/// Condition `Ready`: that of the instance, unless the pass ended with an error about something else.
fn ready(instance: &Condition, ending: &Ending<'_>, now: &Time) -> Condition {
    match ending {
        Ending::Stopped(error) if instance.holds() => {
            let message = error.to_string();
            Condition::new("Ready", ConditionStatus::False, error.reason(), &message, now.clone())
        }
        Ending::Waiting(Waiting::Member) if instance.holds() => {
            let (no, reason) = (ConditionStatus::False, "LoadBalancerMemberPending");
            let message = "the load balancer does not have the machine in every pool yet";
            Condition::new("Ready", no, reason, message, now.clone())
        }
        _ => Condition { kind: "Ready".to_owned(), ..instance.clone() },
    }
}

/// Writes the error that stopped the pass; the known state of the server stays.
pub(super) fn report_stopped(object: &mut OpenStackMachine, error: &ReconcileError, now: &Time) {
    let generation = object.metadata.generation;
    let status = object.status.get_or_insert_default();
    let provisioned = status.initialization.as_ref().and_then(|it| it.provisioned) == Some(true);
    // A cloud that does not respond says nothing about a server that was up.
    let unknown = provisioned && matches!(error, ReconcileError::Cloud(_));
    let holds = if unknown { ConditionStatus::Unknown } else { ConditionStatus::False };
    let conditions = status.conditions.get_or_insert_default();
    for kind in ["InstanceReady", "Ready"] {
        let (status, reason) = (holds, error.reason());
        let condition = Condition::new(kind, status, reason, &error.to_string(), now.clone());
        set_condition(conditions, condition.at_generation(generation));
    }
}

/// Condition `InstanceReady`.
fn instance(observed: &Observed, ending: &Ending<'_>, now: &Time) -> Condition {
    let (holds, reason, message) = instance_state(observed, ending);
    Condition::new("InstanceReady", holds, &reason, &message, now.clone())
}

fn instance_state(observed: &Observed, ending: &Ending<'_>) -> (ConditionStatus, String, String) {
    let no = ConditionStatus::False;
    match (ending, &observed.server) {
        // The error is not about the server: a port's change, or the cluster's address.
        (Ending::Stopped(_), Some(server)) if observed.provider_id.is_some() && server.status == "ACTIVE" => {
            state(server)
        }
        (Ending::Stopped(error), _) => (no, error.reason().to_owned(), error.to_string()),
        (Ending::Waiting(Waiting::Volume { name, status }), _) => {
            (no, "CreatingVolume".to_owned(), format!("volume {name} is {status}"))
        }
        (Ending::Waiting(Waiting::Server { status }), _) => {
            let message = format!("the server is in {status}{}", observed.failed_builds.history());
            (no, "Building".to_owned(), message)
        }
        (Ending::Waiting(Waiting::Member), Some(server)) => state(server),
        (Ending::Waiting(Waiting::Restored(why)), Some(server)) => {
            (no, AFTER_RESTORE_REASON.to_owned(), failed_builds::kept(server, why))
        }
        // It never worked, and is given up.
        (Ending::Waiting(Waiting::Unavailable), Some(server))
            if server.status == "ERROR" && observed.provider_id.is_none() =>
        {
            let fault = server.fault.as_deref().unwrap_or("Nova gives no reason");
            (no, observed.failed_builds.reason(fault), observed.failed_builds.describe(fault))
        }
        (_, None) if observed.in_operation => {
            (no, "InOperation".to_owned(), "a MachineOperation creates another server".to_owned())
        }
        (_, None) => {
            let id = observed.known_server.as_deref().unwrap_or("that was created for it");
            let message = format!("Nova has no server {id} any more. {REPLACE}");
            (no, "InstanceNotFound".to_owned(), message)
        }
        (_, Some(server)) => state(server),
    }
}

fn state(server: &Server) -> (ConditionStatus, String, String) {
    match server.status.as_str() {
        "ACTIVE" => (ConditionStatus::True, "Ready".to_owned(), String::new()),
        // Nova knows the server but cannot reach the part of the cloud that it is in.
        "UNKNOWN" | "" => {
            let message = format!("Nova cannot say how server {} is at this time", server.id);
            (ConditionStatus::Unknown, "InstanceStateUnknown".to_owned(), message)
        }
        "DELETED" | "SOFT_DELETED" => {
            let message = format!("Nova has deleted server {}. {REPLACE}", server.id);
            (ConditionStatus::False, "InstanceDeleted".to_owned(), message)
        }
        "ERROR" => {
            let fault = server.fault.as_deref().unwrap_or("Nova gives no reason");
            (
                ConditionStatus::False,
                "InstanceStateError".to_owned(),
                format!("the server is in ERROR: {fault}"),
            )
        }
        other => {
            let message = format!("the server is in {other}");
            (ConditionStatus::False, "InstanceNotReady".to_owned(), message)
        }
    }
}

/// Returns the server with the floating IP of the API if one of its ports has it. Nova learns that late, and the control
/// plane waits for it before it lets the machine go that had it before.
fn with_endpoint(server: &Server, observed: &Observed, desired: &Desired) -> Server {
    let mut server = server.clone();
    let is_ours = |ip: &&FloatingIp| ip.port_id.as_ref().is_some_and(|id| observed.has_port(id));
    if let Some(ip) = observed.endpoint_ip.as_ref().filter(is_ours)
        && !server.addresses.iter().any(|known| known.address == ip.address)
    {
        let network = desired.network_name.clone();
        server.addresses.push(ServerAddress { network, address: ip.address.clone(), floating: true });
    }
    server
}

/// Returns the addresses of a server. Those on the cluster's network come first, because kubelets use the first one; then
/// networks by name. In a network, fixed addresses precede floating ones, and IPv4 precedes IPv6.
fn addresses(server: &Server, network: &str) -> Vec<NodeAddress> {
    let address =
        |kind: &str, address: &str| NodeAddress { address: address.to_owned(), kind: kind.to_owned() };
    let mut known: Vec<&ServerAddress> = server.addresses.iter().collect();
    known.sort_by_key(|it| (it.network != network, &it.network, it.floating, it.address.contains(':')));
    let mut addresses: Vec<NodeAddress> = known
        .into_iter()
        .map(|it| address(if it.floating { "ExternalIP" } else { "InternalIP" }, &it.address))
        .collect();
    if !addresses.is_empty() {
        addresses.push(address("InternalDNS", &server.name));
    }
    addresses
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r10_6_the_address_on_the_network_of_the_cluster_comes_first() {
        let address = |network: &str, address: &str, floating: bool| ServerAddress {
            network: network.to_owned(),
            address: address.to_owned(),
            floating,
        };
        let server = Server {
            name: "m".to_owned(),
            addresses: vec![
                address("a-storage", "10.1.0.1", false),
                address("cluster", "203.0.113.5", true),
                address("cluster", "2001:db8::1", false),
                address("cluster", "10.0.0.1", false),
            ],
            ..Server::default()
        };
        let found: Vec<(String, String)> =
            addresses(&server, "cluster").into_iter().map(|it| (it.kind, it.address)).collect();
        let expected = [
            ("InternalIP", "10.0.0.1"),
            ("InternalIP", "2001:db8::1"),
            ("ExternalIP", "203.0.113.5"),
            ("InternalIP", "10.1.0.1"),
            ("InternalDNS", "m"),
        ];
        assert_eq!(found, expected.map(|(kind, address)| (kind.to_owned(), address.to_owned())));
    }

    /// The server of a bastion was deleted in the cloud, and the remedy named a Machine that does not exist.
    #[test]
    fn the_remedy_for_a_server_that_is_gone_names_both_kinds_of_objects() {
        let deleted = Server { id: "s".to_owned(), status: "DELETED".to_owned(), ..Server::default() };
        for (server, reason) in [(None, "InstanceNotFound"), (Some(deleted), "InstanceDeleted")] {
            let observed = Observed { server, ..Observed::default() };
            let (holds, found, message) = instance_state(&observed, &Ending::Complete);
            assert_eq!((holds, found.as_str()), (ConditionStatus::False, reason));
            let expected = "Delete the Machine to get another server, or the OpenStackServer";
            assert!(message.contains(expected), "{message}");
        }
    }

    #[test]
    fn hv_35_a_server_that_stays_after_a_restore_is_reported_with_the_words_of_nova() {
        let fault = Some("the host failed.".to_owned());
        let server = Server { id: "s".to_owned(), status: "ERROR".to_owned(), fault, ..Server::default() };
        let observed = Observed { server: Some(server), ..Observed::default() };
        let waiting = Waiting::Restored("the objects were restored".to_owned());
        let (holds, reason, message) = instance_state(&observed, &Ending::Waiting(&waiting));
        assert_eq!((holds, reason.as_str()), (ConditionStatus::False, AFTER_RESTORE_REASON));
        for part in ["server s ", "the objects were restored", "the host failed. If", "restore --done"] {
            assert!(message.contains(part), "{message}");
        }
    }

    #[test]
    fn r2_9_a_server_in_an_unreachable_cell_is_unknown_and_not_lost() {
        let server = Server { id: "s".to_owned(), status: "UNKNOWN".to_owned(), ..Server::default() };
        let (holds, reason, _) = state(&server);
        assert_eq!((holds, reason.as_str()), (ConditionStatus::Unknown, "InstanceStateUnknown"));
    }
}
