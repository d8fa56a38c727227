//! KubeadmConfig: strategy, and validation of its spec wherever a kind embeds it.

pub(crate) mod boot_failures;
mod ignition;

use apiserver_machinery::object;
use std::collections::HashSet;

use apiserver_machinery::admission::UsedObject;
use apiserver_machinery::strategy::Strategy;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde_json::{Value, json};

use crate::rules::used_secrets;
use boot_failures::Settings;

/// Strategy of KubeadmConfig.
#[derive(Debug, Clone, Copy)]
pub(crate) struct KubeadmConfigStrategy;

impl Strategy for KubeadmConfigStrategy {
    fn used_objects(&self, object: &Value) -> Vec<UsedObject> {
        used_secrets::at(object, &used_secrets::OF_KUBEADM_CONFIG)
    }

    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        if let Some(spec) = new.get("spec") {
            let path = FieldPath::new("spec");
            validate(spec, &path, &mut errors);
            // The version is a field of the Machine.
            let settings = |spec| Settings { spec, version: None };
            let before = old.and_then(|old| old.get("spec")).map(settings);
            boot_failures::validate(settings(spec), before, &path, &mut errors);
        }
        errors
    }
}

/// Adds every error of a KubeadmConfig's spec.
pub(crate) fn validate(spec: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    validate_files(spec, path, errors);
    validate_users(spec, path, errors);
    ignition::validate(spec, path, errors);
    validate_disks(spec, path, errors);
    validate_tokens(spec, path, errors);
    let user = object::at(spec, "joinConfiguration.discovery.file.kubeConfig.user");
    if user.is_some_and(|user| user.get("authProvider").is_some() && user.get("exec").is_some()) {
        let at = path.child("joinConfiguration.discovery.file.kubeconfig.user");
        let detail = "only one of authProvider or exec must be defined";
        errors.push(FieldError::invalid(at, &json!(HIDDEN), detail));
    }
}

/// Text that an error shows instead of a value that may contain a secret. Controllers copy errors into conditions and
/// Events, which more users can read than the object.
pub(crate) const HIDDEN: &str = "***";

/// Validates bootstrap tokens. Upstream's typed clients cannot read an object with an invalid token. Errors do not
/// repeat the token.
fn validate_tokens(spec: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let is_part = |part: &str, length: usize| {
        part.len() == length && part.bytes().all(|byte| byte.is_ascii_digit() || byte.is_ascii_lowercase())
    };
    for (index, token) in items(spec, "/initConfiguration/bootstrapTokens") {
        let Some(text) = token.get("token").and_then(Value::as_str) else { continue };
        if !text.split_once('.').is_some_and(|(id, secret)| is_part(id, 6) && is_part(secret, 16)) {
            let at = path.child("initConfiguration").child("bootstrapTokens").index(index).child("token");
            let detail = "the bootstrap token is not of the form \"[a-z0-9]{6}.[a-z0-9]{16}\"";
            errors.push(FieldError::invalid(at, &json!(HIDDEN), detail));
        }
    }
}

/// Adds the errors of a control plane's spec. Its machines are initialized and joined, and v1beta1 has one timeout for
/// both.
pub(crate) fn validate_control_plane(spec: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    validate(spec, path, errors);
    const TIMEOUT: &str = "controlPlaneComponentHealthCheckSeconds";
    let said = |part: &str| match spec.pointer(&format!("/{part}/timeouts/{TIMEOUT}")) {
        Some(seconds) => seconds.to_string(),
        None => "unset".to_owned(),
    };
    let (init, join) = (said("initConfiguration"), said("joinConfiguration"));
    if init == join {
        return;
    }
    let detail = format!(
        "{TIMEOUT} must be set to the same value both in initConfiguration.timeouts ({init}) and in \
         joinConfiguration.timeouts ({join})"
    );
    for (part, seconds) in [("initConfiguration", &init), ("joinConfiguration", &join)] {
        let at = path.child(part).child("timeouts").child(TIMEOUT);
        errors.push(FieldError::invalid(at, &json!(seconds), &detail));
    }
}

/// Sets the defaults of older releases, which objects from those releases contain. They count as unchanged.
pub(crate) fn fill_in_former_defaults(spec: &mut Value) {
    let former = [
        ("", "format", "cloud-config"),
        ("/initConfiguration/nodeRegistration", "imagePullPolicy", "IfNotPresent"),
        ("/joinConfiguration/nodeRegistration", "imagePullPolicy", "IfNotPresent"),
    ];
    for (parent, field, value) in former {
        let mut at = &mut *spec;
        for name in parent.split('/').filter(|name| !name.is_empty()) {
            let Some(fields) = at.as_object_mut() else { return };
            at = fields.entry(name).or_insert_with(|| json!({}));
        }
        if let Some(fields) = at.as_object_mut() {
            fields.entry(field).or_insert_with(|| json!(value));
        }
    }
    let exec = spec.pointer_mut("/joinConfiguration/discovery/file/kubeConfig/user/exec");
    if let Some(exec) = exec.and_then(Value::as_object_mut) {
        exec.entry("apiVersion").or_insert_with(|| json!("client.authentication.k8s.io/v1"));
    }
}

