//! Addresses that a session may connect to: a guard against credentials that name a service of the server's own network.
//!
//! The address of Keystone comes from a Secret, and those of the other services from that Keystone. Whoever writes the
//! Secret could otherwise reach the metadata service of Capstan's machine, or a service that listens on loopback only.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use reqwest::Url;

/// Prefix of NAT64 (RFC 6052): the last 32 bits are an IPv4 address, which a gateway connects to.
const NAT64: [u16; 6] = [0x64, 0xff9b, 0, 0, 0, 0];

/// Setting that the errors name.
const SETTING: &str = "cloud.allowedEndpoints";

/// Addresses that sessions may connect to.
///
/// By default these are all but loopback, link-local, unspecified and multicast addresses. With a list, they are those of
/// the list only. A name of the list does not admit one of the addresses above; a range does.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowedEndpoints {
    list: Option<Vec<Entry>>,
    loopback: bool,
}

/// Entry of the list.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Entry {
    /// Host name, in lower case.
    Name(String),
    /// Suffix of host names with its dot, in lower case, e.g. `.example.org`.
    Below(String),
    /// Address, and the number of its bits that count.
    Range(IpAddr, u32),
}

impl AllowedEndpoints {
    /// Parses a list: names such as `keystone.example.org`, `*.example.org` for all names below one, addresses, and ranges
    /// such as `192.0.2.0/24`.
    ///
    /// # Errors
    /// The text names the entry.
    pub fn of(list: &[String]) -> Result<Self, String> {
        let list = list.iter().map(|entry| entry.parse()).collect::<Result<_, _>>()?;
        Ok(Self { list: Some(list), loopback: false })
    }

    /// Returns the default with loopback, for a cloud on the same machine.
    pub fn with_loopback() -> Self {
        Self { list: None, loopback: true }
    }

    /// Returns all endpoints, for credentials of the operator.
    pub fn all() -> Self {
        let every = [IpAddr::V4(Ipv4Addr::UNSPECIFIED), IpAddr::V6(Ipv6Addr::UNSPECIFIED)];
        Self { list: Some(every.map(|net| Entry::Range(net, 0)).to_vec()), loopback: true }
    }

    /// Checks a URL before a request: its scheme, and its host as far as that is known before the name is resolved.
    pub(crate) fn check(&self, url: &Url) -> Result<(), String> {
        if !matches!(url.scheme(), "http" | "https") {
            return Err(format!("{} is not an http or https address", shown(url)));
        }
        match (url.host_str(), literal(url)) {
            (None, _) => Err(format!("{} names no host", shown(url))),
            (Some(_), Some(address)) => self.check_address(address, None),
            // A range may admit the addresses of a name that is not in the list.
            (Some(name), None) if self.admits_name(name) || self.has_ranges() => Ok(()),
            (Some(name), None) => Err(format!("{name:?} is not in {SETTING} of the server")),
        }
    }

    /// Checks an address, with the name that was resolved to it.
    pub(crate) fn check_address(&self, address: IpAddr, name: Option<&str>) -> Result<(), String> {
        let address = canonical(address);
        if self.is_in_range(address) {
            return Ok(());
        }
        let source = name.map(|name| format!(", an address of {name:?},")).unwrap_or_default();
        match special(address) {
            Some("loopback") if self.loopback => Ok(()),
            Some(kind) => {
                Err(format!("{address}{source} is a {kind} address, and {SETTING} of the server lacks it"))
            }
            None if self.list.is_none() || name.is_some_and(|name| self.admits_name(name)) => Ok(()),
            None => Err(format!("{address}{source} is not in {SETTING} of the server")),
        }
    }

    fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.list.iter().flatten()
    }

    fn has_ranges(&self) -> bool {
        self.entries().any(|entry| matches!(entry, Entry::Range(..)))
    }

    fn is_in_range(&self, address: IpAddr) -> bool {
        self.entries().any(|entry| matches!(entry, Entry::Range(net, bits) if contains(*net, *bits, address)))
    }

    fn admits_name(&self, name: &str) -> bool {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        let admits = |entry: &Entry| match entry {
            Entry::Name(known) => *known == name,
            Entry::Below(suffix) => name.ends_with(suffix.as_str()),
            Entry::Range(..) => false,
        };
        self.list.is_none() || self.entries().any(admits)
    }
}

