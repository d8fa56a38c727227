//! Quotas: limits on the objects of a namespace, as ResourceQuotas define them.

mod amounts;
mod quantity;
mod source;
mod tally;

use serde_json::Value;

use crate::object;
use crate::resource::{Registry, Resource};

pub use amounts::Amounts;
pub use quantity::{canonical, is_whole, whole};
pub use source::{QuotaSource, SourceQuotas};
pub use tally::QuotaOwner;
pub(crate) use tally::{Tally, decisive, may_own, owner_kind, owners_first};

/// Group and plural of ResourceQuota.
pub const RESOURCE_QUOTA: (&str, &str) = ("", "resourcequotas");

/// Prefix of the number of objects of a kind, before its plural and its group.
const COUNT: &str = "count/";

/// Kinds whose number has an old name without the prefix, too.
const OLD_NAMES: [&str; 3] = ["configmaps", "resourcequotas", "secrets"];

/// A quota: its name and its limits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Quota {
    /// Name of the ResourceQuota.
    pub name: String,
    /// The limits.
    pub hard: Amounts,
}

impl Quota {
    /// Returns the quota of a ResourceQuota. A quota with scopes selects Pods, and limits nothing here.
    pub fn of(object: &Value) -> Self {
        let hard = object::at(object, "spec.hard").filter(|_| !has_scopes(object));
        Self { name: object::name(object).to_owned(), hard: hard.map(Amounts::of).unwrap_or_default() }
    }

    /// Returns the quota of a ResourceQuota of the host cluster, with its limits on the kinds that the host serves through
    /// Capstan; `None` if it limits none of them. Its ConfigMaps are not those of the direct endpoint.
    pub fn of_host(object: &Value, registry: &Registry) -> Option<Self> {
        let Self { name, hard } = Self::of(object);
        let kinds = registry.stored().iter().filter(|stored| stored.hosted && stored.namespaced);
        let hard = hard.only(|name| kinds.clone().any(|stored| may_use(stored, name)));
        (!hard.is_empty()).then_some(Self { name, hard })
    }

    /// Returns the reason to refuse a request, in upstream's words; `None` if the quota allows it.
    pub fn refusal(&self, requested: &Amounts, used: &Amounts) -> Option<String> {
        let exceeds = |name: &str| {
            self.hard.get(name).is_some_and(|hard| used.of_name(name) + requested.of_name(name) > hard)
        };
        let exceeded: Vec<&str> = requested.names().filter(|name| exceeds(name)).collect();
        let texts = [requested, used, &self.hard].map(|amounts| amounts.text(&exceeded));
        let [requested, used, limited] = texts;
        (!exceeded.is_empty()).then(|| {
            format!("exceeded quota: {}, requested: {requested}, used: {used}, limited: {limited}", self.name)
        })
    }
}

/// Returns true if a ResourceQuota has scopes. It selects Pods then.
pub fn has_scopes(object: &Value) -> bool {
    ["spec.scopes", "spec.scopeSelector"].iter().any(|path| {
        object::at(object, path).is_some_and(|scope| match scope {
            Value::Array(scopes) => !scopes.is_empty(),
            other => !other.is_null(),
        })
    })
}

/// Returns true if the name is that of the number of a kind's objects.
pub fn counts_kind(name: &str, group: &str, plural: &str) -> bool {
    names_of_count(group, plural).iter().any(|count| count == name)
}

/// Returns the numbers of objects that one object of a kind uses.
pub(crate) fn counts(stored: &Resource) -> Amounts {
    let mut counts = Amounts::default();
    names_of_count(&stored.group, &stored.plural).iter().for_each(|name| counts.add(name, 1));
    counts
}

/// Returns the names of the number of a kind's objects.
fn names_of_count(group: &str, plural: &str) -> Vec<String> {
    if !group.is_empty() {
        return vec![format!("{COUNT}{plural}.{group}")];
    }
    let old = Some(plural).filter(|plural| OLD_NAMES.contains(plural)).map(str::to_owned);
    [format!("{COUNT}{plural}")].into_iter().chain(old).collect()
}

/// Returns true if objects of a kind may use the amount of this name.
pub(crate) fn may_use(stored: &Resource, name: &str) -> bool {
    counts_kind(name, &stored.group, &stored.plural)
        || stored.strategy.quota_prefixes().iter().any(|own| name.starts_with(own))
}

/// Returns true if the amount of this name is a number of objects, so that the objects need not be decoded.
pub(crate) fn is_count(name: &str) -> bool {
    name.starts_with(COUNT) || OLD_NAMES.contains(&name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn amounts(value: &Value) -> Amounts {
        Amounts::of(value)
    }

    #[test]
    fn a_refusal_names_only_what_is_exceeded_in_upstreams_words() {
        let quota = Quota::of(&json!({"metadata": {"name": "q"},
            "spec": {"hard": {"count/machines.cluster.x-k8s.io": "2", "count/secrets": 5, "cpu": "2"}}}));
        let requested =
            amounts(&json!({"count/machines.cluster.x-k8s.io": 1, "count/secrets": 1, "other": 9}));
        let used = amounts(&json!({"count/machines.cluster.x-k8s.io": 2, "count/secrets": 4}));
        let expected = "exceeded quota: q, requested: count/machines.cluster.x-k8s.io=1, used: \
            count/machines.cluster.x-k8s.io=2, limited: count/machines.cluster.x-k8s.io=2";
        assert_eq!(quota.refusal(&requested, &used).as_deref(), Some(expected));
        assert_eq!(quota.refusal(&requested, &Amounts::default()), None);
    }

    #[test]
    fn a_quota_with_scopes_limits_nothing() {
        let of = |spec: &Value| Quota::of(&json!({"metadata": {"name": "q"}, "spec": spec})).hard;
        let hard = json!({"count/secrets": "0"});
        assert!(of(&json!({"hard": hard, "scopes": ["BestEffort"]})).is_empty());
        assert!(of(&json!({"hard": hard, "scopeSelector": {"matchExpressions": []}})).is_empty());
        assert!(!of(&json!({"hard": hard, "scopes": []})).is_empty());
    }
}
