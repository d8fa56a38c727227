//! Conversion of a KubeadmConfig's spec, in a KubeadmConfig, a control plane or a template.

use serde_json::{Map, Value, json};

use crate::empty;
use crate::fields::{drop_empty, duration, each, get, put, rename_as, seconds, take, with};

/// Fields in which the stored version allows empty values.
const MEANINGFUL: &[&str] = &[
    "annotations",
    "config",
    "controlPlane",
    "extraOpts",
    "featureGates",
    "filesystems",
    "labels",
    "partitions",
    "servers",
    "sshAuthorizedKeys",
    "taints",
    "valueFrom",
];

/// Flags: a map in v1beta1, a list in v1beta2.
const FLAGS: [&str; 6] = [
    "clusterConfiguration.apiServer.extraArgs",
    "clusterConfiguration.controllerManager.extraArgs",
    "clusterConfiguration.scheduler.extraArgs",
    "clusterConfiguration.etcd.local.extraArgs",
    "initConfiguration.nodeRegistration.kubeletExtraArgs",
    "joinConfiguration.nodeRegistration.kubeletExtraArgs",
];

/// Fields that only v1beta1 has.
const ONLY_OLDER: [&str; 10] = [
    "useExperimentalRetryJoin",
    "clusterConfiguration.apiVersion",
    "clusterConfiguration.kind",
    "clusterConfiguration.clusterName",
    "clusterConfiguration.kubernetesVersion",
    "clusterConfiguration.networking",
    "initConfiguration.apiVersion",
    "initConfiguration.kind",
    "joinConfiguration.apiVersion",
    "joinConfiguration.kind",
];

/// v1beta1's only timeout for the start of a control plane.
const OLDER_HEALTH: &str = "clusterConfiguration.apiServer.timeoutForControlPlane";

/// v1beta1's only timeout for joining.
const OLDER_JOIN: &str = "joinConfiguration.discovery.timeout";

const INIT_HEALTH: &str = "initConfiguration.timeouts.controlPlaneComponentHealthCheckSeconds";
const JOIN_HEALTH: &str = "joinConfiguration.timeouts.controlPlaneComponentHealthCheckSeconds";
const JOIN_TLS: &str = "joinConfiguration.timeouts.tlsBootstrapSeconds";

/// Converts a spec from v1beta1.
pub(crate) fn to_stored(spec: &mut Value) {
    for path in FLAGS {
        with(spec, path, flags_as_list);
    }
    each(spec, "initConfiguration.bootstrapTokens", |token| {
        rename_as(token, "ttl", "ttlSeconds", |ttl| seconds(&ttl));
    });
    each(spec, "diskSetup.partitions", layout_to_stored);
    for path in ["initConfiguration.localAPIEndpoint", "joinConfiguration.controlPlane.localAPIEndpoint"] {
        empty::drop_below_one(spec, &format!("{path}.bindPort"));
    }
    if let Some(Value::Array(mounts)) = spec.get_mut("mounts") {
        mounts.retain(|mount| mount.as_array().is_none_or(|fields| !fields.is_empty()));
    }
    let health = take(spec, OLDER_HEALTH).and_then(|wait| seconds(&wait));
    let join = take(spec, OLDER_JOIN).and_then(|wait| seconds(&wait));
    for path in ONLY_OLDER {
        take(spec, path);
    }
    empty::drop_all(spec, MEANINGFUL);
    if let Some(health) = health {
        put(spec, INIT_HEALTH, health.clone());
        put(spec, JOIN_HEALTH, health);
    }
    if let Some(join) = join {
        put(spec, JOIN_TLS, join);
    }
}

/// Converts a spec to v1beta1.
pub(crate) fn from_stored(spec: &mut Value) {
    for path in FLAGS {
        with(spec, path, flags_as_map);
    }
    each(spec, "initConfiguration.bootstrapTokens", |token| {
        rename_as(token, "ttlSeconds", "ttl", |ttl| duration(&ttl));
    });
    each(spec, "diskSetup.partitions", layout_from_stored);
    let health = get(spec, INIT_HEALTH).and_then(duration);
    let join = get(spec, JOIN_TLS).and_then(duration);
    for part in ["initConfiguration", "joinConfiguration"] {
        take(spec, &format!("{part}.timeouts"));
        drop_empty(spec, part);
    }
    if let Some(health) = health {
        put(spec, OLDER_HEALTH, health);
    }
    if let Some(join) = join {
        put(spec, OLDER_JOIN, join);
    }
}

/// Converts `{name: value}` to a list, sorted by name.
fn flags_as_list(flags: &mut Value) {
    let Some(map) = flags.as_object() else { return };
    let mut names: Vec<&String> = map.keys().collect();
    names.sort();
    *flags = names.into_iter().map(|name| json!({"name": name, "value": map.get(name)})).collect();
}

/// Converts a list to `{name: value}`. The last entry of a name wins.
fn flags_as_map(flags: &mut Value) {
    let Some(list) = flags.as_array() else { return };
    let flag = |flag: &Value| {
        let name = flag.get("name")?.as_str()?.to_owned();
        Some((name, flag.get("value").cloned().unwrap_or_else(|| json!(""))))
    };
    *flags = Value::Object(list.iter().filter_map(flag).collect::<Map<_, _>>());
}

/// Converts the layout of a partition. v1beta1 always has a flag for one partition over the whole disk, also beside a
/// list of partitions, which then counts. v1beta2 has one of the two.
fn layout_to_stored(partition: &mut Value) {
    if get(partition, "diskLayout").and_then(Value::as_array).is_some_and(|list| !list.is_empty()) {
        take(partition, "layout");
    }
}

fn layout_from_stored(partition: &mut Value) {
    if partition.is_object() && get(partition, "layout").is_none() {
        put(partition, "layout", json!(false));
    }
}
