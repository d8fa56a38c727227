//! Allowed address pairs of a port: ours follow the spec, and those of others stay.
//!
//! Others are the cloud controller manager with its routes, and virtual addresses of a control plane.

use apiserver_types::ResolvedPortSpec;
use controllers_infrastructure::AddressPair;

/// Returns a port's address pairs in the cloud's types.
pub(in super::super) fn wanted(spec: &ResolvedPortSpec) -> Vec<AddressPair> {
    let pair = |pair: &apiserver_types::AddressPair| AddressPair {
        ip_address: pair.ip_address.clone(),
        mac_address: pair.mac_address.clone(),
    };
    // Neutron refuses them on a port without port security.
    let pairs =
        spec.allowed_address_pairs.iter().flatten().filter(|_| spec.enable_port_security != Some(false));
    pairs.map(pair).collect()
}

/// Returns the pairs to set if those of the port differ: the wanted ones, and those that we never applied.
pub(super) fn merged(
    wanted: &[AddressPair],
    applied: &[AddressPair],
    seen: &[AddressPair],
) -> Option<Vec<AddressPair>> {
    let has = |pairs: &[AddressPair], pair: &AddressPair| pairs.iter().any(|ours| is_same(ours, pair));
    let foreign = seen.iter().filter(|pair| !has(wanted, pair) && !has(applied, pair));
    let foreign: Vec<AddressPair> = foreign.cloned().collect();
    let missing = wanted.iter().any(|ours| !seen.iter().any(|pair| is_same(ours, pair)));
    let surplus = seen.iter().any(|pair| has(applied, pair) && !has(wanted, pair));
    (missing || surplus).then(|| wanted.iter().cloned().chain(foreign).collect())
}

/// Returns true if Neutron has this pair of ours. It fills in the port's own MAC address if none is requested.
fn is_same(ours: &AddressPair, seen: &AddressPair) -> bool {
    let same_mac = match (&ours.mac_address, &seen.mac_address) {
        (Some(requested), Some(known)) => requested.eq_ignore_ascii_case(known),
        (requested, _) => requested.is_none(),
    };
    ours.ip_address == seen.ip_address && same_mac
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(addresses: &[&str]) -> Vec<AddressPair> {
        let pair = |address: &&str| AddressPair { ip_address: (*address).to_owned(), mac_address: None };
        addresses.iter().map(pair).collect()
    }

    #[test]
    fn r10_5_pairs_that_another_program_added_stay() {
        type Names = &'static [&'static str];
        let table: [(Names, Names, Names, Option<Names>); 6] = [
            (&["a"], &["a"], &["a"], None),
            (&["a"], &["a"], &["a", "route"], None),
            (&["b"], &["a"], &["a", "route"], Some(&["b", "route"])),
            (&[], &["a"], &["a", "route"], Some(&["route"])),
            (&["a", "b"], &[], &["a"], Some(&["a", "b"])),
            (&[], &[], &["route"], None),
        ];
        for (wanted, applied, seen, expected) in table {
            let result = merged(&pairs(wanted), &pairs(applied), &pairs(seen));
            assert_eq!(result, expected.map(pairs), "{wanted:?} {applied:?} {seen:?}");
        }
    }

    #[test]
    fn a_mac_address_counts_only_if_it_is_requested() {
        let with =
            |mac: &str| vec![AddressPair { ip_address: "a".to_owned(), mac_address: Some(mac.to_owned()) }];
        assert_eq!(merged(&pairs(&["a"]), &[], &with("fa:16")), None);
        assert_eq!(merged(&with("FA:16"), &[], &with("fa:16")), None);
        assert_eq!(
            merged(&with("fa:17"), &[], &with("fa:16")).unwrap(),
            [with("fa:17"), with("fa:16")].concat()
        );
    }
}
