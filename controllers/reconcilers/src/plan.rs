//! Plan of a rollout: the effects of a change on each Machine, before the change is made. Nothing is written.
//!
//! The controllers' own decisions are repeated on a model, in which new Machines become available at once.

use std::collections::BTreeSet;

use apiserver_types::Cluster;
use kube::Resource;
use serde_json::{Value, json};

use crate::paused;

/// Effect on one Machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It stays as it is.
    Keep,
    /// It stays, and some of its fields change.
    InPlace,
    /// It is deleted, and a new Machine takes its place.
    Replace,
    /// It is made.
    Create,
    /// It is deleted, and none takes its place.
    Delete,
}

impl Effect {
    fn text(self) -> &'static str {
        match self {
            Self::Keep => "Keep",
            Self::InPlace => "InPlace",
            Self::Replace => "Replace",
            Self::Create => "Create",
            Self::Delete => "Delete",
        }
    }
}

/// Machine of a plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlannedMachine {
    pub name: String,
    pub effect: Effect,
    /// Reasons, one line each.
    pub reasons: Vec<String>,
}

/// Change of the number of Machines.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum PlannedStep {
    /// A new Machine, under a name of the plan.
    Create(String),
    /// The Machine of this name goes.
    Delete(String),
}

/// Plan of a rollout.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Plan {
    /// Machines that exist, then those that are made.
    pub machines: Vec<PlannedMachine>,
    /// Steps in their order. Several steps can be made at the same time.
    pub steps: Vec<PlannedStep>,
    /// Reasons for which the steps are not made now.
    pub obstacles: Vec<String>,
    /// Sentences about quotas that the steps will meet.
    pub forecasts: Vec<String>,
    /// Sentences about the drains of the Machines that go. Those of a Cluster are in its plan.
    pub drains: Vec<String>,
}

impl Plan {
    /// Reports whether a step makes a Machine.
    pub(crate) fn creates(&self) -> bool {
        self.steps.iter().any(|step| matches!(step, PlannedStep::Create(_)))
    }

    /// Returns the object to send.
    pub(crate) fn object(&self, namespace: &str, name: &str) -> Value {
        let mut object = json!({
            "apiVersion": "capstan.dev/v1alpha1", "kind": "RolloutPlan",
            "metadata": {"namespace": namespace, "name": name},
        });
        if let (Some(object), Value::Object(content)) = (object.as_object_mut(), self.content()) {
            object.extend(content);
        }
        object["drains"] = json!(self.drains);
        object
    }

    /// Returns the names of the Machines that go.
    pub(crate) fn going(&self) -> BTreeSet<String> {
        let goes = |it: &&PlannedMachine| matches!(it.effect, Effect::Replace | Effect::Delete);
        self.machines.iter().filter(goes).map(|it| it.name.clone()).collect()
    }

    /// Returns the number of Machines with an effect.
    pub(crate) fn count(&self, effect: Effect) -> usize {
        self.machines.iter().filter(|it| it.effect == effect).count()
    }

    /// Returns the fields of the object that a rollout of a Cluster has, too.
    pub(crate) fn content(&self) -> Value {
        let machines = self.machines.iter().map(|machine| {
            json!({"name": machine.name, "effect": machine.effect.text(), "reasons": machine.reasons})
        });
        let steps = self.steps.iter().map(|step| match step {
            PlannedStep::Create(machine) => json!({"action": "Create", "machine": machine}),
            PlannedStep::Delete(machine) => json!({"action": "Delete", "machine": machine}),
        });
        json!({
            "summary": summary(|effect| self.count(effect)),
            "machines": machines.collect::<Vec<_>>(), "steps": steps.collect::<Vec<_>>(),
            "obstacles": self.obstacles, "forecasts": self.forecasts,
        })
    }
}

/// Returns the numbers of Machines by their effects.
pub(crate) fn summary(count: impl Fn(Effect) -> usize) -> Value {
    json!({
        "keep": count(Effect::Keep), "inPlace": count(Effect::InPlace), "replace": count(Effect::Replace),
        "create": count(Effect::Create), "delete": count(Effect::Delete),
    })
}

