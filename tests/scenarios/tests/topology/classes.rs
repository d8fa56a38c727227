//! The controller of classes: owners of templates, missing templates and the status that a topology waits for.

use apiserver_types::{
    ClusterClass, KubeadmConfigTemplate, KubeadmControlPlaneTemplate, OpenStackClusterTemplate,
    OpenStackMachineTemplate,
};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::testbed::Testbed;

async fn class(testbed: &Testbed) -> ClusterClass {
    testbed.api::<ClusterClass>().get("small").await.unwrap()
}

/// Returns status, reason and message of a condition of the class.
fn shown(class: &ClusterClass, kind: &str) -> String {
    let found = class.condition(kind).unwrap();
    format!("{:?} {} {}", found.status, found.reason, found.message)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_class_owns_its_templates_and_publishes_its_variables() {
    let testbed = Testbed::start("owners", "v1.33.0").await;
    let uid = class(&testbed).await.uid().unwrap();
    macro_rules! owners {
        ($kind:ty, $name:literal) => {
            testbed.api::<$kind>().get($name).await.unwrap().owner_references().to_vec()
        };
    }
    let all = [
        owners!(OpenStackClusterTemplate, "network"),
        owners!(KubeadmControlPlaneTemplate, "plane"),
        owners!(OpenStackMachineTemplate, "plane"),
        owners!(OpenStackMachineTemplate, "worker"),
        owners!(KubeadmConfigTemplate, "worker"),
    ];
    for owners in all {
        assert_eq!(owners.len(), 1, "{owners:?}");
        assert_eq!((&owners[0].uid, owners[0].controller), (&uid, None));
    }
    assert_eq!(owners!(OpenStackMachineTemplate, "larger"), [], "no class references it");
    let schema = json!({"openAPIV3Schema": {"type": "string"}});
    let variables = json!([{"name": "zone", "required": false, "schema": schema}]);
    testbed.change_class(json!({ "variables": variables })).await;
    let class = class(&testbed).await;
    let status = class.status.clone().unwrap();
    assert_eq!(status.observed_generation, class.metadata.generation);
    let found = &serde_json::to_value(&status.variables).unwrap()[0];
    assert_eq!((&found["name"], &found["definitionsConflict"]), (&json!("zone"), &Value::Bool(false)));
    assert_eq!(found["definitions"], json!([{"from": "inline", "required": false, "schema": schema}]));
    assert_eq!(shown(&class, "RefVersionsUpToDate"), "True RefVersionsUpToDate ");
    assert_eq!(shown(&class, "VariablesReady"), "True VariablesReady ");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_topology_waits_for_a_class_whose_template_does_not_exist() {
    let testbed = Testbed::start("missing", "v1.33.0").await;
    let reference = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "OpenStackMachineTemplate", "name": "none",
    });
    let change = json!({"controlPlane": {"machineInfrastructure": {"templateRef": reference}}});
    testbed.change_class(change).await;
    let message = "Unknown InternalError OpenStackMachineTemplate missing/none does not exist. Create it, or correct \
                   the reference in the ClusterClass";
    assert_eq!(shown(&class(&testbed).await, "RefVersionsUpToDate"), message);
    testbed.settle().await;
    let condition = testbed.condition().await;
    assert!(condition.starts_with("False ClusterClassNotReconciled"), "{condition}");
    assert!(condition.contains("OpenStackMachineTemplate missing/none does not exist"), "{condition}");
    let mut template = testbed.api::<OpenStackMachineTemplate>().get("plane").await.unwrap();
    template.metadata = kube::api::ObjectMeta { name: Some("none".to_owned()), ..Default::default() };
    testbed.api().create(&Default::default(), &template).await.unwrap();
    testbed.reconcile_classes().await;
    assert_eq!(shown(&class(&testbed).await, "RefVersionsUpToDate"), "True RefVersionsUpToDate ");
    testbed.settle().await;
    assert!(testbed.control_plane().await.name_any().starts_with("blue"));
}
