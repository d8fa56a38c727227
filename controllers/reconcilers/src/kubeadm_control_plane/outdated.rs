//! Comparison of a Machine with the control plane that it belongs to.

use std::time::Duration;

use apiserver_types::{
    CLONED_FROM_REVISION, KubeadmConfigSpec, KubeadmControlPlane, Machine, Time, template_revision,
};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::{Value, json};

use super::cause::Cause;
use super::config::{self, Start};
use super::replica::Replica;
use crate::templates::{self, CLONED_FROM_GROUP_KIND, CLONED_FROM_NAME};

/// Fields that do not count: the controllers fill them in, or apply them without a new Machine.
const IGNORED: [&str; 5] = [
    "/clusterConfiguration/controlPlaneEndpoint",
    "/clusterConfiguration/dns",
    "/joinConfiguration/discovery",
    "/initConfiguration/timeouts/controlPlaneComponentHealthCheckSeconds",
    "/joinConfiguration/timeouts/controlPlaneComponentHealthCheckSeconds",
];

/// Fields that init and join share.
const SHARED: [&str; 4] = ["timeouts", "patches", "skipPhases", "nodeRegistration"];

/// Hours of a day.
const DAY: i64 = 24;

/// Delay of the pass after a requested rollout is due: a Machine is outdated only after that time.
const MARGIN: Duration = Duration::from_secs(1);

/// Returns the causes for which a Machine does not match its control plane. `template` is the present infrastructure
/// template, if it exists.
pub(super) fn causes(
    control_plane: &KubeadmControlPlane,
    replica: &Replica,
    template: Option<&DynamicObject>,
    now: Timestamp,
) -> Vec<Cause> {
    let machine = &replica.machine;
    let mut causes = Vec::new();
    let wished = &control_plane.spec.version;
    let known = machine.spec.version.as_ref().filter(|version| *version != wished);
    causes.extend(known.map(|known| Cause::Version { known: known.clone(), wished: wished.clone() }));
    let config = replica.config.as_ref().map(|config| &config.spec);
    if config.is_some_and(|config| !is_same_config(control_plane, config)) {
        causes.push(Cause::Config);
    }
    let infrastructure = replica.infrastructure.as_ref();
    if infrastructure.is_some_and(|it| is_from_other_template(control_plane, template, it)) {
        causes.push(Cause::Infrastructure(machine.spec.infrastructure_ref.kind.clone()));
    }
    causes.extend(triggers(control_plane, machine, now));
    causes
}

/// Returns the causes that a person or the calendar gives.
fn triggers(control_plane: &KubeadmControlPlane, machine: &Machine, now: Timestamp) -> Vec<Cause> {
    let Some(rollout) = &control_plane.spec.rollout else { return Vec::new() };
    let mut causes = Vec::new();
    let created = machine.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let after = rollout.after.as_ref().and_then(timestamp);
    if after.is_some_and(|after| after < now && created.is_some_and(|created| created < after)) {
        causes.push(Cause::After);
    }
    let days = rollout.before.as_ref().and_then(|before| before.certificates_expiry_days);
    let expiry = machine.status.as_ref().and_then(|status| status.certificates_expiry_date.as_ref());
    if let (Some(days), Some(expiry)) = (days, expiry.and_then(timestamp)) {
        let limit = now.checked_add(SignedDuration::from_hours(DAY.saturating_mul(i64::from(days))));
        if limit.is_ok_and(|limit| expiry < limit) {
            causes.push(Cause::Expiry(days));
        }
    }
    causes
}

/// Returns the time until a requested rollout begins, if `spec.rollout.after` has not passed. No change of an object tells
/// that it has.
pub(super) fn until_requested(control_plane: &KubeadmControlPlane, now: Timestamp) -> Option<Duration> {
    let after = control_plane.spec.rollout.as_ref()?.after.as_ref().and_then(timestamp)?;
    let left = Duration::try_from(after.duration_since(now)).ok()?;
    Some(left.saturating_add(MARGIN))
}

/// Returns a time of the API, if it is one.
pub(super) fn timestamp(time: &Time) -> Option<Timestamp> {
    time.0.parse().ok()
}

