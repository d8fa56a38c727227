//! Validation of the variables of a class.

mod costs;
mod defaults;
mod field_path;
mod keywords;
mod location;
mod rules;
mod structural;

use apiserver_schema::field_errors::{FieldError, FieldPath};
use controllers_topology::variables::schema;
use serde_json::{Value, json};

use costs::Costs;
use location::Location;

use crate::rules::json_fields::{get, items};
use crate::rules::template_metadata;

/// Name of the built-in variables in templates.
const BUILTIN: &str = "builtin";

/// Types of values.
const TYPES: [&str; 6] = ["array", "boolean", "integer", "number", "object", "string"];

/// Adds the errors of the variables.
pub(super) fn validate(class: &Value, errors: &mut Vec<FieldError>) {
    let path = FieldPath::new("spec.variables");
    let variables: Vec<(&str, &Value)> = items(class, "spec.variables")
        .filter_map(|(_, variable)| Some((variable.get("name")?.as_str()?, variable)))
        .collect();
    for (index, (name, _)) in variables.iter().enumerate() {
        if variables.iter().take(index).any(|(before, _)| before == name) {
            let detail = format!(
                "variable name must be unique. Variable with name {name:?} is defined more than once"
            );
            errors.push(FieldError::invalid(path.key(name).child("name"), &json!(name), &detail));
        }
    }
    for (name, variable) in variables {
        let at = path.key(name);
        validate_name(name, &at.child("name"), errors);
        let metadata = "deprecatedV1Beta1Metadata";
        template_metadata::metadata(variable.get(metadata), &at.child(metadata), errors);
        let Some(schema) = get(variable, "schema.openAPIV3Schema") else { continue };
        let at = at.child("schema.openAPIV3Schema");
        validate_metadata(schema, &at, errors);
        validate_schema(schema, &at, errors);
    }
}

fn validate_name(name: &str, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let mut refuse = |detail: &str| errors.push(FieldError::invalid(path.clone(), &json!(name), detail));
    if name == BUILTIN {
        refuse("\"builtin\" is a reserved variable name");
    }
    if name.contains('.') {
        refuse("variable name cannot contain \".\"");
    }
}

/// Adds the errors of labels and annotations of the schema, and of the schemas within it.
fn validate_metadata(schema: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    template_metadata::metadata(schema.get("x-metadata"), &path.child("x-metadata"), errors);
    for (at, inner) in inner_schemas(schema, path) {
        validate_metadata(inner, &at, errors);
    }
}

/// Returns the schemas within a schema, with their paths.
fn inner_schemas<'a>(schema: &'a Value, path: &FieldPath) -> Vec<(FieldPath, &'a Value)> {
    let inner = |name: &str| schema.get(name).map(|inner| (path.child(name), inner));
    let properties = schema.get("properties").and_then(Value::as_object).into_iter().flatten();
    let properties = properties.map(|(name, inner)| (path.child("properties").key(name), inner));
    inner("additionalProperties").into_iter().chain(properties).chain(inner("items")).collect()
}

/// Returns the alternatives of a schema, with their paths.
fn alternatives<'a>(schema: &'a Value, path: &FieldPath) -> Vec<(FieldPath, &'a Value)> {
    let mut found: Vec<_> = schema.get("not").map(|inner| (path.child("not"), inner)).into_iter().collect();
    for list in ["allOf", "oneOf", "anyOf"] {
        found.extend(items(schema, list).map(|(index, inner)| (path.child(list).index(index), inner)));
    }
    found
}

/// Adds the errors of the schema: of its structure, or else of its defaults, or else all others.
fn validate_schema(schema: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let mut found = keywords::errors(schema, path);
    let schema = schema::known(schema);
    if found.is_empty() {
        found = structural::errors(&schema, path);
    }
    if found.is_empty() {
        defaults::validate(&schema, path, &mut found);
    }
    if found.is_empty() {
        let mut rules = Rules { costs: Costs::after(errors), ..Rules::default() };
        validate_content(&schema, path, Some(&Location::root()), &mut found, &mut rules);
        found.append(&mut rules.errors);
        rules.costs.sum_up(path, &mut found);
    }
    if let Some(problem) = found.is_empty().then(|| schema::compile(&schema).err()).flatten() {
        let detail = format!("failed to build validator: {problem}");
        found.push(FieldError::invalid(path.clone(), &json!(""), &detail));
    }
    errors.extend(found);
}

/// Results for the rules of a schema and of the schemas within it.
#[derive(Default)]
struct Rules {
    errors: Vec<FieldError>,
    costs: Costs,
}

/// Adds the errors of the schema and of the schemas within it. Rules are evaluated if there are no other errors.
fn validate_content(
    schema: &Value,
    path: &FieldPath,
    location: Option<&Location<'_>>,
    errors: &mut Vec<FieldError>,
    rules: &mut Rules,
) {
    let before = errors.len();
    if let Some(kind) =
        schema.get("type").filter(|kind| !kind.as_str().is_some_and(|kind| TYPES.contains(&kind)))
    {
        errors.push(FieldError::not_supported(path.child("type"), kind, &TYPES));
        return;
    }
    validate_samples(schema, path, errors);
    let has = |field: &str| schema.get(field).is_some();
    if has("additionalProperties") && has("properties") {
        let detail = "additionalProperties and properties are mutually exclusive";
        errors.push(FieldError::forbidden(path.clone(), detail));
    }
    for (at, inner) in inner_schemas(schema, path) {
        let is_item = at == path.child("items");
        let location = location.map(|location| location.within(schema, is_item.then_some(&at)));
        validate_content(inner, &at, location.as_ref(), errors, rules);
    }
    for (at, inner) in alternatives(schema, path) {
        validate_content(inner, &at, None, errors, rules);
    }
    rules::validate(schema, path, errors);
    if let Some(location) = location.filter(|_| errors.len() == before) {
        rules::try_out(schema, location, path, &mut rules.costs, &mut rules.errors);
    }
}

/// Adds the errors of the example and of the enumerated values.
fn validate_samples(schema: &Value, path: &FieldPath, errors: &mut Vec<FieldError>) {
    let samples = samples(schema, path);
    if samples.is_empty() {
        return;
    }
    let Ok(compiled) = schema::compile(&without_rules(schema)) else { return };
    for (at, value) in samples {
        errors.extend(compiled.shape_errors(value).into_iter().map(|error| error.within(at.as_str())));
    }
}

/// Returns the example and the enumerated values.
fn samples<'a>(schema: &'a Value, path: &FieldPath) -> Vec<(FieldPath, &'a Value)> {
    let example = schema.get("example").map(|example| (path.child("example"), example));
    let allowed = items(schema, "enum").map(|(index, value)| (path.child("enum").index(index), value));
    example.into_iter().chain(allowed.filter(|(_, value)| !value.is_null())).collect()
}

/// Returns the schema without its rules, at every level.
fn without_rules(schema: &Value) -> Value {
    let mut plain = schema.clone();
    drop_rules(&mut plain);
    plain
}

fn drop_rules(schema: &mut Value) {
    let Some(fields) = schema.as_object_mut() else { return };
    fields.remove("x-kubernetes-validations");
    for (name, inner) in fields {
        match (name.as_str(), inner) {
            ("properties", Value::Object(properties)) => properties.values_mut().for_each(drop_rules),
            ("allOf" | "anyOf" | "oneOf", Value::Array(list)) => list.iter_mut().for_each(drop_rules),
            ("items" | "additionalProperties" | "not", inner) => drop_rules(inner),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests;
