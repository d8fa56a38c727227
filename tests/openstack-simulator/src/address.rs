//! Arithmetic on IP addresses and networks, the same for both families.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// A network such as `10.6.0.0/16`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Network {
    v4: bool,
    first: u128,
    last: u128,
}

impl Network {
    /// Reads `address/prefix`; bits beyond the prefix are dropped, as Neutron does.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.split_once('/')?;
        let address: IpAddr = address.parse().ok()?;
        let prefix: u32 = prefix.parse().ok()?;
        let width = if address.is_ipv4() { 32 } else { 128 };
        let host_bits = u32::checked_sub(width, prefix)?;
        let span = 1_u128.checked_shl(host_bits).map_or(u128::MAX, |size| size - 1);
        let first = number(address) & !span;
        Some(Self { v4: address.is_ipv4(), first, last: first | span })
    }

    pub(crate) fn is_v4(&self) -> bool {
        self.v4
    }

    pub(crate) fn contains(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.v4 && (self.first..=self.last).contains(&number(address))
    }

    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        self.v4 == other.v4 && self.first <= other.last && other.first <= self.last
    }

    /// Returns true if an IPv4 range has addresses for a gateway, the first routers and some floating IPs.
    pub(crate) fn has_room_for_gateways(&self) -> bool {
        self.v4 && self.last - self.first >= 15
    }

    /// Returns the address at this position of the range.
    pub(crate) fn nth(&self, position: u128) -> IpAddr {
        address(self.v4, self.first.saturating_add(position))
    }

    /// Returns the address that a host forms from its hardware address, in a network with a prefix of 64 bits: EUI-64.
    pub(crate) fn formed(&self, mac_address: &str) -> Option<IpAddr> {
        let parts = mac_address.split(':').map(|part| u8::from_str_radix(part, 16));
        let mac = <[u8; 6]>::try_from(parts.collect::<Result<Vec<u8>, _>>().ok()?).ok()?;
        // The bit that marks a unique hardware address is inverted.
        let host = u64::from_be_bytes([mac[0] ^ 0x02, mac[1], mac[2], 0xff, 0xfe, mac[3], mac[4], mac[5]]);
        Some(self.nth(u128::from(host)))
    }

    /// Returns the gateway address of a subnet whose creator requests none.
    pub(crate) fn gateway(&self) -> IpAddr {
        address(self.v4, self.first.saturating_add(1))
    }

    /// Returns the pools of a subnet without pools of its own: every host address but the gateway.
    pub(crate) fn pools(&self, gateway: Option<IpAddr>) -> Vec<(IpAddr, IpAddr)> {
        let low = self.first.saturating_add(1);
        let high = if self.v4 { self.last.saturating_sub(1) } else { self.last };
        let mut ranges = vec![(low, high)];
        if let Some(gateway) = gateway.filter(|gateway| self.contains(*gateway)).map(number) {
            ranges = vec![(low, gateway.saturating_sub(1)), (gateway.saturating_add(1), high)];
        }
        ranges
            .into_iter()
            .filter(|(start, end)| start <= end)
            .map(|(start, end)| (address(self.v4, start), address(self.v4, end)))
            .collect()
    }
}

/// Returns the address as a number, for counting through pools.
pub(crate) fn number(address: IpAddr) -> u128 {
    match address {
        IpAddr::V4(address) => u128::from(u32::from(address)),
        IpAddr::V6(address) => u128::from(address),
    }
}

/// Returns the address for a number.
pub(crate) fn address(v4: bool, number: u128) -> IpAddr {
    match u32::try_from(number) {
        Ok(number) if v4 => IpAddr::V4(Ipv4Addr::from(number)),
        Ok(_) | Err(_) => IpAddr::V6(Ipv6Addr::from(number)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn allocation_pools_exclude_gateway_network_and_broadcast_addresses() {
        let network = Network::parse("10.6.0.0/29").unwrap();
        let pools = network.pools(Some("10.6.0.3".parse().unwrap()));
        let expected = [("10.6.0.1", "10.6.0.2"), ("10.6.0.4", "10.6.0.6")]
            .map(|(a, b)| (a.parse().unwrap(), b.parse().unwrap()));
        assert_eq!(pools, expected);
        assert!(Network::parse("10.6.0.0/33").is_none());
        assert!(network.overlaps(&Network::parse("10.6.0.4/30").unwrap()));
        assert!(!network.overlaps(&Network::parse("10.6.0.8/30").unwrap()));
    }

    #[test]
    fn a_host_forms_its_address_from_its_hardware_address() {
        let network = Network::parse("fd00:20::/64").unwrap();
        let formed: IpAddr = "fd00:20::f816:3eff:fe01:203".parse().unwrap();
        assert_eq!(network.formed("fa:16:3e:01:02:03"), Some(formed));
        assert_eq!(network.formed("fa:16:3e"), None);
    }
}
