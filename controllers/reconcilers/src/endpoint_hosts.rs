//! Addresses of the host of an endpoint, and its form in URLs.

use std::net::IpAddr;
use std::time::Duration;

use controllers_infrastructure::{Cloud, CloudResult, FloatingIp, FloatingIpQuery};

/// Limit of a look-up: longer than resolvers try all of their servers.
const LIMIT: Duration = Duration::from_secs(30);

/// Returns the addresses of a host: itself if it is an address, else those that the system's resolver has for the name.
///
/// # Errors
/// The name cannot be resolved. The message says why.
pub(crate) async fn addresses(host: &str) -> Result<Vec<IpAddr>, String> {
    if let Ok(address) = host.parse() {
        return Ok(vec![address]);
    }
    // The port has no meaning here.
    let found = tokio::time::timeout(LIMIT, tokio::net::lookup_host((host, 0))).await;
    let found = found.map_err(|_| format!("the host {host:?} cannot be resolved in time"))?;
    let found = found.map_err(|error| format!("the host {host:?} cannot be resolved: {error}"))?;
    let mut addresses: Vec<IpAddr> = found.map(|address| address.ip()).collect();
    addresses.dedup();
    if addresses.is_empty() { Err(format!("the host {host:?} has no address")) } else { Ok(addresses) }
}

/// Returns host and port as in a URL: an address of IPv6 is in brackets.
pub(crate) fn host_and_port(host: &str, port: i32) -> String {
    let is_v6 = host.contains(':') && !host.starts_with('[');
    if is_v6 { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

/// Finds the floating IP of the project that has one of these addresses.
pub(crate) async fn floating_ip_at(
    cloud: &dyn Cloud,
    addresses: &[IpAddr],
) -> CloudResult<Option<FloatingIp>> {
    for address in addresses {
        let query = FloatingIpQuery { address: Some(address.to_string()), ..FloatingIpQuery::default() };
        if let Some(found) = cloud.floating_ips(&query).await?.into_iter().next() {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_of_ipv6_is_in_brackets() {
        let table = [
            ("fd00::1", "[fd00::1]:6443"),
            ("[fd00::1]", "[fd00::1]:6443"),
            ("192.0.2.7", "192.0.2.7:6443"),
            ("api.lab", "api.lab:6443"),
        ];
        for (host, expected) in table {
            assert_eq!(host_and_port(host, 6443), expected);
        }
    }

    #[tokio::test]
    async fn r7_6_a_name_is_resolved_and_an_address_is_taken_as_it_is() {
        assert_eq!(addresses("192.0.2.7").await, Ok(vec!["192.0.2.7".parse().unwrap()]));
        assert!(addresses("localhost").await.unwrap().iter().all(IpAddr::is_loopback));
        let unknown = addresses("no-such-host.invalid").await.unwrap_err();
        assert!(unknown.starts_with("the host \"no-such-host.invalid\" cannot be resolved"), "{unknown}");
    }
}
