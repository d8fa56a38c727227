//! MachineDeployments and MachineSets in unusual states: users delete Machines, templates are missing, owners are lost.

use apiserver_types::{Machine, MachineSet, OpenStackMachine};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::SECRET;
use crate::machines::{CLONED_FROM, list};
use crate::testbed::Life;

#[tokio::test]
async fn with_on_delete_only_machines_that_a_user_deletes_are_replaced() {
    let life = Life::start("on-delete", SECRET).await;
    life.until_complete(2).await;
    life.change(json!({"spec": {
        "rollout": {"strategy": {"type": "OnDelete", "rollingUpdate": null}},
        "template": {"spec": {"infrastructureRef": {"name": "second"}}},
    }}))
    .await;
    for _ in 0..4 {
        life.round().await;
    }
    let templates = async || -> Vec<String> {
        let servers: Vec<OpenStackMachine> = list(&life.client, life.namespace).await;
        let mut names: Vec<String> =
            servers.iter().map(|it| it.annotations().get(CLONED_FROM).unwrap().clone()).collect();
        names.sort();
        names
    };
    assert_eq!(templates().await, ["first", "first"]);
    let machines: Api<Machine> = Api::namespaced(life.client.clone(), life.namespace);
    for expected in [["first", "second"], ["second", "second"]] {
        let servers: Vec<OpenStackMachine> = list(&life.client, life.namespace).await;
        let old = servers.iter().find(|it| it.annotations().get(CLONED_FROM).unwrap() == "first").unwrap();
        machines.delete(&old.name_any(), &DeleteParams::default()).await.unwrap();
        for _ in 0..6 {
            life.round().await;
        }
        assert_eq!(templates().await, expected);
    }
    life.until_complete(2).await;
}

#[tokio::test]
async fn a_template_that_is_missing_is_named_and_old_machines_stay() {
    let life = Life::start("missing", SECRET).await;
    life.until_complete(2).await;
    let reference =
        |name: &str| json!({"spec": {"template": {"spec": {"infrastructureRef": {"name": name}}}}});
    life.change(reference("nowhere")).await;
    for _ in 0..3 {
        life.round().await;
    }
    assert_eq!(life.sets().await.len(), 1);
    assert_eq!(life.machines().await.len(), 2);
    let deployment = life.deployment().await;
    let scaling = deployment.condition("ScalingUp").unwrap();
    let message = "Scaling up would be blocked because OpenStackMachineTemplate does not exist. Create \
        OpenStackMachineTemplate nowhere, or correct spec.template.spec.infrastructureRef";
    assert_eq!(scaling.message, message);
    let events = life.events().await;
    assert_eq!(events.iter().filter(|it| it.ends_with(message)).count(), 1, "{events:#?}");
    life.change(reference("second")).await;
    life.until_complete(2).await;
}

#[tokio::test]
async fn a_set_of_its_own_adopts_machines_without_a_controller() {
    let life = Life::start("adoption", SECRET).await;
    let server = |name: &str| json!({"apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackMachine", "name": name});
    let spec = |reference: Value| json!({"clusterName": "c", "bootstrap": {"dataSecretName": "bootstrap"}, "infrastructureRef": reference});
    let mut template = server("first");
    template["kind"] = "OpenStackMachineTemplate".into();
    let labels = json!({"pool": "own"});
    let set = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineSet",
        "metadata": {"name": "own", "namespace": life.namespace},
        "spec": {
            "clusterName": "c", "replicas": 2, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": spec(template)},
        },
    });
    let sets: Api<MachineSet> = Api::namespaced(life.client.clone(), life.namespace);
    sets.create(&PostParams::default(), &serde_json::from_value(set).unwrap()).await.unwrap();
    life.controllers.round_of_sets().await.unwrap();
    let machines: Api<Machine> = Api::namespaced(life.client.clone(), life.namespace);
    let own = async || -> Vec<Machine> {
        let all: Vec<Machine> = list(&life.client, life.namespace).await;
        all.into_iter().filter(|machine| machine.labels().contains_key("pool")).collect()
    };
    assert_eq!(own().await.len(), 2);
    let orphan = own().await[0].name_any();
    let change = Patch::Merge(json!({"metadata": {"ownerReferences": null}}));
    machines.patch(&orphan, &PatchParams::default(), &change).await.unwrap();
    life.controllers.round_of_sets().await.unwrap();
    let found = own().await;
    assert_eq!(found.len(), 2, "none was created in its place");
    assert!(found.iter().all(|machine| machine.owner_references()[0].controller == Some(true)));
    let set = sets.get("own").await.unwrap();
    assert_eq!(
        (set.owner_references()[0].kind.as_str(), set.owner_references()[0].controller),
        ("Cluster", None)
    );
    assert_eq!(set.status.unwrap().replicas, Some(2));
    let adopted = format!("MachineSet SuccessfulAdopt Adopted Machine {orphan:?}");
    assert!(life.events().await.contains(&adopted));
}
