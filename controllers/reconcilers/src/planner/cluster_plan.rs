//! Plan of a Cluster: the objects that change, the order of an upgrade, and the plans of all that own Machines. Pure.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::cluster_topology::{ObjectEffect, PreviewedObject, VersionStep};
use crate::plan::{Plan, summary};

/// Plan of the Machines of one owner.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rollout {
    pub kind: &'static str,
    pub name: String,
    pub plan: Plan,
}

/// Plan of a Cluster.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct ClusterPlan {
    pub objects: Vec<PreviewedObject>,
    /// Versions that remain for the control plane and for the workers.
    pub versions: (Vec<String>, Vec<String>),
    pub steps: Vec<VersionStep>,
    /// The control plane first.
    pub rollouts: Vec<Rollout>,
    pub obstacles: Vec<String>,
    /// Sentences about the drains of the Machines that go.
    pub drains: Vec<String>,
}

impl ClusterPlan {
    /// Returns the names of the Machines that go.
    pub(super) fn going(&self) -> BTreeSet<String> {
        self.rollouts.iter().flat_map(|it| it.plan.going()).collect()
    }

    /// Returns the object to send.
    pub(super) fn object(&self, namespace: &str, name: &str) -> Value {
        let objects = self.objects.iter().map(|object| {
            let effect = effect(object.effect);
            json!({"effect": effect, "kind": object.kind, "name": object.name, "fields": object.fields})
        });
        let steps = self.steps.iter().map(
            |step| json!({"action": "Upgrade", "kind": step.kind, "name": step.name, "version": step.version}),
        );
        let count = |effect| self.rollouts.iter().map(|it| it.plan.count(effect)).sum::<usize>();
        json!({
            "apiVersion": "capstan.dev/v1alpha1", "kind": "ClusterPlan",
            "metadata": {"namespace": namespace, "name": name},
            "summary": summary(count),
            "objects": objects.collect::<Vec<_>>(),
            "upgrade": {"controlPlane": self.versions.0, "workers": self.versions.1},
            "steps": steps.collect::<Vec<_>>(),
            "rollouts": self.rollouts.iter().map(rollout).collect::<Vec<_>>(),
            "obstacles": self.obstacles, "drains": self.drains,
        })
    }
}

fn effect(of: ObjectEffect) -> &'static str {
    match of {
        ObjectEffect::Create => "Create",
        ObjectEffect::Change => "Change",
        ObjectEffect::Rotate => "Rotate",
        ObjectEffect::Delete => "Delete",
    }
}

fn rollout(of: &Rollout) -> Value {
    let mut object = json!({"kind": of.kind, "name": of.name});
    if let (Some(object), Value::Object(content)) = (object.as_object_mut(), of.plan.content()) {
        object.extend(content);
    }
    object
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Effect, PlannedMachine};

    #[test]
    fn the_numbers_are_those_of_all_rollouts() {
        let rollout = |kind, effect| {
            let machine = PlannedMachine { name: "m".to_owned(), effect, reasons: Vec::new() };
            let plan = Plan { machines: vec![machine], ..Plan::default() };
            Rollout { kind, name: "x".to_owned(), plan }
        };
        let plan = ClusterPlan {
            objects: vec![PreviewedObject {
                effect: ObjectEffect::Rotate,
                kind: "K".to_owned(),
                name: "t".to_owned(),
                fields: vec!["spec.a".to_owned()],
            }],
            versions: (vec!["v1.32.0".to_owned()], Vec::new()),
            steps: vec![VersionStep {
                kind: "K".to_owned(),
                name: "t".to_owned(),
                version: "v1.32.0".to_owned(),
            }],
            rollouts: vec![
                rollout("KubeadmControlPlane", Effect::Replace),
                rollout("MachineDeployment", Effect::Keep),
            ],
            obstacles: vec!["held".to_owned()],
            drains: vec!["a budget".to_owned()],
        };
        let object = plan.object("ns", "c");
        let numbers = json!({"keep": 1, "inPlace": 0, "replace": 1, "create": 0, "delete": 0});
        assert_eq!((&object["kind"], &object["summary"]), (&json!("ClusterPlan"), &numbers));
        assert_eq!(
            object["objects"],
            json!([{"effect": "Rotate", "kind": "K", "name": "t", "fields": ["spec.a"]}])
        );
        assert_eq!(object["upgrade"], json!({"controlPlane": ["v1.32.0"], "workers": []}));
        assert_eq!(object["rollouts"][0]["machines"][0]["effect"], "Replace");
        assert_eq!(object["obstacles"], json!(["held"]));
        assert_eq!((&object["drains"], object["rollouts"][0].get("drains")), (&json!(["a budget"]), None));
        assert_eq!(plan.going(), BTreeSet::from(["m".to_owned()]));
    }
}
