//! ResourceQuota: strategy, validation, table and protobuf form.

use apiserver_machinery::age::age;
use apiserver_machinery::metadata::qualified_name_errors;
use apiserver_machinery::object;
use apiserver_machinery::protobuf::{Field, METADATA, Shape};
use apiserver_machinery::quota::{canonical, counts_kind, has_scopes, is_whole, whole};
use apiserver_machinery::related::{ObjectReader, Verdict};
use apiserver_machinery::status::ApiResult;
use apiserver_machinery::strategy::Strategy;
use apiserver_machinery::table::{OwnColumn, OwnTable};
use apiserver_schema::field_errors::{FieldError, FieldPath};
use apiserver_types::DESCRIPTORS;
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Map, Value, json};

use crate::rules::quota_usage;

/// Names without a group that upstream knows. Those of Pods and volumes limit nothing here.
const STANDARD: [&str; 19] = [
    "configmaps",
    "cpu",
    "ephemeral-storage",
    "limits.cpu",
    "limits.ephemeral-storage",
    "limits.memory",
    "memory",
    "persistentvolumeclaims",
    "pods",
    "replicationcontrollers",
    "requests.cpu",
    "requests.ephemeral-storage",
    "requests.memory",
    "requests.storage",
    "resourcequotas",
    "secrets",
    "services",
    "services.loadbalancers",
    "services.nodeports",
];

/// Errors of another name without a group. Upstream has two checks.
const NOT_STANDARD: [&str; 2] =
    ["must be a standard resource type or fully qualified", "must be a standard resource for quota"];

/// Strategy of ResourceQuota.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ResourceQuotaStrategy;

#[async_trait]
impl Strategy for ResourceQuotaStrategy {
    fn drops_nulls(&self) -> bool {
        true
    }

    /// Writes numbers as texts, which typed clients expect, and removes amounts without names.
    fn canonicalize(&self, new: &mut Value) {
        for part in ["spec", "status"] {
            let Some(part) = new.get_mut(part).and_then(Value::as_object_mut) else { continue };
            for field in ["hard", "used"] {
                let amounts = part.get_mut(field).and_then(Value::as_object_mut);
                for amount in amounts.into_iter().flatten().map(|(_, it)| it) {
                    if let Some(number) = amount.as_i64() {
                        *amount = json!(canonical(number));
                    }
                }
                if part.get(field) == Some(&json!({})) {
                    part.remove(field);
                }
            }
        }
    }

    /// Sets `spec` and `status`, which upstream's type always has.
    fn prepare(&self, new: &mut Value, _old: Option<&Value>) {
        let Some(root) = new.as_object_mut() else { return };
        for part in ["spec", "status"] {
            root.entry(part).or_insert_with(|| json!({}));
        }
    }

    fn reads_status(&self) -> bool {
        true
    }

    fn validate(&self, new: &Value, _old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let at = FieldPath::new("spec.hard");
        for (name, quantity) in object::at(new, "spec.hard").and_then(Value::as_object).into_iter().flatten()
        {
            let path = at.key(name);
            let wrong = qualified_name_errors(name).into_iter();
            errors.extend(wrong.map(|why| FieldError::invalid(path.clone(), &json!(name), &why)));
            if !name.contains('/') && !STANDARD.contains(&name.as_str()) {
                for why in NOT_STANDARD {
                    errors.push(FieldError::invalid(path.clone(), &json!(name), why));
                }
            }
            if whole(quantity).is_some_and(|amount| amount < 0) {
                let why = "must be greater than or equal to 0";
                errors.push(FieldError::invalid(path.clone(), quantity, why));
            }
            if name.contains('/') && !is_whole(quantity) {
                errors.push(FieldError::invalid(path, quantity, "must be an integer"));
            }
        }
        errors
    }

    async fn validate_with(
        &self,
        new: &Value,
        old: Option<&Value>,
        _others: &dyn ObjectReader,
    ) -> ApiResult<Verdict> {
        Ok(Verdict { warnings: warnings(new, old), ..Verdict::default() })
    }

