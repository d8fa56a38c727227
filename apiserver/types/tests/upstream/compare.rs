//! Comparison of a schema and a descriptor with a version of a CustomResourceDefinition.

use std::collections::BTreeSet;
use std::fmt;

use apiserver_types::Descriptor;
use serde_json::{Map, Value, json};

/// One difference.
pub(crate) struct Difference {
    /// Path of the field, or `names`, `columns` and the like.
    pub(crate) path: String,
    /// Keyword of the schema.
    pub(crate) keyword: String,
    ours: Value,
    theirs: Value,
}

impl fmt::Display for Difference {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { path, keyword, ours, theirs } = self;
        write!(formatter, "{path} {keyword}: ours {ours}, upstream {theirs}")
    }
}

/// Differences of two schemas, without descriptions.
pub(crate) fn schemas(ours: &Value, theirs: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    walk(ours, theirs, "", &mut found);
    found
}

fn walk(ours: &Value, theirs: &Value, path: &str, found: &mut Vec<Difference>) {
    let (Some(one), Some(other)) = (ours.as_object(), theirs.as_object()) else {
        return compare(path, "schema", ours, theirs, found);
    };
    for keyword in keys(one, other) {
        let (ours, theirs) = (&ours[keyword], &theirs[keyword]);
        match keyword {
            "description" => {}
            "properties" => {
                let fields = |value: &Value| value.as_object().cloned().unwrap_or_default();
                for name in keys(&fields(ours), &fields(theirs)) {
                    walk(&ours[name], &theirs[name], &format!("{path}.{name}"), found);
                }
            }
            "items" => walk(ours, theirs, &format!("{path}[]"), found),
            "additionalProperties" => walk(ours, theirs, &format!("{path}{{}}"), found),
            "required" => compare(path, keyword, &sorted(ours), &sorted(theirs), found),
            _ => compare(path, keyword, ours, theirs, found),
        }
    }
}

fn keys<'a>(one: &'a Map<String, Value>, other: &'a Map<String, Value>) -> BTreeSet<&'a str> {
    one.keys().chain(other.keys()).map(String::as_str).collect()
}

/// A set of names, whose order means nothing.
fn sorted(names: &Value) -> Value {
    let mut names = names.as_array().cloned().unwrap_or_default();
    names.sort_by_key(ToString::to_string);
    names.into()
}

fn compare(path: &str, keyword: &str, ours: &Value, theirs: &Value, found: &mut Vec<Difference>) {
    if ours != theirs {
        let path = if path.is_empty() { "." } else { path }.to_owned();
        found.push(Difference {
            path,
            keyword: keyword.to_owned(),
            ours: ours.clone(),
            theirs: theirs.clone(),
        });
    }
}

/// Differences of a descriptor and a definition: names, scope, subresources, columns and deprecation.
pub(crate) fn descriptors(ours: &Descriptor, spec: &Value, version: &Value) -> Vec<Difference> {
    let mut found = Vec::new();
    let mut check =
        |what: &str, ours: Value, theirs: Value| compare("names", what, &ours, &theirs, &mut found);
    let names = &spec["names"];
    let or_empty = |value: &Value| if value.is_null() { json!([]) } else { value.clone() };
    check("plural", json!(ours.plural), names["plural"].clone());
    check("singular", json!(ours.singular), names["singular"].clone());
    check("shortNames", json!(ours.short_names), or_empty(&names["shortNames"]));
    check("categories", json!(ours.categories), or_empty(&names["categories"]));
    let scope = if ours.namespaced { "Namespaced" } else { "Cluster" };
    check("scope", json!(scope), spec["scope"].clone());
    check("deprecated", json!(ours.deprecation.is_some()), json!(version["deprecated"] == true));
    let subresources = &version["subresources"];
    check("status", json!(ours.status_subresource), json!(subresources["status"].is_object()));
    let scale = ours.scale.map(|scale| {
        let mut paths =
            json!({"specReplicasPath": scale.spec_replicas, "statusReplicasPath": scale.status_replicas});
        if let Some(selector) = scale.selector {
            paths["labelSelectorPath"] = json!(selector);
        }
        paths
    });
    check("scale", json!(scale), subresources["scale"].clone());
    let columns: Vec<Value> = ours
        .columns
        .iter()
        .map(|column| json!([column.name, column.kind, column.json_path, column.priority]))
        .collect();
    // A definition without columns gets this one.
    let age = json!([{"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"}]);
    let theirs: Vec<Value> = version
        .get("additionalPrinterColumns")
        .unwrap_or(&age)
        .as_array()
        .into_iter()
        .flatten()
        .map(|column| {
            let priority = column["priority"].as_i64().unwrap_or_default();
            json!([column["name"], column["type"], column["jsonPath"], priority])
        })
        .collect();
    check("columns", columns.into(), theirs.into());
    found
}
