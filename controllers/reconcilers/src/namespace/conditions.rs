//! Conditions of a namespace that is being deleted, which name the objects and finalizers that delay it. They are
//! upstream's conditions, which users and tools read.

use std::collections::BTreeMap;

use controllers_runtime::api_text;
use k8s_openapi::api::core::v1::NamespaceCondition;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
use kube::ResourceExt;
use kube::api::{ApiResource, DynamicObject, PartialObjectMeta};

/// Conditions that always hold, with reason and message: kinds are known here, and not discovered.
const WELL: [(&str, &str, &str); 5] = [
    ("NamespaceDeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
    (
        "NamespaceDeletionGroupVersionParsingFailure",
        "ParsedGroupVersions",
        "All legacy kube types successfully parsed",
    ),
    (FAILURE, "ContentDeleted", "All content successfully deleted, may be waiting on finalization"),
    (REMAINING, "ContentRemoved", "All content successfully removed"),
    (FINALIZERS, "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
];

const FAILURE: &str = "NamespaceDeletionContentFailure";
const REMAINING: &str = "NamespaceContentRemaining";
const FINALIZERS: &str = "NamespaceFinalizersRemaining";

/// Objects that are left in a namespace.
#[derive(Debug, Default)]
pub(super) struct Remains {
    /// Objects, by `plural.group`.
    kinds: BTreeMap<String, usize>,
    /// Objects with each finalizer.
    finalizers: BTreeMap<String, usize>,
    /// Errors of kinds.
    failures: Vec<String>,
}

impl Remains {
    /// Returns the state of a namespace of which it is not known whether the host cluster has it, too.
    pub(super) fn unknown(error: &kube::Error) -> Self {
        let failure = format!("{}. No object is deleted until this is known", api_text(error));
        Self { failures: vec![failure], ..Self::default() }
    }

    /// Counts objects of a kind.
    pub(super) fn count(&mut self, kind: &ApiResource, left: &[PartialObjectMeta<DynamicObject>]) {
        if left.is_empty() {
            return;
        }
        self.kinds.insert(format!("{}.{}", kind.plural, kind.group), left.len());
        for finalizer in left.iter().flat_map(|object| object.finalizers()) {
            let count = self.finalizers.entry(finalizer.clone()).or_default();
            *count = count.saturating_add(1);
        }
    }

    /// Records that a kind could not be deleted.
    pub(super) fn failed(&mut self, error: &kube::Error) {
        self.failures.push(api_text(error));
    }

    /// Returns true if a kind could not be deleted, or if it is not known whether it may be.
    pub(super) fn has_failures(&self) -> bool {
        !self.failures.is_empty()
    }

    /// Returns true if nothing is left.
    pub(super) fn is_nothing(&self) -> bool {
        self.kinds.is_empty() && self.failures.is_empty()
    }

    /// Returns the new conditions, given the old ones; `None` if nothing changes.
    pub(super) fn conditions(
        &self,
        old: &[NamespaceCondition],
        now: &Time,
    ) -> Option<Vec<NamespaceCondition>> {
        let mut all = old.to_vec();
        for (type_, reason, message) in WELL {
            let found = self.condition(type_).unwrap_or_else(|| condition(type_, "False", reason, message));
            match all.iter_mut().find(|old| old.type_ == type_) {
                Some(old) => {
                    let since =
                        if old.status == found.status { old.last_transition_time.clone() } else { None };
                    let since = since.or_else(|| Some(now.clone()));
                    *old = NamespaceCondition { last_transition_time: since, ..found };
                }
                None => all.push(NamespaceCondition { last_transition_time: Some(now.clone()), ..found }),
            }
        }
        (all != old).then_some(all)
    }

    fn condition(&self, type_: &str) -> Option<NamespaceCondition> {
        match type_ {
            FAILURE if !self.failures.is_empty() => {
                let count = self.failures.len();
                let message = format!(
                    "Failed to delete all resource types, {count} remaining: {}",
                    self.failures.join(", ")
                );
                Some(condition(type_, "True", "ContentDeletionFailed", &message))
            }
            REMAINING if !self.kinds.is_empty() => {
                let each =
                    self.kinds.iter().map(|(kind, count)| format!("{kind} has {count} resource instances"));
                let message = format!("Some resources are remaining: {}", join(each));
                Some(condition(type_, "True", "SomeResourcesRemain", &message))
            }
            FINALIZERS if !self.finalizers.is_empty() => {
                let each = self
                    .finalizers
                    .iter()
                    .map(|(name, count)| format!("{name} in {count} resource instances"));
                let message =
                    format!("Some content in the namespace has finalizers remaining: {}", join(each));
                Some(condition(type_, "True", "SomeFinalizersRemain", &message))
            }
            _ => None,
        }
    }
}

fn join(each: impl Iterator<Item = String>) -> String {
    each.collect::<Vec<_>>().join(", ")
}

fn condition(type_: &str, status: &str, reason: &str, message: &str) -> NamespaceCondition {
    NamespaceCondition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: Some(reason.to_owned()),
        message: Some(message.to_owned()),
        last_transition_time: None,
    }
}

#[cfg(test)]
mod tests {
    use k8s_openapi::jiff::Timestamp;
    use serde_json::json;

    use super::*;

    fn condition(conditions: &[NamespaceCondition], type_: &str) -> (String, String) {
        let found = conditions.iter().find(|condition| condition.type_ == type_).unwrap();
        (found.status.clone(), found.message.clone().unwrap())
    }

    #[test]
    fn a_kind_that_cannot_be_deleted_is_reported_in_the_words_of_the_api() {
        let status = json!({"code": 403, "reason": "Forbidden", "message": "ClusterClass c is used"});
        let mut remains = Remains::default();
        remains.failed(&kube::Error::Api(Box::new(serde_json::from_value(status).unwrap())));
        let conditions = remains.conditions(&[], &Time(Timestamp::UNIX_EPOCH)).unwrap();
        let expected = "Failed to delete all resource types, 1 remaining: ClusterClass c is used";
        assert_eq!(condition(&conditions, FAILURE), ("True".to_owned(), expected.to_owned()));
    }

    #[test]
    fn remaining_content_of_a_namespace_is_reported_until_it_is_deleted() {
        let secrets = ApiResource::erase::<k8s_openapi::api::core::v1::Secret>(&());
        let held: PartialObjectMeta<DynamicObject> =
            serde_json::from_value(json!({"metadata": {"name": "held", "finalizers": ["x.io/f"]}})).unwrap();
        let mut remains = Remains::default();
        remains.count(&secrets, std::slice::from_ref(&held));
        let (early, late) = (Time(Timestamp::UNIX_EPOCH), Time(Timestamp::now()));
        let conditions = remains.conditions(&[], &early).unwrap();
        let types: Vec<&str> = conditions.iter().map(|condition| condition.type_.as_str()).collect();
        assert_eq!(types, WELL.map(|(type_, ..)| type_));
        let expected = "Some resources are remaining: secrets. has 1 resource instances";
        assert_eq!(condition(&conditions, REMAINING), ("True".to_owned(), expected.to_owned()));
        let expected =
            "Some content in the namespace has finalizers remaining: x.io/f in 1 resource instances";
        assert_eq!(condition(&conditions, FINALIZERS), ("True".to_owned(), expected.to_owned()));
        assert_eq!(condition(&conditions, FAILURE).0, "False");
        assert_eq!(remains.conditions(&conditions, &late), None, "nothing has changed");

        let over = Remains::default().conditions(&conditions, &late).unwrap();
        assert_eq!(
            condition(&over, REMAINING),
            ("False".to_owned(), "All content successfully removed".to_owned())
        );
        let since = |type_| over.iter().find(|it| it.type_ == type_).unwrap().last_transition_time.clone();
        assert_eq!((since(REMAINING), since(FAILURE)), (Some(late), Some(early)));
    }
}
