//! Settings with which a machine never becomes a node. Upstream accepts them, and the machine fails when it boots.

use std::collections::BTreeMap;

use apiserver_schema::field_errors::{FieldError, FieldPath};
use controllers_bootstrap::{kubeadm, template};
use serde_json::{Value, json};

use super::{HIDDEN, items};

/// Settings of machines.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Settings<'a> {
    /// Spec of a KubeadmConfig.
    pub(crate) spec: &'a Value,
    /// Version of the machines, if the object has it.
    pub(crate) version: Option<&'a str>,
}

/// Adds the errors of the settings at `path`, except those that the stored settings have already.
pub(crate) fn validate(
    now: Settings<'_>,
    before: Option<Settings<'_>>,
    path: &FieldPath,
    errors: &mut Vec<FieldError>,
) {
    let known = before.map(|before| found(before, path)).unwrap_or_default();
    let new = found(now, path).into_iter().filter(|error| !known.contains(error));
    // The comparison needs the content of a file, and the message must not show it.
    let is_content = |error: &FieldError| error.field.as_str().ends_with(".content");
    errors.extend(new.map(|error| if is_content(&error) { error.showing(HIDDEN) } else { error }));
}

fn found(settings: Settings<'_>, path: &FieldPath) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let spec = settings.spec;
    let is_ignition = spec.get("format").and_then(Value::as_str) == Some("ignition");
    validate_contents(spec, is_ignition, &path.child("files"), &mut errors);
    if is_ignition {
        validate_layouts(spec, &path.child("diskSetup").child("partitions"), &mut errors);
    }
    if let Some(version) = settings.version {
        let at = path.child("clusterConfiguration");
        validate_gates(spec, version, &at.child("featureGates"), &mut errors);
        validate_flags(spec, version, &at.child("apiServer").child("extraArgs"), &mut errors);
    }
    errors
}

fn validate_contents(spec: &Value, is_ignition: bool, path: &FieldPath, errors: &mut Vec<FieldError>) {
    for (index, file) in items(spec, "/files") {
        let Some(content) = file.get("content").and_then(Value::as_str) else { continue };
        let at = path.index(index);
        if file.get("encoding").and_then(Value::as_str) == Some("gzip") && !is_ignition {
            let detail =
                "data in this encoding is binary, which no text can hold. Use gzip+base64, or contentFrom";
            errors.push(FieldError::invalid(at.child("encoding"), &json!("gzip"), detail));
        }
        let is_template = file.get("contentFormat").and_then(Value::as_str) == Some("Template");
        if let Err(error) = is_template.then(|| template::check(content)).transpose() {
            let detail = format!("the template is not valid: {error}");
            errors.push(FieldError::invalid(at.child("content"), &json!(content), &detail));
        }
    }
}

/// Validates that Ignition can express the layout of each disk.
fn validate_layouts(spec: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    for (index, partition) in items(spec, "/diskSetup/partitions") {
        let Some(parts) = partition.get("diskLayout").and_then(Value::as_array) else { continue };
        let at = path.index(index).child("diskLayout");
        let is_whole = matches!(parts.as_slice(), [part] if part.get("percentage") == Some(&json!(100)));
        if !parts.is_empty() && !is_whole {
            let detail = "when spec.format is set to \"ignition\", only one partition of 100 percent is supported, \
                because Ignition has no sizes relative to the disk";
            errors.push(FieldError::forbidden(at.clone(), detail));
        }
        for (part, _) in parts
            .iter()
            .enumerate()
            .filter(|(_, part)| part.get("partitionType").and_then(Value::as_str) == Some("LinuxExtended"))
        {
            let at = at.index(part).child("partitionType");
            let detail = "a partition table of type \"gpt\" has no extended partitions";
            errors.push(FieldError::invalid(at, &json!("LinuxExtended"), detail));
        }
    }
}

fn validate_gates(spec: &Value, version: &str, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let given = gates(spec);
    let written = kubeadm::feature_gates(version, given.as_ref()).unwrap_or_default();
    for gate in kubeadm::unknown_feature_gates(version, &written) {
        let value = json!(written.get(&gate));
        let detail = format!(
            "kubeadm {version} does not know this feature gate, and refuses the configuration. Remove it"
        );
        errors.push(FieldError::invalid(path.key(&gate), &value, &detail));
    }
}

