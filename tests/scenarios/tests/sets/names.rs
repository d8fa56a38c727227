//! Names of Machines with an index: reuse after a deletion, scaling, rollout, and sets that share a template.

use std::collections::BTreeSet;

use apiserver_types::{KubeadmConfig, Machine, MachineDeployment, MachineSet, OpenStackMachine};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::machines::{list, proceed};
use crate::testbed::{Life, ROUNDS};
use crate::{MANIFEST, TEMPLATE};

/// Naming template of the Machines: the names stay the same in a rollout, which makes another MachineSet.
pub(crate) const NAMING: &str = "{{ .cluster.name }}-w-{{ .index }}";

async fn start(namespace: &'static str) -> Life {
    let life = Life::start(namespace, TEMPLATE).await;
    life.change(json!({"spec": {"replicas": 3, "machineNaming": {"template": NAMING}}})).await;
    life
}

fn expected(indexes: impl IntoIterator<Item = usize>) -> BTreeSet<String> {
    indexes.into_iter().map(|index| format!("c-w-{index}")).collect()
}

async fn names(life: &Life) -> BTreeSet<String> {
    life.machines().await.iter().map(ResourceExt::name_any).collect()
}

/// Sets the finalizers of a server, so that it stays or goes.
async fn hold(life: &Life, name: &str, finalizers: Value) {
    let servers: Api<OpenStackMachine> = Api::namespaced(life.client.clone(), life.namespace);
    let change = Patch::Merge(json!({"metadata": {"finalizers": finalizers}}));
    servers.patch(name, &PatchParams::default(), &change).await.unwrap();
}

#[tokio::test]
async fn an_index_is_used_again_once_the_machine_and_its_server_are_gone() {
    let life = start("index").await;
    life.until_complete(3).await;
    assert_eq!(names(&life).await, expected(0..3));
    let machines: Api<Machine> = Api::namespaced(life.client.clone(), life.namespace);
    let first = machines.get("c-w-1").await.unwrap().uid();
    machines.delete("c-w-1", &DeleteParams::default()).await.unwrap();
    for _ in 0..3 {
        life.controllers.round_of_sets().await.unwrap();
    }
    let going = machines.get("c-w-1").await.unwrap();
    assert_eq!((going.uid(), names(&life).await), (first.clone(), expected(0..3)), "it is being deleted");
    hold(&life, "c-w-1", json!(["test/hold"])).await;
    proceed(&life.client, life.namespace).await;
    assert_eq!(names(&life).await, expected([0, 2]));
    // The status is that of the old Machine until then.
    life.round().await;
    life.until_complete(3).await;
    assert_eq!(names(&life).await, expected([0, 2, 3]), "the server of the old Machine is not gone");
    hold(&life, "c-w-1", Value::Null).await;
    life.change(json!({"spec": {"replicas": 4}})).await;
    life.until_complete(4).await;
    assert_eq!(names(&life).await, expected(0..4));
    assert_ne!(machines.get("c-w-1").await.unwrap().uid(), first);
    let gone = machines.get("c-w-2").await.unwrap().uid();
    machines.delete("c-w-2", &DeleteParams::default()).await.unwrap();
    for _ in 0..3 {
        life.round().await;
    }
    life.until_complete(4).await;
    assert_eq!(names(&life).await, expected(0..4), "the gap is filled");
    assert_ne!(machines.get("c-w-2").await.unwrap().uid(), gone);
}

#[tokio::test]
async fn indexes_stay_low_while_a_deployment_scales_and_rolls_out() {
    let life = start("index-rollout").await;
    life.until_complete(3).await;
    for replicas in [1, 3] {
        life.change(json!({"spec": {"replicas": replicas}})).await;
        life.until_complete(replicas).await;
    }
    assert_eq!(names(&life).await, expected(0..3));
    let before: BTreeSet<Option<String>> = life.machines().await.iter().map(ResourceExt::uid).collect();
    let reference = json!({"spec": {"template": {"spec": {"infrastructureRef": {"name": "second"}}}}});
    life.change(reference).await;
    let mut seen = BTreeSet::new();
    for _ in 0..ROUNDS {
        life.round().await;
        seen.extend(names(&life).await);
    }
    life.until_complete(3).await;
    assert_eq!(seen, expected(0..4), "the fourth name is for the surge");
    let after: BTreeSet<Option<String>> = life.machines().await.iter().map(ResourceExt::uid).collect();
    assert!(before.is_disjoint(&after), "all are replaced");
    let servers: Vec<OpenStackMachine> = list(&life.client, life.namespace).await;
    let servers: BTreeSet<String> = servers.iter().map(ResourceExt::name_any).collect();
    assert_eq!(servers, names(&life).await);
}

#[tokio::test]
async fn sets_that_create_machines_at_once_never_take_over_objects_of_each_other() {
    let life = start("index-shared").await;
    let manifest = MANIFEST.replace("NAMESPACE", life.namespace).replace("BOOTSTRAP", TEMPLATE);
    let other = manifest.rsplit("---\n").next().unwrap().replace("name: md\n", "name: other\n");
    life.world.create(&other).await.unwrap();
    let deployments: Api<MachineDeployment> = Api::namespaced(life.client.clone(), life.namespace);
    let change = Patch::Merge(json!({"spec": {"machineNaming": {"template": NAMING}}}));
    deployments.patch("other", &PatchParams::default(), &change).await.unwrap();
    for _ in 0..6 {
        life.round().await;
    }
    assert_eq!(names(&life).await, expected(0..5), "3 and 2 Machines");
    // Without their MachineDeployments, which would set the numbers back.
    let sets: Api<MachineSet> = Api::namespaced(life.client.clone(), life.namespace);
    for set in life.sets().await {
        let more = Patch::Merge(json!({"spec": {"replicas": 6}}));
        sets.patch(&set.name_any(), &PatchParams::default(), &more).await.unwrap();
    }
    for _ in 0..12 {
        life.controllers.sets_at_once().await.unwrap();
    }
    assert_eq!(names(&life).await, expected(0..12));
    let servers: Api<OpenStackMachine> = Api::namespaced(life.client.clone(), life.namespace);
    let configs: Api<KubeadmConfig> = Api::namespaced(life.client.clone(), life.namespace);
    for machine in life.machines().await {
        let (name, owner) = (machine.name_any(), machine.owner_references()[0].uid.clone());
        let (server, config) = (servers.get(&name).await.unwrap(), configs.get(&name).await.unwrap());
        for owners in [server.owner_references(), config.owner_references()] {
            let owners: Vec<&str> = owners.iter().map(|owner| owner.uid.as_str()).collect();
            assert_eq!(owners, [owner.as_str()], "{name}");
        }
    }
}
