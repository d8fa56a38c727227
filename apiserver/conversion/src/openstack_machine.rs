//! Conversion of OpenStackMachine and OpenStackMachineTemplate.

use serde_json::{Value, json};

use crate::fields::{each, get, put, rename_as, take, with};
use crate::{Rules, no_defaults, openstack_conditions};

/// Rules of OpenStackMachine.
pub(crate) const MACHINE: Rules = Rules {
    group: "infrastructure.cluster.x-k8s.io",
    kind: "OpenStackMachine",
    version: "v1beta1",
    stored: "v1beta2",
    default: openstack_conditions::default_ready,
    to_stored: machine_to_stored,
    from_stored: machine_from_stored,
};

/// Rules of OpenStackMachineTemplate.
pub(crate) const TEMPLATE: Rules = Rules {
    group: "infrastructure.cluster.x-k8s.io",
    kind: "OpenStackMachineTemplate",
    version: "v1beta1",
    stored: "v1beta2",
    default: no_defaults,
    to_stored: template_to_stored,
    from_stored: template_from_stored,
};

fn machine_to_stored(object: &mut Value) {
    with(object, "spec", spec_to_stored);
    with(object, "status.resolved", resolved_to_stored);
    openstack_conditions::to_stored(object);
    for field in ["status.ready", "status.failureReason", "status.failureMessage"] {
        take(object, field);
    }
}

fn machine_from_stored(object: &mut Value) {
    with(object, "spec", spec_from_stored);
    with(object, "status.resolved", resolved_from_stored);
    openstack_conditions::ready(object);
    openstack_conditions::from_stored(object);
}

fn template_to_stored(object: &mut Value) {
    with(object, "spec.template.spec", spec_to_stored);
    openstack_conditions::to_stored(object);
}

fn template_from_stored(object: &mut Value) {
    with(object, "spec.template.spec", spec_from_stored);
    openstack_conditions::from_stored(object);
}

/// Converts the spec of a server or a bastion from v1beta1.
pub(crate) fn spec_to_stored(spec: &mut Value) {
    let (name, id) = (take(spec, "flavor"), take(spec, "flavorID"));
    // The id wins over the name. `Lossless` keeps the name.
    match (name, id) {
        (_, Some(id)) => put(spec, "flavor", json!({"id": id})),
        (Some(name), None) => put(spec, "flavor", json!({"filter": {"name": name}})),
        (None, None) => {}
    }
    each(spec, "ports", port_to_stored);
}

/// Converts the spec of a server or a bastion to v1beta1.
pub(crate) fn spec_from_stored(spec: &mut Value) {
    let flavor = take(spec, "flavor").unwrap_or_default();
    match (get(&flavor, "id"), get(&flavor, "filter.name")) {
        (Some(id), _) if id != "" => put(spec, "flavorID", id.clone()),
        (_, Some(name)) if name != "" => put(spec, "flavor", name.clone()),
        _ => {}
    }
    each(spec, "ports", port_from_stored);
}

/// Converts resolved ids of a machine or a bastion from v1beta1.
pub(crate) fn resolved_to_stored(resolved: &mut Value) {
    each(resolved, "ports", |port| {
        port_to_stored(port);
        // v1beta1 always has the field. v1beta2 omits it if it is empty.
        if get(port, "description") == Some(&json!("")) {
            take(port, "description");
        }
    });
}

/// Converts resolved ids of a machine or a bastion to v1beta1.
pub(crate) fn resolved_from_stored(resolved: &mut Value) {
    each(resolved, "ports", |port| {
        port_from_stored(port);
        if get(port, "description").is_none() {
            put(port, "description", json!(""));
        }
    });
}

fn port_to_stored(port: &mut Value) {
    rename_as(port, "disablePortSecurity", "enablePortSecurity", |value| opposite(&value));
}

fn port_from_stored(port: &mut Value) {
    rename_as(port, "enablePortSecurity", "disablePortSecurity", |value| opposite(&value));
}

/// Returns the negated value of a flag.
pub(crate) fn opposite(value: &Value) -> Option<Value> {
    value.as_bool().map(|on| json!(!on))
}
