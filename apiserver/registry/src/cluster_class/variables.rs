//! The variables of a class: what they may be, and whether a Cluster's values are that.

use apiserver_machinery::field_errors::{FieldError, FieldPath};
use apiserver_machinery::schema::Schema;
use serde_json::Value;

use crate::shape::{get, items};

/// Adds what is wrong with the schemas of the variables, by name.
pub(super) fn validate(new: &Value, faults: &mut Vec<FieldError>) {
    for (_, variable) in items(new, "spec.variables") {
        let (Some(name), Some(schema)) =
            (variable.get("name").and_then(Value::as_str), get(variable, "schema.openAPIV3Schema"))
        else {
            continue;
        };
        let path = FieldPath::new("spec.variables").key(name).child("schema.openAPIV3Schema");
        match Schema::compile(schema) {
            Err(problem) => {
                faults.push(FieldError::invalid(path, &Value::from("object"), &problem.to_string()));
            }
            Ok(compiled) => {
                if let Some(default) = schema.get("default") {
                    faults.extend(compiled.validate(default, None, &path.child("default")));
                }
            }
        }
    }
}

/// Adds what is wrong with a Cluster's values, as far as its class defines the variables itself.
pub(crate) fn validate_values(cluster: &Value, class: &Value, faults: &mut Vec<FieldError>) {
    let path = FieldPath::new("spec.topology.variables");
    let definitions = || items(class, "spec.variables").map(|(_, definition)| definition);
    let name_of = |one: &Value| one.get("name").and_then(Value::as_str).unwrap_or_default().to_owned();
    for definition in definitions() {
        let name = name_of(definition);
        let has_default = get(definition, "schema.openAPIV3Schema.default").is_some();
        let is_required = definition.get("required") == Some(&Value::Bool(true)) && !has_default;
        let mut given = items(cluster, "spec.topology.variables");
        if is_required && !given.any(|(_, value)| name_of(value) == name) {
            let detail = format!("required variable with name {name:?} must be defined");
            faults.push(FieldError::required(path.clone(), &detail));
        }
    }
    for (_, given) in items(cluster, "spec.topology.variables") {
        let (name, value) = (name_of(given), given.get("value").unwrap_or(&Value::Null));
        let at = path.key(&name);
        match definitions().find(|definition| name_of(definition) == name) {
            Some(definition) => {
                let schema =
                    get(definition, "schema.openAPIV3Schema").and_then(|schema| Schema::compile(schema).ok());
                let found = schema.map(|schema| schema.validate(value, None, &at.child("value")));
                faults.extend(found.unwrap_or_default());
            }
            None if is_discovering(class) => {}
            None => {
                let shown = Value::from(value.to_string());
                faults.push(FieldError::invalid(at, &shown, "variable is not defined"));
            }
        }
    }
}

/// Whether an extension defines variables, too, of which only it knows.
fn is_discovering(class: &Value) -> bool {
    items(class, "spec.patches").any(|(_, patch)| get(patch, "external.discoverVariablesExtension").is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn class() -> Value {
        json!({"spec": {"variables": [
            {"name": "image", "required": true, "schema": {"openAPIV3Schema": {"type": "string", "minLength": 2}}},
            {"name": "count", "required": true, "schema": {"openAPIV3Schema": {"type": "integer", "default": 1}}}]}})
    }

    fn found(values: &Value, class: &Value) -> Vec<String> {
        let mut faults = Vec::new();
        validate_values(&json!({"spec": {"topology": {"variables": values}}}), class, &mut faults);
        faults.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn values_are_what_the_class_wants() {
        assert_eq!(found(&json!([{"name": "image", "value": "ab"}]), &class()), Vec::<String>::new());
        assert_eq!(
            found(&json!([]), &class()),
            [
                "spec.topology.variables: Required value: required variable with name \"image\" must be defined"
            ]
        );
        assert_eq!(
            found(&json!([{"name": "image", "value": "a"}, {"name": "other", "value": 1}]), &class()),
            [
                "spec.topology.variables[image].value: Invalid value: \"a\": spec.topology.variables[image].value in body should be at least 2 chars long",
                "spec.topology.variables[other]: Invalid value: \"1\": variable is not defined",
            ]
        );
        let mut more = class();
        more["spec"]["patches"] = json!([{"external": {"discoverVariablesExtension": "e"}}]);
        let values = json!([{"name": "image", "value": "ab"}, {"name": "other", "value": 1}]);
        assert_eq!(found(&values, &more), Vec::<String>::new());
    }

    #[test]
    fn defaults_are_what_the_schema_wants() {
        let mut class = class();
        let mut faults = Vec::new();
        validate(&class, &mut faults);
        assert_eq!(faults, []);
        class["spec"]["variables"][1]["schema"]["openAPIV3Schema"]["default"] = json!("one");
        class["spec"]["variables"][0]["schema"]["openAPIV3Schema"]["pattern"] = json!("(");
        validate(&class, &mut faults);
        let fields: Vec<&str> = faults.iter().map(|fault| fault.field.as_str()).collect();
        assert_eq!(
            fields,
            [
                "spec.variables[image].schema.openAPIV3Schema",
                "spec.variables[count].schema.openAPIV3Schema.default",
            ]
        );
    }
}
