//! Refused networks. They are fields of the Cluster.

use std::net::IpAddr;

use apiserver_types::{ClusterConfiguration, NetworkRanges};

use super::{Init, Refusal, values};

/// Fewest addresses of services and of pods, and the most bits of the addresses of services. kubeadm's numbers.
const SMALLEST_SERVICES_BITS: u32 = 4;
const SMALLEST_PODS_BITS: u32 = 6;
const LARGEST_SERVICES_BITS: u32 = 20;

/// Largest difference between the lengths of the prefixes of all pods and of those of a node.
const LARGEST_DIFFERENCE: u32 = 16;

/// Lengths of the prefix of a node's pods, for each version of IP: the flag of the controllers, and its default.
const NODE_PREFIXES: [(&str, u32); 2] = [("node-cidr-mask-size-ipv4", 24), ("node-cidr-mask-size-ipv6", 64)];

/// Range of addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Range {
    is_v6: bool,
    prefix: u32,
}

impl Range {
    fn parse(text: &str) -> Option<Self> {
        let (address, prefix) = text.trim().split_once('/')?;
        let (address, prefix) = (address.parse::<IpAddr>().ok()?, prefix.parse().ok()?);
        let range = Self { is_v6: address.is_ipv6(), prefix };
        (prefix <= range.bits()).then_some(range)
    }

    const fn bits(self) -> u32 {
        if self.is_v6 { 128 } else { 32 }
    }

    /// Number of bits that differ between the addresses.
    const fn size(self) -> u32 {
        self.bits() - self.prefix
    }
}

/// Returns the refused networks.
pub(super) fn refusals(input: &Init<'_>) -> Vec<Refusal> {
    let Some(network) = input.network else { return Vec::new() };
    let field = |name: &str| format!("spec.clusterNetwork.{name} of Cluster {}", input.cluster_name);
    let domain = network.service_domain.as_deref().filter(|domain| !domain.is_empty());
    let domain = domain.and_then(|domain| values::broken(domain, values::name));
    let services = broken(network.services.as_ref(), service_range);
    let pods = broken(network.pods.as_ref(), |range| pod_range(range, input.cluster));
    let all = [("serviceDomain", domain), ("services.cidrBlocks", services), ("pods.cidrBlocks", pods)];
    all.into_iter().filter_map(|(name, cause)| Some(Refusal::new(field(name), cause?))).collect()
}

/// Returns the first broken rule of a list of ranges: one, or one for each version of IP.
fn broken(ranges: Option<&NetworkRanges>, rule: impl Fn(Range) -> Option<String>) -> Option<String> {
    let texts = ranges.map(|it| it.cidr_blocks.as_slice()).unwrap_or_default();
    let mut known: Vec<Range> = Vec::new();
    for text in texts {
        let Some(range) = Range::parse(text) else {
            return Some(format!("{text:?} is no range of addresses"));
        };
        if known.len() > 1 || known.iter().any(|it| it.is_v6 == range.is_v6) {
            return Some("more than one range for the same version of IP".to_owned());
        }
        if let Some(cause) = rule(range) {
            return Some(format!("{text:?} {cause}"));
        }
        known.push(range);
    }
    None
}

fn service_range(range: Range) -> Option<String> {
    if range.size() < SMALLEST_SERVICES_BITS {
        let longest = range.bits() - SMALLEST_SERVICES_BITS;
        return Some(format!("is too small: the longest prefix is /{longest}"));
    }
    let shortest = range.bits() - LARGEST_SERVICES_BITS;
    (range.prefix < shortest).then(|| format!("is too large: the shortest prefix is /{shortest}"))
}

