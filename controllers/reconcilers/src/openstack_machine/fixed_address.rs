//! Fixed address of the API, which the nodes of a control plane share without a load balancer.

use apiserver_types::{Machine, OpenStackCluster, ResolvedPortSpec};

use super::decide::Desired;
use super::desired;
use crate::cidrs;

/// Reason of the warning.
pub(super) const NOT_ALLOWED: &str = "FixedIPNotAllowed";

/// Returns the warning for a new control plane machine whose ports Neutron does not let use the fixed address of the API.
/// Pure.
pub(super) fn warning(cluster: &OpenStackCluster, machine: &Machine, desired: &Desired) -> Option<String> {
    if !desired::is_control_plane(machine) {
        return None;
    }
    let address = shared_address(cluster)?;
    if desired.ports.iter().any(|port| may_use(port, &address)) {
        return None;
    }
    Some(format!(
        "no port of the machine may use the address {address} of spec.apiServer.fixedIP, since port security drops it. Add it \
         to allowedAddressPairs of a port in the template of the control plane"
    ))
}

/// Returns the address that the nodes share; `None` if a floating IP or a load balancer leads to them.
fn shared_address(cluster: &OpenStackCluster) -> Option<String> {
    let spec = &cluster.spec;
    let server = spec.api_server.as_ref()?;
    let floats = spec.enable_external_network != Some(false) && server.enable_floating_ip != Some(false);
    let is_balanced = server.managed_load_balancer.as_ref().is_some_and(|it| it.enabled != Some(false));
    let address = server.fixed_ip.clone().filter(|address| !address.is_empty())?;
    (!floats && !is_balanced).then_some(address)
}

/// Returns true if a port may use an address: it is its own, an address pair has it, or port security is off.
fn may_use(port: &ResolvedPortSpec, address: &str) -> bool {
    let is_own = |held: &str| cidrs::same_address(held, address);
    let own = port.fixed_ips.iter().flatten().any(|ip| ip.ip_address.as_deref().is_some_and(is_own));
    let pairs = port.allowed_address_pairs.iter().flatten();
    let parsed = address.parse();
    let mut pairs = pairs.map(|pair| pair.ip_address.as_str());
    let is_in = |cidr: &str| parsed.as_ref().is_ok_and(|it| cidrs::contains(cidr, *it));
    own || port.enable_port_security == Some(false) || pairs.any(|pair| pair == address || is_in(pair))
}

#[cfg(test)]
mod tests {
    use apiserver_types::{AddressPair, OpenStackClusterSpec, ResolvedFixedIp};
    use serde_json::{Value, json};

    use super::*;

    fn warned(server: &Value, port: ResolvedPortSpec, is_control_plane: bool) -> Option<String> {
        let spec = json!({"identityRef": {"name": "s", "cloudName": "c"}, "apiServer": server});
        let spec: OpenStackClusterSpec = serde_json::from_value(spec).unwrap();
        let mut machine = Machine::default();
        if is_control_plane {
            machine.metadata.labels = Some([(desired::CONTROL_PLANE_LABEL.to_owned(), String::new())].into());
        }
        let desired = Desired { ports: vec![port], ..Desired::default() };
        warning(&OpenStackCluster::new("c", spec), &machine, &desired)
    }

    #[test]
    fn r7_3_a_shared_fixed_address_that_port_security_drops_is_warned_of() {
        let fixed = json!({"enableFloatingIP": false, "fixedIP": "10.6.0.9"});
        let pair = |address: &str| ResolvedPortSpec {
            allowed_address_pairs: Some(vec![AddressPair {
                ip_address: address.to_owned(),
                mac_address: None,
            }]),
            ..ResolvedPortSpec::default()
        };
        let own = ResolvedFixedIp { ip_address: Some("10.6.0.9".to_owned()), subnet: None };
        let table = [
            (ResolvedPortSpec::default(), true),
            (pair("10.6.0.8"), true),
            (pair("10.6.0.9"), false),
            (pair("10.6.0.0/24"), false),
            (ResolvedPortSpec { fixed_ips: Some(vec![own.clone()]), ..ResolvedPortSpec::default() }, false),
            (ResolvedPortSpec { enable_port_security: Some(false), ..ResolvedPortSpec::default() }, false),
        ];
        for (port, expected) in table {
            assert_eq!(warned(&fixed, port.clone(), true).is_some(), expected, "{port:?}");
        }
        let own = ResolvedFixedIp { ip_address: Some("FD00:0::9".to_owned()), ..own };
        let port = ResolvedPortSpec { fixed_ips: Some(vec![own]), ..ResolvedPortSpec::default() };
        assert!(
            warned(&json!({"enableFloatingIP": false, "fixedIP": "fd00::9"}), port, true).is_none(),
            "IPv6"
        );
        let bare = ResolvedPortSpec::default;
        assert!(warned(&fixed, bare(), false).is_none(), "a worker");
        assert!(warned(&json!({"fixedIP": "10.6.0.9"}), bare(), true).is_none(), "a floating IP leads there");
        let balanced = json!({"enableFloatingIP": false, "fixedIP": "10.6.0.9", "managedLoadBalancer": {}});
        assert!(warned(&balanced, bare(), true).is_none());
        let text = warned(&fixed, bare(), true).unwrap();
        assert!(text.contains("10.6.0.9") && text.contains("allowedAddressPairs"), "{text}");
    }
}
