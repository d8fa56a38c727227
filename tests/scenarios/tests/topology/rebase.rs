//! A Cluster that changes to another class: templates rotate and objects stay, or the change is refused.

use apiserver_types::{Cluster, ClusterClass, ClusterClassSpec, OpenStackCluster, OpenStackMachineTemplate};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::manifest;
use crate::testbed::Testbed;

impl Testbed {
    /// Creates a class that differs from the first one at these JSON pointers of its spec.
    async fn other_class(&self, name: &str, changes: Vec<(&str, Value)>) {
        let first = self.api::<ClusterClass>().get("small").await.unwrap();
        let mut spec = serde_json::to_value(first.spec).unwrap();
        for (at, value) in changes {
            let (parent, field) = at.rsplit_once('/').unwrap();
            spec.pointer_mut(parent).unwrap()[field] = value;
        }
        let spec: ClusterClassSpec = serde_json::from_value(spec).unwrap();
        self.api().create(&Default::default(), &ClusterClass::new(name, spec)).await.unwrap();
    }

    /// Changes the class of the Cluster. Returns the error.
    async fn rebase(&self, class: &str) -> Result<(), String> {
        let change = Patch::Merge(json!({"spec": {"topology": {"classRef": {"name": class}}}}));
        let changed = self.api::<Cluster>().patch("blue", &PatchParams::default(), &change).await;
        changed.map(drop).map_err(|error| error.to_string())
    }

    /// Returns the names of the objects that stay while templates rotate.
    async fn names(&self) -> [String; 3] {
        let infrastructure = self.owned::<OpenStackCluster>().await.remove(0);
        let (plane, workers) = (self.control_plane().await, self.deployment().await);
        [infrastructure.name_any(), plane.name_any(), workers.name_any()]
    }

    async fn settled(namespace: &'static str) -> Self {
        let testbed = Self::start(namespace, "v1.33.0").await;
        testbed.settle().await;
        testbed.control_plane_is_done().await;
        testbed.settle().await;
        testbed
    }
}

fn machine(name: &str) -> Value {
    json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "OpenStackMachineTemplate", "name": name})
}

#[tokio::test]
async fn a_change_to_a_compatible_class_rotates_templates_and_keeps_the_objects() {
    let testbed = Testbed::settled("rebase").await;
    let changes = vec![
        ("/controlPlane/machineInfrastructure/templateRef", machine("larger")),
        ("/workers/machineDeployments/0/infrastructure/templateRef", machine("larger")),
        ("/workers/machineDeployments/0/metadata", json!({"labels": {"team": "b"}})),
        ("/workers/machineDeployments/0/naming", json!({"template": "other-{{ .random }}"})),
    ];
    testbed.other_class("large", changes).await;
    testbed.reconcile_classes().await;
    let (before, old) = (testbed.names().await, testbed.deployment().await.spec.template.spec);
    testbed.rebase("large").await.unwrap();
    testbed.settle().await;
    assert_eq!(testbed.condition().await, "True ReconcileSucceeded ");
    assert_eq!(testbed.names().await, before, "the objects keep their names");
    let deployment = testbed.deployment().await;
    assert_eq!(deployment.labels()["team"], "b");
    let new = &deployment.spec.template.spec;
    assert_eq!(new.bootstrap, old.bootstrap, "both classes have the same bootstrap template");
    assert_ne!(new.infrastructure_ref, old.infrastructure_ref);
    let templates = testbed.owned::<OpenStackMachineTemplate>().await;
    let flavors = templates.iter().map(|it| serde_json::to_value(&it.spec.template.spec.flavor).unwrap());
    assert_eq!(flavors.collect::<Vec<_>>(), vec![json!({"filter": {"name": "m1.large"}}); 2]);

    // Nothing uses the first class any more.
    testbed.api::<ClusterClass>().delete("small", &Default::default()).await.unwrap();
    let effects = testbed.crash.effects().len();
    testbed.settle().await;
    let written = testbed.crash.effects().split_off(effects);
    assert!(written.is_empty(), "a resting topology wrote: {written:#?}");
}

#[tokio::test]
async fn a_change_to_a_class_of_another_namespace_keeps_the_objects_and_follows_that_class() {
    const OTHER: &str = "classes";
    let testbed = Testbed::settled("apart").await;
    let documents = manifest(&testbed.world, OTHER, "v1.33.0");
    let (class, _) = documents.rsplit_once("---\n").unwrap();
    testbed.world.create(class).await.unwrap();
    testbed.reconcile_classes().await;
    let before = testbed.names().await;
    testbed.change(json!({"classRef": {"name": "small", "namespace": OTHER}})).await;
    testbed.settle().await;
    assert_eq!(testbed.condition().await, "True ReconcileSucceeded ");
    testbed.api::<ClusterClass>().delete("small", &Default::default()).await.unwrap();

    let classes: Api<ClusterClass> = Api::namespaced(testbed.client.clone(), OTHER);
    let mut workers = serde_json::to_value(classes.get("small").await.unwrap().spec.workers).unwrap();
    workers["machineDeployments"][0]["metadata"] = json!({"labels": {"team": "c"}});
    let change = Patch::Merge(json!({"spec": {"workers": workers}}));
    classes.patch("small", &PatchParams::default(), &change).await.unwrap();
    testbed.reconcile_classes().await;
    testbed.settle().await;
    assert_eq!(testbed.condition().await, "True ReconcileSucceeded ");
    assert_eq!(testbed.deployment().await.labels()["team"], "c");
    assert_eq!(testbed.names().await, before, "the objects keep their names");
}

#[tokio::test]
async fn a_change_to_an_incompatible_class_is_refused_and_the_error_names_the_path() {
    let testbed = Testbed::settled("refused").await;
    let zone = json!([{"name": "zone", "required": true, "schema": {"openAPIV3Schema": {"type": "string"}}}]);
    let table = [
        (
            ("/infrastructure/templateRef", machine("worker")),
            "spec.infrastructure.templateRef.kind: Forbidden: kind cannot be changed from \"OpenStackClusterTemplate\" to \"OpenStackMachineTemplate\"",
        ),
        (
            ("/controlPlane/machineInfrastructure", Value::Null),
            "spec.controlPlane.machineInfrastructure.templateRef.kind: Forbidden: kind cannot be changed from \"OpenStackMachineTemplate\" to \"\"",
        ),
        (
            ("/workers/machineDeployments/0/class", json!("other")),
            "spec.topology.workers.machineDeployments[0].class: Invalid value: \"worker\": MachineDeploymentClass with name \"worker\" does not exist",
        ),
        (
            ("/variables", zone),
            "spec.topology.variables: Required value: required variable \"zone\" must be set",
        ),
        (
            ("/kubernetesVersions", json!(["v1.34.0"])),
            "spec.topology.version: Invalid value: \"v1.33.0\": version must match one of the versions defined in the ClusterClass",
        ),
    ];
    let before = testbed.cluster().await;
    for (index, (change, expected)) in table.into_iter().enumerate() {
        let name = format!("other-{index}");
        testbed.other_class(&name, vec![change]).await;
        let error = testbed.rebase(&name).await.unwrap_err();
        assert!(error.contains(expected), "{error}");
    }
    let error = testbed.rebase("none").await.unwrap_err();
    assert!(
        error.contains("spec.topology.class: Internal error: ClusterClass refused/none not found"),
        "{error}"
    );
    assert_eq!(testbed.cluster().await.metadata.resource_version, before.metadata.resource_version);
}
