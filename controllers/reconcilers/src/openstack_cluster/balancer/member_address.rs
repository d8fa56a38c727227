//! Choice of the address at which a machine is a member.

use controllers_infrastructure::{FixedIp, Port};

use super::super::observe::Observed;

/// Returns true if the address of the load balancer is of IPv6, or will be.
pub(super) fn is_v6(observed: &Observed) -> bool {
    let balancer = observed.balancing.balancer.as_ref().map(|balancer| &balancer.vip_address);
    let address = balancer.filter(|address| !address.is_empty());
    address.or_else(|| observed.own_subnet().map(|subnet| &subnet.cidr)).is_some_and(|it| it.contains(':'))
}

/// Returns the address at which a port is a member: on the primary subnet, else of the IP version of the load balancer, since
/// some providers cannot forward to another one. Neutron's order means nothing.
pub(super) fn member_address<'a>(
    port: &'a Port,
    primary: Option<&String>,
    is_v6: bool,
) -> Option<&'a FixedIp> {
    let on_primary = |ip: &&FixedIp| primary.is_some() && ip.subnet_id.as_ref() == primary;
    let fits = |ip: &&FixedIp| ip.ip_address.as_ref().is_some_and(|it| it.contains(':') == is_v6);
    let found = port.fixed_ips.iter().find(on_primary);
    found.or_else(|| port.fixed_ips.iter().find(fits)).or_else(|| port.fixed_ips.first())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_member_has_the_address_of_the_primary_subnet_or_of_the_version_of_the_load_balancer() {
        let fixed = |subnet: &str, address: &str| FixedIp {
            subnet_id: Some(subnet.to_owned()),
            ip_address: Some(address.to_owned()),
        };
        let both = vec![fixed("six", "fd00:20::5"), fixed("four", "10.6.0.5")];
        let port = Port { fixed_ips: both, ..Port::default() };
        let only_six = Port { fixed_ips: vec![fixed("six", "fd00:20::5")], ..Port::default() };
        let table = [
            (&port, None, false, "10.6.0.5"),
            (&port, None, true, "fd00:20::5"),
            (&port, Some("six"), false, "fd00:20::5"),
            (&port, Some("other"), true, "fd00:20::5"),
            (&only_six, None, false, "fd00:20::5"),
        ];
        for (port, primary, is_v6, expected) in table {
            let primary = primary.map(str::to_owned);
            let found = member_address(port, primary.as_ref(), is_v6).and_then(|ip| ip.ip_address.as_deref());
            assert_eq!(found, Some(expected), "{primary:?} {is_v6}");
        }
    }
}
