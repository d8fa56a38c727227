//! KubeadmControlPlane: strategy, and the validation that its template shares.

mod changes;
mod cluster_configuration;
mod core_dns;
mod rollout;

use std::sync::Arc;

use apiserver_machinery::action::ActionHandler;
use apiserver_machinery::admission::UsedObject;
use apiserver_machinery::object;
use apiserver_machinery::quota::Amounts;
use apiserver_machinery::related::{ObjectReader, Verdict};
use apiserver_machinery::status::ApiResult;
use apiserver_machinery::strategy::Strategy;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use apiserver_types::KubeadmControlPlane;
use async_trait::async_trait;
use serde_json::{Map, Value, json};

pub(crate) use cluster_configuration::validate as validate_cluster_configuration;
pub(crate) use rollout::validate as validate_rollout;

use crate::kinds::kubeadm_config::boot_failures::Settings;
use crate::kinds::kubeadm_config::{self, boot_failures};
use crate::rules::plan_verb;
use crate::rules::quota_usage;
use crate::rules::rollout_verb::{Restart, RolloutVerb};
use crate::rules::semver::Semver;
use crate::rules::{
    name_template, protection, provider_id_region, quota_shortage, rollout_settings, template_metadata,
    topology_replicas, used_secrets, version,
};

/// Name of the owner in name templates, besides the cluster.
pub(crate) const OWNER: &str = "kubeadmControlPlane";

/// Returns the verbs of a KubeadmControlPlane. To add one, add its line.
pub(crate) fn verbs() -> Vec<Arc<dyn ActionHandler>> {
    vec![
        RolloutVerb::change::<KubeadmControlPlane>("restart", "RolloutRestart", Restart),
        plan_verb::verb::<KubeadmControlPlane>(),
    ]
}

/// Strategy of KubeadmControlPlane.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KubeadmControlPlaneStrategy;

#[async_trait]
impl Strategy for KubeadmControlPlaneStrategy {
    fn used_objects(&self, object: &Value) -> Vec<UsedObject> {
        used_secrets::at(object, &used_secrets::OF_CONTROL_PLANE)
    }

    fn quota_usage(&self, object: &Value) -> Amounts {
        quota_usage::replicas(object, true)
    }

