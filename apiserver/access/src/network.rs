//! Networks of IP addresses.

use std::net::IpAddr;
use std::str::FromStr;

/// Network of IP addresses, such as `192.0.2.0/24`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Network {
    first: IpAddr,
    /// Number of leading bits that all addresses have in common.
    length: u32,
}

/// Text that is no network.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("is not a network such as 192.0.2.0/24 or 2001:db8::/32")]
pub struct NotANetwork;

impl Network {
    /// Returns true if an address is in the network. An IPv4 address may be written as an IPv6 one.
    pub fn contains(&self, address: IpAddr) -> bool {
        let (first, bits) = bits_of(self.first);
        let (other, other_bits) = bits_of(address.to_canonical());
        // All bits of the longest address can be the part that differs.
        let common = |value: u128| value.checked_shr(bits - self.length).unwrap_or_default();
        bits == other_bits && common(first) == common(other)
    }
}

impl FromStr for Network {
    type Err = NotANetwork;

    fn from_str(text: &str) -> Result<Self, NotANetwork> {
        let (first, length) = text.split_once('/').ok_or(NotANetwork)?;
        let first: IpAddr = first.parse().map_err(|_| NotANetwork)?;
        let length: u32 = length.parse().map_err(|_| NotANetwork)?;
        // Such an address would match no client.
        let is_mapped = first != first.to_canonical();
        if is_mapped || length > bits_of(first).1 {
            return Err(NotANetwork);
        }
        Ok(Self { first, length })
    }
}

/// Returns an address as a number, and the number of its bits.
fn bits_of(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(four) => (four.to_bits().into(), 32),
        IpAddr::V6(six) => (six.to_bits(), 128),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_the_addresses_with_its_prefix() {
        for (network, address, expected) in [
            ("192.0.2.0/24", "192.0.2.255", true),
            ("192.0.2.0/24", "::ffff:192.0.2.7", true),
            ("192.0.2.0/24", "192.0.3.0", false),
            ("192.0.2.7/24", "192.0.2.1", true),
            ("192.0.2.7/32", "192.0.2.7", true),
            ("192.0.2.7/32", "192.0.2.6", false),
            ("0.0.0.0/0", "203.0.113.1", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("2001:db8::/32", "2001:db8:ffff::1", true),
            ("2001:db8::/32", "2001:db9::", false),
            ("::/0", "2001:db8::1", true),
            ("::/0", "192.0.2.1", false),
        ] {
            let network: Network = network.parse().unwrap();
            assert_eq!(network.contains(address.parse().unwrap()), expected, "{network:?} {address}");
        }
        for text in
            ["", "192.0.2.0", "192.0.2.0/33", "2001:db8::/129", "a/8", "192.0.2.0/", "::ffff:192.0.2.0/120"]
        {
            assert_eq!(text.parse::<Network>(), Err(NotANetwork), "{text}");
        }
    }
}