/// Returns the items of a list with their indices.
fn items<'a>(spec: &'a Value, pointer: &str) -> impl Iterator<Item = (usize, &'a Value)> + use<'a> {
    spec.pointer(pointer).and_then(Value::as_array).into_iter().flatten().enumerate()
}

fn validate_files(spec: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let mut known = HashSet::new();
    for (index, file) in items(spec, "/files") {
        let at = path.child("files").index(index);
        if file.get("content").is_some() && file.get("contentFrom").is_some() {
            let detail = "only one of content or contentFrom may be specified for a single file";
            errors.push(FieldError::invalid(at.clone(), &json!(HIDDEN), detail));
        }
        validate_secret(file, "contentFrom", &at, errors);
        let path = file.get("path").filter(|path| path.as_str().is_some_and(|path| !known.insert(path)));
        if let Some(path) = path {
            let detail = "path property must be unique among all files";
            errors.push(FieldError::invalid(at.child("path"), path, detail));
        }
    }
}

fn validate_users(spec: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    for (index, user) in items(spec, "/users") {
        let at = path.child("users").index(index);
        if user.get("passwd").is_some() && user.get("passwdFrom").is_some() {
            let detail = "only one of passwd or passwdFrom may be specified for a single user";
            errors.push(FieldError::invalid(at.clone(), &json!(HIDDEN), detail));
        }
        validate_secret(user, "passwdFrom", &at, errors);
    }
}

fn validate_secret(item: &Value, source: &str, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let Some(secret) = item.get(source).and_then(|source| source.get("secret")) else { return };
    for field in ["name", "key"] {
        if secret.get(field).and_then(Value::as_str).is_none_or(str::is_empty) {
            let detail = format!("secret file source must specify non-empty secret {field}");
            errors.push(FieldError::required(path.child(source).child("secret").child(field), &detail));
        }
    }
}

fn validate_disks(spec: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    for (index, partition) in items(spec, "/diskSetup/partitions") {
        let total: i64 =
            items(partition, "/diskLayout").filter_map(|(_, part)| part.get("percentage")?.as_i64()).sum();
        if total > 100 {
            let at = path.child("diskSetup.partitions").index(index).child("diskLayout");
            let detail = "the sum of all partition percentages must not be greater than 100";
            errors.push(FieldError::invalid(at, &json!(total), detail));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(spec: &Value) -> Vec<String> {
        let errors = KubeadmConfigStrategy.validate(&json!({"spec": spec}), None);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn contents_must_have_exactly_one_source() {
        let secret = json!({"secret": {"name": "s", "key": "k"}});
        assert_eq!(
            found(&json!({
                "files": [{"path": "/a", "content": "x"}, {"path": "/b", "contentFrom": secret}],
                "users": [{"name": "a", "passwd": "x"}, {"name": "b", "passwdFrom": secret}]})),
            Vec::<String>::new()
        );
        let wrong = found(&json!({
            "files": [{"path": "/a", "content": "hunter2", "contentFrom": secret},
                {"path": "/a", "content": "hunter2"}, {"path": "/c", "contentFrom": {"secret": {"name": ""}}}],
            "users": [{"name": "a", "passwd": "hunter2", "passwdFrom": secret}]}));
        assert!(!wrong.concat().contains("hunter2"), "{wrong:?}");
        let expected = [
            (
                "spec.files[0]: Invalid value: ",
                "only one of content or contentFrom may be specified for a single file",
            ),
            ("spec.files[1].path: Invalid value: ", "path property must be unique among all files"),
            ("spec.files[2].contentFrom.secret.name: ", "must specify non-empty secret name"),
            ("spec.files[2].contentFrom.secret.key: ", "must specify non-empty secret key"),
            (
                "spec.users[0]: Invalid value: ",
                "only one of passwd or passwdFrom may be specified for a single user",
            ),
        ];
        assert_eq!(wrong.len(), expected.len(), "{wrong:?}");
        for (error, (start, end)) in wrong.iter().zip(expected) {
            assert!(error.starts_with(start) && error.ends_with(end), "{error}");
        }
    }

    #[test]
    fn disk_partitions_cannot_exceed_a_hundred_percent() {
        let disk = |parts: &[i64]| {
            let layout: Vec<Value> = parts.iter().map(|part| json!({"percentage": part})).collect();
            json!({"diskSetup": {"partitions": [{"device": "/dev/vdb", "diskLayout": layout}]}})
        };
        assert_eq!(found(&disk(&[60, 40])), Vec::<String>::new());
        assert_eq!(
            found(&disk(&[60, 41])),
            [
                "spec.diskSetup.partitions[0].diskLayout: Invalid value: 101: the sum of all partition percentages must not be greater than 100"
            ]
        );
    }

    #[test]
    fn a_discovery_user_has_only_one_authentication_method() {
        let user = |user: Value| json!({"joinConfiguration": {"discovery": {"file": {"kubeConfigPath": "/k", "kubeConfig": {"user": user}}}}});
        assert_eq!(found(&user(json!({"exec": {"command": "x"}}))), Vec::<String>::new());
        let both = found(&user(json!({"exec": {"command": "x"}, "authProvider": {"name": "y"}})));
        let start = "spec.joinConfiguration.discovery.file.kubeconfig.user: Invalid value: \"***\": ";
        assert!(both[0].starts_with(start), "{}", both[0]);
    }

    #[test]
    fn the_health_check_timeouts_of_init_and_join_must_be_equal() {
        let check = |spec: Value| {
            let mut errors = Vec::new();
            validate_control_plane(&spec, &FieldPath::new("spec"), &mut errors);
            errors.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        let wait = |seconds: i64| json!({"timeouts": {"controlPlaneComponentHealthCheckSeconds": seconds}});
        assert_eq!(
            check(json!({"initConfiguration": wait(5), "joinConfiguration": wait(5)})),
            Vec::<String>::new()
        );
        let wrong = check(json!({"initConfiguration": wait(5)}));
        assert_eq!(wrong.len(), 2);
        assert_eq!(
            wrong[1],
            "spec.joinConfiguration.timeouts.controlPlaneComponentHealthCheckSeconds: Invalid value: \"unset\": \
             controlPlaneComponentHealthCheckSeconds must be set to the same value both in \
             initConfiguration.timeouts (5) and in joinConfiguration.timeouts (unset)"
        );
    }
}
