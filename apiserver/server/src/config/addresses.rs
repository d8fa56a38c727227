//! Addresses and names in the configuration: of the server itself, and of its etcd.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use anyhow::bail;

/// Parses the address and port to serve on.
///
/// # Errors
/// Another text, such as a host name or a port alone. The error names the field.
pub(crate) fn listen_address(text: &str) -> anyhow::Result<SocketAddr> {
    text.parse().map_err(|_| {
        anyhow::anyhow!(
            "listen: {text:?} is not an IP address with a port; use one such as 127.0.0.1:7443, or 0.0.0.0:7443 for all \
             addresses of the machine"
        )
    })
}

/// Returns the URL at which a client on the same machine reaches a server with this listen address. No client can connect to
/// the unspecified address, and no certificate is valid for it.
pub(crate) fn local_url(mut address: SocketAddr) -> String {
    if address.ip().is_unspecified() {
        address.set_ip(match address {
            SocketAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            SocketAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        });
    }
    format!("https://{address}")
}

/// Returns the address and port at which other machines reach a server with this listen address and these names in its
/// certificate. A server on all addresses has the last IP address among the names, which is its own after `capstan init`,
/// else the first DNS name. Without names, it is the listen address.
pub(crate) fn advertised_address(listen: SocketAddr, names: &[String]) -> String {
    if !listen.ip().is_unspecified() {
        return listen.to_string();
    }
    let ip = names.iter().rev().find_map(|name| name.parse::<IpAddr>().ok());
    let dns = || names.iter().find(|name| !name.starts_with("*."));
    match ip {
        Some(ip) => SocketAddr::new(ip, listen.port()).to_string(),
        None => dns().map_or_else(|| listen.to_string(), |name| format!("{name}:{}", listen.port())),
    }
}

/// Checks the client URLs of the members of etcd. A server with an unusable one would try to connect for ever.
pub(super) fn check_endpoints(endpoints: &[String]) -> anyhow::Result<()> {
    if endpoints.is_empty() {
        bail!("storage.etcd.endpoints: must name at least one endpoint");
    }
    match endpoints.iter().find(|endpoint| !is_endpoint(endpoint)) {
        None => Ok(()),
        Some(bad) => bail!("storage.etcd.endpoints: {bad:?} is not a URL such as https://192.0.2.20:2379"),
    }
}

/// Checks the names for the server's own certificate. No client connects to a name of another form, so the certificate
/// would not be valid for the name that was meant.
pub(super) fn check_server_names(names: &[String]) -> anyhow::Result<()> {
    let is_name = |name: &str| is_dns_name(name) || name.parse::<IpAddr>().is_ok();
    match names.iter().find(|name| !is_name(name)) {
        None => Ok(()),
        Some(bad) => bail!(
            "serverNames: {bad:?} is neither a DNS name nor an IP address; use a name such as capstan.example.org, \
             without scheme and port"
        ),
    }
}

/// Reports whether a text is the URL of a member of etcd. Without a scheme, the files for TLS decide about it.
fn is_endpoint(text: &str) -> bool {
    let url = if text.contains("://") { text.to_owned() } else { format!("http://{text}") };
    let url: Option<http::Uri> = url.parse().ok();
    url.is_some_and(|url| {
        matches!(url.scheme_str(), Some("http" | "https")) && url.host().is_some_and(|host| !host.is_empty())
    })
}

/// Reports whether a text is a DNS name. It may begin with `*.`.
pub(crate) fn is_dns_name(text: &str) -> bool {
    let name = text.strip_prefix("*.").unwrap_or(text);
    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_to_serve_on_has_an_ip_address_and_a_port() {
        for good in ["127.0.0.1:7443", "0.0.0.0:7443", "[::]:7443"] {
            assert!(listen_address(good).is_ok(), "{good}");
        }
        for bad in ["7443", ":7443", "0.0.0.0", "localhost:7443", "::1:7443", ""] {
            let error = listen_address(bad).unwrap_err().to_string();
            assert!(error.starts_with("listen: ") && error.contains("0.0.0.0:7443"), "{error}");
        }
    }

    #[test]
    fn the_local_url_is_the_listen_address_or_loopback() {
        for (listen, expected) in [
            ("192.0.2.10:7443", "https://192.0.2.10:7443"),
            ("0.0.0.0:7443", "https://127.0.0.1:7443"),
            ("[::]:7443", "https://[::1]:7443"),
        ] {
            assert_eq!(local_url(listen_address(listen).unwrap()), expected);
        }
    }

    #[test]
    fn the_advertised_address_is_one_that_other_machines_can_use() {
        for (listen, names, expected) in [
            ("192.0.2.10:7443", &["capstan.example.org"][..], "192.0.2.10:7443"),
            ("0.0.0.0:7443", &["192.0.2.100", "node-a", "192.0.2.1"], "192.0.2.1:7443"),
            ("[::]:7443", &["node-a", "2001:db8::1"], "[2001:db8::1]:7443"),
            ("0.0.0.0:7443", &["*.example.org", "capstan.example.org"], "capstan.example.org:7443"),
            ("0.0.0.0:7443", &["*.example.org"], "0.0.0.0:7443"),
            ("0.0.0.0:7443", &[], "0.0.0.0:7443"),
        ] {
            let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
            let found = advertised_address(listen_address(listen).unwrap(), &names);
            assert_eq!(found, expected, "{listen} {names:?}");
        }
    }

    #[test]
    fn a_name_for_the_certificate_has_no_scheme_and_no_port() {
        let good = ["capstan.example.org", "*.example.org", "node-a", "192.0.2.10", "2001:db8::1"];
        assert!(check_server_names(&good.map(str::to_owned)).is_ok());
        for bad in ["", "a b", "https://capstan.example.org", "capstan.example.org:7443", "[2001:db8::1]"] {
            assert!(check_server_names(&[bad.to_owned()]).is_err(), "{bad}");
        }
    }

    #[test]
    fn the_url_of_a_member_of_etcd_may_lack_its_scheme() {
        let good = ["https://192.0.2.20:2379", "http://[::1]:2379", "etcd-0.etcd.svc:2379"];
        assert!(check_endpoints(&good.map(str::to_owned)).is_ok());
        for bad in ["", "a b", "ftp://a:2379", "https://"] {
            assert!(check_endpoints(&[bad.to_owned()]).is_err(), "{bad}");
        }
    }
}
