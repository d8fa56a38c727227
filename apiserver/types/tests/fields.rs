//! Comparison of every field of the kinds with a list of upstream's facts: path, type, required or optional, bounds,
//! list type, default. Differences are named.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeSet;

use serde_json::Value;

/// Adds one line per field, in the form of the lists in `fields/`.
fn flatten(schema: &Value, path: &str, required: bool, lines: &mut BTreeSet<String>) {
    let known = |name: &str| schema.get(name);
    let mut words = vec![path.to_owned(), kind(schema), if required { "R" } else { "O" }.to_owned()];
    if let Some(default) = known("default") {
        words.push(format!("default_{default}"));
    }
    if let Some(allowed) = known("enum").and_then(Value::as_array) {
        let allowed: Vec<&str> = allowed.iter().filter_map(Value::as_str).collect();
        words.push(format!("enum_{}", allowed.join("/")));
    }
    let bounds = [
        ("minProps", "minProperties"),
        ("maxProps", "maxProperties"),
        ("minItems", "minItems"),
        ("maxItems", "maxItems"),
        ("minLen", "minLength"),
        ("maxLen", "maxLength"),
        ("min", "minimum"),
        ("max", "maximum"),
    ];
    for (short, keyword) in bounds {
        if let Some(number) = known(keyword).and_then(Value::as_f64) {
            words.push(format!("{short}={number}"));
        }
    }
    match (known("x-kubernetes-list-type").and_then(Value::as_str), known("x-kubernetes-list-map-keys")) {
        (Some("map"), Some(Value::Array(keys))) => {
            let keys: Vec<&str> = keys.iter().filter_map(Value::as_str).collect();
            words.push(format!("list-map({})", keys.join(",")));
        }
        (Some("set"), _) => words.push("list-set".to_owned()),
        _ => {}
    }
    let path = words[0].clone();
    words[2..].sort();
    lines.insert(words.join(" "));
    children(schema, &path, lines);
}

fn children(schema: &Value, path: &str, lines: &mut BTreeSet<String>) {
    let inner = schema.get("items").unwrap_or(schema);
    let required: Vec<&str> = inner
        .get("required")
        .and_then(Value::as_array)
        .into_iter()
        .flatten()
        .filter_map(Value::as_str)
        .collect();
    for (name, property) in inner.get("properties").and_then(Value::as_object).into_iter().flatten() {
        let mark = match (property.get("items"), property.get("additionalProperties")) {
            (Some(_), _) => "[]",
            (_, Some(_)) => "{}",
            _ => "",
        };
        flatten(property, &format!("{path}.{name}{mark}"), required.contains(&name.as_str()), lines);
    }
}

fn kind(schema: &Value) -> String {
    if schema.get("x-kubernetes-int-or-string").is_some() {
        return "int-or-string".to_owned();
    }
    match (schema.get("type").and_then(Value::as_str), schema.get("format").and_then(Value::as_str)) {
        (Some("integer"), Some(format)) => format.to_owned(),
        (Some("string"), Some("date-time")) => "time".to_owned(),
        (Some("array"), _) => match schema.pointer("/items/type").and_then(Value::as_str) {
            Some("object") => "array".to_owned(),
            _ => format!("[]{}", kind(&schema["items"])),
        },
        (Some("object"), _) => match schema.get("additionalProperties") {
            Some(value) if value.get("x-kubernetes-int-or-string").is_some() => {
                "map[int-or-string]".to_owned()
            }
            Some(_) => "map[string]".to_owned(),
            None => "object".to_owned(),
        },
        (Some(other), _) => other.to_owned(),
        (None, _) => "any".to_owned(),
    }
}

/// Returns a line of the list in the same form.
fn normal(line: &str) -> String {
    let mut words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    words[1] = match words[1].as_str() {
        "[]object" => "array".to_owned(),
        other => other.to_owned(),
    };
    if words[2] == "-" {
        words[2] = "O".to_owned();
    }
    words[2..].sort();
    words.join(" ").replace("default_Secret", "default_\"Secret\"")
}

fn differences(kind: &str, version: &str, list: &str) -> Vec<String> {
    let found = |found: &&apiserver_types::Descriptor| found.kind == kind && found.version == version;
    let descriptor = apiserver_types::DESCRIPTORS.iter().find(found).unwrap();
    let schema = apiserver_types::schema(descriptor).unwrap();
    let mut ours = BTreeSet::new();
    for part in ["spec", "status"] {
        if schema["properties"][part].is_null() {
            continue;
        }
        let required = schema["required"].as_array().is_some_and(|list| list.iter().any(|name| name == part));
        flatten(&schema["properties"][part], part, required, &mut ours);
    }
    let theirs: BTreeSet<String> = list.lines().map(normal).collect();
    let missing = theirs.difference(&ours).map(|line| format!("{kind}: upstream has  {line}"));
    let extra = ours.difference(&theirs).map(|line| format!("{kind}: we have       {line}"));
    let mut all: Vec<String> = missing.chain(extra).collect();
    all.sort_by_key(|line| line[line.find(':').unwrap_or(0) + 15..].to_owned());
    all
}

#[test]
fn every_field_matches_upstream() {
    let mut found = Vec::new();
    for (kind, version, list) in [
        ("Cluster", "v1beta2", include_str!("fields/cluster.txt")),
        ("Machine", "v1beta2", include_str!("fields/machine.txt")),
        ("OpenStackCluster", "v1beta2", include_str!("fields/openstack_cluster.txt")),
        ("OpenStackCluster", "v1beta1", include_str!("fields/v1beta1/openstack_cluster.txt")),
        ("OpenStackClusterTemplate", "v1beta2", include_str!("fields/openstack_cluster_template.txt")),
        (
            "OpenStackClusterTemplate",
            "v1beta1",
            include_str!("fields/v1beta1/openstack_cluster_template.txt"),
        ),
        ("OpenStackMachine", "v1beta2", include_str!("fields/openstack_machine.txt")),
        ("OpenStackMachine", "v1beta1", include_str!("fields/v1beta1/openstack_machine.txt")),
        ("OpenStackMachineTemplate", "v1beta2", include_str!("fields/openstack_machine_template.txt")),
        (
            "OpenStackMachineTemplate",
            "v1beta1",
            include_str!("fields/v1beta1/openstack_machine_template.txt"),
        ),
        ("OpenStackServer", "v1alpha1", include_str!("fields/openstack_server.txt")),
        ("OpenStackFloatingIPPool", "v1alpha1", include_str!("fields/openstack_floating_ip_pool.txt")),
        ("OpenStackClusterIdentity", "v1alpha1", include_str!("fields/openstack_cluster_identity.txt")),
    ] {
        found.extend(differences(kind, version, list));
    }
    assert!(found.is_empty(), "{} differences:\n{}", found.len(), found.join("\n"));
}
