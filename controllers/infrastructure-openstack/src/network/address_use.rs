//! Neutron's count of the addresses in use.

use controllers_infrastructure::{AddressUse, CloudResult};
use serde::Deserialize;

use super::path;
use crate::{
    request::{Request, Service},
    session::Session,
};

#[derive(Deserialize)]
struct ResponseBody {
    #[serde(default)]
    subnet_ip_availability: Vec<SubnetBody>,
}

#[derive(Deserialize)]
struct SubnetBody {
    subnet_id: String,
    #[serde(default)]
    subnet_name: Option<String>,
    #[serde(default)]
    cidr: String,
    ip_version: i32,
    /// The totals of IPv6 subnets do not fit into an integer.
    total_ips: serde_json::Number,
    used_ips: serde_json::Number,
}

/// Reads how many addresses of each IPv4 subnet of a network are in use. No IPv6 subnet runs out of addresses.
pub(crate) async fn address_use(session: &Session, network: &str) -> CloudResult<Vec<AddressUse>> {
    let request = Request::get(Service::Network, path("network-ip-availabilities", network));
    Ok(of_ipv4(session.under(&request, "network_ip_availability").await?))
}

fn of_ipv4(found: ResponseBody) -> Vec<AddressUse> {
    let addresses = |body: SubnetBody| {
        let (total, used) = (body.total_ips.as_i64()?, body.used_ips.as_i64()?);
        let subnet_name = body.subnet_name.unwrap_or_default();
        Some(AddressUse { subnet_id: body.subnet_id, subnet_name, cidr: body.cidr, total, used })
    };
    found.subnet_ip_availability.into_iter().filter(|it| it.ip_version == 4).filter_map(addresses).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn addresses_of_ipv4_subnets_are_counted_and_those_of_ipv6_subnets_are_not() {
        let subnet = |id: &str, version, total: serde_json::Value| {
            json!({"subnet_id": id, "subnet_name": "nodes", "cidr": "10.6.0.0/29", "ip_version": version,
                   "total_ips": total, "used_ips": 4})
        };
        let six: serde_json::Value = serde_json::from_str("340282366920938463463374607431768211456").unwrap();
        let body = json!({
            "network_id": "n", "network_name": "net", "tenant_id": "p", "total_ips": 5, "used_ips": 4,
            "subnet_ip_availability": [subnet("four", 4, json!(5)), subnet("six", 6, six)],
        });
        let found = of_ipv4(serde_json::from_value(body).unwrap());
        let expected = AddressUse {
            subnet_id: "four".to_owned(),
            subnet_name: "nodes".to_owned(),
            cidr: "10.6.0.0/29".to_owned(),
            total: 5,
            used: 4,
        };
        assert_eq!(found, [expected]);
    }
}