    fn quota_prefixes(&self) -> &'static [&'static str] {
        &quota_usage::MACHINES
    }

    fn drops_nulls(&self) -> bool {
        true
    }

    fn prepare(&self, new: &mut Value, _old: Option<&Value>) {
        // Older versions do not require a spec. They then get this one.
        let Some(spec) = new.as_object_mut().and_then(|root| object(root, "spec")) else { return };
        spec.entry("replicas").or_insert_with(|| json!(1));
        if let Some(Value::String(version)) = spec.get_mut("version")
            && !version.starts_with('v')
        {
            version.insert(0, 'v');
        }
        let mut at = Some(spec);
        for part in ["rollout", "strategy"] {
            at = at.and_then(|fields| object(fields, part));
        }
        let Some(strategy) = at else { return };
        strategy.insert("type".to_owned(), json!("RollingUpdate"));
        if let Some(rolling) = object(strategy, "rollingUpdate") {
            rolling.entry("maxSurge").or_insert_with(|| json!(1));
        }
    }

    async fn refuse_deletion_with(
        &self,
        object: &Value,
        others: &dyn ObjectReader,
    ) -> ApiResult<Option<String>> {
        protection::refusal(object, protection::WITH_A_SET, others).await
    }

    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let path = FieldPath::new("spec");
        let nothing = json!({});
        let spec = new.get("spec").unwrap_or(&nothing);
        validate_spec(spec, &path, &mut errors);
        let before = old.and_then(|old| old.get("spec"));
        if let Some(before) = before {
            changes::validate(spec, before, &mut errors);
            validate_version_change(spec, before, &path, &mut errors);
        }
        let config = path.child("kubeadmConfigSpec");
        let part = |spec: &Value| object::at(spec, "kubeadmConfigSpec.clusterConfiguration").cloned();
        let (now, then) =
            (part(spec).unwrap_or_default(), before.map(|before| part(before).unwrap_or_default()));
        validate_cluster_configuration(
            &now,
            then.as_ref(),
            &config.child("clusterConfiguration"),
            &mut errors,
        );
        if let Some(then) = &then {
            core_dns::validate(new, &now, then, &config.child("clusterConfiguration"), &mut errors);
        }
        if let Some(settings) = settings(spec) {
            kubeadm_config::validate_control_plane(settings.spec, &config, &mut errors);
            boot_failures::validate(settings, before.and_then(self::settings), &config, &mut errors);
        }
        rollout_settings::validate(new, old, rollout_settings::OF_CONTROL_PLANES, &mut errors);
        errors
    }

    async fn validate_with(
        &self,
        new: &Value,
        old: Option<&Value>,
        others: &dyn ObjectReader,
    ) -> ApiResult<Verdict> {
        let path = FieldPath::new("spec.kubeadmConfigSpec");
        let spec = new.get("spec");
        let mut warnings = Vec::new();
        if let Some(settings) = spec.and_then(settings) {
            warnings.extend(boot_failures::warnings(settings, &path));
        }
        let before = old.and_then(|old| old.get("spec"));
        warnings.extend(spec.zip(before).and_then(|(spec, before)| downgrade(spec, before)));
        let cluster = |spec| object::at(spec, "kubeadmConfigSpec.clusterConfiguration");
        let core_dns = spec.and_then(cluster).zip(before.and_then(cluster));
        warnings.extend(core_dns.and_then(|(now, before)| core_dns::warning(new, now, before)));
        if spec != before
            && let Some(spec) = spec
        {
            warnings.extend(related_warnings(new, spec, others).await?);
        }
        warnings.extend(topology_replicas::warning(new, old, others).await?);
        let labels = object::at(new, "metadata.labels");
        let cluster = labels.and_then(|labels| labels.get(quota_shortage::CLUSTER)).and_then(Value::as_str);
        warnings.extend(quota_shortage::warning(new, old, cluster, others).await?);
        Ok(Verdict { warnings, ..Verdict::default() })
    }
}

/// Returns the warnings about a changed spec that depend on the cluster.
async fn related_warnings(new: &Value, spec: &Value, others: &dyn ObjectReader) -> ApiResult<Vec<String>> {
    let (namespace, name) = (object::namespace(new), object::name(new));
    let is_of = |cluster: &Value| {
        let reference = |field: &str| object::at(cluster, &format!("spec.controlPlaneRef.{field}"));
        reference("kind") == Some(&json!("KubeadmControlPlane")) && reference("name") == Some(&json!(name))
    };
    let mut warnings = Vec::new();
    if spec.get("kubeadmConfigSpec").is_some_and(provider_id_region::is_without_region) {
        let path = "spec.kubeadmConfigSpec";
        warnings.extend(provider_id_region::warning(path, namespace, others, is_of).await?);
    }
    Ok(warnings)
}

/// Returns the warning about a version that goes down, which no kubeadm does.
fn downgrade(spec: &Value, before: &Value) -> Option<String> {
    let text = |spec: &Value| spec.get("version").and_then(Value::as_str).map(str::to_owned);
    let (to, from) = (text(spec)?, text(before)?);
    let goes_down = Semver::parse_tolerant(&to)?.numbers < Semver::parse_tolerant(&from)?.numbers;
    goes_down.then(|| format!("spec.version: kubeadm cannot go back from {from} to {to}"))
}

/// Returns the settings of the machines of a control plane, if its spec has any.
fn settings(spec: &Value) -> Option<Settings<'_>> {
    let version = spec.get("version").and_then(Value::as_str);
    Some(Settings { spec: spec.get("kubeadmConfigSpec")?, version })
}

/// Returns the object in a field, and creates it if the field is absent.
fn object<'a>(fields: &'a mut Map<String, Value>, name: &str) -> Option<&'a mut Map<String, Value>> {
    fields.entry(name).or_insert_with(|| json!({})).as_object_mut()
}

