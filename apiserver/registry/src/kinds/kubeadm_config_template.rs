//! KubeadmConfigTemplate: strategy and validation.

use apiserver_machinery::admission::UsedObject;
use apiserver_machinery::object;
use apiserver_machinery::related::{ObjectReader, Verdict};
use apiserver_machinery::status::ApiResult;
use apiserver_machinery::strategy::Strategy;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use async_trait::async_trait;
use serde_json::Value;

use crate::kinds::kubeadm_config::boot_failures::Settings;
use crate::kinds::kubeadm_config::{self, boot_failures};
use crate::rules::{provider_id_region, template_metadata, template_revision, used_secrets};

/// Path of the spec of the KubeadmConfigs.
const SPEC: &str = "spec.template.spec";

/// Strategy of KubeadmConfigTemplate. An edit of one that no topology made is its next revision.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KubeadmConfigTemplateStrategy;

/// Returns the part of a template that needs other Machines if it changes.
fn content(template: &Value) -> Value {
    object::at(template, SPEC).and_then(template_revision::without_empty).unwrap_or_default()
}

#[async_trait]
impl Strategy for KubeadmConfigTemplateStrategy {
    fn used_objects(&self, object: &Value) -> Vec<UsedObject> {
        used_secrets::at(object, &used_secrets::OF_KUBEADM_CONFIG_TEMPLATE)
    }

    fn prepare(&self, new: &mut Value, old: Option<&Value>) {
        template_revision::number(new, old, content);
    }

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

    async fn validate_with(
        &self,
        new: &Value,
        old: Option<&Value>,
        others: &dyn ObjectReader,
    ) -> ApiResult<Verdict> {
        let edited = template_revision::warning("KubeadmConfigTemplate", new, old, others).await?;
        let mut warnings: Vec<String> = edited.into_iter().collect();
        let spec = object::at(new, SPEC).filter(|spec| provider_id_region::is_without_region(spec));
        if spec.is_none() || spec == old.and_then(|old| object::at(old, SPEC)) {
            return Ok(Verdict { warnings, ..Verdict::default() });
        }
        let (namespace, name) = (object::namespace(new), object::name(new));
        let deployments = others.all("cluster.x-k8s.io", "machinedeployments", namespace).await?;
        let clusters: Vec<&Value> = deployments
            .iter()
            .filter(|it| {
                object::at(it, "spec.template.spec.bootstrap.configRef.name").is_some_and(|it| it == name)
            })
            .filter_map(|deployment| object::at(deployment, "spec.clusterName"))
            .collect();
        let is_of = |cluster: &Value| clusters.iter().any(|known| *known == object::name(cluster));
        warnings.extend(provider_id_region::warning(SPEC, namespace, others, is_of).await?);
        Ok(Verdict { warnings, ..Verdict::default() })
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

    #[test]
    fn an_edit_is_a_revision_unless_it_only_writes_the_same_in_another_way() {
        let template = |spec: Value| json!({"metadata": {"name": "t"}, "spec": {"template": {"spec": spec}}});
        let old = template(json!({"verbosity": 2}));
        for (spec, expected) in [
            (json!({"verbosity": 2, "files": []}), 1),
            (json!({"verbosity": 3}), 2),
            (json!({"verbosity": 2, "joinConfiguration": {"nodeRegistration": {"taints": []}}}), 2),
        ] {
            let mut new = template(spec.clone());
            KubeadmConfigTemplateStrategy.prepare(&mut new, Some(&old));
            assert_eq!(template_revision::revision(&new), expected, "{spec}");
        }
    }
}
