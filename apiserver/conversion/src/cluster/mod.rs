//! Conversion of Cluster.

mod topology;

use serde_json::{Map, Value, json};

use crate::Rules;
use crate::core_status::StatusFields;
use crate::empty::drop_each;
use crate::fields::{contract_reference, get, namespace, object_reference, rename_as, take, with};
use crate::references::{self, is_not_empty};

pub(crate) const V1BETA1: Rules = Rules {
    group: "cluster.x-k8s.io",
    kind: "Cluster",
    version: "v1beta1",
    stored: "v1beta2",
    default,
    to_stored,
    from_stored,
};

const STATUS: StatusFields = StatusFields {
    deprecated: &["conditions", "failureReason", "failureMessage"],
    modern: &["conditions", "controlPlane", "workers"],
    milestones: &[
        ("controlPlaneReady", "controlPlaneInitialized"),
        ("infrastructureReady", "infrastructureProvisioned"),
    ],
};

/// Fields with references to other objects.
const REFERENCES: [&str; 2] = ["spec.controlPlaneRef", "spec.infrastructureRef"];

fn default(cluster: &mut Value) {
    for field in REFERENCES {
        references::default(cluster, field);
    }
    let own = namespace(cluster);
    with(cluster, "spec.topology", |topology| topology::default(topology, &own));
}

fn to_stored(cluster: &mut Value) {
    for field in REFERENCES {
        rename_as(cluster, field, field, |reference| contract_reference(reference).filter(is_not_empty));
    }
    // Go clients write these fields even if they are unset.
    for port in ["spec.controlPlaneEndpoint.port", "spec.clusterNetwork.apiServerPort"] {
        if get(cluster, port).and_then(Value::as_i64) == Some(0) {
            take(cluster, port);
        }
    }
    drop_each(
        cluster,
        &[
            "spec.availabilityGates",
            "spec.controlPlaneEndpoint.host",
            "spec.controlPlaneEndpoint",
            "spec.clusterNetwork.pods.cidrBlocks",
            "spec.clusterNetwork.pods",
            "spec.clusterNetwork.services.cidrBlocks",
            "spec.clusterNetwork.services",
            "spec.clusterNetwork",
        ],
    );
    with(cluster, "spec.topology", topology::to_stored);
    // The stored version requires a spec. Without one, clients of the stored version could not write the object.
    if let Some(root) = cluster.as_object_mut() {
        root.entry("spec").or_insert_with(|| json!({}));
    }
    rename_as(cluster, "status.failureDomains", "status.failureDomains", |domains| domain_list(&domains));
    STATUS.to_stored(cluster);
}

fn from_stored(cluster: &mut Value) {
    let namespace = namespace(cluster);
    for field in REFERENCES {
        rename_as(cluster, field, field, |reference| object_reference(&reference, &namespace));
    }
    with(cluster, "spec.topology", |topology| topology::from_stored(topology, &namespace));
    drop_each(cluster, &["spec"]);
    rename_as(cluster, "status.failureDomains", "status.failureDomains", |domains| domain_map(&domains));
    STATUS.to_older(cluster);
}

/// Returns a map of failure domains as a list of named ones.
fn domain_list(domains: &Value) -> Option<Value> {
    let mut list = Vec::new();
    for (name, domain) in domains.as_object()? {
        let mut domain = domain.clone();
        domain.as_object_mut()?.insert("name".to_owned(), json!(name));
        list.push(domain);
    }
    list.sort_by(|one, other| one["name"].as_str().cmp(&other["name"].as_str()));
    (!list.is_empty()).then_some(Value::Array(list))
}

/// Returns a list of named failure domains as a map.
fn domain_map(domains: &Value) -> Option<Value> {
    let mut map = Map::new();
    for domain in domains.as_array()? {
        let mut domain = domain.clone();
        let name = domain.as_object_mut()?.remove("name")?;
        map.insert(name.as_str()?.to_owned(), domain);
    }
    Some(Value::Object(map))
}
