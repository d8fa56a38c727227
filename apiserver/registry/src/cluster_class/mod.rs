//! ClusterClass.

mod patches;
mod templates;
mod users;
pub(crate) mod variables;

use apiserver_machinery::field_errors::{FieldError, FieldPath};
use apiserver_machinery::others::{Judgement, Others};
use apiserver_machinery::status::ApiResult;
use apiserver_machinery::strategy::Strategy;
use async_trait::async_trait;
use serde_json::{Value, json};

pub(crate) use templates::validate_change;

use crate::machine_health_check::validate_check;
use crate::machine_template::validate_taints;
use crate::shape::{get, items, text};
use crate::{handed_down, naming, rollout, version};

/// The name under which templates find what the server knows of a cluster.
const BUILTIN: &str = "builtin";

/// Lists of worker classes, and how one topology's name is called in a name's template.
pub(crate) const WORKERS: [(&str, &str); 2] = [
    ("machineDeployments", "{{ .machineDeployment.topologyName }}"),
    ("machinePools", "{{ .machinePool.topologyName }}"),
];

/// ClusterClass's own rules.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClusterClassStrategy;

#[async_trait]
impl Strategy for ClusterClassStrategy {
    async fn judge_among(
        &self,
        new: &Value,
        old: Option<&Value>,
        others: &dyn Others,
    ) -> ApiResult<Judgement> {
        let faults = match old {
            Some(old) => users::validate(new, old, others).await?,
            None => Vec::new(),
        };
        Ok(Judgement { faults, warnings: Vec::new() })
    }

    async fn refuse_deletion_among(&self, object: &Value, others: &dyn Others) -> ApiResult<Option<String>> {
        users::refuse_deletion(object, others).await
    }

    fn drops_nulls(&self) -> bool {
        true
    }

    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut faults = Vec::new();
        templates::validate(new, &mut faults);
        if let Some(old) = old {
            validate_change(new, old, &mut faults);
        }
        for part in ["infrastructure", "controlPlane"] {
            validate_part(&new["spec"][part], &FieldPath::new("spec").child(part), "", false, &mut faults);
        }
        for (list, word) in WORKERS {
            for (index, worker) in items(new, &format!("spec.workers.{list}")) {
                let at = FieldPath::new("spec.workers").child(list).index(index);
                validate_part(worker, &at, word, true, &mut faults);
            }
        }
        validate_variables(new, &mut faults);
        variables::validate(new, &mut faults);
        patches::validate(new, &mut faults);
        validate_versions(new, &mut faults);
        faults
    }
}

/// What a control plane, infrastructure and workers may say, each as far as it has it.
fn validate_part(part: &Value, at: &FieldPath, word: &str, is_worker: bool, faults: &mut Vec<FieldError>) {
    handed_down::metadata(part.get("metadata"), &at.child("metadata"), faults);
    validate_taints(part, at, is_worker, faults);
    validate_check(&part["healthCheck"], &at.child("healthCheck"), faults);
    let at_once = get(part, "healthCheck.remediation.maxInFlight");
    rollout::validate_count(at_once, at.child("healthCheck.remediation.maxInFlight"), faults);
    let bounds = get(part, "rollout.strategy.rollingUpdate");
    rollout::validate_bounds(bounds, &at.child("rollout.strategy.rollingUpdate"), faults);
    if let Some(template) = text(part, "naming.template") {
        let words = [("{{ .cluster.name }}", "cluster"), ("{{ .random }}", "x1y2z"), (word, "topology")];
        let words: Vec<_> = words.into_iter().filter(|(word, _)| !word.is_empty()).collect();
        naming::validate(template, &words, &at.child("naming.template"), faults);
    }
}

fn validate_variables(new: &Value, faults: &mut Vec<FieldError>) {
    let mut seen = Vec::new();
    for (_, variable) in items(new, "spec.variables") {
        let Some(name) = variable.get("name").and_then(Value::as_str) else { continue };
        let path = FieldPath::new("spec.variables").key(name).child("name");
        let mut fault = |detail: &str| faults.push(FieldError::invalid(path.clone(), &json!(name), detail));
        if name == BUILTIN {
            fault("\"builtin\" is a reserved variable name");
        }
        if name.contains('.') {
            fault("variable name cannot contain \".\"");
        }
        if seen.contains(&name) {
            fault(&format!(
                "variable name must be unique. Variable with name {name:?} is defined more than once"
            ));
        }
        seen.push(name);
    }
}

