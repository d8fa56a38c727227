//! ClusterClass: strategy and validation.

mod named_by_patches;
mod parts;
mod patches;
mod selectors;
mod templates;
mod users;
mod variables;

use std::cmp::Ordering;

use apiserver_machinery::admission::UsedObject;
use apiserver_machinery::related::{ObjectReader, Verdict};
use apiserver_machinery::status::ApiResult;
use apiserver_machinery::strategy::Strategy;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use async_trait::async_trait;
use serde_json::Value;

pub(crate) use named_by_patches::{has_names, literals};
pub(crate) use templates::validate_change;

use crate::rules::json_fields::items;
use crate::rules::rollout;
use crate::rules::semver::Semver;

/// Lists of worker classes, the kind that one creates, and its part of the variables of a name template.
pub(crate) const WORKERS: [(&str, &str, &str); 2] = [
    ("machineDeployments", "MachineDeployment", "machineDeployment"),
    ("machinePools", "MachinePool", "machinePool"),
];

/// Strategy of ClusterClass.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ClusterClassStrategy;

#[async_trait]
impl Strategy for ClusterClassStrategy {
    fn uses_through_others(&self) -> bool {
        true
    }

    async fn used_through_others(
        &self,
        new: &Value,
        old: Option<&Value>,
        others: &dyn ObjectReader,
    ) -> ApiResult<Vec<UsedObject>> {
        named_by_patches::newly_used(new, old, others).await
    }

    fn locks_decisions(&self) -> bool {
        true
    }

    fn decision_lock(&self, new: &Value, old: Option<&Value>) -> Option<String> {
        // No Cluster agrees with a class that does not exist yet. Those that name it already have been warned.
        let is_changed = old.is_some_and(|old| old.get("spec") != new.get("spec"));
        if is_changed { users::key(new).lock() } else { None }
    }

    fn deletion_lock(&self, object: &Value) -> Option<String> {
        users::key(object).lock()
    }

    async fn validate_with(
        &self,
        new: &Value,
        old: Option<&Value>,
        others: &dyn ObjectReader,
    ) -> ApiResult<Verdict> {
        let errors = match old {
            Some(old) => users::validate(new, old, others).await?,
            None => Vec::new(),
        };
        Ok(Verdict { errors, warnings: Vec::new() })
    }

    async fn refuse_deletion_with(
        &self,
        object: &Value,
        others: &dyn ObjectReader,
    ) -> ApiResult<Option<String>> {
        users::refuse_deletion(object, others).await
    }

    fn drops_nulls(&self) -> bool {
        true
    }

    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        templates::validate(new, &mut errors);
        parts::validate(new, &mut errors);
        rollout::refuse_new(new, old, parts::negative_counts, &mut errors);
        variables::validate(new, &mut errors);
        patches::validate(new, &mut errors);
        parts::validate_metadata(new, &mut errors);
        validate_versions(new, &mut errors);
        if let Some(old) = old {
            validate_change(new, old, &mut errors);
        }
        errors
    }
}

