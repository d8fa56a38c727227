//! Life of a MachineDeployment: creation, scaling, rollout, changes in place, pause, deletion.

use apiserver_types::{KubeadmConfig, Machine, MachineDeployment, OpenStackMachine};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::machines::{CLONED_FROM, list, proceed};
use crate::testbed::{Life, ROUNDS};
use crate::{SECRET, TEMPLATE};

#[tokio::test]
async fn a_machine_deployment_makes_machines_from_its_templates() {
    let life = Life::start("creation", TEMPLATE).await;
    life.until_complete(2).await;
    let deployment = life.deployment().await;
    let (set, machines) = (life.sets().await.remove(0), life.machines().await);
    assert_eq!(deployment.finalizers(), ["cluster.x-k8s.io/machinedeployment"]);
    assert_eq!(set.finalizers(), ["cluster.x-k8s.io/machineset"]);
    let hash = set.labels().get("machine-template-hash").unwrap().clone();
    let revision = "machinedeployment.clusters.x-k8s.io/revision";
    let annotations = json!({
        "cluster.x-k8s.io/disable-machine-create": "false",
        "machinedeployment.clusters.x-k8s.io/desired-replicas": "2",
        "machinedeployment.clusters.x-k8s.io/max-replicas": "3",
        revision: "1",
        "of-the-user": "yes",
    });
    assert_eq!(json!(set.annotations()), annotations);
    assert_eq!(deployment.annotations().get(revision).unwrap(), "1");
    assert_eq!(machines.len(), 2);
    for machine in machines {
        let labels = json!({
            "cluster.x-k8s.io/cluster-name": "c",
            "cluster.x-k8s.io/deployment-name": "md",
            "cluster.x-k8s.io/set-name": set.name_any(),
            "machine-template-hash": hash,
            "team": "a",
        });
        assert_eq!(json!(machine.labels()), labels);
        assert_eq!(machine.finalizers(), ["machine.cluster.x-k8s.io"]);
        let owner = &machine.owner_references()[0];
        assert_eq!((owner.kind.as_str(), owner.controller), ("MachineSet", Some(true)));
        let name = machine.name_any();
        assert!(name.starts_with(&format!("{}-", set.name_any())), "{name}");
        let servers: Api<OpenStackMachine> = Api::namespaced(life.client.clone(), life.namespace);
        let server = servers.get(&name).await.unwrap();
        let configs: Api<KubeadmConfig> = Api::namespaced(life.client.clone(), life.namespace);
        let config = configs.get(&name).await.unwrap();
        for (part, template) in [(server.meta_parts(), "first"), (config.meta_parts(), "join")] {
            assert_eq!(part.0, labels);
            assert_eq!(part.1[CLONED_FROM], template);
        }
    }
    let events = life.events().await;
    let created = format!(
        "MachineDeployment SuccessfulCreate Created MachineSet creation/{} with 2 replicas",
        set.name_any()
    );
    assert!(events.contains(&created), "{events:#?}");
    let made =
        events.iter().filter(|event| event.starts_with("MachineSet SuccessfulCreate Created Machine \""));
    assert_eq!(made.count(), 2);
    let templates = ["openstackmachinetemplates/first", "openstackmachinetemplates/second"];
    for (template, owners) in templates.into_iter().zip([1, 0]) {
        let path = format!("/apis/infrastructure.cluster.x-k8s.io/v1beta2/namespaces/creation/{template}");
        let request = http::Request::get(path).body(Vec::new()).unwrap();
        let object: Value = life.world.admin().request(request).await.unwrap();
        let found = object.pointer("/metadata/ownerReferences").and_then(Value::as_array).map_or(0, Vec::len);
        assert_eq!(found, owners, "{template}");
    }
}

/// Labels and annotations of an object.
trait MetaParts {
    fn meta_parts(&self) -> (Value, Value);
}

impl<K: kube::Resource> MetaParts for K {
    fn meta_parts(&self) -> (Value, Value) {
        (json!(self.labels()), json!(self.annotations()))
    }
}