    fn allow_unconditional_update(&self) -> bool {
        true
    }

    fn table(&self) -> Option<OwnTable> {
        Some(TABLE)
    }

    fn protobuf(&self) -> Option<&'static [Field]> {
        Some(MESSAGE)
    }
}

/// Returns warnings about limits on Capstan's objects that nothing enforces, unless they are those of the stored
/// object. Without them, a misspelled name would be found only when the limit is exceeded.
fn warnings(new: &Value, old: Option<&Value>) -> Vec<String> {
    if old.is_some_and(|old| old.get("spec") == new.get("spec")) {
        return Vec::new();
    }
    let hard = object::at(new, "spec.hard").and_then(Value::as_object).into_iter().flatten();
    let mut names = hard.map(|(name, _)| name.as_str());
    if has_scopes(new) {
        let enforced = names.find(|name| is_enforced(name));
        let why =
            |name| format!("spec.hard[{name}]: a quota with scopes selects Pods, so it does not limit this");
        return enforced.map(why).into_iter().collect();
    }
    let unused = names.filter(|name| is_of_capstan(name) && !is_enforced(name));
    unused
        .map(|name| format!("spec.hard[{name}]: no object uses this amount, so it limits nothing"))
        .collect()
}

/// Returns true if objects of a kind use the amount of this name.
fn is_enforced(name: &str) -> bool {
    let mut namespaced = DESCRIPTORS.iter().filter(|kind| kind.namespaced);
    quota_usage::MACHINES.contains(&name)
        || quota_usage::SERVERS.iter().any(|prefix| name.starts_with(prefix))
        || namespaced.any(|kind| counts_kind(name, kind.group, kind.plural))
}

/// Returns true if the name is in the form of an amount of Capstan's objects.
fn is_of_capstan(name: &str) -> bool {
    let Some(("count", counted)) = name.split_once('/') else { return name.starts_with("capstan.dev/") };
    let group = counted.split_once('.').map_or("", |(_, group)| group);
    DESCRIPTORS.iter().any(|kind| kind.group == group)
}

/// Protobuf message.
const MESSAGE: &[Field] = &[
    METADATA,
    Field::new(
        2,
        "spec",
        Shape::Message(&[
            Field::new(1, "hard", Shape::Quantities),
            Field::list(2, "scopes", Shape::Text),
            Field::pointer(3, "scopeSelector", Shape::Message(SELECTOR)),
        ]),
    ),
    Field::new(
        3,
        "status",
        Shape::Message(&[Field::new(1, "hard", Shape::Quantities), Field::new(2, "used", Shape::Quantities)]),
    ),
];

const SELECTOR: &[Field] = &[Field::list(
    1,
    "matchExpressions",
    Shape::Message(&[
        Field::new(1, "scopeName", Shape::Text),
        Field::new(2, "operator", Shape::Text),
        Field::list(3, "values", Shape::Text),
    ]),
)];

const TABLE: OwnTable = OwnTable {
    columns: &[
        OwnColumn { format: "name", ..column("Name", "Name of the quota.") },
        column("Request", "Used and allowed amounts."),
        column("Limit", "Used and allowed limits of Pods. Capstan runs no Pods."),
        column("Age", "Time since its creation."),
    ],
    cells,
};

const fn column(name: &'static str, description: &'static str) -> OwnColumn {
    OwnColumn { name, format: "", priority: 0, description }
}

