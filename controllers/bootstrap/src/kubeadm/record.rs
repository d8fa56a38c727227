//! kubeadm's record of the settings of a running cluster: the ClusterConfiguration in its ConfigMap `kubeadm-config`.
//!
//! A node that joins takes the settings of the cluster from the record. The tree is edited, and not written anew, so that
//! fields which are not known here stay.

use apiserver_types::ClusterConfiguration;
use serde_json::{Map, Value, json};

use super::api_version::ApiVersion;
use super::component::{self, arguments_to_list};
use super::duration::rename_days;
use super::{feature_gates, fields};

/// Components with flags and an environment.
const COMPONENTS: [&str; 3] = ["apiServer", "controllerManager", "scheduler"];

/// Fields of a component that follow the settings. One that is not set is removed.
const OF_COMPONENT: [&str; 4] = ["certSANs", "extraArgs", "extraEnvs", "extraVolumes"];

/// Fields of etcd that follow the settings. The directory of the data is not among them: kubeadm's default is in the record.
const OF_ETCD: [&str; 6] =
    ["extraArgs", "extraEnvs", "imageRepository", "imageTag", "peerCertSANs", "serverCertSANs"];

/// Fields of the cluster that v1beta3 lacks.
const ONLY_V1BETA4: [&str; 4] =
    ["caCertificateValidityPeriod", "certificateValidityPeriod", "encryptionAlgorithm", "proxy"];

/// Returns the record with a version and settings of the cluster, in the API of that version's kubeadm; `None` if the
/// record has them.
///
/// # Errors
/// The record cannot be read, or the version is not supported. For people.
pub fn recorded(
    text: &str,
    version: &str,
    wish: Option<&ClusterConfiguration>,
) -> Result<Option<String>, String> {
    let tree: Value = serde_saphyr::from_str(text).map_err(|error| error.to_string())?;
    let Value::Object(before) = tree else { return Err("it is no YAML object".to_owned()) };
    let api = ApiVersion::of(version).map_err(|error| error.to_string())?;
    let known = before.get("apiVersion").and_then(Value::as_str).unwrap_or_default();
    let from = ApiVersion::read(known).ok_or_else(|| {
        format!("its apiVersion {known:?} is not known here. Run \"kubeadm config migrate\" on its text")
    })?;
    let mut record = before.clone();
    convert(&mut record, from, api);
    record.insert("apiVersion".to_owned(), api.text().into());
    record.insert("kubernetesVersion".to_owned(), version.into());
    if let Some(wish) = wish {
        apply(&mut record, wish, version, api)?;
    }
    if record == before {
        return Ok(None);
    }
    serde_saphyr::to_string(&record).map(Some).map_err(|error| error.to_string())
}

/// Brings a record to another API version.
fn convert(record: &mut Map<String, Value>, from: ApiVersion, to: ApiVersion) {
    if from == to {
        return;
    }
    let back = to == ApiVersion::V1Beta3;
    for part in parts(record) {
        if back {
            component::convert(part, to);
        } else {
            arguments_to_list(part, "extraArgs");
            // It is a field of each node's own file now.
            part.remove("timeoutForControlPlane");
        }
    }
    if back {
        for field in ONLY_V1BETA4 {
            record.remove(field);
        }
        remove(record, &["dns"], "disabled");
        remove(record, &["etcd", "external"], "httpEndpoints");
    }
}

/// Returns the parts with flags.
fn parts(record: &mut Map<String, Value>) -> impl Iterator<Item = &mut Map<String, Value>> {
    record.iter_mut().filter_map(|(name, part)| match name.as_str() {
        "etcd" => part.get_mut("local")?.as_object_mut(),
        name if COMPONENTS.contains(&name) => part.as_object_mut(),
        _ => None,
    })
}

fn remove(record: &mut Map<String, Value>, path: &[&str], field: &str) {
    let mut at = Some(record);
    for name in path {
        at = at.and_then(|fields| fields.get_mut(*name)?.as_object_mut());
    }
    if let Some(fields) = at {
        fields.remove(field);
    }
}

/// Writes the settings into a record of the same API version.
fn apply(
    record: &mut Map<String, Value>,
    wish: &ClusterConfiguration,
    version: &str,
    api: ApiVersion,
) -> Result<(), String> {
    let mut new = fields(wish).map_err(|error| error.to_string())?;
    for part in parts(&mut new) {
        component::convert(part, api);
    }
    if let Some(repository) = wish.image_repository.as_ref().filter(|it| !it.is_empty()) {
        record.insert("imageRepository".to_owned(), repository.as_str().into());
    }
    let gates = feature_gates(version, wish.feature_gates.as_ref()).map(|gates| json!(gates));
    set(record, "featureGates", gates);
    if api == ApiVersion::V1Beta4 {
        rename_days(&mut new, "certificateValidityPeriodDays", "certificateValidityPeriod");
        for field in ["certificateValidityPeriod", "encryptionAlgorithm"] {
            set(record, field, new.remove(field));
        }
    }
    for name in COMPONENTS {
        let wished = new.remove(name);
        if let Some(part) = object(record, name) {
            follow(part, wished, &OF_COMPONENT);
        }
    }
    etcd(record, new.remove("etcd"));
    Ok(())
}

/// Writes the settings of etcd. Settings without a word on etcd mean a local one.
fn etcd(record: &mut Map<String, Value>, wished: Option<Value>) {
    let mut wished = wished.unwrap_or_default();
    let take = |wished: &mut Value, name: &str| wished.as_object_mut().and_then(|it| it.remove(name));
    let (local, external) = (take(&mut wished, "local"), take(&mut wished, "external"));
    let Some(record) = object(record, "etcd") else { return };
    if let Some(Value::Object(external)) = external {
        if let Some(part) = object(record, "external") {
            part.extend(external);
        }
        return;
    }
    if record.contains_key("external") {
        return;
    }
    let Some(part) = object(record, "local") else { return };
    let directory = local.as_ref().and_then(|it| it.get("dataDir")).filter(|it| **it != "").cloned();
    follow(part, local, &OF_ETCD);
    if let Some(directory) = directory {
        part.insert("dataDir".to_owned(), directory);
    }
}

/// Gives a part these fields of the settings.
fn follow(part: &mut Map<String, Value>, wished: Option<Value>, names: &[&str]) {
    let mut wished = wished.unwrap_or_default();
    for name in names {
        set(part, name, wished.as_object_mut().and_then(|it| it.remove(*name)));
    }
}

/// Sets a field, or removes it if there is nothing to set.
fn set(fields: &mut Map<String, Value>, name: &str, value: Option<Value>) {
    let is_empty = |value: &Value| match value {
        Value::Null => true,
        Value::Array(items) => items.is_empty(),
        Value::Object(fields) => fields.is_empty(),
        Value::String(text) => text.is_empty(),
        Value::Bool(_) | Value::Number(_) => false,
    };
    match value.filter(|value| !is_empty(value)) {
        Some(value) => fields.insert(name.to_owned(), value),
        None => fields.remove(name),
    };
}

/// Returns the object in a field, and makes an empty one if there is none.
fn object<'a>(fields: &'a mut Map<String, Value>, name: &str) -> Option<&'a mut Map<String, Value>> {
    let value = fields.entry(name).or_insert(Value::Null);
    if value.is_null() {
        *value = Value::Object(Map::new());
    }
    value.as_object_mut()
}

#[cfg(test)]
#[path = "record_tests.rs"]
mod tests;
