//! Spread of the Machines of a MachineDeployment over failure domains: the annotation that demands it. The server validates
//! it, and the controllers read it with the same function.

use std::collections::BTreeSet;

/// Annotation of a MachineDeployment with the failure domains of its new Machines: [`ALL_FAILURE_DOMAINS`], or names that
/// are separated by commas. Absent: the template determines the failure domain.
pub const SPREAD_FAILURE_DOMAINS: &str = "capstan.dev/spread-failure-domains";

/// Value of [`SPREAD_FAILURE_DOMAINS`] for all failure domains of the Cluster, also those without control planes.
pub const ALL_FAILURE_DOMAINS: &str = "all";

/// Longest name of a failure domain, as in the schema of a Machine.
const LONGEST_NAME: usize = 256;

/// Failure domains of the new Machines of a MachineDeployment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FailureDomainSpread {
    /// All failure domains of the Cluster.
    All,
    /// These failure domains, at least one.
    Listed(BTreeSet<String>),
}

/// Returns the value of [`SPREAD_FAILURE_DOMAINS`]. Spaces around a name do not count.
///
/// Returns `None` if a name is empty or longer than 256 bytes, or if `all` is among other names.
#[must_use]
pub fn failure_domain_spread(text: &str) -> Option<FailureDomainSpread> {
    if text.trim() == ALL_FAILURE_DOMAINS {
        return Some(FailureDomainSpread::All);
    }
    let names: BTreeSet<String> = text.split(',').map(|name| name.trim().to_owned()).collect();
    let is_usable = |name: &String| (1..=LONGEST_NAME).contains(&name.len()) && name != ALL_FAILURE_DOMAINS;
    names.iter().all(is_usable).then_some(FailureDomainSpread::Listed(names))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_value_is_all_or_a_list_of_names() {
        let listed = |names: &[&str]| {
            Some(FailureDomainSpread::Listed(names.iter().map(|name| (*name).to_owned()).collect()))
        };
        assert_eq!(failure_domain_spread("all"), Some(FailureDomainSpread::All));
        assert_eq!(failure_domain_spread("az1"), listed(&["az1"]));
        assert_eq!(failure_domain_spread("az2, az1,az2"), listed(&["az1", "az2"]));
        let long = "a".repeat(257);
        for unusable in ["", ",", "az1,", "all,az1", "az1, all", long.as_str()] {
            assert_eq!(failure_domain_spread(unusable), None, "{unusable}");
        }
        assert!(failure_domain_spread(&long[1..]).is_some());
    }
}