impl FromStr for Entry {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused =
            || format!("{text:?} is not a host name, *.NAME, an address, or a range such as 192.0.2.0/24");
        if let Some((address, bits)) = text.split_once('/') {
            let address: IpAddr = address.parse().map_err(|_| refused())?;
            let bits = bits.parse().ok().filter(|bits| *bits <= width(address)).ok_or_else(refused)?;
            return Ok(Self::Range(address, bits));
        }
        if let Ok(address) = text.parse::<IpAddr>() {
            return Ok(Self::Range(canonical(address), width(canonical(address))));
        }
        let name = text.strip_prefix("*.").unwrap_or(text).to_ascii_lowercase();
        let is_label = |label: &str| {
            !label.is_empty()
                && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
        };
        match name.split('.').all(is_label) {
            true if text.starts_with("*.") => Ok(Self::Below(format!(".{name}"))),
            true => Ok(Self::Name(name)),
            false => Err(refused()),
        }
    }
}

/// Returns the URL for an error: without a user, a password and a query.
fn shown(url: &Url) -> String {
    format!("{}://{}{}", url.scheme(), url.host_str().unwrap_or_default(), url.path())
}

/// Returns the address, if the host of a URL is one and not a name.
fn literal(url: &Url) -> Option<IpAddr> {
    let host = url.host_str()?;
    host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host).parse().ok()
}

const fn width(address: IpAddr) -> u32 {
    if address.is_ipv4() { Ipv4Addr::BITS } else { Ipv6Addr::BITS }
}

/// Returns the IPv4 address within an IPv6 address that leads to it, else the address itself.
fn canonical(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(six) if six.segments().starts_with(&NAT64) => {
            let [.., a, b, c, d] = six.octets();
            IpAddr::V4(Ipv4Addr::new(a, b, c, d))
        }
        other => other,
    }
}

fn contains(net: IpAddr, bits: u32, address: IpAddr) -> bool {
    let bits_of = |address: IpAddr| match address {
        IpAddr::V4(four) => u128::from(four.to_bits()) << (Ipv6Addr::BITS - Ipv4Addr::BITS),
        IpAddr::V6(six) => six.to_bits(),
    };
    let mask = u128::MAX.checked_shl(Ipv6Addr::BITS - bits).unwrap_or(0);
    net.is_ipv4() == address.is_ipv4() && bits_of(net) & mask == bits_of(address) & mask
}