/// Versions go up, by one minor version at most.
fn validate_versions(new: &Value, faults: &mut Vec<FieldError>) {
    let mut before: Option<(u64, u64, u64)> = None;
    for (index, value) in items(new, "spec.kubernetesVersions") {
        let path = FieldPath::new("spec.kubernetesVersions").index(index);
        let Some(now) = value.as_str().and_then(version::parse) else {
            faults.push(FieldError::invalid(path, value, "version must be a valid semantic version"));
            continue;
        };
        if let Some(before) = before {
            if now < before {
                let detail = format!("version must be greater than v{}.{}.{}", before.0, before.1, before.2);
                faults.push(FieldError::invalid(path, value, &detail));
            } else if now.0 == before.0 && now.1 > before.1.saturating_add(1) {
                let detail =
                    format!("expecting a version with minor {} or {}", before.1, before.1.saturating_add(1));
                faults.push(FieldError::invalid(path, value, &detail));
            }
        }
        before = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(kind: &str) -> Value {
        json!({"apiVersion": "g.x-k8s.io/v1beta2", "kind": kind, "name": "t"})
    }

    fn class() -> Value {
        json!({"spec": {
            "infrastructure": {"templateRef": template("OpenStackClusterTemplate")},
            "controlPlane": {"templateRef": template("KubeadmControlPlaneTemplate")},
            "kubernetesVersions": ["v1.32.4", "v1.33.1"],
            "variables": [{"name": "image"}],
            "patches": [{"name": "image", "definitions": [{
                "selector": {"matchResources": {"controlPlane": true}},
                "jsonPatches": [{"op": "replace", "path": "/spec/template", "valueFrom": {"variable": "image"}}]}]}],
            "workers": {"machineDeployments": [{"class": "w", "naming": {"template": "{{ .cluster.name }}-{{ .machineDeployment.topologyName }}"},
                "bootstrap": {"templateRef": template("KubeadmConfigTemplate")},
                "infrastructure": {"templateRef": template("OpenStackMachineTemplate")}}]}}})
    }

    #[test]
    fn a_class_is_refused_for_what_is_wrong_with_it() {
        let old = class();
        assert_eq!(ClusterClassStrategy.validate(&old, Some(&old)), []);
        for (pointer, value, expected) in [
            (
                "/spec/infrastructure/templateRef/kind",
                json!("OpenStackCluster"),
                "template kind must be of form",
            ),
            (
                "/spec/infrastructure/templateRef/kind",
                json!("AzureClusterTemplate"),
                "spec.infrastructure.templateRef.kind: Forbidden: kind cannot be changed from",
            ),
            (
                "/spec/controlPlane/templateRef/apiVersion",
                json!("h.x-k8s.io/v1beta2"),
                "group of apiVersion cannot be changed",
            ),
            (
                "/spec/workers/machineDeployments/0/infrastructure/templateRef/kind",
                json!("AzureMachineTemplate"),
                "kind cannot be changed",
            ),
            (
                "/spec/workers/machineDeployments/0/naming/template",
                json!("A"),
                "spec.workers.machineDeployments[0].naming.template",
            ),
            (
                "/spec/workers/machineDeployments/0/taints",
                json!([{"key": "node.kubernetes.io/x"}]),
                "machineDeployments[0].taints[0].key",
            ),
            (
                "/spec/controlPlane/healthCheck",
                json!({"checks": {"nodeStartupTimeoutSeconds": 1}}),
                "must be at least 30s",
            ),
            ("/spec/kubernetesVersions/1", json!("v1.34.0"), "expecting a version with minor 32 or 33"),
            ("/spec/kubernetesVersions/1", json!("v1.31.0"), "version must be greater than v1.32.4"),
            ("/spec/variables", json!([{"name": "a"}, {"name": "a"}]), "spec.variables[a].name"),
            ("/spec/variables/0/name", json!("builtin"), "reserved variable name"),
            ("/spec/variables/0/name", json!("a.b"), "cannot contain \".\""),
            (
                "/spec/patches/0/external",
                json!({"generatePatchesExtension": "e"}),
                "only one of definitions or external",
            ),
            (
                "/spec/patches/0/definitions/0/jsonPatches/0/path",
                json!("/metadata"),
                "must start with \"/spec\"",
            ),
            (
                "/spec/patches/0/definitions/0/jsonPatches/0/value",
                json!(1),
                "can not define both value and valueFrom",
            ),
            ("/spec/patches/0/definitions/0/selector/matchResources", json!({}), "no selector enabled"),
        ] {
            let mut new = old.clone();
            let (parent, name) = pointer.rsplit_once('/').unwrap();
            let parent = new.pointer_mut(parent).unwrap();
            match (parent, name.parse::<usize>()) {
                (Value::Array(items), Ok(index)) => items[index] = value,
                (parent, _) => parent[name] = value,
            }
            let faults: Vec<String> =
                ClusterClassStrategy.validate(&new, Some(&old)).iter().map(ToString::to_string).collect();
            assert!(faults.iter().any(|fault| fault.contains(expected)), "{pointer}: {faults:?}");
        }
    }
}
