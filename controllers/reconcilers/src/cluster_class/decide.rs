//! Decision about a class. Pure.

use apiserver_types::{ClusterClass, ClusterClassStatusVariable};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, OwnerReference};
use kube::ResourceExt;

use super::observe::{State, Template};
use super::variables::{self, Declared};
use crate::ownership;

/// Next step of a pass.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    /// The class becomes an owner of the template at this position.
    Own(usize),
    /// Nothing is left to do but the report.
    Report(Outcome),
}

/// Result of a pass.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Outcome {
    pub references: References,
    /// Variables by name, with the definitions of all sources; or why they are not known. For people.
    pub variables: Result<Vec<ClusterClassStatusVariable>, String>,
}

/// State of the references of a class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum References {
    /// All have the newest version of their kind.
    Latest,
    /// One line for each that has an older version.
    Outdated(String),
    /// Templates that do not exist. For people.
    Missing(String),
}

/// Returns the next step. `declared` are the variables of extension servers.
pub(super) fn decide(class: &ClusterClass, templates: &[Template], declared: &[Declared]) -> Step {
    let owner = ownership::shared(class);
    let is_due = |template: &Template| match &template.state {
        State::Found(metadata, _) => !is_owner(metadata, &owner),
        State::Missing | State::NotServed => false,
    };
    match templates.iter().position(is_due) {
        Some(position) => Step::Own(position),
        None => Step::Report(Outcome {
            references: references(class, templates),
            variables: variables::collect(class, declared),
        }),
    }
}

fn is_owner(metadata: &ObjectMeta, owner: &OwnerReference) -> bool {
    let mut owners = metadata.owner_references.iter().flatten();
    owners.any(|known| known.uid == owner.uid && known.api_version == owner.api_version)
}

/// Returns the owners of a template together with a class. A class of this name that was deleted before is replaced.
pub(super) fn owners(metadata: &ObjectMeta, owner: OwnerReference) -> Vec<OwnerReference> {
    let is_other = |known: &&OwnerReference| {
        let (group, _) = known.api_version.split_once('/').unwrap_or_default();
        let is_class = owner.api_version.split_once('/').is_some_and(|(own, _)| own == group);
        !(is_class && known.kind == owner.kind && known.name == owner.name)
    };
    let mut owners: Vec<OwnerReference> =
        metadata.owner_references.iter().flatten().filter(is_other).cloned().collect();
    owners.push(owner);
    owners
}

fn references(class: &ClusterClass, templates: &[Template]) -> References {
    let missing: Vec<String> = templates.iter().filter_map(|template| missing(class, template)).collect();
    if !missing.is_empty() {
        return References::Missing(missing.join("\n"));
    }
    let outdated: Vec<String> = templates.iter().filter_map(outdated).collect();
    if outdated.is_empty() { References::Latest } else { References::Outdated(outdated.join("\n")) }
}

/// Describes a template that does not exist.
fn missing(class: &ClusterClass, template: &Template) -> Option<String> {
    let reference = &template.reference;
    let (kind, name) = (&reference.kind, &reference.name);
    let namespace = class.namespace().unwrap_or_default();
    match template.state {
        State::Found(..) => None,
        State::Missing => Some(format!(
            "{kind} {namespace}/{name} does not exist. Create it, or correct the reference in the ClusterClass"
        )),
        State::NotServed => Some(format!(
            "{kind} {namespace}/{name}: this kind is not served here in {}. Correct the reference in the ClusterClass",
            reference.api_version
        )),
    }
}

/// Describes a reference to an older version than the newest one.
fn outdated(template: &Template) -> Option<String> {
    let State::Found(_, resource) = &template.state else { return None };
    let reference = &template.reference;
    let (_, current) = reference.api_version.split_once('/')?;
    (current != resource.version).then(|| {
        let (kind, name, latest) = (&reference.kind, &reference.name, &resource.version);
        format!("* {kind} {name}: current: {current}, latest: {latest}")
    })
}

#[cfg(test)]
#[path = "decide_tests.rs"]
mod tests;
