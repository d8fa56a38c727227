//! Addresses that the subnets of a network have left.

use controllers_infrastructure::{
    AddressUse, Cloud, CloudResult, Port, PortQuery, Quota, Subnet, SubnetQuery,
};

use super::ledger::Limit;
use crate::cidrs;

/// Number of addresses left below which they are counted exactly.
const FEW: i64 = 16;

/// Reads the limits of the subnets of a network.
///
/// Neutron counts the addresses outside the allocation pools, e.g. the router's, as used ones of the pools. So a subnet
/// that looks almost full is compared with its ports, which costs two calls.
pub(super) async fn limits(cloud: &dyn Cloud, network: &str) -> CloudResult<Vec<Limit>> {
    let found = cloud.address_use(network).await?;
    if !found.iter().any(|it| it.total.saturating_sub(it.used) < FEW) {
        return Ok(found.iter().map(|it| limit(it, 0)).collect());
    }
    let network_id = Some(network.to_owned());
    let query = SubnetQuery { network_id: network_id.clone(), ..SubnetQuery::default() };
    let subnets = cloud.subnets(&query).await?;
    let ports = cloud.ports(&PortQuery { network_id, ..PortQuery::default() }).await?;
    let outside = |of: &AddressUse| {
        let subnet = subnets.iter().find(|it| it.id == of.subnet_id);
        subnet.map_or(0, |subnet| outside_pools(subnet, &ports))
    };
    Ok(found.iter().map(|it| limit(it, outside(it))).collect())
}

/// Returns the limit of a subnet of whose used addresses some are outside its allocation pools. Pure.
fn limit(of: &AddressUse, outside: i64) -> Limit {
    let AddressUse { subnet_id, subnet_name, cidr, total, used } = of;
    let used = used.saturating_sub(outside).max(0);
    Limit {
        quota: Quota { resource: subnet_id.clone(), limit: *total, used },
        of: format!("subnet {subnet_name:?} ({subnet_id}), {cidr}"),
    }
}

/// Returns how many addresses of ports are on a subnet, and outside its allocation pools. Pure.
fn outside_pools(subnet: &Subnet, ports: &[Port]) -> i64 {
    let fixed = ports.iter().flat_map(|port| &port.fixed_ips);
    let on_it = fixed.filter(|ip| ip.subnet_id.as_ref() == Some(&subnet.id));
    let addresses = on_it.filter_map(|ip| ip.ip_address.as_ref()?.parse().ok());
    let outside = addresses.filter(|address| !cidrs::is_in_ranges(&subnet.allocation_pools, *address));
    i64::try_from(outside.count()).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use controllers_infrastructure::FixedIp;

    use super::*;

    #[test]
    fn an_address_outside_the_allocation_pools_leaves_them_as_they_are() {
        let text = str::to_owned;
        let pools = vec![(text("10.6.0.2"), text("10.6.0.6"))];
        let subnet = Subnet { id: text("s"), allocation_pools: pools, ..Subnet::default() };
        let port = |subnet: &str, address: &str| Port {
            fixed_ips: vec![FixedIp { subnet_id: Some(text(subnet)), ip_address: Some(text(address)) }],
            ..Port::default()
        };
        let ports =
            [port("s", "10.6.0.1"), port("s", "10.6.0.2"), port("s", "10.6.0.6"), port("t", "10.7.0.1")];
        assert_eq!(outside_pools(&subnet, &ports), 1);
        let of = AddressUse {
            subnet_id: text("s"),
            subnet_name: text("nodes"),
            cidr: text("10.6.0.0/29"),
            total: 5,
            used: 5,
        };
        let limit = limit(&of, 1);
        assert_eq!((limit.quota.limit, limit.quota.used), (5, 4));
        assert_eq!(limit.of, "subnet \"nodes\" (s), 10.6.0.0/29");
    }
}
