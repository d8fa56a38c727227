//! Documents of a configuration file.

use serde_json::Value;

use super::schema;
use super::versions::Version;
use crate::json::text;

/// API versions of the configuration that a hollow kubeadm reads.
const V1BETA3: &str = "kubeadm.k8s.io/v1beta3";
const V1BETA4: &str = "kubeadm.k8s.io/v1beta4";

/// First minor whose kubeadm reads v1beta4 without an experimental flag.
const FIRST_V1BETA4: u64 = 31;

/// Documents of one file, by kind.
#[derive(Debug, Default)]
pub(crate) struct Documents {
    pub(crate) cluster: Option<Value>,
    pub(crate) init: Option<Value>,
    pub(crate) join: Option<Value>,
}

/// Splits a file at the lines that separate documents.
fn split(file: &str) -> Vec<String> {
    let mut parts = vec![String::new()];
    for line in file.lines() {
        if line.trim_end() == "---" {
            parts.push(String::new());
        } else if let Some(part) = parts.last_mut() {
            part.push_str(line);
            part.push('\n');
        }
    }
    parts.retain(|part| !part.trim().is_empty());
    parts
}

/// Checks one document against the fields of its kind. kubeadm reads files strictly, and objects of the cluster not.
pub(crate) fn check(document: &Value, strict: bool) -> Result<(), String> {
    let (api, kind) = (text(document, "/apiVersion"), text(document, "/kind"));
    let (group, version) = api.split_once('/').unwrap_or(("", api));
    let about = |error: String| {
        format!(
            "error unmarshaling configuration schema.GroupVersionKind{{Group:{group:?}, Version:{version:?}, \
             Kind:{kind:?}}}: strict decoding error: {error}"
        )
    };
    let newer = match api {
        V1BETA3 => false,
        V1BETA4 => true,
        "kubelet.config.k8s.io/v1beta1" | "kubeproxy.config.k8s.io/v1alpha1" => return Ok(()),
        _ => return Err(format!("no kind {kind:?} is registered for version {api:?}")),
    };
    let shape = schema::of(kind, newer)
        .ok_or_else(|| format!("no kind {kind:?} is registered for version {api:?} in scheme"))?;
    schema::check(shape, document, "", strict).map_err(about)
}

/// Returns an error for a document in an API version that a kubeadm does not read.
pub(crate) fn check_version(document: &Value, kubeadm: Option<&Version>) -> Result<(), String> {
    let is_old = kubeadm.is_some_and(|version| version.minor < FIRST_V1BETA4);
    if is_old && text(document, "/apiVersion") == V1BETA4 {
        return Err(format!(
            "experimental API spec: {V1BETA4:?} is not allowed. You can use the --allow-experimental-api flag if the \
             command supports it"
        ));
    }
    Ok(())
}

impl Documents {
    /// Parses and checks a file.
    pub(crate) fn parse(file: &str, path: &str) -> Result<Self, String> {
        let mut found = Self::default();
        for part in split(file) {
            let document: Value = serde_saphyr::from_str(&part)
                .map_err(|error| format!("error parsing config file {path}: {error}"))?;
            check(&document, true)?;
            let slot = match text(&document, "/kind") {
                "ClusterConfiguration" => &mut found.cluster,
                "InitConfiguration" => &mut found.init,
                "JoinConfiguration" => &mut found.join,
                _ => continue,
            };
            if slot.replace(document).is_some() {
                return Err(format!("invalid configuration: {path} has two documents of one kind"));
            }
        }
        Ok(found)
    }

    /// Returns an error for an API version that this kubeadm does not read.
    pub(crate) fn check_api(&self, kubeadm: Option<&Version>) -> Result<(), String> {
        let mut documents = [&self.cluster, &self.init, &self.join].into_iter().flatten();
        documents.try_for_each(|document| check_version(document, kubeadm))
    }
}
