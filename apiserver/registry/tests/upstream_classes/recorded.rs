//! Comparison of rendered templates with those that Cluster API 1.14.0 was observed to make from the same class,
//! templates and Cluster.

use apiserver_types::{Cluster, ClusterClass};
use controllers_topology::patches::Place;
use controllers_topology::{builtins, patches, variables};
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::folder;
use super::manifest::Manifest;

fn typed<K: DeserializeOwned>(object: &Value) -> K {
    serde_json::from_value(object.clone()).unwrap()
}

/// Returns the object that the controller made for a place, and the path of what it took from the template there.
fn made<'a>(recorded: &'a Manifest, place: &Place) -> (&'a Value, &'static str) {
    let owned = |kind: &str| {
        let mut objects = recorded.of_kind(kind).into_iter();
        let owned = objects.find(|it| it["metadata"]["labels"]["topology.cluster.x-k8s.io/owned"] == "");
        owned.unwrap_or_else(|| panic!("no {kind} of the topology"))
    };
    let named = |kind: &str, holder: &'a Value, at: &str| {
        recorded.object(kind, holder.pointer(at).and_then(Value::as_str).unwrap())
    };
    match place {
        Place::InfrastructureCluster => (owned("OpenStackCluster"), "/spec"),
        Place::ControlPlane => (owned("KubeadmControlPlane"), "/spec/kubeadmConfigSpec"),
        Place::ControlPlaneInfrastructureMachine => {
            let at = "/spec/machineTemplate/spec/infrastructureRef/name";
            (named("OpenStackMachineTemplate", owned("KubeadmControlPlane"), at), "/spec/template/spec")
        }
        Place::DeploymentBootstrap { .. } => {
            let at = "/spec/template/spec/bootstrap/configRef/name";
            (named("KubeadmConfigTemplate", owned("MachineDeployment"), at), "/spec/template/spec")
        }
        _ => {
            let at = "/spec/template/spec/infrastructureRef/name";
            (named("OpenStackMachineTemplate", owned("MachineDeployment"), at), "/spec/template/spec")
        }
    }
}

#[test]
fn patched_templates_equal_those_that_upstream_was_observed_to_make() {
    let Some(folder) = folder("observed/topology") else { return };
    for (step, levels) in [("2-running", 0), ("4-rolling", 1)] {
        let recorded = Manifest::read(&folder.join(format!("{step}.yaml")));
        let class: ClusterClass = typed(recorded.of_kind("ClusterClass")[0]);
        let cluster: Cluster = typed(recorded.of_kind("Cluster")[0]);
        let values = variables::by_name(cluster.spec.topology.as_ref().unwrap().variables.as_deref());
        assert_eq!(values.keys().filter(|name| *name == "kubeletLogLevel").count(), levels);
        let items = recorded.items(&class, &cluster);
        let items = patches::apply_definitions(&class, &values, &builtins::cluster(&cluster), items).unwrap();
        assert_eq!(items.len(), 5);
        for item in items {
            let (object, at) = made(&recorded, &item.place);
            let mut expected = object.pointer(at).unwrap().clone();
            // Another controller sets the endpoint.
            expected.as_object_mut().unwrap().remove("controlPlaneEndpoint");
            let within =
                if at.starts_with("/spec/template") { at.to_owned() } else { format!("/spec/template{at}") };
            let patched = item.template.pointer(&within).unwrap();
            assert_eq!(*patched, expected, "{step}: {}", item.place);
        }
    }
}
