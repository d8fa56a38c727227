//! The parts of the program as a CycloneDX document, from `cargo metadata` and `Cargo.lock`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use anyhow::Context;
use serde_json::{Value, json};

use super::layout;
use crate::run;

/// Package of the program.
const PROGRAM: &str = "apiserver-server";

/// Creates the document. It has no time and no serial number, so that two builds make the same bytes.
pub(super) fn create(libraries: &[PathBuf]) -> anyhow::Result<Value> {
    let mut command = run::cargo(&["metadata", "--format-version", "1", "--locked", "--filter-platform"])?;
    let metadata: Value = serde_json::from_str(&run::output(command.arg(run::host()?))?)?;
    let graph = dependencies(&metadata)?;
    let program = find(&metadata, "/packages", |package| text(package, "name") == PROGRAM)?;
    let root = text(program, "id").to_owned();
    let reached = reached(&graph, &root);
    let checksums = checksums()?;
    let mut components = Vec::new();
    let mut edges = Vec::new();
    for package in
        array(&metadata, "/packages")?.iter().filter(|package| reached.contains(text(package, "id")))
    {
        let id = text(package, "id");
        if id != root {
            components.push(component(package, &checksums));
        }
        let needs = graph.get(id).into_iter().flatten().filter(|needed| reached.contains(*needed));
        let needs: BTreeSet<String> = needs
            .filter_map(|needed| find(&metadata, "/packages", |package| text(package, "id") == needed).ok())
            .map(purl)
            .collect();
        edges.push(json!({"ref": purl(package), "dependsOn": needs}));
    }
    for library in libraries {
        let content = std::fs::read(library).with_context(|| format!("{}", library.display()))?;
        components.push(json!({"type": "library", "name": library.display().to_string(),
            "hashes": [{"alg": "SHA-256", "content": layout::hex(&content)}]}));
    }
    let by_name = |value: &Value| (text(value, "name").to_owned(), text(value, "version").to_owned());
    components.sort_by_key(by_name);
    edges.sort_by_key(|edge| text(edge, "ref").to_owned());
    let own = json!({"type": "application", "bom-ref": purl(program), "name": "capstan",
        "version": program.get("version"), "licenses": [{"expression": "Apache-2.0"}]});
    Ok(json!({"bomFormat": "CycloneDX", "specVersion": "1.5", "version": 1,
        "metadata": {"component": own}, "components": components, "dependencies": edges}))
}

fn component(package: &Value, checksums: &BTreeMap<(String, String), String>) -> Value {
    let (name, version) = (text(package, "name"), text(package, "version"));
    let mut component = json!({"type": "library", "bom-ref": purl(package), "name": name, "version": version,
        "purl": purl(package)});
    let Some(fields) = component.as_object_mut() else { return component };
    if let Some(license) = package.get("license").and_then(Value::as_str) {
        // Old packages separate alternatives with a slash.
        let expression = license.replace(" / ", " OR ").replace('/', " OR ");
        fields.insert("licenses".to_owned(), json!([{"expression": expression}]));
    }
    if let Some(checksum) = checksums.get(&(name.to_owned(), version.to_owned())) {
        fields.insert("hashes".to_owned(), json!([{"alg": "SHA-256", "content": checksum}]));
    }
    component
}

/// Returns the packages that each package needs in a program, so without those of its tests.
fn dependencies(metadata: &Value) -> anyhow::Result<BTreeMap<String, Vec<String>>> {
    let is_in_program = |dependency: &&Value| {
        let kinds = dependency.get("dep_kinds").and_then(Value::as_array);
        kinds.into_iter().flatten().any(|kind| kind.get("kind").and_then(Value::as_str) != Some("dev"))
    };
    let nodes = array(metadata, "/resolve/nodes")?.iter().map(|node| {
        let all = node.get("deps").and_then(Value::as_array);
        let needs = all.into_iter().flatten().filter(is_in_program).map(|it| text(it, "pkg").to_owned());
        (text(node, "id").to_owned(), needs.collect())
    });
    Ok(nodes.collect())
}

fn reached(graph: &BTreeMap<String, Vec<String>>, root: &str) -> BTreeSet<String> {
    let (mut reached, mut rest) = (BTreeSet::new(), vec![root]);
    while let Some(id) = rest.pop() {
        if reached.insert(id.to_owned()) {
            rest.extend(graph.get(id).into_iter().flatten().map(String::as_str));
        }
    }
    reached
}

/// Returns the checksums of the packages that come from a registry, by name and version.
fn checksums() -> anyhow::Result<BTreeMap<(String, String), String>> {
    let lock: toml::Value = toml::from_str(&std::fs::read_to_string(run::root()?.join("Cargo.lock"))?)?;
    let packages =
        lock.get("package").and_then(toml::Value::as_array).context("Cargo.lock has no packages")?;
    let entry = |package: &toml::Value| {
        let field = |name: &str| package.get(name).and_then(toml::Value::as_str).map(str::to_owned);
        Some(((field("name")?, field("version")?), field("checksum")?))
    };
    Ok(packages.iter().filter_map(entry).collect())
}

fn purl(package: &Value) -> String {
    format!("pkg:cargo/{}@{}", text(package, "name"), text(package, "version"))
}

fn array<'a>(value: &'a Value, path: &str) -> anyhow::Result<&'a Vec<Value>> {
    let found = value.pointer(path).and_then(Value::as_array);
    found.with_context(|| format!("`cargo metadata` prints no {path}"))
}

fn find<'a>(value: &'a Value, path: &str, is_it: impl Fn(&Value) -> bool) -> anyhow::Result<&'a Value> {
    array(value, path)?.iter().find(|value| is_it(value)).context("`cargo metadata` lacks a package")
}

fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}
