//! Addresses in CIDRs, and their notations.

use std::net::IpAddr;

/// Returns true if an address is in a CIDR. A text that is none contains nothing.
pub(crate) fn contains(cidr: &str, address: IpAddr) -> bool {
    let (network, length) = cidr.split_once('/').unwrap_or((cidr, ""));
    match (network.parse(), address) {
        (Ok(IpAddr::V4(network)), IpAddr::V4(address)) => {
            same_prefix(network.to_bits().into(), address.to_bits().into(), 32, length)
        }
        (Ok(IpAddr::V6(network)), IpAddr::V6(address)) => {
            same_prefix(network.to_bits(), address.to_bits(), 128, length)
        }
        _ => false,
    }
}

/// Returns true if two texts are the same address, of which IPv6 has several notations. Other texts must be equal.
pub(crate) fn same_address(one: &str, other: &str) -> bool {
    match (one.parse::<IpAddr>(), other.parse::<IpAddr>()) {
        (Ok(one), Ok(other)) => one == other,
        _ => one == other,
    }
}

/// Returns true if two lists of ranges, first and last address, have the same addresses.
pub(crate) fn same_ranges(one: &[(String, String)], other: &[(String, String)]) -> bool {
    match (joined(one), joined(other)) {
        (Some(one), Some(other)) => one == other,
        // What is no address is compared as text.
        _ => one == other,
    }
}

/// Returns true if an address is in one of some ranges, first and last address.
pub(crate) fn is_in_ranges(ranges: &[(String, String)], address: IpAddr) -> bool {
    let parsed = |text: &str| text.parse::<IpAddr>().ok();
    let within =
        |(first, last): &(String, String)| Some(parsed(first)? <= address && address <= parsed(last)?);
    ranges.iter().any(|range| within(range) == Some(true))
}

/// Returns ranges in ascending order, with those that touch each other as one.
fn joined(ranges: &[(String, String)]) -> Option<Vec<(u128, u128)>> {
    let number = |text: &str| match text.parse().ok()? {
        IpAddr::V4(address) => Some(u128::from(address.to_bits())),
        IpAddr::V6(address) => Some(address.to_bits()),
    };
    let numbers = ranges.iter().map(|(first, last)| Some((number(first)?, number(last)?)));
    let mut numbers = numbers.collect::<Option<Vec<_>>>()?;
    numbers.sort_unstable();
    let mut joined: Vec<(u128, u128)> = Vec::new();
    for (first, last) in numbers {
        match joined.last_mut() {
            Some(known) if first <= known.1.saturating_add(1) => known.1 = known.1.max(last),
            _ => joined.push((first, last)),
        }
    }
    Some(joined)
}

/// Returns true if two addresses of `bits` bits have the same prefix; without a length, if they are equal.
fn same_prefix(network: u128, address: u128, bits: u32, length: &str) -> bool {
    let length = if length.is_empty() { Some(bits) } else { length.parse().ok() };
    let Some(rest) = length.and_then(|length: u32| bits.checked_sub(length)) else { return false };
    let prefix = |value: u128| value.checked_shr(rest).unwrap_or_default();
    prefix(network) == prefix(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_compared_by_their_addresses() {
        let of = |ranges: &[(&str, &str)]| -> Vec<(String, String)> {
            ranges.iter().map(|(first, last)| ((*first).to_owned(), (*last).to_owned())).collect()
        };
        let one = of(&[("10.0.0.10", "10.0.0.20"), ("10.0.0.30", "10.0.0.40")]);
        assert!(same_ranges(&one, &of(&[("10.0.0.30", "10.0.0.40"), ("10.0.0.10", "10.0.0.20")])));
        assert!(same_ranges(
            &of(&[("10.0.0.1", "10.0.0.9")]),
            &of(&[("10.0.0.1", "10.0.0.4"), ("10.0.0.5", "10.0.0.9")])
        ));
        assert!(!same_ranges(&one, &of(&[("10.0.0.10", "10.0.0.20")])));
        assert!(!same_ranges(&one, &of(&[("nonsense", "10.0.0.20")])));
    }

    #[test]
    fn notations_of_an_address_are_the_same() {
        assert!(same_address("2001:DB8:0::1", "2001:db8::1") && same_address("a.lab", "a.lab"));
        assert!(!same_address("2001:db8::1", "2001:db8::2") && !same_address("", "2001:db8::1"));
    }

    #[test]
    fn an_address_is_in_a_cidr_of_its_version_with_its_prefix() {
        let table = [
            ("10.6.0.0/24", "10.6.0.9", true),
            ("10.6.0.0/24", "10.6.1.9", false),
            ("0.0.0.0/0", "192.0.2.1", true),
            ("192.0.2.1", "192.0.2.1", true),
            ("192.0.2.1/33", "192.0.2.1", false),
            ("2001:db8::/32", "2001:db8:1::1", true),
            ("::/0", "2001:db8::1", true),
            ("::/0", "192.0.2.1", false),
            ("nonsense", "192.0.2.1", false),
        ];
        for (cidr, address, expected) in table {
            assert_eq!(contains(cidr, address.parse().unwrap()), expected, "{cidr} {address}");
        }
    }
}
