//! ExtensionConfig: strategy and validation.

mod address;

use apiserver_machinery::object;
use apiserver_machinery::strategy::Strategy;
use apiserver_schema::field_errors::{FieldError, FieldPath};
use serde_json::{Value, json};

use crate::rules::{label_selector, names};

/// Default port of a Service.
const PORT: i64 = 443;

/// Strategy of ExtensionConfig.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ExtensionConfigStrategy;

impl Strategy for ExtensionConfigStrategy {
    fn drops_nulls(&self) -> bool {
        true
    }

    fn prepare(&self, new: &mut Value, _old: Option<&Value>) {
        let Some(spec) = new.get_mut("spec").and_then(Value::as_object_mut) else { return };
        // The default selector matches every namespace.
        spec.entry("namespaceSelector").or_insert_with(|| json!({}));
        let service = spec.get_mut("clientConfig").and_then(|client| client.get_mut("service"));
        if let Some(service) = service.and_then(Value::as_object_mut) {
            service.entry("port").or_insert_with(|| json!(PORT));
        }
    }

    fn validate(&self, new: &Value, _old: Option<&Value>) -> Vec<FieldError> {
        let mut errors = Vec::new();
        let wrong = names::label(object::name(new));
        if !wrong.is_empty() {
            let detail =
                format!("ExtensionConfig name should be a valid DNS1123 label name: [{}]", wrong.join(" "));
            let path = FieldPath::new("metadata.name");
            errors.push(FieldError::invalid(path, &json!(object::name(new)), &detail));
        }
        if let Some(client) = object::at(new, "spec.clientConfig") {
            address::validate(client, &FieldPath::new("spec.clientConfig"), &mut errors);
        }
        let path = FieldPath::new("spec.namespaceSelector");
        match object::at(new, "spec.namespaceSelector") {
            None => errors.push(FieldError::required(path, "must be defined")),
            Some(selector) => {
                let reason = label_selector::error(Some(selector));
                errors.extend(reason.map(|reason| FieldError::invalid(path, selector, &reason)));
            }
        }
        errors
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_default_to_all_namespaces_and_port_443() {
        let mut object = json!({"metadata": {"name": "ext"},
            "spec": {"clientConfig": {"service": {"name": "s", "namespace": "n"}}}});
        ExtensionConfigStrategy.prepare(&mut object, None);
        assert_eq!(object["spec"]["namespaceSelector"], json!({}));
        assert_eq!(object["spec"]["clientConfig"]["service"]["port"], 443);
        assert_eq!(ExtensionConfigStrategy.validate(&object, None), []);
    }

    #[test]
    fn names_and_selectors_must_be_valid() {
        let object = json!({"metadata": {"name": "a.b"}, "spec": {"clientConfig": {"url": "https://x"},
            "namespaceSelector": {"matchExpressions": [{"key": "a", "operator": "In"}]}}});
        let found: Vec<String> =
            ExtensionConfigStrategy.validate(&object, None).iter().map(ToString::to_string).collect();
        assert_eq!(
            found[0],
            "metadata.name: Invalid value: \"a.b\": ExtensionConfig name should be a valid DNS1123 label name: [must not contain dots]"
        );
        assert!(
            found[1].starts_with("spec.namespaceSelector: Invalid value: ")
                && found[1].contains("can't be empty")
        );
        assert_eq!(found.len(), 2);
    }
}
