//! KubeadmConfigTemplate: strategy and validation.

use apiserver_machinery::object;
use apiserver_machinery::strategy::Strategy;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde_json::Value;

use crate::kinds::kubeadm_config::boot_failures::Settings;
use crate::kinds::kubeadm_config::{self, boot_failures};
use crate::rules::template_metadata;

/// Path of the spec of the KubeadmConfigs.
const SPEC: &str = "spec.template.spec";

/// Strategy of KubeadmConfigTemplate. Unlike other templates, it is mutable.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KubeadmConfigTemplateStrategy;

impl Strategy for KubeadmConfigTemplateStrategy {
    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let path = FieldPath::new("spec.template");
        if let Some(spec) = object::at(new, SPEC) {
            let settings = |spec| Settings { spec, version: None };
            let before = old.and_then(|old| object::at(old, SPEC)).map(settings);
            kubeadm_config::validate(spec, &path.child("spec"), &mut errors);
            boot_failures::validate(settings(spec), before, &path.child("spec"), &mut errors);
        }
        let metadata = object::at(new, "spec.template.metadata");
        template_metadata::metadata(metadata, &path.child("metadata"), &mut errors);
        errors
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_config_in_a_template_must_be_valid() {
        let object = json!({"spec": {"template": {
            "metadata": {"labels": {"a b": "c"}},
            "spec": {"files": [{"path": "/a"}, {"path": "/a"}]}}}});
        let errors = KubeadmConfigTemplateStrategy.validate(&object, Some(&object));
        let at: Vec<&str> = errors.iter().map(|error| error.field.as_str()).collect();
        assert_eq!(at, ["spec.template.spec.files[1].path", "spec.template.metadata.labels"]);
        assert_eq!(KubeadmConfigTemplateStrategy.validate(&json!({"spec": {"template": {}}}), None), []);
    }
}
