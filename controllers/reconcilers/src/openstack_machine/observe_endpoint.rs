//! Observation of the floating IP of the cluster's API, and of the machine that has it.

use apiserver_types::{Machine, OpenStackCluster, OpenStackMachine};
use controllers_infrastructure::{FloatingIp, Port, PortQuery, SubnetQuery};
use controllers_runtime::{OwnershipTag, ReconcileError};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

use super::decide::{Desired, Holder, Observed};
use super::observe::{Observer, SETTLED_LIST_AGE};
use crate::{endpoint_hosts, queries};

/// Shortest time between two moves of the floating IP, so that machines in bad health do not pass it around.
const BETWEEN_MOVES: SignedDuration = SignedDuration::from_mins(2);

impl Observer<'_> {
    /// Finds the floating IP of the cluster's API, and the ports if one of them may take it. `leaving` are the control
    /// plane Machines that are being deleted.
    pub(super) async fn endpoint(
        &self,
        observed: &mut Observed,
        desired: &Desired,
        cluster: &OpenStackCluster,
        leaving: &[Machine],
    ) -> Result<(), ReconcileError> {
        let endpoint = cluster.spec.control_plane_endpoint.as_ref();
        let host = endpoint.and_then(|it| it.host.as_deref());
        let Some(host) = host else { return Ok(()) };
        // The cluster reports a name that cannot be resolved.
        let addresses = endpoint_hosts::addresses(host).await.unwrap_or_default();
        let Some(ip) = endpoint_hosts::floating_ip_at(self.cloud.as_ref(), &addresses).await? else {
            return Ok(());
        };
        let free = ip.port_id.is_none();
        if desired.is_node && !free {
            observed.endpoint_holder = self.holder(&ip, observed, leaving).await?;
        }
        observed.endpoint_ip = Some(ip);
        // The server that had it may be deleted or dead; then this one takes it.
        if free || observed.endpoint_holder != Holder::Settled {
            if observed.ports.is_empty() {
                self.parts(observed, desired).await?;
            }
            observed.primary_subnet = self.primary_subnet(desired, cluster).await?;
        }
        Ok(())
    }

    /// Returns the id of the cluster's primary subnet, if it names one that exists.
    async fn primary_subnet(
        &self,
        desired: &Desired,
        cluster: &OpenStackCluster,
    ) -> Result<Option<String>, ReconcileError> {
        let Some(param) = &cluster.spec.primary_subnet else { return Ok(None) };
        let query = SubnetQuery { network_id: desired.network.clone(), ..queries::subnet(param) };
        Ok(self.cloud.subnets(&query).await?.into_iter().next().map(|subnet| subnet.id))
    }

    /// Returns the state of the machine that has the floating IP.
    async fn holder(
        &self,
        ip: &FloatingIp,
        observed: &Observed,
        leaving: &[Machine],
    ) -> Result<Holder, ReconcileError> {
        let is_fresh = is_fresh(ip, Timestamp::now());
        // A machine that leaves does not get the floating IP back, so it is not passed around.
        let may_move = !is_fresh || !leaving.is_empty();
        let Some(id) = ip.port_id.as_ref().filter(|id| may_move && !observed.has_port(id)) else {
            return Ok(Holder::Settled);
        };
        let query = PortQuery { id: Some(id.clone()), ..PortQuery::default() };
        let port = self.cloud.ports(&query).await?.into_iter().next();
        // A port that no machine of ours has is the user's, who may have a virtual address on it.
        let Some(port) = port.filter(is_of_a_machine) else { return Ok(Holder::Settled) };
        if let Some(machine) = leaving.iter().find(|machine| is_server_of(machine, &port.device_id)) {
            return Ok(Holder::Leaving(format!("Machine {} is being deleted", machine.name_any())));
        }
        if is_fresh {
            return Ok(Holder::Settled);
        }
        if port.device_id.is_empty() {
            return Ok(Holder::Dead(format!("port {} has no server any more", port.name)));
        }
        Ok(match self.by_id(&port.device_id, SETTLED_LIST_AGE).await? {
            None => Holder::Dead(format!("server {} does not exist any more", port.device_id)),
            Some(server) if server.task_state.as_deref() == Some("deleting") => {
                Holder::Dead(format!("server {} is being deleted", server.name))
            }
            Some(server) if is_dead(&server.status) => {
                Holder::Dead(format!("server {} is in {}", server.name, server.status))
            }
            Some(_) => Holder::Settled,
        })
    }
}

/// Returns true if a Machine has the server of this id.
fn is_server_of(machine: &Machine, server: &str) -> bool {
    let provider_id = machine.spec.provider_id.as_deref();
    !server.is_empty() && provider_id.and_then(|id| id.rsplit('/').next()) == Some(server)
}

/// Returns true if a server in this state serves no client. During a reboot or a rebuild, it comes back soon.
fn is_dead(status: &str) -> bool {
    matches!(status, "ERROR" | "SHUTOFF" | "DELETED" | "SOFT_DELETED")
}

/// Returns true if the port was created for an OpenStackMachine.
fn is_of_a_machine(port: &Port) -> bool {
    let kind = <OpenStackMachine as kube::Resource>::kind(&());
    port.tags.iter().any(|tag| tag.starts_with(OwnershipTag::PREFIX))
        || port.description.starts_with(&format!("capstan: {kind} "))
}

/// Returns true if the floating IP was changed a moment ago. One whose time cannot be read was not.
fn is_fresh(ip: &FloatingIp, now: Timestamp) -> bool {
    ip.updated_at.parse::<Timestamp>().is_ok_and(|changed| now.duration_since(changed) < BETWEEN_MOVES)
}

#[cfg(test)]
mod tests {
    use apiserver_types::MachineSpec;

    use super::*;

    #[test]
    fn r7_2_a_floating_ip_moves_at_most_once_in_two_minutes() {
        let now: Timestamp = "2026-01-01T00:10:00Z".parse().unwrap();
        let ip = |updated_at: &str| FloatingIp { updated_at: updated_at.to_owned(), ..FloatingIp::default() };
        assert!(is_fresh(&ip("2026-01-01T00:08:01Z"), now));
        assert!(!is_fresh(&ip("2026-01-01T00:08:00Z"), now));
        assert!(!is_fresh(&ip(""), now));
    }

    #[test]
    fn a_machine_has_the_server_that_its_provider_id_names() {
        let mut machine = Machine::new("m", MachineSpec::default());
        assert!(!is_server_of(&machine, "s") && !is_server_of(&machine, ""));
        machine.spec.provider_id = Some("openstack://region/s".to_owned());
        assert!(is_server_of(&machine, "s") && !is_server_of(&machine, "t"));
        machine.spec.provider_id = Some(String::new());
        assert!(!is_server_of(&machine, ""), "a port without a server is that of no Machine");
    }

    #[test]
    fn the_port_of_a_user_is_no_dead_machine() {
        let port = |tag: &str, description: &str| Port {
            tags: vec![tag.to_owned()],
            description: description.to_owned(),
            ..Port::default()
        };
        assert!(is_of_a_machine(&port("capstan-1", "")));
        assert!(is_of_a_machine(&port("", "capstan: OpenStackMachine n/m 1")));
        assert!(!is_of_a_machine(&port("keepalived", "the virtual address of our API")));
    }
}