#[tokio::test]
async fn a_machine_deployment_follows_the_scale_subresource() {
    let life = Life::start("scaling", SECRET).await;
    life.until_complete(2).await;
    let api: Api<MachineDeployment> = Api::namespaced(life.client.clone(), life.namespace);
    for replicas in [4, 1, 0, 2] {
        let change = json!({"spec": {"replicas": replicas}});
        let scale = api.patch_scale("md", &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
        // Zero is absent, as in upstream.
        assert_eq!(scale.spec.unwrap().replicas.unwrap_or_default(), replicas);
        life.until_complete(replicas).await;
        assert_eq!(life.machines().await.len(), usize::try_from(replicas).unwrap());
    }
    let scale = api.get_scale("md").await.unwrap().status.unwrap();
    let selector = "cluster.x-k8s.io/cluster-name=c,cluster.x-k8s.io/deployment-name=md";
    assert_eq!((scale.replicas, scale.selector.as_deref()), (2, Some(selector)));
    let events = life.events().await;
    let set = life.sets().await[0].name_any();
    for scaled in ["up MachineSet {}: 2 -> 4", "down MachineSet {}: 4 -> 1", "up MachineSet {}: 0 -> 2"] {
        let event = format!("MachineDeployment SuccessfulScale Scaled {}", scaled.replace("{}", &set));
        assert!(events.contains(&event), "{event}: {events:#?}");
    }
}

#[tokio::test]
async fn a_change_of_the_template_replaces_the_machines_one_by_one() {
    let life = Life::start("rollout", SECRET).await;
    life.until_complete(2).await;
    let before = life.sets().await[0].name_any();
    let reference = json!({"spec": {"template": {"spec": {"infrastructureRef": {"name": "second"}}}}});
    life.change(reference).await;
    life.round().await;
    proceed(&life.client, life.namespace).await;
    life.controllers.round_of_sets().await.unwrap();
    let rolling = life.deployment().await;
    let condition = rolling.condition("RollingOut").unwrap();
    let message = "Rolling out 2 not up-to-date replicas\n* OpenStackMachine is not up-to-date";
    assert_eq!((condition.reason.as_str(), condition.message.as_str()), ("RollingOut", message));
    life.until_complete(2).await;
    let set = life.sets().await.remove(0);
    assert_ne!(set.name_any(), before);
    assert_eq!(set.annotations().get("machinedeployment.clusters.x-k8s.io/revision").unwrap(), "2");
    let servers: Vec<OpenStackMachine> = list(&life.client, life.namespace).await;
    let templates: Vec<&str> =
        servers.iter().map(|it| it.annotations().get(CLONED_FROM).unwrap().as_str()).collect();
    assert_eq!(templates, ["second", "second"]);
    let events = life.events().await;
    let deleted = format!("MachineDeployment SuccessfulDelete Deleted MachineSet \"{before}\"");
    assert!(events.contains(&deleted), "{events:#?}");
    let finished = life.deployment().await;
    assert_eq!(finished.condition("RollingOut").unwrap().reason, "NotRollingOut");
    assert_eq!(finished.condition("Available").unwrap().reason, "Available");
}

#[tokio::test]
async fn metadata_and_timeouts_change_in_place_and_removed_labels_disappear() {
    let life = Life::start("in-place", SECRET).await;
    life.until_complete(2).await;
    let names = |machines: Vec<Machine>| machines.iter().map(ResourceExt::name_any).collect::<Vec<_>>();
    let before = names(life.machines().await);
    let machines: Api<Machine> = Api::namespaced(life.client.clone(), life.namespace);
    let own = Patch::Merge(json!({"metadata": {"labels": {"foreign": "kept"}}}));
    machines.patch(&before[0], &PatchParams::default(), &own).await.unwrap();
    life.change(json!({"spec": {"template": {
        "metadata": {"labels": {"team": null, "stage": "test"}},
        "spec": {"deletion": {"nodeDrainTimeoutSeconds": 7}},
    }}}))
    .await;
    life.round().await;
    life.round().await;
    let servers: Vec<OpenStackMachine> = list(&life.client, life.namespace).await;
    let after = life.machines().await;
    let labels = after.iter().map(ResourceExt::labels).chain(servers.iter().map(ResourceExt::labels));
    for labels in labels {
        assert_eq!((labels.get("team"), labels.get("stage").map(String::as_str)), (None, Some("test")));
    }
    assert!(servers.iter().all(|it| it.annotations().contains_key(CLONED_FROM)));
    assert_eq!(after[0].labels().get("foreign").map(String::as_str), Some("kept"));
    for machine in &after {
        let deletion = machine.spec.deletion.clone().unwrap();
        assert_eq!(deletion.node_drain_timeout_seconds, Some(7));
    }
    assert_eq!(names(after), before, "no Machine was replaced");
    assert_eq!(life.sets().await.len(), 1);
    let versions = life.machines().await.iter().map(|it| it.resource_version()).collect::<Vec<_>>();
    life.round().await;
    let again = life.machines().await.iter().map(|it| it.resource_version()).collect::<Vec<_>>();
    assert_eq!(versions, again, "a pass without a change writes nothing");
}

#[tokio::test]
async fn a_paused_deployment_only_says_so_and_a_deleted_one_goes_with_everything() {
    let life = Life::start("deletion", TEMPLATE).await;
    life.until_complete(2).await;
    life.change(
        json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": ""}}, "spec": {"replicas": 3}}),
    )
    .await;
    for _ in 0..3 {
        life.round().await;
    }
    assert_eq!(life.machines().await.len(), 2);
    assert!(life.deployment().await.condition("Paused").unwrap().holds());
    life.change(json!({"metadata": {"annotations": {"cluster.x-k8s.io/paused": null}}})).await;
    life.until_complete(3).await;
    let api: Api<MachineDeployment> = Api::namespaced(life.client.clone(), life.namespace);
    api.delete("md", &DeleteParams::background()).await.unwrap();
    for _ in 0..ROUNDS {
        life.round().await;
    }
    assert_eq!(list::<MachineDeployment>(&life.client, life.namespace).await.len(), 0);
    assert_eq!(life.sets().await.len(), 0);
    assert_eq!(life.machines().await.len(), 0);
    assert_eq!(list::<OpenStackMachine>(&life.client, life.namespace).await.len(), 0);
    assert_eq!(list::<KubeadmConfig>(&life.client, life.namespace).await.len(), 0);
}

#[tokio::test]
async fn an_unhealthy_machine_is_replaced_and_the_number_is_never_exceeded() {
    let life = Life::start("remediation", SECRET).await;
    life.until_complete(2).await;
    let machines: Api<Machine> = Api::namespaced(life.client.clone(), life.namespace);
    let name = life.machines().await[0].name_any();
    let mut sick = machines.get(&name).await.unwrap();
    let conditions = sick.status.as_mut().unwrap().conditions.as_mut().unwrap();
    for kind in ["HealthCheckSucceeded", "OwnerRemediated"] {
        let mut condition = conditions[0].clone();
        condition.kind = kind.to_owned();
        condition.status = apiserver_types::ConditionStatus::False;
        conditions.push(condition);
    }
    machines.replace_status(&name, &Default::default(), &sick).await.unwrap();
    life.controllers.round_of_sets().await.unwrap();
    let deleted = machines.get(&name).await.unwrap();
    let condition = deleted.condition("OwnerRemediated").unwrap();
    let told = (condition.reason.as_str(), condition.message.as_str());
    assert_eq!(told, ("MachineDeleting", "Machine is deleting"));
    assert!(deleted.metadata.deletion_timestamp.is_some());
    assert_eq!(life.machines().await.len(), 2, "the replacement comes when the Machine is gone");
    let set = life.sets().await.remove(0);
    let remediating = set.condition("Remediating").unwrap();
    assert_eq!(remediating.message, format!("* Machine {name}: Machine is deleting"));
    for _ in 0..4 {
        life.round().await;
    }
    life.until_complete(2).await;
    assert!(life.machines().await.iter().all(|machine| machine.name_any() != name));
}