/// Validates that versions go up, by at most one minor version. The path is upstream's.
fn validate_versions(new: &Value, errors: &mut Vec<FieldError>) {
    let mut before: Option<Semver> = None;
    for (index, value) in items(new, "spec.kubernetesVersions") {
        let path = FieldPath::new("spec.kubernetesVersion").index(index);
        let Some(now) = value.as_str().and_then(Semver::parse_tolerant) else {
            errors.push(FieldError::invalid(path, value, "version must be a valid semantic version"));
            continue;
        };
        if let Some(before) = before {
            // Builds without an order can follow each other.
            if matches!(now.compare_with_builds(&before), Some(Ordering::Less | Ordering::Equal)) {
                let detail = format!("version must be greater than v{before}");
                errors.push(FieldError::invalid(path.clone(), value, &detail));
            }
            let (minor, next) = (before.numbers.1, before.numbers.1.saturating_add(1));
            if now.numbers.1 != minor && now.numbers.1 != next {
                let detail = format!("expecting a version with minor {minor} or {next}, found version {now}");
                errors.push(FieldError::invalid(path, value, &detail));
            }
        }
        before = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

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
                "selector": {"apiVersion": "g.x-k8s.io/v1beta2", "kind": "KubeadmControlPlaneTemplate",
                    "matchResources": {"controlPlane": true}},
                "jsonPatches": [{"op": "replace", "path": "/spec/template", "valueFrom": {"variable": "image"}}]}]}],
            "workers": {"machineDeployments": [{"class": "w", "naming": {"template": "{{ .cluster.name }}-{{ .machineDeployment.topologyName }}"},
                "bootstrap": {"templateRef": template("KubeadmConfigTemplate")},
                "infrastructure": {"templateRef": template("OpenStackMachineTemplate")}}]}}})
    }

    /// Each row has a path in a valid class, a value for it, and a part of the expected error.
    fn assert_refused(table: Vec<(&str, Value, &str)>) {
        let old = class();
        assert_eq!(ClusterClassStrategy.validate(&old, Some(&old)), []);
        for (pointer, value, expected) in table {
            let mut new = old.clone();
            let (parent, name) = pointer.rsplit_once('/').unwrap();
            let parent = new.pointer_mut(parent).unwrap();
            match (parent, name.parse::<usize>()) {
                (Value::Array(items), Ok(index)) => items[index] = value,
                (parent, _) => parent[name] = value,
            }
            let errors: Vec<String> =
                ClusterClassStrategy.validate(&new, Some(&old)).iter().map(ToString::to_string).collect();
            assert!(errors.iter().any(|error| error.contains(expected)), "{pointer}: {errors:?}");
        }
    }

    #[test]
    fn invalid_classes_are_refused() {
        assert_refused(vec![
            (
                "/spec/infrastructure/templateRef/kind",
                json!("OpenStackCluster"),
                "spec.infrastructure.ref.kind: Invalid value: \"OpenStackCluster\": template kind must be of form \"<name>Template\"",
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
                "spec.workers.machineDeployments[w].naming.template: Invalid value: \"A\": a lowercase RFC 1123 subdomain",
            ),
            (
                "/spec/workers/machineDeployments/0/naming/template",
                json!("{{ .cluster.name }}-{{ .machineDeployment.topology }}"),
                "invalid MachineDeployment name template: rendering template: template: template name generator:1:41: executing \"template name generator\" at <.machineDeployment.topology>: map has no entry for key \"topology\"",
            ),
            (
                "/spec/controlPlane/naming",
                json!({"template": "{{ .cluster.name }}-{{ .machineDeployment.topologyName }}"}),
                "spec.controlPlane.naming.template: Invalid value: \"{{ .cluster.name }}-{{ .machineDeployment.topologyName }}\": invalid ControlPlane name template: rendering template: ",
            ),
            (
                "/spec/infrastructure/naming",
                json!({"template": "{{ if .random }}{{ .cluster.name }}"}),
                "invalid InfraCluster name template: parsing template \"{{ if .random }}{{ .cluster.name }}\": template: template name generator:1: unexpected EOF",
            ),
            (
                "/spec/workers/machineDeployments/0/rollout",
                json!({"strategy": {"rollingUpdate": {"maxSurge": -1}}}),
                "machineDeployments[w].rollout.strategy.rollingUpdate.maxSurge: Invalid value: -1",
            ),
            (
                "/spec/workers/machineDeployments/0/taints",
                json!([{"key": "node.kubernetes.io/x"}]),
                "machineDeployments[w].taints[0].key",
            ),
            (
                "/spec/controlPlane/healthCheck",
                json!({"checks": {"nodeStartupTimeoutSeconds": 1}}),
                "spec.controlPlane.healthCheck: Forbidden: can be only set if spec.controlPlane.machineInfrastructure is set",
            ),
            (
                "/spec/kubernetesVersions/1",
                json!("v1.34.0"),
                "spec.kubernetesVersion[1]: Invalid value: \"v1.34.0\": expecting a version with minor 32 or 33, found version 1.34.0",
            ),
            ("/spec/kubernetesVersions/1", json!("v1.31.0"), "version must be greater than v1.32.4"),
            ("/spec/variables", json!([{"name": "a"}, {"name": "a"}]), "spec.variables[a].name"),
            ("/spec/variables/0/name", json!("builtin"), "reserved variable name"),
            ("/spec/variables/0/name", json!("a.b"), "cannot contain \".\""),
        ]);
    }

    #[test]
    fn classes_with_invalid_patches_are_refused() {
        assert_refused(vec![
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
            (
                "/spec/patches/0/definitions/0/selector/kind",
                json!("X"),
                "selector.matchResources.controlPlane: Invalid value: true: selector is enabled but matches neither the controlPlane ref",
            ),
            (
                "/spec/patches/0/definitions/0/selector/matchResources",
                json!({"machineDeploymentClass": {"names": ["a*b", "c"]}}),
                "names[0]: Invalid value: \"a*b\": \"*\" rune can only appear at the beginning, or ending of the selector",
            ),
            (
                "/spec/patches/0/definitions/0/selector/matchResources",
                json!({"machineDeploymentClass": {"names": ["w*"]}}),
                "names[0]: Invalid value: \"w*\": selector is enabled but matches neither the bootstrap ref nor the infrastructure ref of a MachineDeployment class",
            ),
            (
                "/spec/patches/0/definitions/0/jsonPatches/0/path",
                json!("/spec/a/0"),
                "jsonPatches[0].path: Invalid value: \"/spec/a/0\": elements in arrays can not be accessed in a replace operation",
            ),
            (
                "/spec/patches/0/definitions/0/jsonPatches/0/valueFrom",
                json!({"variable": "builtin.cluster.color"}),
                "valueFrom.variable: Invalid value: \"builtin.cluster.color\": not a defined builtin variable",
            ),
            (
                "/spec/patches/0/definitions/0/jsonPatches/0/valueFrom",
                json!({"variable": "none.a"}),
                "variable with name none.a cannot be found",
            ),
            (
                "/spec/patches/0/definitions/0/jsonPatches/0/valueFrom",
                json!({"template": "{{ .a"}),
                "template can not be parsed: template: valueFrom.template:1: unclosed action",
            ),
            (
                "/spec/patches/0/definitions/0/jsonPatches/0/valueFrom",
                json!({"template": "a: 1\n{{ if .image }}\nb: 2\n{{ end }}{{ end }}"}),
                "spec.patches[0].definitions[0].jsonPatches[0].valueFrom.template: Invalid value: \"a: 1\\n{{ if .image }}\\nb: 2\\n{{ end }}{{ end }}\": template can not be parsed: template: valueFrom.template:4: unexpected {{end}}",
            ),
            (
                "/spec/patches/0/definitions/0/jsonPatches/0/valueFrom",
                json!({"template": "{{ .image | quoted }}"}),
                "template can not be parsed: template: valueFrom.template:1: function \"quoted\" not defined",
            ),
            (
                "/spec/patches/0/enabledIf",
                json!("{{ now }}"),
                "spec.patches[0].enabledIf: Invalid value: \"{{ now }}\": template can not be parsed: template: enabledIf:1: function \"now\" not defined: it is no pure function of the variables",
            ),
            (
                "/spec/patches/0/enabledIf",
                json!("{{ eq .image }}{{ else }}"),
                "template can not be parsed: template: enabledIf:1: unexpected {{else}}",
            ),
            (
                "/spec/patches/0/definitions/0/jsonPatches/0/valueFrom",
                json!({}),
                "valueFrom: Invalid value: \"{}\": valueFrom must set either template or variable",
            ),
        ]);
    }
}