fn validate_spec(spec: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let replicas = spec.get("replicas").and_then(Value::as_i64);
    validate_replicas(spec, replicas, &path.child("replicas"), errors);
    let template = path.child("machineTemplate");
    validate_infrastructure(spec, &template.child("infrastructure"), errors);
    template_metadata::taints(
        object::at(spec, "machineTemplate.spec.taints"),
        &template.child("spec.taints"),
        errors,
    );
    template_metadata::metadata(
        object::at(spec, "machineTemplate.metadata"),
        &template.child("metadata"),
        errors,
    );
    if let Some(text) = spec.get("version").and_then(Value::as_str) {
        if !text.starts_with('v') {
            errors.push(FieldError::invalid(path.child("version"), &json!(text), "must start with v"));
        }
        if version::parse(text).is_none() {
            let detail = "must be a valid semantic version";
            errors.push(FieldError::invalid(path.child("version"), &json!(text), detail));
        }
    }
    validate_rollout(spec, replicas, path, errors);
    let naming = object::at(spec, "machineNaming.template");
    name_template::validate(naming, OWNER, &path.child("machineNaming.template"), errors);
}

/// Validates the number of replicas. An etcd on the control plane needs a majority, so an even number is no safer than
/// one less.
fn validate_replicas(spec: &Value, replicas: Option<i64>, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let Some(replicas) = replicas else {
        return errors.push(FieldError::required(path.clone(), "is required"));
    };
    if replicas <= 0 {
        errors.push(FieldError::forbidden(path.clone(), "cannot be less than or equal to 0"));
    }
    let external = object::at(spec, "kubeadmConfigSpec.clusterConfiguration.etcd.external").is_some();
    if !external && replicas % 2 == 0 {
        errors.push(FieldError::forbidden(path.clone(), "cannot be an even number when etcd is stacked"));
    }
}

/// Validates the reference to the infrastructure. The schema of older versions requires the reference, but no field in
/// it.
fn validate_infrastructure(spec: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let reference = object::at(spec, "machineTemplate.spec.infrastructureRef");
    for field in ["apiGroup", "kind", "name"] {
        let text = reference.and_then(|reference| reference.get(field)).and_then(Value::as_str);
        if text.unwrap_or_default().is_empty() {
            errors.push(FieldError::invalid(path.child(field), &json!(""), "cannot be empty"));
        }
    }
}