/// Returns why the controllers do not work on an object of a Cluster. `name` is that of the Cluster, which may not exist.
pub(crate) fn held_by<K>(object: &K, name: &str, cluster: Option<&Cluster>) -> Vec<String>
where
    K: Resource<DynamicType = ()>,
{
    let Some(cluster) = cluster else {
        return vec![format!("Cluster {name} does not exist. Create it, or correct the name")];
    };
    let going = cluster.metadata.deletion_timestamp.as_ref();
    let mut lines: Vec<String> =
        going.map(|_| format!("Cluster {name} is being deleted")).into_iter().collect();
    if controllers_runtime::paused(object, Some(cluster)) {
        lines.push(paused::condition(object, Some(cluster), &controllers_runtime::now()).message);
    }
    lines
}

/// Returns the fields that differ between two objects, as paths.
pub(crate) fn changed_fields(path: &str, old: &Value, new: &Value, lines: &mut Vec<String>) {
    if old == new {
        return;
    }
    let (Value::Object(before), Value::Object(after)) = (old, new) else {
        lines.push(path.to_owned());
        return;
    };
    let mut keys: Vec<&String> = before.keys().chain(after.keys()).collect();
    keys.sort();
    keys.dedup();
    let none = Value::Null;
    for key in keys {
        let (old, new) = (before.get(key).unwrap_or(&none), after.get(key).unwrap_or(&none));
        changed_fields(&format!("{path}.{key}"), old, new, lines);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_that_is_absent_paused_or_being_deleted_is_an_obstacle() {
        let object = Cluster::default();
        let held = |cluster: Option<&Cluster>| held_by(&object, "c", cluster);
        assert_eq!(held(None), ["Cluster c does not exist. Create it, or correct the name"]);
        let mut cluster = Cluster::default();
        assert_eq!(held(Some(&cluster)), [""; 0]);
        cluster.spec.paused = Some(true);
        assert_eq!(held(Some(&cluster)), ["Cluster spec.paused is set to true"]);
        cluster.metadata.deletion_timestamp = serde_json::from_value(json!("2026-01-01T00:00:00Z")).unwrap();
        assert_eq!(
            held(Some(&cluster)),
            ["Cluster c is being deleted", "Cluster spec.paused is set to true"]
        );
    }

    #[test]
    fn a_plan_counts_its_effects_and_lists_its_steps() {
        let machine = |name: &str, effect| PlannedMachine {
            name: name.to_owned(),
            effect,
            reasons: vec!["r".to_owned()],
        };
        let plan = Plan {
            machines: vec![machine("a", Effect::Replace), machine("b", Effect::Keep)],
            steps: vec![PlannedStep::Create("x".to_owned()), PlannedStep::Delete("a".to_owned())],
            forecasts: vec!["it never fits".to_owned()],
            drains: vec!["a budget".to_owned()],
            ..Plan::default()
        };
        let object = plan.object("ns", "md");
        assert!(plan.creates() && !Plan { steps: Vec::new(), ..plan.clone() }.creates());
        assert_eq!((&object["obstacles"], &object["forecasts"]), (&json!([]), &json!(["it never fits"])));
        assert_eq!((&object["drains"], plan.content().get("drains")), (&json!(["a budget"]), None));
        assert_eq!(plan.going(), BTreeSet::from(["a".to_owned()]));
        assert_eq!(
            object["summary"],
            json!({"keep": 1, "inPlace": 0, "replace": 1, "create": 0, "delete": 0})
        );
        assert_eq!(object["machines"][0], json!({"name": "a", "effect": "Replace", "reasons": ["r"]}));
        assert_eq!(object["steps"][1], json!({"action": "Delete", "machine": "a"}));
        let mut lines = Vec::new();
        let (old, new) = (json!({"a": {"b": 1}, "c": 1}), json!({"a": {"b": 2}, "c": 1, "d": {}}));
        changed_fields("spec", &old, &new, &mut lines);
        assert_eq!(lines, ["spec.a.b", "spec.d"]);
    }
}
