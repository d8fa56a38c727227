//! Machine.

mod operation;
mod reboot;
mod upgrade;

use std::sync::Arc;

use apiserver_machinery::field_errors::{FieldError, FieldPath};
use apiserver_machinery::strategy::Strategy;
use apiserver_machinery::verb::Verb;
use serde_json::Value;

use crate::{immutable, version};

/// Machine's own verbs. To add one, write its file and add its line.
pub(crate) fn verbs() -> Vec<Arc<dyn Verb>> {
    vec![Arc::new(reboot::Reboot), Arc::new(upgrade::Upgrade)]
}

/// Machine's own rules.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MachineStrategy;

impl Strategy for MachineStrategy {
    fn prepare(&self, new: &mut Value, _old: Option<&Value>) {
        // Tools find a cluster's objects by this label.
        let cluster = new.pointer("/spec/clusterName").cloned().unwrap_or_default();
        if let Some(metadata) = apiserver_machinery::object::metadata_mut(new).filter(|_| cluster.is_string())
        {
            let labels = metadata.entry("labels").or_insert_with(|| serde_json::json!({}));
            if let Some(labels) = labels.as_object_mut() {
                labels.insert("cluster.x-k8s.io/cluster-name".to_owned(), cluster);
            }
        }
    }

    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let mut faults = Vec::new();
        let text = |pointer: &str| new.pointer(pointer).and_then(Value::as_str);
        let has_config = new.pointer("/spec/bootstrap/configRef").is_some();
        if !has_config && text("/spec/bootstrap/dataSecretName").is_none() {
            let detail =
                "expected either spec.bootstrap.dataSecretName or spec.bootstrap.configRef to be populated";
            faults.push(FieldError::required(FieldPath::new("spec.bootstrap"), detail));
        }
        if let Some(found) = text("/spec/version").filter(|found| version::parse(found).is_none()) {
            let detail = "must be a valid semantic version with a leading v, e.g. v1.30.2";
            faults.push(FieldError::invalid(FieldPath::new("spec.version"), &found.into(), detail));
        }
        faults.extend(old.and_then(|old| immutable::field(new, old, "spec.clusterName")));
        faults
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn machines_are_refused_for_what_is_wrong_with_them() {
        let good =
            json!({"spec": {"clusterName": "c", "version": "v1.30.2", "bootstrap": {"dataSecretName": "s"}}});
        let table = [
            (good.clone(), None, vec![]),
            (
                json!({"spec": {"clusterName": "c", "bootstrap": {}}}),
                None,
                vec![
                    "spec.bootstrap: Required value: expected either spec.bootstrap.dataSecretName or spec.bootstrap.configRef to be populated",
                ],
            ),
            (
                json!({"spec": {"clusterName": "c", "version": "1.30", "bootstrap": {"configRef": {}}}}),
                None,
                vec![
                    "spec.version: Invalid value: \"1.30\": must be a valid semantic version with a leading v, e.g. v1.30.2",
                ],
            ),
            (
                json!({"spec": {"clusterName": "d", "bootstrap": {"dataSecretName": "s"}}}),
                Some(good),
                vec!["spec.clusterName: Invalid value: \"d\": field is immutable"],
            ),
        ];
        for (new, old, expected) in table {
            let found: Vec<String> =
                MachineStrategy.validate(&new, old.as_ref()).iter().map(ToString::to_string).collect();
            assert_eq!(found, expected, "{new}");
        }
    }
}
