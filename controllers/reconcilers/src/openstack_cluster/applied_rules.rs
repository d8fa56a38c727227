//! Rules of security groups that earlier passes made, so that those of other tools can stay.

use std::collections::BTreeSet;

use apiserver_types::OpenStackCluster;
use aws_lc_rs::digest::{SHA256, digest};
use controllers_infrastructure::{NewSecurityGroupRule, SecurityGroupRule};
use kube::ResourceExt;

use super::desired::Desired;
use super::observe::Observed;

/// Annotation by which the user has rules of other tools stay.
const KEEP: &str = "capstan.dev/keep-foreign-rules";

/// Annotation with the hashes of the rules that the last pass wanted, separated by spaces.
pub(super) const ANNOTATION: &str = "capstan.dev/rules";

/// Number of bytes of the digest in a hash: enough for the rules of one cluster.
const BYTES: usize = 6;

/// Returns true if rules of other tools stay.
pub(super) fn keeps_foreign(object: &OpenStackCluster) -> bool {
    object.annotations().get(KEEP).is_some_and(|value| value == "true")
}

/// Returns the hashes of the rules that the last pass wanted.
pub(super) fn read(object: &OpenStackCluster) -> BTreeSet<String> {
    let text = object.annotations().get(ANNOTATION).map(String::as_str).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

/// Returns the hashes of all rules that are wanted now, for the annotation; `None` if no rule of another tool may stay.
pub(super) fn text(desired: &Desired, observed: &Observed) -> Option<String> {
    if !desired.keeps_foreign_rules {
        return None;
    }
    let clients = super::decide::clients(desired, observed);
    let context = observed.rule_context(&clients);
    let groups = desired.groups.iter().filter_map(|wish| Some((wish, observed.groups.get(&wish.role)?)));
    let rules = groups.flat_map(|(wish, group)| context.resolve(&wish.rules, &group.id));
    // Those of earlier passes stay until they are removed.
    let hashes: BTreeSet<String> =
        rules.map(|rule| hash(&rule)).chain(observed.applied_rules.clone()).collect();
    Some(hashes.into_iter().collect::<Vec<_>>().join(" "))
}

/// Returns true if a rule that nothing wants may be removed.
pub(super) fn is_removable(desired: &Desired, observed: &Observed, rule: &SecurityGroupRule) -> bool {
    !desired.keeps_foreign_rules || observed.applied_rules.contains(&hash(&rule.rule))
}

/// Returns the hash of a rule: of its group and its traffic. One that Neutron returns in another notation is kept.
fn hash(rule: &NewSecurityGroupRule) -> String {
    let text = format!(
        "{} {} {} {:?} {:?} {:?} {:?} {:?}",
        rule.group_id,
        rule.direction,
        rule.ether_type,
        rule.protocol,
        rule.port_min,
        rule.port_max,
        rule.remote_group_id,
        rule.remote_ip_prefix
    );
    short_hash(&text)
}

/// Returns a short hash of a text.
pub(super) fn short_hash(text: &str) -> String {
    let digest = digest(&SHA256, text.as_bytes());
    digest.as_ref().iter().take(BYTES).map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn r6_5_only_rules_of_earlier_passes_are_removed_if_those_of_other_tools_are_to_stay() {
        let spec = json!({"identityRef": {"name": "s", "cloudName": "c"}, "network": {"id": "n"}});
        let mut object = OpenStackCluster::new("c", serde_json::from_value(spec).unwrap());
        let rule = |port| {
            let rule = NewSecurityGroupRule {
                group_id: "g".to_owned(),
                direction: "ingress".to_owned(),
                port_min: Some(port),
                ..NewSecurityGroupRule::default()
            };
            SecurityGroupRule { rule, ..SecurityGroupRule::default() }
        };
        let (ours, foreign) = (rule(1), rule(2));
        let mut observed = Observed::default();
        let desired = Desired::read(&object, "c");
        assert!(is_removable(&desired, &observed, &foreign), "as upstream, without the annotation");
        assert_eq!(text(&desired, &observed), None);
        object.annotations_mut().insert(KEEP.to_owned(), "true".to_owned());
        object.annotations_mut().insert(ANNOTATION.to_owned(), hash(&ours.rule));
        observed.applied_rules = read(&object);
        let desired = Desired::read(&object, "c");
        assert!(is_removable(&desired, &observed, &ours) && !is_removable(&desired, &observed, &foreign));
        assert_eq!(text(&desired, &observed), Some(hash(&ours.rule)));
    }
}
