//! KubeadmControlPlaneTemplate: strategy and validation.

use apiserver_machinery::admission::UsedObject;
use apiserver_machinery::object;
use apiserver_machinery::strategy::Strategy;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde_json::{Value, json};

use crate::kinds::kubeadm_config::boot_failures::Settings;
use crate::kinds::kubeadm_config::{self, HIDDEN, boot_failures};
use crate::kinds::kubeadm_control_plane::{OWNER, validate_cluster_configuration, validate_rollout};
use crate::rules::{name_template, template_metadata, used_secrets};

/// Path of the spec of the control planes.
const SPEC: &str = "/spec/template/spec";

/// Strategy of KubeadmControlPlaneTemplate.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KubeadmControlPlaneTemplateStrategy;

impl Strategy for KubeadmControlPlaneTemplateStrategy {
    fn used_objects(&self, object: &Value) -> Vec<UsedObject> {
        used_secrets::at(object, &used_secrets::OF_CONTROL_PLANE_TEMPLATE)
    }

    fn is_exempt_in_dry_run(&self, new: &Value) -> bool {
        crate::rules::immutable::is_of_topology(new)
    }

    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        match old {
            Some(old) => validate_unchanged(new, old).into_iter().collect(),
            None => validate_new(new),
        }
    }
}

fn validate_new(new: &Value) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let template = FieldPath::new("spec.template");
    if let Some(spec) = new.pointer(SPEC) {
        let path = template.child("spec");
        validate_rollout(spec, None, &path, &mut errors);
        let naming = object::at(spec, "machineNaming.template");
        name_template::validate(naming, OWNER, &path.child("machineNaming.template"), &mut errors);
        let machine = path.child("machineTemplate");
        let taints = object::at(spec, "machineTemplate.spec.taints");
        template_metadata::taints(taints, &machine.child("spec.taints"), &mut errors);
        let metadata = object::at(spec, "machineTemplate.metadata");
        template_metadata::metadata(metadata, &machine.child("metadata"), &mut errors);
        if let Some(config_spec) = spec.get("kubeadmConfigSpec") {
            let at = path.child("kubeadmConfigSpec");
            let configuration = config_spec.get("clusterConfiguration").cloned().unwrap_or_default();
            validate_cluster_configuration(
                &configuration,
                None,
                &at.child("clusterConfiguration"),
                &mut errors,
            );
            kubeadm_config::validate_control_plane(config_spec, &at, &mut errors);
            // The version is a field of the control plane.
            let settings = Settings { spec: config_spec, version: None };
            boot_failures::validate(settings, None, &at, &mut errors);
        }
    }
    template_metadata::metadata(
        object::at(new, "spec.template.metadata"),
        &template.child("metadata"),
        &mut errors,
    );
    errors
}

/// Returns the error of a change. A template is immutable. Defaults of older releases count as unchanged.
fn validate_unchanged(new: &Value, old: &Value) -> Option<FieldError> {
    let part = |object: &Value| {
        let mut spec = object.pointer(SPEC).cloned().unwrap_or_default();
        if let Some(fields) = spec.as_object_mut() {
            let config_spec = fields.entry("kubeadmConfigSpec").or_insert_with(|| json!({}));
            kubeadm_config::fill_in_former_defaults(config_spec);
        }
        spec
    };
    let (mut now, before) = (part(new), part(old));
    let former = json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}});
    let is_former = object::at(&before, "rollout.strategy") == Some(&former);
    if is_former
        && object::at(&now, "rollout.strategy").is_none()
        && let Some(fields) = now.as_object_mut()
        && let Some(rollout) = fields.entry("rollout").or_insert_with(|| json!({})).as_object_mut()
    {
        rollout.insert("strategy".to_owned(), former);
    }
    let detail = "KubeadmControlPlaneTemplate spec.template.spec field is immutable. Please create new resource instead.";
    (now != before).then(|| FieldError::invalid(FieldPath::new("spec.template.spec"), &json!(HIDDEN), detail))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn template(spec: &Value) -> Value {
        json!({"spec": {"template": {"spec": spec}}})
    }

    fn found(new: &Value, old: Option<&Value>) -> Vec<String> {
        let errors = KubeadmControlPlaneTemplateStrategy.validate(new, old);
        errors.iter().map(|error| error.field.to_string()).collect()
    }

    #[test]
    fn a_template_is_validated_when_it_is_created() {
        let wrong = template(&json!({
            "rollout": {"strategy": {"type": "OnDelete"}}, "machineNaming": {"template": "x"},
            "machineTemplate": {"metadata": {"labels": {"a": "b c"}}, "spec": {"taints": [{"key": "node.kubernetes.io/x"}]}},
            "kubeadmConfigSpec": {"clusterConfiguration": {"etcd": {"local": {}, "external": {}}}, "format": "cloud-config", "ignition": {}}}));
        assert_eq!(
            found(&wrong, None),
            [
                "spec.template.spec.rollout.strategy.type",
                "spec.template.spec.machineNaming.template",
                "spec.template.spec.machineTemplate.spec.taints[0].key",
                "spec.template.spec.machineTemplate.metadata.labels",
                "spec.template.spec.kubeadmConfigSpec.clusterConfiguration.etcd.local",
                "spec.template.spec.kubeadmConfigSpec.format",
            ]
        );
        // The unchanged spec is not validated again.
        assert_eq!(found(&wrong, Some(&wrong)), Vec::<String>::new());
    }

    #[test]
    fn the_spec_of_a_template_is_immutable() {
        let old =
            template(&json!({"kubeadmConfigSpec": {"verbosity": 1, "files": [{"content": "hunter2"}]}}));
        let mut new = old.clone();
        new["spec"]["template"]["metadata"] = json!({"labels": {"a": "b"}});
        assert_eq!(found(&new, Some(&old)), Vec::<String>::new());
        new["spec"]["template"]["spec"]["kubeadmConfigSpec"]["verbosity"] = json!(2);
        let errors = KubeadmControlPlaneTemplateStrategy.validate(&new, Some(&old));
        let text = errors[0].to_string();
        assert!(
            text.starts_with("spec.template.spec: Invalid value: ") && text.contains("field is immutable"),
            "{text}"
        );
        assert!(!text.contains("hunter2"), "{text}");
    }

    #[test]
    fn defaults_of_older_releases_are_no_change() {
        let old = template(
            &json!({"rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}},
            "kubeadmConfigSpec": {"format": "cloud-config", "joinConfiguration": {"nodeRegistration": {"imagePullPolicy": "IfNotPresent"}}}}),
        );
        assert_eq!(found(&template(&json!({"kubeadmConfigSpec": {}})), Some(&old)), Vec::<String>::new());
        assert_eq!(
            found(&template(&json!({})), Some(&template(&json!({"kubeadmConfigSpec": {}})))),
            Vec::<String>::new()
        );
        let never = template(
            &json!({"kubeadmConfigSpec": {"joinConfiguration": {"nodeRegistration": {"imagePullPolicy": "Never"}}}}),
        );
        assert_eq!(found(&never, Some(&old)), ["spec.template.spec"]);
    }
}
