//! Built-in variables of patches.

use std::collections::BTreeMap;

use apiserver_types::Cluster;
use serde_json::{Map, Value, json};

/// Facts of the control plane object for its built-in variables.
#[derive(Debug, Clone, Copy)]
pub struct ControlPlane<'a> {
    /// Name of the control plane object.
    pub name: &'a str,
    /// Kubernetes version of this pass, not the target of an upgrade.
    pub version: &'a str,
    /// Desired number of Machines. Unset if the topology does not manage it.
    pub replicas: Option<i32>,
    /// Labels of the topology over those of the class.
    pub labels: &'a BTreeMap<String, String>,
    /// Annotations of the topology over those of the class.
    pub annotations: &'a BTreeMap<String, String>,
    /// Name of the infrastructure machine template. Unset if the class has none.
    pub infrastructure_name: Option<&'a str>,
}

/// Facts of a MachineDeployment or MachinePool for its built-in variables.
#[derive(Debug, Clone, Copy)]
pub struct Workers<'a> {
    /// Kubernetes version of this pass, not the target of an upgrade.
    pub version: &'a str,
    /// Name of the worker class.
    pub class: &'a str,
    /// Name of the object.
    pub name: &'a str,
    /// Name of the worker group in the topology.
    pub topology_name: &'a str,
    /// Desired number of Machines. Unset if the topology does not manage it.
    pub replicas: Option<i32>,
    /// Labels of the topology over those of the class.
    pub labels: &'a BTreeMap<String, String>,
    /// Annotations of the topology over those of the class.
    pub annotations: &'a BTreeMap<String, String>,
    /// Name of the bootstrap template (MachinePool: bootstrap object).
    pub bootstrap_name: &'a str,
    /// Name of the infrastructure template (MachinePool: infrastructure object).
    pub infrastructure_name: &'a str,
}

/// Returns the built-in variables of the Cluster: an object with the field `cluster`.
pub fn cluster(cluster: &Cluster) -> Value {
    let metadata = &cluster.metadata;
    let mut fields = Map::new();
    let mut set = |name: &str, value: Option<&String>| {
        if let Some(value) = value.filter(|value| !value.is_empty()) {
            fields.insert(name.to_owned(), value.as_str().into());
        }
    };
    set("name", metadata.name.as_ref());
    set("namespace", metadata.namespace.as_ref());
    set("uid", metadata.uid.as_ref());
    insert(&mut fields, "metadata", maps(metadata.labels.as_ref(), metadata.annotations.as_ref()));
    if let Some(topology) = &cluster.spec.topology {
        let namespace = topology.class_ref.namespace.as_ref().or(metadata.namespace.as_ref());
        let mut class_ref = Map::from_iter([("name".to_owned(), json!(topology.class_ref.name))]);
        let mut part = Map::from_iter([
            ("version".to_owned(), json!(topology.version)),
            ("class".to_owned(), json!(topology.class_ref.name)),
        ]);
        if let Some(namespace) = namespace {
            class_ref.insert("namespace".to_owned(), json!(namespace));
            part.insert("classNamespace".to_owned(), json!(namespace));
        }
        part.insert("classRef".to_owned(), Value::Object(class_ref));
        insert(&mut fields, "topology", part);
    }
    if let Some(network) = &cluster.spec.cluster_network {
        let mut part = Map::new();
        if let Some(domain) = &network.service_domain {
            part.insert("serviceDomain".to_owned(), json!(domain));
        }
        for (name, ranges) in [("services", &network.services), ("pods", &network.pods)] {
            if let Some(ranges) = ranges {
                part.insert(name.to_owned(), json!(ranges.cidr_blocks));
            }
        }
        // A network without fields is a variable, too.
        fields.insert("network".to_owned(), Value::Object(part));
    }
    json!({"cluster": fields})
}

/// Returns the built-in variables of the control plane: an object with the field `controlPlane`.
pub fn control_plane(facts: ControlPlane<'_>) -> Value {
    let mut fields = Map::from_iter([
        ("name".to_owned(), json!(facts.name)),
        ("version".to_owned(), json!(facts.version)),
    ]);
    if let Some(replicas) = facts.replicas {
        fields.insert("replicas".to_owned(), json!(replicas));
    }
    insert(&mut fields, "metadata", maps(Some(facts.labels), Some(facts.annotations)));
    if let Some(name) = facts.infrastructure_name {
        fields.insert("machineTemplate".to_owned(), json!({"infrastructureRef": {"name": name}}));
    }
    json!({"controlPlane": fields})
}

/// Returns the built-in variables of a MachineDeployment: an object with the field `machineDeployment`.
pub fn machine_deployment(facts: Workers<'_>) -> Value {
    json!({"machineDeployment": workers(facts)})
}

/// Returns the built-in variables of a MachinePool: an object with the field `machinePool`.
pub fn machine_pool(facts: Workers<'_>) -> Value {
    json!({"machinePool": workers(facts)})
}

fn workers(facts: Workers<'_>) -> Map<String, Value> {
    let mut fields = Map::from_iter([
        ("version".to_owned(), json!(facts.version)),
        ("class".to_owned(), json!(facts.class)),
        ("name".to_owned(), json!(facts.name)),
        ("topologyName".to_owned(), json!(facts.topology_name)),
        ("bootstrap".to_owned(), json!({"configRef": {"name": facts.bootstrap_name}})),
        ("infrastructureRef".to_owned(), json!({"name": facts.infrastructure_name})),
    ]);
    if let Some(replicas) = facts.replicas {
        fields.insert("replicas".to_owned(), json!(replicas));
    }
    insert(&mut fields, "metadata", maps(Some(facts.labels), Some(facts.annotations)));
    fields
}

/// Returns labels and annotations, without empty maps.
fn maps(
    labels: Option<&BTreeMap<String, String>>,
    annotations: Option<&BTreeMap<String, String>>,
) -> Map<String, Value> {
    let mut found = Map::new();
    for (name, map) in [("labels", labels), ("annotations", annotations)] {
        if let Some(map) = map.filter(|map| !map.is_empty()) {
            found.insert(name.to_owned(), json!(map));
        }
    }
    found
}

fn insert(fields: &mut Map<String, Value>, name: &str, part: Map<String, Value>) {
    if !part.is_empty() {
        fields.insert(name.to_owned(), Value::Object(part));
    }
}