/// Reports whether an infrastructure object was made from another template than the control plane names, or from another
/// revision of it. An object that was not made from any matches, and so does one whose template was created again.
fn is_from_other_template(
    control_plane: &KubeadmControlPlane,
    template: Option<&DynamicObject>,
    object: &DynamicObject,
) -> bool {
    let reference = &control_plane.spec.machine_template.spec.infrastructure_ref;
    let group_kind = format!("{}.{}", reference.kind, reference.api_group);
    let annotations = object.annotations();
    let (name, kind) = (annotations.get(CLONED_FROM_NAME), annotations.get(CLONED_FROM_GROUP_KIND));
    let (Some(name), Some(kind)) = (name, kind) else { return false };
    let number = template_revision(annotations, CLONED_FROM_REVISION);
    let is_edited = template.and_then(templates::recorded_revision).is_some_and(|present| present != number);
    *name != reference.name || *kind != group_kind || is_edited
}

/// Returns the settings of a Machine and those that the control plane wishes for, in the form in which they are compared: that
/// of a Machine that joins.
pub(super) fn compared(control_plane: &KubeadmControlPlane, current: &KubeadmConfigSpec) -> (Value, Value) {
    let version = &control_plane.spec.version;
    let wish = normal(&config::spec(control_plane, Start::Join), version);
    let form = normal(current, version);
    (if is_init(current) { as_join(form, &wish) } else { form }, wish)
}

/// Reports whether a KubeadmConfig matches, as that of a Machine that joined, or of the first one.
fn is_same_config(control_plane: &KubeadmControlPlane, current: &KubeadmConfigSpec) -> bool {
    let version = &control_plane.spec.version;
    let (form, wish) = compared(control_plane, current);
    let is_as_the_first = || {
        let first = config::spec(control_plane, Start::Init);
        is_init(current) && normal(current, version) == normal(&first, version)
    };
    form == wish || is_as_the_first()
}

fn is_init(config: &KubeadmConfigSpec) -> bool {
    let join = config.join_configuration.as_ref();
    // A Machine that joined has discovery at least, so that it is not taken for the first one.
    join.is_none_or(|join| join.control_plane.is_none() && join.discovery.is_none())
}

/// Returns the settings of the first Machine in the form of one that joins.
fn as_join(mut config: Value, wish: &Value) -> Value {
    let init = config.as_object_mut().and_then(|config| config.remove("initConfiguration"));
    let init = init.unwrap_or_default();
    let mut join = json!({});
    for field in SHARED {
        if let Some(value) = init.get(field) {
            join[field] = value.clone();
        }
    }
    if let Some(endpoint) = init.get("localAPIEndpoint") {
        join["controlPlane"] = json!({"localAPIEndpoint": endpoint});
    }
    if let Some(path) = wish.pointer("/joinConfiguration/caCertPath") {
        join["caCertPath"] = path.clone();
    }
    config["joinConfiguration"] = join;
    pruned(config).unwrap_or_default()
}

/// Returns settings in the form in which they are compared: defaults in words, without empty values.
fn normal(spec: &KubeadmConfigSpec, version: &str) -> Value {
    let mut spec = spec.clone();
    spec.format.get_or_insert_default();
    config::default_gates(&mut spec, version);
    let mut tree = serde_json::to_value(&spec).unwrap_or_default();
    for path in IGNORED {
        let Some((parent, field)) = path.rsplit_once('/') else { continue };
        if let Some(parent) = tree.pointer_mut(parent).and_then(Value::as_object_mut) {
            parent.remove(field);
        }
    }
    for registration in ["/initConfiguration/nodeRegistration", "/joinConfiguration/nodeRegistration"] {
        if let Some(registration) = tree.pointer_mut(registration).and_then(Value::as_object_mut) {
            registration
                .remove("imagePullPolicy")
                .filter(|policy| policy != "IfNotPresent")
                .map(|policy| registration.insert("imagePullPolicy".to_owned(), policy));
        }
    }
    pruned(tree).unwrap_or_default()
}

/// Removes empty lists, maps and objects, except the list of taints: an empty one means no taints, and a missing one
/// kubeadm's own.
fn pruned(value: Value) -> Option<Value> {
    match value {
        Value::Null => None,
        Value::Array(items) if items.is_empty() => None,
        Value::Object(fields) => {
            let kept = fields.into_iter().filter_map(|(key, value)| {
                let is_taints = key == "taints" && value.is_array();
                let value = if is_taints { Some(value) } else { pruned(value) };
                Some((key, value?))
            });
            let kept: serde_json::Map<String, Value> = kept.collect();
            (!kept.is_empty()).then_some(Value::Object(kept))
        }
        other => Some(other),
    }
}
