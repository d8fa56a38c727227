//! Coverage: the check that the rules of one user include other rules.

use std::collections::BTreeMap;

use super::reasons::shown;
use super::rule::{ALL, has, path_covers};
use crate::authorizer::Rule;

/// Returns the rules that allow everything.
pub fn full_authority() -> [Rule; 2] {
    let all = || vec![ALL.to_owned()];
    [
        Rule { verbs: all(), groups: all(), resources: all(), ..Rule::default() },
        Rule { verbs: all(), paths: all(), ..Rule::default() },
    ]
}

/// Most parts that the check breaks rules into. One request can have rules with more parts than fit into memory.
const MAX_PARTS: usize = 20_000;

/// Returns the parts of `wanted` that no rule in `held` covers, as text, sorted; empty if all are covered. Each part is
/// covered by one rule as a whole: two rules that each have half of it do not cover it. A rule with too many parts
/// counts as not covered, unless one rule covers it as a whole.
pub fn uncovered(held: &[Rule], wanted: &[Rule]) -> Vec<String> {
    let is_covered = |wanted: &Rule| held.iter().any(|rule| covers(rule, wanted));
    let (mut missing, mut texts, mut count) = (Vec::new(), Vec::new(), 0_usize);
    for rule in wanted.iter().filter(|rule| !is_covered(rule)) {
        count = count.saturating_add(parts(rule));
        if count > MAX_PARTS {
            let [verb, group, resource] = [&rule.verbs, &rule.groups, &rule.resources]
                .map(|list| list.first().cloned().unwrap_or_default());
            texts.push(format!(
                "a rule with too many combinations of verbs, groups, resources and names (over {MAX_PARTS}), which \
                 begins with {verb:?}, {group:?}, {resource:?}: split it, or use \"*\""
            ));
            break;
        }
        missing.extend(break_down(rule).into_iter().filter(|part| !is_covered(part)));
    }
    texts.extend(compact(missing).iter().map(shown));
    texts.sort();
    texts.dedup();
    texts
}

/// Returns the number of parts that a rule has.
fn parts(rule: &Rule) -> usize {
    let lists = [rule.groups.len(), rule.resources.len(), rule.names.len().max(1)];
    let resources = lists.into_iter().fold(1, usize::saturating_mul);
    resources.saturating_add(rule.paths.len()).saturating_mul(rule.verbs.len())
}

/// Breaks a rule into parts with one group, resource and verb each, and one name if it has names; or with one path and
/// verb each.
fn break_down(rule: &Rule) -> Vec<Rule> {
    let one = |text: &String| vec![text.clone()];
    let mut parts = Vec::new();
    for verb in &rule.verbs {
        for group in &rule.groups {
            for resource in &rule.resources {
                let (verbs, groups, resources) = (one(verb), one(group), one(resource));
                let part = Rule { verbs, groups, resources, ..Rule::default() };
                if rule.names.is_empty() {
                    parts.push(part);
                    continue;
                }
                parts.extend(rule.names.iter().map(|name| Rule { names: one(name), ..part.clone() }));
            }
        }
        let path = |path| Rule { verbs: one(verb), paths: one(path), ..Rule::default() };
        parts.extend(rule.paths.iter().map(path));
    }
    parts
}

fn covers(owner: &Rule, part: &Rule) -> bool {
    let all = |held: &[String], wanted: &[String]| wanted.iter().all(|value| has(held, value));
    all(&owner.verbs, &part.verbs)
        && all(&owner.groups, &part.groups)
        && part.resources.iter().all(|resource| covers_resource(&owner.resources, resource))
        && part.paths.iter().all(|path| owner.paths.iter().any(|entry| path_covers(entry, path)))
        // A rule about names covers no rule about all names.
        && (owner.names.is_empty()
            || (!part.names.is_empty() && part.names.iter().all(|name| owner.names.contains(name))))
}

fn covers_resource(held: &[String], wanted: &str) -> bool {
    let is_any = |(_, subresource): (&str, &str)| {
        held.iter().any(|entry| entry.strip_prefix("*/") == Some(subresource))
    };
    has(held, wanted) || wanted.split_once('/').is_some_and(is_any)
}

/// Joins the verbs of parts that are equal otherwise. Paths stay apart.
fn compact(parts: Vec<Rule>) -> Vec<Rule> {
    let (paths, resources): (Vec<Rule>, Vec<Rule>) =
        parts.into_iter().partition(|part| part.resources.is_empty());
    let mut joined: BTreeMap<[Vec<String>; 3], Vec<String>> = BTreeMap::new();
    for Rule { verbs, groups, resources, names, .. } in resources {
        joined.entry([groups, resources, names]).or_default().extend(verbs);
    }
    let joined = joined.into_iter().map(|([groups, resources, names], verbs)| Rule {
        verbs,
        groups,
        resources,
        names,
        ..Rule::default()
    });
    joined.chain(paths).collect()
}
