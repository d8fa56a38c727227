//! Conversion of OpenStackCluster and OpenStackClusterTemplate.

use serde_json::{Map, Value, json};

use crate::fields::{drop_empty, get, put, rename, rename_as, take, with};
use crate::openstack_machine::{
    opposite, resolved_from_stored, resolved_to_stored, spec_from_stored, spec_to_stored,
};
use crate::{Rules, no_defaults, openstack_conditions};

/// Rules of OpenStackCluster.
pub(crate) const CLUSTER: Rules = Rules {
    group: "infrastructure.cluster.x-k8s.io",
    kind: "OpenStackCluster",
    version: "v1beta1",
    stored: "v1beta2",
    default: openstack_conditions::default_ready,
    to_stored: cluster_to_stored,
    from_stored: cluster_from_stored,
};

/// Rules of OpenStackClusterTemplate.
pub(crate) const TEMPLATE: Rules = Rules {
    group: "infrastructure.cluster.x-k8s.io",
    kind: "OpenStackClusterTemplate",
    version: "v1beta1",
    stored: "v1beta2",
    default: no_defaults,
    to_stored: template_to_stored,
    from_stored: template_from_stored,
};

/// Renamed fields of the spec: v1beta1's name and v1beta2's.
const RENAMED: [(&str, &str); 7] = [
    ("apiServerFixedIP", "apiServer.fixedIP"),
    ("apiServerFloatingIP", "apiServer.floatingIP"),
    ("apiServerPort", "apiServer.port"),
    ("apiServerLoadBalancer", "apiServer.managedLoadBalancer"),
    ("networkMTU", "managedNetwork.mtu"),
    ("externalRouterIPs", "managedRouter.externalIPs"),
    (
        "managedSecurityGroups.allNodesSecurityGroupRules",
        "managedSecurityGroups.clusterNodesSecurityGroupRules",
    ),
];

/// Fields of the spec with the opposite meaning.
const INVERTED: [(&str, &str); 3] = [
    ("disableAPIServerFloatingIP", "apiServer.enableFloatingIP"),
    ("disableExternalNetwork", "enableExternalNetwork"),
    ("disablePortSecurity", "managedNetwork.enablePortSecurity"),
];

/// Field with its value if it is unset.
type UnsetValue = (&'static str, fn() -> Value);

/// Values of an unset endpoint in v1beta1. v1beta2 has no fields then.
const NO_ENDPOINT: [UnsetValue; 2] =
    [("controlPlaneEndpoint.host", || json!("")), ("controlPlaneEndpoint.port", || json!(0))];

fn cluster_to_stored(object: &mut Value) {
    with(object, "spec", cluster_spec_to_stored);
    rename(object, "status.apiServerLoadBalancer", "status.apiServerManagedLoadBalancer");
    with(object, "status.bastion.resolved", resolved_to_stored);
    with(object, "status.failureDomains", domains_to_stored);
    openstack_conditions::to_stored(object);
    for field in ["status.ready", "status.failureReason", "status.failureMessage"] {
        take(object, field);
    }
}

fn cluster_from_stored(object: &mut Value) {
    with(object, "spec", cluster_spec_from_stored);
    rename(object, "status.apiServerManagedLoadBalancer", "status.apiServerLoadBalancer");
    with(object, "status.bastion.resolved", resolved_from_stored);
    with(object, "status.failureDomains", domains_from_stored);
    openstack_conditions::ready(object);
    openstack_conditions::from_stored(object);
}

fn template_to_stored(object: &mut Value) {
    with(object, "spec.template.spec", cluster_spec_to_stored);
}

fn template_from_stored(object: &mut Value) {
    with(object, "spec.template.spec", cluster_spec_from_stored);
    take(object, "spec.template.metadata");
}

fn cluster_spec_to_stored(spec: &mut Value) {
    for (older, stored) in RENAMED {
        rename(spec, older, stored);
    }
    for (older, stored) in INVERTED {
        rename_as(spec, older, stored, |value| opposite(&value));
    }
    // v1beta2 has no router without addresses.
    if get(spec, "managedRouter.externalIPs") == Some(&json!([])) {
        take(spec, "managedRouter");
    }
    // v1beta1 represents an unknown endpoint by these values.
    for (field, empty) in NO_ENDPOINT {
        if get(spec, field).is_some_and(|value| *value == empty()) {
            take(spec, field);
            drop_empty(spec, "controlPlaneEndpoint");
        }
    }
    with(spec, "bastion.spec", spec_to_stored);
}

fn cluster_spec_from_stored(spec: &mut Value) {
    for (older, stored) in RENAMED {
        rename(spec, stored, older);
    }
    for (older, stored) in INVERTED {
        rename_as(spec, stored, older, |value| opposite(&value));
    }
    // In v1beta1, an endpoint has both fields.
    if get(spec, "controlPlaneEndpoint").is_some_and(Value::is_object) {
        for (field, empty) in NO_ENDPOINT {
            if get(spec, field).is_none() {
                put(spec, field, empty());
            }
        }
    }
    for group in ["apiServer", "managedNetwork", "managedRouter"] {
        drop_empty(spec, group);
    }
    with(spec, "bastion.spec", spec_from_stored);
}

/// Converts a map by name to a list, sorted by name.
fn domains_to_stored(domains: &mut Value) {
    let Some(map) = domains.as_object() else { return };
    let list = map.iter().map(|(name, domain)| {
        let mut item = Map::new();
        item.insert("name".to_owned(), name.as_str().into());
        let control_plane = get(domain, "controlPlane").cloned().unwrap_or(json!(false));
        item.insert("controlPlane".to_owned(), control_plane);
        if let Some(attributes) = get(domain, "attributes") {
            item.insert("attributes".to_owned(), attributes.clone());
        }
        Value::Object(item)
    });
    *domains = list.collect();
}

/// Converts the list back to a map by name.
fn domains_from_stored(domains: &mut Value) {
    let Some(list) = domains.as_array() else { return };
    let map: Map<String, Value> = list
        .iter()
        .filter_map(|item| {
            let mut domain = item.as_object()?.clone();
            let name = domain.remove("name")?.as_str()?.to_owned();
            domain.retain(|field, value| field != "controlPlane" || value != &json!(false));
            Some((name, Value::Object(domain)))
        })
        .collect();
    *domains = Value::Object(map);
}