/// Returns the feature gates of kubeadm in a spec.
fn gates(spec: &Value) -> Option<BTreeMap<String, bool>> {
    let given = spec.pointer("/clusterConfiguration/featureGates").and_then(Value::as_object)?;
    Some(given.iter().filter_map(|(gate, on)| Some((gate.clone(), on.as_bool()?))).collect())
}

fn validate_flags(spec: &Value, version: &str, path: &FieldPath, errors: &mut Vec<FieldError>) {
    for (index, argument) in items(spec, "/clusterConfiguration/apiServer/extraArgs") {
        let Some(name) = argument.get("name").and_then(Value::as_str) else { continue };
        if kubeadm::is_removed_from_api_server(version, name) {
            let detail =
                format!("kube-apiserver {version} does not have this flag, and does not start. Remove it");
            errors.push(FieldError::invalid(path.index(index).child("name"), &json!(name), &detail));
        }
    }
}

/// Returns warnings about fields that the kubeadm of a version has no form for, and about feature gates.
pub(crate) fn warnings(settings: Settings<'_>, path: &FieldPath) -> Vec<String> {
    let Some(version) = settings.version else { return Vec::new() };
    // An invalid object has been refused before.
    let Ok(spec) = serde_json::from_value(settings.spec.clone()) else { return Vec::new() };
    let fields = kubeadm::without_effect(version, &spec);
    let from = kubeadm::ALL_FIELDS_FROM;
    let warning = |field: &String| {
        format!("{}: has no effect with version {version}, only from {from} on", path.child(field))
    };
    fields.iter().map(warning).chain(gate_warnings(settings.spec, version, path)).collect()
}