/// Returns the kind of an address that is no address of a cloud.
fn special(address: IpAddr) -> Option<&'static str> {
    // Linux connects an unspecified address to loopback.
    let is_this_network = matches!(address, IpAddr::V4(four) if four.octets()[0] == 0);
    let is_link_local = match address {
        IpAddr::V4(four) => four.is_link_local(),
        IpAddr::V6(six) => six.is_unicast_link_local(),
    };
    let is_broadcast = matches!(address, IpAddr::V4(four) if four.is_broadcast());
    match address {
        _ if address.is_loopback() || address.is_unspecified() || is_this_network => Some("loopback"),
        _ if is_link_local => Some("link-local"),
        _ if address.is_multicast() || is_broadcast => Some("multicast"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(allowed: &AllowedEndpoints, url: &str) -> Result<(), String> {
        allowed.check(&url.parse().unwrap())
    }

    fn list(entries: &[&str]) -> AllowedEndpoints {
        AllowedEndpoints::of(&entries.iter().map(|entry| (*entry).to_owned()).collect::<Vec<_>>()).unwrap()
    }

    #[test]
    fn addresses_of_the_machine_and_of_its_link_are_refused_by_default_in_every_spelling() {
        let allowed = AllowedEndpoints::default();
        for url in [
            "http://169.254.169.254/latest/meta-data",
            "http://169.254.169.254.:80/",
            "http://2852039166/",
            "http://0xa9fea9fe/",
            "http://0251.0376.0251.0376/",
            "http://[fe80::1]/",
            "http://[::ffff:169.254.169.254]/",
            "http://[64:ff9b::a9fe:a9fe]/",
            "http://127.0.0.1:5000/v3",
            "http://127.1/",
            "http://0.0.0.0/",
            "http://0.1.2.3/",
            "http://[::1]:5000/v3",
            "http://[::]/",
            "http://[::ffff:127.0.0.1]/",
            "http://224.0.0.1/",
            "http://255.255.255.255/",
        ] {
            assert!(check(&allowed, url).is_err(), "{url}");
        }
        for url in
            ["https://192.0.2.7:5000/v3", "http://10.0.0.1/", "http://[2001:db8::1]/", "https://k.example/"]
        {
            assert_eq!(check(&allowed, url), Ok(()), "{url}");
        }
    }

    #[test]
    fn only_http_and_https_are_schemes_of_a_cloud() {
        for url in ["file:///etc/passwd", "ftp://k.example/", "gopher://k.example/", "unix:/run/x.sock"] {
            let error = check(&AllowedEndpoints::with_loopback(), url).unwrap_err();
            assert!(error.ends_with("is not an http or https address"), "{error}");
        }
        let error = check(&AllowedEndpoints::default(), "ftp://me:hunter2@k.example/?hunter2").unwrap_err();
        assert!(!error.contains("hunter2"), "{error}");
    }

    #[test]
    fn loopback_can_be_allowed_without_the_link() {
        let allowed = AllowedEndpoints::with_loopback();
        assert_eq!(check(&allowed, "http://127.0.0.1:5000/v3"), Ok(()));
        assert_eq!(allowed.check_address("::1".parse().unwrap(), Some("localhost")), Ok(()));
        assert!(check(&allowed, "http://169.254.169.254/").is_err());
    }

    #[test]
    fn with_a_list_its_entries_alone_are_allowed() {
        let allowed =
            list(&["keystone.example.org", "*.cloud.example", "192.0.2.0/24", "127.0.0.1", "fe80::/10"]);
        for url in [
            "https://KEYSTONE.example.org/v3",
            "https://a.cloud.example/",
            "http://192.0.2.200/",
            "http://127.0.0.1/",
            "http://[fe80::7]/",
        ] {
            assert_eq!(check(&allowed, url), Ok(()), "{url}");
        }
        for url in ["http://198.51.100.1/", "http://127.0.0.2/", "http://169.254.169.254/"] {
            assert!(check(&allowed, url).is_err(), "{url}");
        }
        let names = list(&["keystone.example.org", "*.cloud.example"]);
        for url in ["https://other.example/", "https://cloud.example/", "https://evilcloud.example/"] {
            let error = check(&names, url).unwrap_err();
            assert!(error.contains("is not in cloud.allowedEndpoints"), "{error}");
        }
    }

    #[test]
    fn a_name_is_judged_by_the_addresses_that_it_is_resolved_to() {
        let of = |allowed: &AllowedEndpoints, address: &str, name| {
            allowed.check_address(address.parse().unwrap(), Some(name))
        };
        let default = AllowedEndpoints::default();
        assert_eq!(of(&default, "192.0.2.1", "k.example"), Ok(()));
        let error = of(&default, "169.254.169.254", "k.example").unwrap_err();
        assert!(
            error.contains(r#"169.254.169.254, an address of "k.example", is a link-local address"#),
            "{error}"
        );
        // The owner of the name must not choose an address of the machine.
        assert!(of(&list(&["k.example"]), "127.0.0.1", "k.example").is_err());
        assert_eq!(of(&list(&["k.example"]), "10.0.0.1", "k.example"), Ok(()));
        assert_eq!(of(&list(&["10.0.0.0/8"]), "10.0.0.1", "k.example"), Ok(()));
        assert!(of(&list(&["10.0.0.0/8"]), "11.0.0.1", "k.example").is_err());
    }

    #[test]
    fn an_entry_that_is_none_is_refused() {
        for entry in
            ["", "*", "*.", "a b", "https://k.example", "k.example:5000", "10.0.0.0/33", "x/8", "10.0.0.0/"]
        {
            let error = AllowedEndpoints::of(&[entry.to_owned()]).unwrap_err();
            assert!(error.starts_with(&format!("{entry:?} is not a host name")), "{error}");
        }
        assert_eq!(check(&list(&["0.0.0.0/0"]), "http://203.0.113.1/"), Ok(()));
        assert!(check(&list(&[]), "http://203.0.113.1/").is_err(), "an empty list allows nothing");
    }
}
