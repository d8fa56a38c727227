//! Conventions for fields whose schema allows any text.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::{NAMESPACE, Width};

/// Fields that users always set where they exist, because another version requires them.
pub(super) const ALWAYS: &[&str] =
    &["spec", "template", "infrastructure", "controlPlane", "apiGroup", "clusterName", "resources", "flavor"];

/// Fields of core's ObjectReference.
const REFERENCE: [&str; 7] =
    ["apiVersion", "fieldPath", "kind", "name", "namespace", "resourceVersion", "uid"];

/// Suffixes of the names of fields with a duration in Go's form.
const DURATIONS: [&str; 4] = ["Timeout", "timeout", "ttl", "timeoutForControlPlane"];

/// Returns a generator for a field with a convention for its name or its shape.
pub(super) fn known(schema: &Value, name: &str, width: Width) -> Option<BoxedStrategy<Value>> {
    if width == Width::Schema || schema.get("enum").is_some() {
        return None;
    }
    if schema["type"] == "string" && DURATIONS.iter().any(|end| name.ends_with(end)) {
        return Some(durations());
    }
    // Certificates cannot be renewed earlier, and addresses do not have more bits.
    match name {
        "certificatesExpiryDays" => return Some((7..1000_i32).prop_map(Value::from).boxed()),
        "prefix" => return Some((0..=128_i32).prop_map(Value::from).boxed()),
        "partitionType" => return Some(proptest::sample::select(vec![json!("Linux"), json!("LVM")]).boxed()),
        _ => {}
    }
    // An older version accepts any text here. Users write what the newer one accepts.
    match (schema["type"].as_str(), schema.get("pattern"), name) {
        (Some("string"), None, "apiVersion") => {
            return Some("[a-z]{1,5}[.]x-k8s[.]io/v1(beta[12])?".prop_map(Value::from).boxed());
        }
        (Some("string"), None, "kind") => return Some("[A-Z][a-z]{2,8}".prop_map(Value::from).boxed()),
        _ => {}
    }
    if let Some(known) = openstack(schema, name) {
        return Some(known);
    }
    let properties = schema["properties"].as_object()?;
    if properties.contains_key("diskLayout") {
        return Some(partitions(
            schema["required"].as_array().is_some_and(|all| all.contains(&json!("layout"))),
        ));
    }
    if properties.len() == 1 && properties.contains_key("name") {
        return Some("[a-z]{1,6}".prop_map(|name| json!({"name": name})).boxed());
    }
    let is_reference =
        properties.len() == REFERENCE.len() && properties.keys().all(|key| REFERENCE.contains(&key.as_str()));
    is_reference.then(references)
}

/// Returns a generator of `1h2m3s`, with the parts that Go prints.
fn durations() -> BoxedStrategy<Value> {
    (1..200_000_u32)
        .prop_map(|total| {
            let (hours, minutes, seconds) = (total / 3600, total % 3600 / 60, total % 60);
            match (hours, minutes) {
                (0, 0) => format!("{seconds}s"),
                (0, _) => format!("{minutes}m{seconds}s"),
                _ => format!("{hours}h{minutes}m{seconds}s"),
            }
            .into()
        })
        .boxed()
}

fn references() -> BoxedStrategy<Value> {
    let groups =
        ["infrastructure.cluster.x-k8s.io", "bootstrap.cluster.x-k8s.io", "controlplane.cluster.x-k8s.io"];
    (proptest::sample::select(groups.to_vec()), "[A-Z][a-z]{2,8}Template", "[a-z]{1,4}(-[a-z0-9]{1,4})?")
        .prop_map(|(group, kind, name)| {
            json!({"apiVersion": format!("{group}/v1beta1"), "kind": kind, "name": name, "namespace": NAMESPACE})
        })
        .boxed()
}

/// Returns a generator for fields of the OpenStack kinds that only validation rules constrain.
fn openstack(schema: &Value, name: &str) -> Option<BoxedStrategy<Value>> {
    let one_of = |words: &[&str]| {
        let words: Vec<Value> = words.iter().map(|word| Value::from(*word)).collect();
        Some(proptest::sample::select(words).boxed())
    };
    match (schema["type"].as_str(), schema.get("pattern").or_else(|| schema.get("enum")), name) {
        // Without an external network, no other field can require one.
        (Some("boolean"), _, "enableExternalNetwork") => return Some(Just(json!(true)).boxed()),
        (Some("boolean"), _, "disableExternalNetwork") => return Some(Just(json!(false)).boxed()),
        // An older version accepts any text here.
        (Some("string"), None, "status") => return one_of(&["True", "False", "Unknown"]),
        (Some("string"), None, "reason") => return Some("[A-Z][a-z]{2,8}".prop_map(Value::from).boxed()),
        _ => {}
    }
    let names: Vec<&str> = schema["properties"].as_object()?.keys().map(String::as_str).collect();
    match names.as_slice() {
        ["bool", "number", "string", "type"] => one_of_json(&[
            json!({"type": "Bool", "bool": true}),
            json!({"type": "Number", "number": 7}),
            json!({"type": "String", "string": "rack"}),
        ]),
        ["from", "name"] => {
            one_of_json(&[json!({"from": "Machine"}), json!({"from": "Name", "name": "az1"})])
        }
        ["type", "volume"] => {
            one_of_json(&[json!({"type": "Local"}), json!({"type": "Volume", "volume": {"type": "ssd"}})])
        }
        _ => None,
    }
}

fn one_of_json(values: &[Value]) -> Option<BoxedStrategy<Value>> {
    Some(proptest::sample::select(values.to_vec()).boxed())
}

/// Returns a generator of one partition over the disk, or a list of partitions. A required `layout` is always set.
fn partitions(required: bool) -> BoxedStrategy<Value> {
    (any::<bool>(), "/dev/vd[b-f]", 1..=100_i32)
        .prop_map(move |(listed, device, percentage)| match (listed, required) {
            (false, _) => json!({"device": device, "layout": true}),
            (true, false) => json!({"device": device, "diskLayout": [{"percentage": percentage}]}),
            (true, true) => {
                json!({"device": device, "layout": false, "diskLayout": [{"percentage": percentage}]})
            }
        })
        .boxed()
}