/// Returns warnings about gates that are left out, and about those that no version is known to have.
fn gate_warnings(spec: &Value, version: &str, path: &FieldPath) -> Vec<String> {
    let Some(given) = gates(spec) else { return Vec::new() };
    let at = |gate: &str| path.child("clusterConfiguration").child("featureGates").key(gate);
    let forced = kubeadm::forced_feature_gates(version, &given);
    let forced = forced.iter().map(|gate| {
        format!("{}: is always on with version {version}, so kubeadm does not get the feature gate", at(gate))
    });
    let written = kubeadm::feature_gates(version, Some(&given)).unwrap_or_default();
    let doubtful = kubeadm::doubtful_feature_gates(version, &written);
    let doubtful = doubtful.iter().map(|gate| {
        format!(
            "{}: no version of kubeadm is known to have this feature gate, and kubeadm refuses unknown ones",
            at(gate)
        )
    });
    forced.chain(doubtful).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(spec: &Value, version: Option<&str>, before: Option<Settings<'_>>) -> Vec<String> {
        let mut errors = Vec::new();
        validate(Settings { spec, version }, before, &FieldPath::new("spec"), &mut errors);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn contents_that_no_node_can_read_are_refused_unless_they_are_stored() {
        let spec = json!({"files": [
            {"path": "/a", "content": "H4sI", "encoding": "gzip"},
            {"path": "/b", "content": "a\n{{ range .x }}{{ end }}", "contentFormat": "Template"},
            {"path": "/c", "content": "{{ range }}"},
            {"path": "/d", "content": "{{ if .controlPlane }}x{{ end }}", "contentFormat": "Template"},
            {"path": "/e", "contentFrom": {"secret": {"name": "s", "key": "k"}}, "encoding": "gzip"},
        ]});
        let errors = texts(&spec, None, None);
        let expected = [
            "spec.files[0].encoding: Invalid value: \"gzip\": data in this encoding is binary",
            "spec.files[1].content: Invalid value: \"***\": the template is not valid: \
                line 2, column 4: \"range\" is not supported",
        ];
        assert_eq!(errors.len(), expected.len(), "{errors:?}");
        for (error, start) in errors.iter().zip(expected) {
            assert!(error.starts_with(start), "{error}");
        }
        let stored = Settings { spec: &spec, version: None };
        assert_eq!(texts(&spec, None, Some(stored)), Vec::<String>::new());
    }

    #[test]
    fn gates_and_flags_that_a_version_lacks_are_refused_also_when_the_version_changes() {
        let spec = json!({"clusterConfiguration": {
            "featureGates": {"EtcdLearnerMode": true, "ControlPlaneKubeletLocalMode": true},
            "apiServer": {"extraArgs": [{"name": "v", "value": "2"}, {"name": "cloud-provider", "value": "external"}]}}});
        let gate = "spec.clusterConfiguration.featureGates[EtcdLearnerMode]: Invalid value: true: kubeadm v1.36.0 \
            does not know this feature gate, and refuses the configuration. Remove it";
        let flag = "spec.clusterConfiguration.apiServer.extraArgs[1].name: Invalid value: \"cloud-provider\": \
            kube-apiserver v1.36.0 does not have this flag, and does not start. Remove it";
        assert_eq!(texts(&spec, Some("v1.36.0"), None), [gate, flag]);
        let stored = Settings { spec: &spec, version: Some("v1.32.0") };
        assert_eq!(texts(&spec, Some("v1.36.0"), Some(stored)), [gate, flag]);
        assert_eq!(texts(&spec, Some("v1.32.0"), None), Vec::<String>::new());
    }

    #[test]
    fn a_layout_that_ignition_cannot_express_is_refused() {
        let disk = |format: &str, layout: Value| json!({"format": format, "diskSetup": {"partitions": [{"device": "/dev/vdb", "diskLayout": layout}]}});
        let two = || json!([{"percentage": 60}, {"percentage": 40}]);
        let extended = json!([{"percentage": 100, "partitionType": "LinuxExtended"}]);
        let at = "spec.diskSetup.partitions[0].diskLayout";
        for (spec, expected) in [
            (disk("cloud-config", two()), None),
            (disk("ignition", json!([{"percentage": 100, "partitionType": "LVM"}])), None),
            (disk("ignition", two()), Some(format!("{at}: Forbidden"))),
            (disk("ignition", extended), Some(format!("{at}[0].partitionType: Invalid value"))),
        ] {
            let errors = texts(&spec, None, None);
            assert_eq!(errors.len(), usize::from(expected.is_some()), "{errors:?}");
            assert!(
                errors.iter().zip(expected).all(|(error, start)| error.starts_with(&start)),
                "{errors:?}"
            );
        }
    }

    #[test]
    fn fields_without_effect_cause_warnings_with_field_and_version() {
        let spec = json!({"clusterConfiguration": {"certificateValidityPeriodDays": 90}});
        let shown = |version| warnings(Settings { spec: &spec, version }, &FieldPath::new("spec"));
        assert_eq!(
            shown(Some("v1.30.1")),
            [
                "spec.clusterConfiguration.certificateValidityPeriodDays: has no effect with version v1.30.1, only from \
                v1.31.0 on"
            ]
        );
        assert_eq!((shown(Some("v1.31.0")), shown(None)), (Vec::new(), Vec::new()));
    }

    #[test]
    fn gates_that_are_left_out_or_in_doubt_cause_warnings() {
        let spec = json!({"clusterConfiguration": {"featureGates":
            {"ControlPlaneKubeletLocalMode": true, "Misspelt": true}}});
        let shown =
            |version| warnings(Settings { spec: &spec, version: Some(version) }, &FieldPath::new("spec"));
        let at = "spec.clusterConfiguration.featureGates";
        let forced = format!(
            "{at}[ControlPlaneKubeletLocalMode]: is always on with version v1.36.0, so kubeadm does not get the feature gate"
        );
        assert_eq!(shown("v1.36.0"), [forced], "the other one is refused");
        let doubtful =
            format!("{at}[Misspelt]: no version of kubeadm is known to have this feature gate, and ");
        let found = shown("v1.37.0");
        assert!(found.len() == 2 && found[1].starts_with(&doubtful), "{found:?}");
    }
}