fn pod_range(range: Range, cluster: &ClusterConfiguration) -> Option<String> {
    if range.size() < SMALLEST_PODS_BITS {
        return Some(format!("is too small: the longest prefix is /{}", range.bits() - SMALLEST_PODS_BITS));
    }
    let arguments = cluster.controller_manager.as_ref().and_then(|it| it.extra_args.as_deref());
    let value = |name: &str| {
        let found = arguments.unwrap_or_default().iter().rfind(|argument| argument.name == name);
        found.map(|argument| argument.value.as_str()).filter(|value| !value.is_empty())
    };
    if value("allocate-node-cidrs") == Some("false") {
        return None;
    }
    let [v4, v6] = NODE_PREFIXES;
    let (flag, default) = if range.is_v6 { v6 } else { v4 };
    // The controllers refuse a value that is no number, which is another matter.
    let node: u32 = value(flag).map_or(Some(default), |value| value.parse().ok())?;
    let remedy = format!("Correct it, or the flag {flag} in controllerManager.extraArgs");
    if range.prefix > node {
        return Some(format!(
            "is smaller than the range of one node, which has the prefix /{node}. {remedy}"
        ));
    }
    (node - range.prefix > LARGEST_DIFFERENCE)
        .then(|| format!("is too large for ranges of one node with the prefix /{node}. {remedy}"))
}

#[cfg(test)]
mod tests {
    use apiserver_types::{ClusterNetwork, InitConfiguration};
    use serde_json::{Value, json};

    use super::*;

    fn found(network: Value, arguments: &Value) -> Vec<String> {
        let network: ClusterNetwork = serde_json::from_value(network).unwrap();
        let cluster = json!({"controllerManager": {"extraArgs": arguments}});
        let input = Init {
            cluster_name: "blue",
            version: "v1.36.3",
            endpoint: None,
            network: Some(&network),
            cluster: &serde_json::from_value(cluster).unwrap(),
            node: &InitConfiguration::default(),
        };
        refusals(&input).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn ranges_must_have_a_size_that_kubeadm_accepts() {
        let of = |name: &str, blocks: &[&str]| json!({name: {"cidrBlocks": blocks}});
        let table = [
            (of("services", &["10.96.0.0/12", "fd00::/108"]), None),
            (of("services", &["10.0.0.0/8"]), Some("is too large: the shortest prefix is /12")),
            (of("services", &["fd00::/64"]), Some("is too large: the shortest prefix is /108")),
            (of("services", &["10.96.0.0/28"]), None),
            (of("services", &["10.96.0.0/29"]), Some("is too small: the longest prefix is /28")),
            (of("services", &["10.0.0.0/16", "10.1.0.0/16"]), Some("more than one range")),
            (of("services", &["10.96.0.0"]), Some("is no range of addresses")),
            (of("pods", &["10.244.0.0/16", "fd01::/48"]), None),
            (of("pods", &["10.244.0.0/25"]), Some("is smaller than the range of one node")),
            (of("pods", &["10.0.0.0/7"]), Some("is too large for ranges of one node")),
            (of("pods", &["10.0.0.0/27"]), Some("is too small: the longest prefix is /26")),
            (json!({"serviceDomain": "Cluster.local"}), Some("is no DNS name in lower case")),
        ];
        for (network, expected) in table {
            let found = found(network.clone(), &json!([]));
            assert_eq!(found.len(), usize::from(expected.is_some()), "{network}: {found:?}");
            let is_told =
                |text: &str| found.iter().all(|it| it.contains(text) && it.contains("of Cluster blue"));
            assert!(expected.is_none_or(is_told), "{network}: {found:?}");
        }
    }

    #[test]
    fn the_flags_of_the_controllers_count() {
        let small = json!({"pods": {"cidrBlocks": ["10.244.0.0/25"]}});
        let flag = |name: &str, value: &str| json!([{"name": name, "value": value}]);
        assert!(found(small.clone(), &flag("node-cidr-mask-size-ipv4", "26")).is_empty());
        assert!(found(small.clone(), &flag("allocate-node-cidrs", "false")).is_empty());
        assert_eq!(found(small, &flag("node-cidr-mask-size-ipv6", "120")).len(), 1);
    }
}