fn cells(quota: &Value, now: Timestamp) -> Vec<Value> {
    let empty = Map::new();
    let amounts = |path: &str| object::at(quota, path).and_then(Value::as_object).unwrap_or(&empty);
    let (hard, used) = (amounts("status.hard"), amounts("status.used"));
    let mut names: Vec<&String> = hard.keys().collect();
    names.sort_unstable();
    let text = |are_limits: bool| {
        let own = names.iter().filter(|name| name.starts_with("limits.") == are_limits);
        let shown = |amounts: &Map<String, Value>, name: &str| {
            amounts.get(name).and_then(Value::as_str).unwrap_or("0").to_owned()
        };
        let texts = own.map(|name| format!("{name}: {}/{}", shown(used, name), shown(hard, name)));
        texts.collect::<Vec<_>>().join(", ")
    };
    vec![
        json!(object::name(quota)),
        json!(text(false)),
        json!(text(true)),
        json!(age(object::meta(quota, "creationTimestamp"), now)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_qualified_and_numbers_of_objects_are_whole_and_positive() {
        let table = [
            ("count/machines.cluster.x-k8s.io", json!("5"), None),
            ("capstan.dev/servers.m1.large", json!(5), None),
            ("requests.cpu", json!("1500m"), None),
            ("secrets", json!("-1"), Some("must be greater than or equal to 0")),
            ("count/secrets", json!("1500m"), Some("must be an integer")),
            ("machines", json!("5"), Some("must be a standard resource type or fully qualified")),
            ("count/a b", json!("5"), Some("")),
        ];
        for (name, amount, expected) in table {
            let quota = json!({"spec": {"hard": {name: amount}}});
            let errors: Vec<String> =
                ResourceQuotaStrategy.validate(&quota, None).iter().map(ToString::to_string).collect();
            assert_eq!(errors.is_empty(), expected.is_none(), "{errors:?}");
            if let Some(expected) = expected {
                assert!(errors[0].starts_with(&format!("spec.hard[{name}]")), "{errors:?}");
                assert!(errors[0].contains(expected), "{errors:?}");
            }
        }
    }

    #[test]
    fn limits_that_nothing_enforces_are_warned_of_once() {
        let quota = |spec: &Value| json!({"spec": spec});
        let known = json!({"hard": {"count/clusters.cluster.x-k8s.io": "1", "count/secrets": "1", "configmaps": "1",
            "capstan.dev/machines": "1", "capstan.dev/control-plane-machines": "1", "capstan.dev/servers.m1.large": "1",
            "pods": "1", "example.com/gpu": "1", "count/deployments.apps": "1"}});
        assert_eq!(warnings(&quota(&known), None), Vec::<String>::new());
        for name in ["count/cluster.cluster.x-k8s.io", "count/namespaces", "capstan.dev/machine"] {
            let new = quota(&json!({"hard": {name: "1"}}));
            let expected = format!("spec.hard[{name}]: no object uses this amount, so it limits nothing");
            assert_eq!(warnings(&new, None), [expected]);
            assert_eq!(warnings(&new, Some(&new)), Vec::<String>::new());
        }
        let scoped = |name: &str| quota(&json!({"hard": {name: "1"}, "scopes": ["BestEffort"]}));
        assert!(warnings(&scoped("count/secrets"), None)[0].contains("a quota with scopes"));
        assert_eq!(warnings(&scoped("pods"), None), Vec::<String>::new());
    }

    #[test]
    fn numbers_become_texts_and_the_table_shows_the_use() {
        let mut quota = json!({"metadata": {"name": "q"}, "spec": {"hard": {"a": 1000, "b": "7"}},
            "status": {"hard": {"count/a": "2", "limits.cpu": "1"}, "used": {"count/a": "1"}}});
        ResourceQuotaStrategy.canonicalize(&mut quota);
        assert_eq!(quota["spec"]["hard"], json!({"a": "1k", "b": "7"}));
        let mut empty = json!({"spec": {"hard": {}}});
        ResourceQuotaStrategy.canonicalize(&mut empty);
        ResourceQuotaStrategy.prepare(&mut empty, None);
        assert_eq!(empty, json!({"spec": {}, "status": {}}), "as upstream's type");
        let cells = cells(&quota, Timestamp::now());
        assert_eq!(cells[..3], [json!("q"), json!("count/a: 1/2"), json!("limits.cpu: 0/1")]);
    }
}
