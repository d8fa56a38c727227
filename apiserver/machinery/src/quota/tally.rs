//! Amounts that the objects of a namespace use together. An owner accounts for the objects that it controls.

use std::collections::HashMap;

use serde_json::{Value, json};

use super::Amounts;
use crate::object;
use crate::resource::Resource;

/// Kind whose objects account for the objects that they control: the wanted replicas of a set count, and its Machines
/// count only as far as they are more.
#[derive(Debug, Clone, Copy)]
pub struct QuotaOwner {
    /// API group.
    pub group: &'static str,
    /// Kind.
    pub kind: &'static str,
    /// Returns true if an owner (the first) selects an object, so that the owner's controller counts and deletes it. Of
    /// the owner, it has the labels, the owner references and `spec.selector`.
    pub selects: fn(&Value, &Value) -> bool,
}

/// Sum of the amounts of objects.
#[derive(Debug, Default)]
pub(crate) struct Tally {
    used: Amounts,
    owners: HashMap<String, Owner>,
}

/// Object that may account for others.
#[derive(Debug)]
struct Owner {
    group: String,
    kind: String,
    fields: Value,
    own: Amounts,
    /// Amounts of the objects that it controls.
    controlled: Amounts,
}

impl Tally {
    /// Adds an object. Its owner must have been added before. `may_own` is false for kinds that own nothing.
    pub(crate) fn add(&mut self, stored: &Resource, object: &Value, may_own: bool) {
        let own = stored.strategy.quota_usage(object);
        match self.owner(stored, object) {
            Some(owner) => owner.controlled.add_all(&own),
            None => self.used.add_all(&own),
        }
        if may_own {
            let (group, kind) = (stored.group.clone(), stored.kind.clone());
            let owner = Owner { group, kind, fields: decisive(object), own, controlled: Amounts::default() };
            self.owners.insert(object::meta(object, "uid").to_owned(), owner);
        }
    }

    /// Returns the sum. What an owner controls beyond its own amounts counts, too: its controller may not delete it.
    pub(crate) fn used(&self) -> Amounts {
        let mut used = self.used.clone();
        for owner in self.owners.values() {
            used.add_all(&owner.controlled.growth(&owner.own));
        }
        used
    }

    /// Returns the object that accounts for `object`. A client chooses the owner references, so the owner must exist
    /// with this uid and select the object.
    fn owner(&mut self, stored: &Resource, object: &Value) -> Option<&mut Owner> {
        let (kind, uid) = owner_kind(stored, object)?;
        let owner = self.owners.get_mut(uid)?;
        let is_it = owner.group == kind.group && owner.kind == kind.kind;
        (is_it && (kind.selects)(&owner.fields, object)).then_some(owner)
    }
}

/// Returns the kind and the uid in the controller reference of an object, if objects of that kind may account for it.
pub(crate) fn owner_kind<'a>(stored: &Resource, object: &'a Value) -> Option<(&'static QuotaOwner, &'a str)> {
    let references = object::at(object, "metadata.ownerReferences").and_then(Value::as_array)?;
    let controller = references.iter().find(|it| it.get("controller") == Some(&Value::Bool(true)))?;
    let text = |field: &str| controller.get(field).and_then(Value::as_str).unwrap_or_default();
    let group = text("apiVersion").split_once('/').map_or("", |(group, _)| group);
    let mut kinds = stored.strategy.quota_owners().iter();
    Some((kinds.find(|owner| owner.group == group && owner.kind == text("kind"))?, text("uid")))
}

/// Returns the fields of an object, beside its amounts, that decide which owner accounts for which object.
pub(crate) fn decisive(object: &Value) -> Value {
    let field = |path: &str| object::at(object, path).cloned().unwrap_or_default();
    json!({
        "metadata": {"labels": field("metadata.labels"), "ownerReferences": field("metadata.ownerReferences")},
        "spec": {"selector": field("spec.selector")},
    })
}

/// Returns true if objects of `owner` may account for objects of `stored`.
pub(crate) fn may_own(owner: &Resource, stored: &Resource) -> bool {
    stored.strategy.quota_owners().iter().any(|it| it.group == owner.group && it.kind == owner.kind)
}

/// Returns the kinds in an order in which owners come before what they own.
pub(crate) fn owners_first(mut kinds: Vec<&Resource>) -> Vec<&Resource> {
    let mut ordered = Vec::with_capacity(kinds.len());
    while !kinds.is_empty() {
        let has_owner = |kind: &&Resource| kinds.iter().any(|owner| may_own(owner, kind));
        let (waiting, mut ready): (Vec<_>, Vec<_>) = kinds.iter().copied().partition(has_owner);
        if ready.is_empty() {
            // Kinds that own each other have no order.
            ready.extend(&waiting);
            kinds.clear();
        } else {
            kinds = waiting;
        }
        ordered.append(&mut ready);
    }
    ordered
}