/// Validates that the version goes up by at most one minor version. As in upstream, it can go down.
fn validate_version_change(spec: &Value, before: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let text = |spec: &Value| spec.get("version").and_then(Value::as_str).unwrap_or_default().to_owned();
    let (to, from) = (text(spec), text(before));
    let read = |text: &str| Semver::parse_tolerant(text).map(|version| version.numbers);
    let unread = |which: &str, text: &str| {
        let detail = format!("failed to parse {which} kubeadmcontrolplane version: {text}");
        FieldError::internal(path.child("version"), &detail)
    };
    match (read(&from), read(&to)) {
        (None, _) if to != from => errors.push(unread("current", &from)),
        (Some(_), None) => errors.push(unread("updated", &to)),
        (Some(then), Some(now)) if now >= (then.0, then.1.saturating_add(2), 0) => {
            let detail = format!("cannot update Kubernetes version from {from} to {to}");
            errors.push(FieldError::forbidden(path.child("version"), &detail));
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn control_plane() -> Value {
        json!({"metadata": {"name": "cp"}, "spec": {
            "replicas": 3, "version": "v1.34.1",
            "machineTemplate": {"spec": {"infrastructureRef":
                {"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackMachineTemplate", "name": "cp"}}},
            "kubeadmConfigSpec": {"clusterConfiguration": {"dns": {"imageTag": "v1.12.0"}}}}})
    }

    fn found(object: &Value, old: Option<&Value>) -> Vec<String> {
        let mut object = object.clone();
        KubeadmControlPlaneStrategy.prepare(&mut object, old);
        KubeadmControlPlaneStrategy.validate(&object, old).iter().map(ToString::to_string).collect()
    }

    fn with(pointer: &str, value: Value) -> Value {
        let mut object = control_plane();
        let (parent, name) = pointer.rsplit_once('/').unwrap();
        object.pointer_mut(parent).unwrap()[name] = value;
        object
    }

    #[test]
    fn omitted_fields_get_defaults() {
        let mut object =
            json!({"spec": {"version": "1.34.1", "rollout": {"strategy": {"type": "OnDelete"}}}});
        KubeadmControlPlaneStrategy.prepare(&mut object, None);
        assert_eq!(
            object["spec"],
            json!({"version": "v1.34.1", "replicas": 1,
                "rollout": {"strategy": {"type": "RollingUpdate", "rollingUpdate": {"maxSurge": 1}}}})
        );
    }

    #[test]
    fn invalid_control_planes_are_refused() {
        let even = "spec.replicas: Forbidden: cannot be an even number when etcd is stacked";
        let none = "spec.replicas: Forbidden: cannot be less than or equal to 0";
        for (object, expected) in [
            (control_plane(), vec![]),
            (with("/spec/replicas", json!(2)), vec![even]),
            (with("/spec/replicas", json!(0)), vec![none, even]),
            (with("/spec/replicas", json!(-1)), vec![none]),
            (
                with("/spec/version", json!("v1.34")),
                vec!["spec.version: Invalid value: \"v1.34\": must be a valid semantic version"],
            ),
            (
                with("/spec/machineTemplate/spec", json!({"infrastructureRef": {"kind": "K", "name": ""}})),
                vec![
                    "spec.machineTemplate.infrastructure.apiGroup: Invalid value: \"\": cannot be empty",
                    "spec.machineTemplate.infrastructure.name: Invalid value: \"\": cannot be empty",
                ],
            ),
            (
                with("/spec/machineTemplate/spec/taints", json!([{"key": "node-role.kubernetes.io/master"}])),
                vec![
                    "spec.machineTemplate.spec.taints[0].key: Invalid value: \"node-role.kubernetes.io/master\": taint is deprecated since 1.24 and should not be used anymore",
                ],
            ),
            (with("/spec/machineNaming", json!({"template": "{{ .cluster.name }}-cp-{{ .index }}"})), vec![]),
            (
                with("/spec/machineNaming", json!({"template": "{{ .kubeadmControlPlane.name }}"})),
                vec![
                    "spec.machineNaming.template: Invalid value: \"{{ .kubeadmControlPlane.name }}\": invalid template, {{ .random }} is missing",
                ],
            ),
        ] {
            let found = found(&object, None);
            let found: Vec<&str> = found.iter().map(String::as_str).collect();
            // Both errors at once, where zero is even as well.
            assert_eq!(found, expected, "{object}");
        }
        let external =
            json!({"external": {"endpoints": ["https://e"], "caFile": "a", "certFile": "b", "keyFile": "c"}});
        let mut two = with("/spec/kubeadmConfigSpec/clusterConfiguration/etcd", external);
        two["spec"]["replicas"] = json!(2);
        assert_eq!(found(&two, None), Vec::<String>::new());
    }

    #[test]
    fn a_version_that_goes_down_causes_a_warning() {
        let version = |version: &str| json!({"version": version});
        let expected = "spec.version: kubeadm cannot go back from v1.34.1 to v1.33.9";
        assert_eq!(downgrade(&version("v1.33.9"), &version("v1.34.1")).as_deref(), Some(expected));
        assert_eq!(downgrade(&version("v1.34.1"), &version("v1.34.1")), None);
        assert_eq!(downgrade(&version("v1.35.0"), &version("v1.34.1")), None);
    }

    #[test]
    fn a_version_may_rise_by_one_minor_version() {
        let old = control_plane();
        for (to, refused) in [
            ("v1.34.9", false),
            ("v1.35.7", false),
            ("v1.36.0", true),
            ("v1.36.0-rc.1", true),
            ("v2.0.0", true),
            ("v1.30.0", false),
        ] {
            let found = found(&with("/spec/version", json!(to)), Some(&old));
            let expected =
                format!("spec.version: Forbidden: cannot update Kubernetes version from v1.34.1 to {to}");
            assert_eq!(found, if refused { vec![expected] } else { vec![] }, "{to}");
        }
    }
}
