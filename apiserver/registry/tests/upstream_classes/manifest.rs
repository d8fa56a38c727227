//! Manifest of a class with its templates, and the templates as the patches of a Cluster see them.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use apiserver_types::{Cluster, ClusterClass, RemediationTemplateRef, VariableOverrides};
use controllers_topology::builtins;
use controllers_topology::patches::{Item, Place};
use controllers_topology::variables::by_name;
use serde_json::Value;

/// Objects of one file.
pub(crate) struct Manifest(Vec<Value>);

impl Manifest {
    pub(crate) fn read(path: &Path) -> Self {
        // Without this, a text like `y` becomes a boolean.
        let options = serde_saphyr::options! { strict_booleans: true };
        let text = fs::read_to_string(path).unwrap();
        let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(&text, options).unwrap();
        Self(documents.into_iter().filter(|document| !document.is_null()).collect())
    }

    /// Returns the objects of a kind.
    pub(crate) fn of_kind(&self, kind: &str) -> Vec<&Value> {
        self.0.iter().filter(|document| document["kind"] == kind).collect()
    }

    /// Returns an object.
    pub(crate) fn object(&self, kind: &str, name: &str) -> &Value {
        let found = self.of_kind(kind).into_iter().find(|document| document["metadata"]["name"] == name);
        found.unwrap_or_else(|| panic!("no {kind} {name}"))
    }

    fn template(&self, reference: &RemediationTemplateRef) -> Value {
        self.object(&reference.kind, &reference.name).clone()
    }

    /// Returns the templates of a Cluster, with the variables and the built-in variables of their places. Names of
    /// objects are fixed.
    pub(crate) fn items(&self, class: &ClusterClass, cluster: &Cluster) -> Vec<Item> {
        let topology = cluster.spec.topology.clone().unwrap();
        let item =
            |place, template: &RemediationTemplateRef, variables: &BTreeMap<_, _>, builtin: &Value| Item {
                place,
                template: self.template(template),
                variables: variables.clone(),
                builtin: builtin.clone(),
            };
        let none = BTreeMap::new();
        let plane = topology.control_plane.clone().unwrap_or_default();
        let of_plane = overrides(plane.variables.as_ref());
        let builtin = builtins::control_plane(builtins::ControlPlane {
            name: "plane",
            version: &topology.version,
            replicas: plane.replicas,
            labels: &BTreeMap::new(),
            annotations: &BTreeMap::new(),
            infrastructure_name: Some("plane-machine"),
        });
        let spec = &class.spec;
        let mut items = vec![
            item(Place::InfrastructureCluster, &spec.infrastructure.template_ref, &none, &Value::Null),
            item(Place::ControlPlane, &spec.control_plane.template_ref, &of_plane, &builtin),
        ];
        if let Some(machine) = &spec.control_plane.machine_infrastructure {
            let place = Place::ControlPlaneInfrastructureMachine;
            items.push(item(place, &machine.template_ref, &of_plane, &builtin));
        }
        let groups = topology.workers.unwrap_or_default();
        let classes = spec.workers.clone().unwrap_or_default();
        for group in groups.machine_deployments.unwrap_or_default() {
            let mut classes = classes.machine_deployments.iter().flatten();
            let class = classes.find(|class| class.class == group.class).unwrap();
            let (class_name, topology_name) = (group.class.clone(), group.name.clone());
            let builtin =
                builtins::machine_deployment(workers(&topology.version, &class_name, &topology_name));
            let own = overrides(group.variables.as_ref());
            let place = Place::DeploymentBootstrap { class: class_name, topology_name };
            items.push(item(place, &class.bootstrap.template_ref, &own, &builtin));
            let place = Place::DeploymentInfrastructure { class: group.class, topology_name: group.name };
            items.push(item(place, &class.infrastructure.template_ref, &own, &builtin));
        }
        for group in groups.machine_pools.unwrap_or_default() {
            let mut classes = classes.machine_pools.iter().flatten();
            let class = classes.find(|class| class.class == group.class).unwrap();
            let (class_name, topology_name) = (group.class.clone(), group.name.clone());
            let builtin = builtins::machine_pool(workers(&topology.version, &class_name, &topology_name));
            let own = overrides(group.variables.as_ref());
            let place = Place::PoolBootstrap { class: class_name, topology_name };
            items.push(item(place, &class.bootstrap.template_ref, &own, &builtin));
            let place = Place::PoolInfrastructure { class: group.class, topology_name: group.name };
            items.push(item(place, &class.infrastructure.template_ref, &own, &builtin));
        }
        items
    }
}

fn overrides(variables: Option<&VariableOverrides>) -> BTreeMap<String, Value> {
    by_name(variables.and_then(|variables| variables.overrides.as_deref()))
}

fn workers<'a>(version: &'a str, class: &'a str, topology_name: &'a str) -> builtins::Workers<'a> {
    static NONE: BTreeMap<String, String> = BTreeMap::new();
    builtins::Workers {
        version,
        class,
        name: "workers",
        topology_name,
        replicas: Some(2),
        labels: &NONE,
        annotations: &NONE,
        bootstrap_name: "workers-bootstrap",
        infrastructure_name: "workers-machine",
    }
}
