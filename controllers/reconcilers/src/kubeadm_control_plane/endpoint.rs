//! Floating IP of the endpoint: another control plane Machine takes it over before its holder leaves etcd.
//!
//! The API server of a Machine stops with its member of etcd. If clients still went there, the control plane could not
//! see its cluster any more, and would not finish what it has begun.

use std::net::IpAddr;

use apiserver_types::{Cluster, Machine, MachineAddressType};
use jiff::{SignedDuration, Timestamp};

use super::replica::Replica;
use crate::endpoint_hosts;

/// Limit of the wait from the deletion of the Machine. A move takes seconds. After that time, the floating IP is one that
/// its controller may not move, for example because it is in another project.
const LIMIT: SignedDuration = SignedDuration::from_mins(5);

/// Returns the addresses of the endpoint, while a Machine is being deleted.
pub(super) async fn addresses_of_leaving(cluster: &Cluster, replicas: &[Replica]) -> Vec<IpAddr> {
    let endpoint = cluster.spec.control_plane_endpoint.as_ref();
    let host = endpoint.and_then(|endpoint| endpoint.host.as_deref());
    match host.filter(|_| replicas.iter().any(Replica::is_deleting)) {
        // The Cluster reports a name that cannot be resolved.
        Some(host) => endpoint_hosts::addresses(host).await.unwrap_or_default(),
        None => Vec::new(),
    }
}

/// Returns true if a Machine has one of these addresses as its floating IP: the cluster has no load balancer.
pub(super) fn is_floating_ip(replicas: &[Replica], addresses: &[IpAddr]) -> bool {
    replicas.iter().any(|replica| has_floating_ip(&replica.machine, addresses))
}

/// Returns the Machine to be deleted that has one of these addresses as its floating IP, unless a Machine that stays has it already.
pub(super) fn holder(replicas: &[Replica], addresses: &[IpAddr], now: Timestamp) -> Option<String> {
    let holders = || replicas.iter().filter(|replica| has_floating_ip(&replica.machine, addresses));
    if holders().any(|replica| !replica.is_deleting()) {
        return None;
    }
    let is_recent = |replica: &&Replica| {
        let deleted = replica.machine.metadata.deletion_timestamp.as_ref();
        deleted.is_some_and(|deleted| now.duration_since(deleted.0) < LIMIT)
    };
    holders().find(is_recent).map(Replica::name)
}

/// Returns true if the Machine has one of these addresses as a floating IP. Only OpenStackMachines are known to move it.
fn has_floating_ip(machine: &Machine, addresses: &[IpAddr]) -> bool {
    let status = machine.status.as_ref();
    let known = status.and_then(|status| status.addresses.as_deref()).unwrap_or_default();
    machine.spec.infrastructure_ref.kind == "OpenStackMachine"
        && known
            .iter()
            .filter(|it| it.kind == MachineAddressType::ExternalIP)
            .filter_map(|it| it.address.parse().ok())
            .any(|it| addresses.contains(&it))
}

#[cfg(test)]
mod tests {
    use apiserver_types::MachineAddress;

    use super::super::replica::examples::{going, healthy};
    use super::*;

    fn with(mut replica: Replica, kind: MachineAddressType, address: &str) -> Replica {
        replica.machine.spec.infrastructure_ref.kind = "OpenStackMachine".to_owned();
        let address = MachineAddress { kind, address: address.to_owned() };
        replica.machine.status.get_or_insert_default().addresses = Some(vec![address]);
        replica
    }

    #[test]
    fn a_machine_to_be_deleted_holds_the_endpoint_until_another_has_its_floating_ip() {
        let external = |replica: Replica| with(replica, MachineAddressType::ExternalIP, "203.0.113.5");
        let leaving = || going(healthy("1", 1));
        let stays = || healthy("2", 2);
        let mut foreign = external(leaving());
        foreign.machine.spec.infrastructure_ref.kind = "Metal3Machine".to_owned();
        let table = [
            ("it has the floating IP", vec![external(leaving()), stays()], Some("1")),
            ("it is not being deleted", vec![external(healthy("1", 1)), stays()], None),
            ("another has it", vec![external(leaving()), external(stays())], None),
            (
                "another floating IP",
                vec![with(leaving(), MachineAddressType::ExternalIP, "203.0.113.6"), stays()],
                None,
            ),
            (
                "a fixed address",
                vec![with(leaving(), MachineAddressType::InternalIP, "203.0.113.5"), stays()],
                None,
            ),
            ("another provider", vec![foreign, stays()], None),
            ("a load balancer has it", vec![leaving(), stays()], None),
        ];
        let endpoint: IpAddr = "203.0.113.5".parse().unwrap();
        for (case, replicas, expected) in table {
            let at = |time| holder(&replicas, &[endpoint], time);
            assert_eq!(at(Timestamp::UNIX_EPOCH).as_deref(), expected, "{case}");
            assert_eq!(at(Timestamp::UNIX_EPOCH + LIMIT), None, "{case}, for too long");
        }
    }
}
