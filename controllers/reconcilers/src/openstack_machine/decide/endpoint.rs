//! Decision on the floating IP of the cluster's API.

use apiserver_types::ResolvedPortSpec;
use controllers_infrastructure::{FixedIp, Port, Server};

use super::{Desired, Holder, Observed, Step};

/// Returns the step that gives the floating IP of the API to this machine, if it may have it: it is free, the server of
/// the machine that has it is dead, or that machine is about to be deleted.
pub(super) fn step(desired: &Desired, observed: &Observed, server: &Server) -> Step {
    // Clients are sent to a server that works only.
    let serves = desired.takes_endpoint && !desired.is_leaving && server.status == "ACTIVE";
    let Some(ip) = observed.endpoint_ip.as_ref().filter(|_| serves) else { return Step::Nothing };
    let from = match (&ip.port_id, &observed.endpoint_holder) {
        (None, _) => None,
        (Some(_), Holder::Dead(why)) if desired.is_node => Some(why.clone()),
        // The holder still serves, so only a machine that serves as well is better.
        (Some(_), Holder::Leaving(why)) if desired.is_node && desired.is_api_healthy => Some(why.clone()),
        (Some(_), _) => return Step::Nothing,
    };
    let Some(port) = management_port(desired, observed) else { return Step::Nothing };
    let primary = observed.primary_subnet.as_ref();
    let address = port.fixed_ips.iter().find(|ip| primary.is_some() && ip.subnet_id.as_ref() == primary);
    Step::TakeEndpoint {
        floating_ip: ip.clone(),
        port: port.id.clone(),
        address: address.and_then(|ip| ip.ip_address.clone()),
        from,
    }
}

/// Returns the port through which the API server is reached: the one on the cluster's network, and with an address in
/// its primary subnet if it names one. A machine without such a port has only its first one.
fn management_port<'a>(desired: &Desired, observed: &'a Observed) -> Option<&'a Port> {
    let on_network = |spec: &&ResolvedPortSpec| Some(&spec.network_id) == desired.network.as_ref();
    let primary = observed.primary_subnet.as_ref();
    let in_primary = |ip: &FixedIp| ip.subnet_id.as_ref() == primary;
    let candidates =
        || desired.ports.iter().filter(on_network).filter_map(|spec| observed.ports.get(&spec.name));
    let first = || observed.ports.get(&desired.ports.first()?.name);
    candidates()
        .find(|port| primary.is_some() && port.fixed_ips.iter().any(in_primary))
        .or_else(|| candidates().next())
        .or_else(first)
}
