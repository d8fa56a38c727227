//! Schemas for kubeconform, from the OpenAPI document of the kube-apiserver in the lab. Its own schemas are downloads.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::{Map, Value, json};

use super::Packaged;
use super::components::{self, COMPONENTS, FOREIGN};
use super::rendered::{self, SHAPES};
use crate::{prerequisites, run};

/// Start of a reference to a definition.
const REFERENCE: &str = "#/definitions/";

/// Definition whose values are numbers or texts. OpenAPI v2 has no such type, and names it a text.
const NUMBER_OR_TEXT: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";

/// Name of a schema as kubeconform looks for it.
const NAMES: &str = "{{.Group}}-{{.ResourceAPIVersion}}-{{.ResourceKind}}.json";

/// Scenario: kubeconform finds no unknown field and no wrong type in the overlays and in the chart.
pub(super) fn conform(packaged: &Packaged<'_>) -> anyhow::Result<()> {
    let folder = packaged.lab.directory("schemas");
    let document = packaged.lab.kubectl("admin", &["get", "--raw", "/openapi/v2"])?;
    let count = write(&serde_json::from_str(&document)?, &folder)?;
    ensure!(count > 50, "the kube-apiserver describes {count} kinds only");
    let all: Vec<_> = COMPONENTS.iter().collect();
    for shape in SHAPES {
        let overlay = components::kustomize(packaged, &shape, &all)?;
        let chart = rendered::helm(&packaged.manifests, &shape, &[])?;
        for (name, objects) in [("overlay", overlay), ("chart", chart)] {
            let file = packaged.lab.file(&format!("{name}.json"), &objects.list().to_string())?;
            check(&folder, &file).with_context(|| format!("{name} {}", shape.overlay))?;
        }
    }
    let wrong = json!({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "a", "nam": "b"}});
    let file = packaged.lab.file("wrong.json", &wrong.to_string())?;
    ensure!(check(&folder, &file).is_err(), "kubeconform accepts an unknown field");
    Ok(())
}

fn check(folder: &Path, file: &str) -> anyhow::Result<String> {
    let mut command = Command::new(prerequisites::kubeconform()?);
    command.arg("-schema-location").arg(folder.join(NAMES));
    run::output(command.args(["-strict", "-summary", "-skip", &FOREIGN.join(","), file]))
}

/// Writes a schema for each kind of an OpenAPI document. Returns their number.
fn write(document: &Value, folder: &Path) -> anyhow::Result<usize> {
    std::fs::create_dir_all(folder)?;
    let all = document.get("definitions").and_then(Value::as_object).context("no definitions")?;
    let mut count = 0;
    for (name, definition) in all {
        let kinds = definition.get("x-kubernetes-group-version-kind").and_then(Value::as_array);
        for kind in kinds.into_iter().flatten() {
            let text = |field: &str| kind.get(field).and_then(Value::as_str).unwrap_or_default();
            let (version, group) = (text("version"), text("group"));
            let group = if group.is_empty() { version } else { group };
            let file = format!("{group}-{version}-{}.json", text("kind").to_lowercase());
            std::fs::write(folder.join(file), schema(all, name).to_string())?;
            count += 1;
        }
    }
    Ok(count)
}

/// Returns the schema of a definition, with all definitions that it reaches.
fn schema(all: &Map<String, Value>, name: &str) -> Value {
    let (mut reached, mut rest) = (BTreeMap::new(), vec![name.to_owned()]);
    while let Some(name) = rest.pop() {
        if reached.contains_key(&name) {
            continue;
        }
        let mut definition = match name.as_str() {
            NUMBER_OR_TEXT => json!({"type": ["string", "integer"]}),
            _ => all.get(&name).cloned().unwrap_or_else(|| json!({})),
        };
        close(&mut definition, &mut rest);
        reached.insert(name, definition);
    }
    json!({"$ref": format!("{REFERENCE}{name}"), "definitions": reached})
}

/// Refuses unknown fields in a definition, and collects the names of the definitions that it refers to.
fn close(value: &mut Value, references: &mut Vec<String>) {
    match value {
        Value::Object(map) => {
            let reference = map.get("$ref").and_then(Value::as_str).and_then(|it| it.strip_prefix(REFERENCE));
            references.extend(reference.map(str::to_owned));
            map.values_mut().for_each(|value| close(value, references));
            let is_open = map.get("properties").is_some_and(Value::is_object)
                && map.get("type") == Some(&json!("object"))
                && !map.contains_key("additionalProperties");
            if is_open {
                map.insert("additionalProperties".to_owned(), json!(false));
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| close(item, references)),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_schema_has_all_definitions_that_it_reaches_and_refuses_unknown_fields() {
        let document = json!({"definitions": {
            "a": {"type": "object", "properties": {"b": {"$ref": "#/definitions/b"}}},
            "b": {"type": "object", "properties": {"a": {"$ref": "#/definitions/a"},
                "port": {"$ref": format!("{REFERENCE}{NUMBER_OR_TEXT}")},
                "labels": {"type": "object", "additionalProperties": {"type": "string"}}}},
            NUMBER_OR_TEXT: {"type": "string", "format": "int-or-string"},
            "c": {"type": "object"}}});
        let schema = schema(document["definitions"].as_object().unwrap(), "a");
        let definitions = schema["definitions"].as_object().unwrap();
        assert_eq!(definitions.keys().collect::<Vec<_>>(), ["a", "b", NUMBER_OR_TEXT]);
        assert_eq!(definitions["a"]["additionalProperties"], json!(false));
        assert_eq!(
            definitions["b"]["properties"]["labels"]["additionalProperties"],
            json!({"type": "string"})
        );
        assert_eq!(definitions[NUMBER_OR_TEXT]["type"], json!(["string", "integer"]));
    }
}
