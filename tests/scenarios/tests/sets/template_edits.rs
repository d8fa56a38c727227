//! Edits of templates: the pool that uses them rolls by revision, and each set keeps its own content.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use apiserver_types::{
    KubeadmConfig, KubeadmConfigTemplate, MachineDeployment, MachineDeploymentRevision, MachineSet,
    OpenStackMachine, OpenStackMachineTemplate,
};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tests_scenarios::{Controllers, CrashPoint, Side, World};

use crate::machines::{CLONED_FROM, CLONED_FROM_REVISION, list, proceed};
use crate::revisions::call;
use crate::testbed::{Life, ROUNDS};
use crate::{SECRET, TEMPLATE, create};

/// Annotation of a MachineDeployment or MachineSet with the revision of its infrastructure template.
const REVISION: &str = "capstan.dev/infrastructure-template-revision";

/// Annotation of a template with the revision of its content.
const TEMPLATE_REVISION: &str = "capstan.dev/template-revision";

/// Edits the template `first`. Returns the revision that the server gave it.
async fn edit(life: &Life, flavor: &str) -> Option<String> {
    let api: Api<OpenStackMachineTemplate> = Api::namespaced(life.client.clone(), life.namespace);
    let change = json!({"spec": {"template": {"spec": {"flavor": {"filter": {"name": flavor}}}}}});
    let edited = api.patch("first", &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
    edited.annotations().get(TEMPLATE_REVISION).cloned()
}

fn flavor_of(server: &OpenStackMachine) -> String {
    let flavor = json!(server.spec)["flavor"]["filter"]["name"].clone();
    flavor.as_str().unwrap().to_owned()
}

/// Returns the flavors of the servers, sorted.
async fn flavors(life: &Life) -> Vec<String> {
    let servers: Vec<OpenStackMachine> = list(&life.client, life.namespace).await;
    let mut flavors: Vec<String> = servers.iter().map(flavor_of).collect();
    flavors.sort();
    flavors
}

async fn names(life: &Life) -> BTreeSet<String> {
    life.machines().await.iter().map(ResourceExt::name_any).collect()
}

async fn sets(life: &Life, number: usize) {
    for _ in 0..ROUNDS {
        if life.sets().await.len() == number {
            return;
        }
        life.round().await;
    }
    panic!("not {number} sets: {:#?}", life.sets().await);
}

/// Makes rounds until the MachineDeployment is complete. There are never more Machines than the surge allows, and never
/// less than are wanted.
async fn roll(life: &Life, wanted: usize, flavor: &str) {
    for _ in 0..ROUNDS {
        life.round().await;
        let machines = life.machines().await;
        let staying = machines.iter().filter(|it| it.metadata.deletion_timestamp.is_none()).count();
        assert!(staying >= wanted && machines.len() <= wanted + 1, "{machines:#?}");
        if life.sets().await.len() == 1 && flavors(life).await == vec![flavor; wanted] {
            break;
        }
    }
    life.until_complete(i32::try_from(wanted).unwrap()).await;
    assert_eq!(flavors(life).await, vec![flavor; wanted]);
}

#[tokio::test]
async fn an_edit_of_a_flavor_replaces_the_machines_one_by_one() {
    let life = Life::start("edit", SECRET).await;
    life.until_complete(2).await;
    let before = names(&life).await;
    assert_eq!(edit(&life, "m1.medium").await.as_deref(), Some("2"));
    life.round().await;
    life.round().await;
    let rolling = life.deployment().await;
    assert_eq!(rolling.annotations().get(REVISION).map(String::as_str), Some("2"));
    let condition = rolling.condition("RollingOut").unwrap();
    assert!(condition.message.ends_with("* OpenStackMachine is not up-to-date"), "{}", condition.message);
    roll(&life, 2, "m1.medium").await;
    assert!(names(&life).await.is_disjoint(&before));
    let servers: Vec<OpenStackMachine> = list(&life.client, life.namespace).await;
    for server in servers {
        let origin = [CLONED_FROM, CLONED_FROM_REVISION].map(|key| server.annotations()[key].clone());
        assert_eq!(origin, ["first", "2"]);
    }
    assert_eq!(life.sets().await[0].annotations().get(REVISION).map(String::as_str), Some("2"));
    let history = call(&life, "history", None).await.unwrap();
    let newest = &history["items"][0]["spec"];
    let expected =
        json!(["infrastructureTemplate.template.spec.flavor.filter.name: \"m1.small\" -> \"m1.medium\""]);
    assert_eq!((&newest["revision"], &newest["changes"]), (&json!(2), &expected));
    // What does not need other Machines is no revision.
    let api: Api<OpenStackMachineTemplate> = Api::namespaced(life.client.clone(), life.namespace);
    let label = Patch::Merge(json!({"metadata": {"labels": {"a": "b"}}}));
    let labelled = api.patch("first", &PatchParams::default(), &label).await.unwrap();
    assert_eq!(labelled.annotations()[TEMPLATE_REVISION], "2");
    let (set, after) = (life.sets().await[0].name_any(), names(&life).await);
    life.round().await;
    life.until_complete(2).await;
    assert_eq!((life.sets().await[0].name_any(), names(&life).await), (set, after));
}

#[tokio::test]
async fn an_edit_while_a_rollout_is_under_way_goes_on_to_the_newest_content() {
    let life = Life::start("edit-twice", SECRET).await;
    life.until_complete(2).await;
    edit(&life, "m1.medium").await;
    sets(&life, 2).await;
    assert_eq!(edit(&life, "m1.large").await.as_deref(), Some("3"));
    sets(&life, 3).await;
    roll(&life, 2, "m1.large").await;
}

#[tokio::test]
async fn an_edit_that_is_taken_back_keeps_the_machines_that_were_not_replaced_yet() {
    let life = Life::start("edit-back", SECRET).await;
    life.until_complete(2).await;
    let (set, before) = (life.sets().await[0].name_any(), names(&life).await);
    edit(&life, "m1.medium").await;
    sets(&life, 2).await;
    assert_eq!(edit(&life, "m1.small").await, None, "it is the first revision again");
    roll(&life, 2, "m1.small").await;
    assert_eq!(life.sets().await[0].name_any(), set);
    assert_eq!(names(&life).await, before);
    assert!(!life.deployment().await.annotations().contains_key(REVISION));
    assert_eq!(edit(&life, "m1.medium").await.as_deref(), Some("2"), "a known content has its number");
    roll(&life, 2, "m1.medium").await;
}

#[tokio::test]
async fn a_set_makes_machines_of_its_own_revision_while_the_deployment_is_paused_or_pinned() {
    let life = Life::start("edit-paused", SECRET).await;
    life.until_complete(2).await;
    life.change(json!({"spec": {"paused": true}})).await;
    edit(&life, "m1.medium").await;
    life.change(json!({"spec": {"replicas": 3}})).await;
    for _ in 0..6 {
        life.round().await;
    }
    assert_eq!(flavors(&life).await, ["m1.small"; 3]);
    life.change(json!({"spec": {"paused": false}})).await;
    roll(&life, 3, "m1.medium").await;

    let pin =
        |value: Value| json!({"metadata": {"annotations": {"capstan.dev/pin-template-revisions": value}}});
    life.change(pin(json!("true"))).await;
    life.round().await;
    let before = names(&life).await;
    assert_eq!(edit(&life, "m1.large").await.as_deref(), Some("3"));
    life.change(json!({"spec": {"replicas": 4}})).await;
    for _ in 0..6 {
        life.round().await;
    }
    assert_eq!(flavors(&life).await, ["m1.medium"; 4]);
    assert!(names(&life).await.is_superset(&before));
    // It goes to an earlier revision and back by its history; the template stays as it is.
    let history = call(&life, "history", None).await.unwrap();
    assert_eq!(history["items"].as_array().unwrap().len(), 2, "what is not used is no revision");
    call(&life, "rollback", Some(json!({"toRevision": 1}))).await.unwrap();
    life.change(json!({"spec": {"replicas": 2}})).await;
    roll(&life, 2, "m1.small").await;
    let api: Api<OpenStackMachineTemplate> = Api::namespaced(life.client.clone(), life.namespace);
    assert_eq!(api.get("first").await.unwrap().annotations()[TEMPLATE_REVISION], "3");
    life.change(pin(Value::Null)).await;
    roll(&life, 2, "m1.large").await;
}

#[tokio::test]
async fn a_set_whose_revision_is_not_kept_makes_nothing_from_another_one_and_the_rollout_goes_on() {
    let life = Life::start("edit-lost", SECRET).await;
    life.until_complete(2).await;
    life.change(json!({"spec": {"paused": true}})).await;
    edit(&life, "m1.medium").await;
    life.round().await;
    let kept: Api<MachineDeploymentRevision> = Api::namespaced(life.client.clone(), life.namespace);
    kept.delete("md-r1", &DeleteParams::default()).await.unwrap();
    life.change(json!({"spec": {"replicas": 3}})).await;
    for _ in 0..4 {
        life.round().await;
    }
    assert_eq!(flavors(&life).await, ["m1.small"; 2]);
    let scaling = life.sets().await[0].condition("ScalingUp").unwrap().message.clone();
    let expected = "The set has revision 1 of OpenStackMachineTemplate first, and no MachineDeploymentRevision has a \
                    copy of it";
    assert!(scaling.contains(expected), "{scaling}");
    life.change(json!({"spec": {"paused": false}})).await;
    for _ in 0..20 {
        life.round().await;
    }
    life.until_complete(3).await;
    assert_eq!(flavors(&life).await, ["m1.medium"; 3]);
}

#[tokio::test]
async fn a_rollback_restores_the_content_of_a_template_that_no_other_uses() {
    let life = Life::start("edit-rollback", SECRET).await;
    life.until_complete(2).await;
    let before = names(&life).await;
    let api: Api<OpenStackMachineTemplate> = Api::namespaced(life.client.clone(), life.namespace);
    edit(&life, "m1.medium").await;
    call(&life, "rollback", Some(json!({}))).await.expect("the edit is not a revision yet");
    assert!(!api.get("first").await.unwrap().annotations().contains_key(TEMPLATE_REVISION), "taken back");
    edit(&life, "m1.medium").await;
    sets(&life, 2).await;
    let planned = call(&life, "rollback", Some(json!({"dryRun": true}))).await.unwrap();
    assert_eq!(planned["spec"]["template"]["spec"]["infrastructureRef"]["name"], "first");
    assert_eq!(api.get("first").await.unwrap().annotations()[TEMPLATE_REVISION], "2", "nothing changed");
    call(&life, "rollback", Some(json!({"reason": "too large"}))).await.unwrap();
    let restored = api.get("first").await.unwrap();
    assert_eq!(json!(restored.spec)["template"]["spec"]["flavor"]["filter"]["name"], "m1.small");
    roll(&life, 2, "m1.small").await;
    assert_eq!(names(&life).await, before, "the Machines that were there are kept");
    let history = call(&life, "history", None).await.unwrap();
    let newest = &history["items"][0]["spec"];
    let told = (&newest["revision"], &newest["changeCause"], &newest["changedBy"]);
    assert_eq!(told, (&json!(3), &json!("too large"), &json!("admin")));
    // Another user of the template would be rolled back, too.
    let deployments: Api<MachineDeployment> = Api::namespaced(life.client.clone(), life.namespace);
    let mut other = MachineDeployment::new("other", life.deployment().await.spec);
    other.spec.replicas = Some(0);
    other.spec.selector = Default::default();
    other.spec.template.metadata = None;
    edit(&life, "m1.large").await;
    life.round().await;
    deployments.create(&PostParams::default(), &other).await.unwrap();
    let planned = call(&life, "rollback", Some(json!({"dryRun": true}))).await.unwrap();
    assert_eq!(planned["spec"]["template"]["spec"]["infrastructureRef"]["name"], "first-r3");
}

#[tokio::test]
async fn a_client_that_rotates_names_by_hand_sees_what_upstream_does() {
    let life = Life::start("edit-rotation", SECRET).await;
    life.until_complete(2).await;
    edit(&life, "m1.large").await;
    roll(&life, 2, "m1.large").await;
    life.change(json!({"spec": {"template": {"spec": {"infrastructureRef": {"name": "second"}}}}})).await;
    roll(&life, 2, "m1.medium").await;
    let ours = |annotations: &BTreeMap<String, String>| -> Vec<String> {
        annotations.keys().filter(|key| key.contains("revision")).cloned().collect()
    };
    let number = "machinedeployment.clusters.x-k8s.io/revision";
    assert_eq!(ours(life.deployment().await.annotations()), [number]);
    assert_eq!(ours(life.sets().await[0].annotations()), [number]);
    assert_eq!(life.sets().await[0].annotations()[number], "3");
    let servers: Vec<OpenStackMachine> = list(&life.client, life.namespace).await;
    for server in servers {
        assert_eq!(
            (server.annotations()[CLONED_FROM].as_str(), ours(server.annotations()).len()),
            ("second", 0)
        );
    }
}

#[tokio::test]
async fn an_edit_of_bootstrap_settings_replaces_the_machines() {
    let life = Life::start("edit-bootstrap", TEMPLATE).await;
    life.until_complete(2).await;
    let api: Api<KubeadmConfigTemplate> = Api::namespaced(life.client.clone(), life.namespace);
    let edit = async |spec: Value| {
        let change = Patch::Merge(json!({"spec": {"template": {"spec": spec}}}));
        let edited = api.patch("join", &PatchParams::default(), &change).await.unwrap();
        edited.annotations().get(TEMPLATE_REVISION).cloned()
    };
    assert_eq!(edit(json!({"verbosity": null})).await, None, "it says the same");
    let before = names(&life).await;
    life.round().await;
    assert_eq!(names(&life).await, before);
    assert_eq!(edit(json!({"verbosity": 5})).await.as_deref(), Some("2"));
    for _ in 0..3 {
        life.round().await;
    }
    roll(&life, 2, "m1.small").await;
    assert!(names(&life).await.is_disjoint(&before));
    let configs: Vec<KubeadmConfig> = list(&life.client, life.namespace).await;
    assert_eq!(configs.iter().map(|it| it.spec.verbosity).collect::<Vec<_>>(), [Some(5), Some(5)]);
    assert!(configs.iter().all(|it| it.annotations()[CLONED_FROM_REVISION] == "2"));
}

/// Edits the template of a complete MachineDeployment, with a crash of the process that rolls it out. Returns the number
/// of sets and the flavors at the end.
async fn rolled(world: &World, crash: &Arc<CrashPoint>) -> (usize, Vec<String>) {
    let (client, namespace) = (world.admin(), "edit-crash");
    create(world, namespace, SECRET).await;
    let work = async |controllers: &Controllers, rounds: usize| {
        for _ in 0..rounds {
            controllers.round_of_sets().await.unwrap();
            proceed(&client, namespace).await;
        }
    };
    work(&Controllers::start(world, &Arc::new(CrashPoint::never())), 4).await;
    let api: Api<OpenStackMachineTemplate> = Api::namespaced(client.clone(), namespace);
    let change = json!({"spec": {"template": {"spec": {"flavor": {"filter": {"name": "m1.medium"}}}}}});
    api.patch("first", &PatchParams::default(), &Patch::Merge(&change)).await.unwrap();
    let first = Controllers::start(world, crash);
    tokio::select! {
        () = crash.crashed() => {}
        () = work(&first, 12) => {}
    }
    drop(first);
    work(&Controllers::start(world, &Arc::new(CrashPoint::never())), 12).await;
    let servers: Vec<OpenStackMachine> = list(&client, namespace).await;
    (list::<MachineSet>(&client, namespace).await.len(), servers.iter().map(flavor_of).collect())
}

#[tokio::test]
async fn a_crash_at_any_step_of_a_rollout_after_an_edit_ends_with_the_new_content() {
    let expected = (1, vec!["m1.medium".to_owned(); 2]);
    let never = Arc::new(CrashPoint::never());
    assert_eq!(Box::pin(rolled(&World::start().await.unwrap(), &never)).await, expected);
    let steps = never.effects().len();
    assert!(steps > 15, "{:#?}", never.effects());
    // A process that ends after a step leaves what one leaves that ends before the next step.
    for n in 0..steps {
        let crash = Arc::new(CrashPoint::at(n, Side::After));
        let result = Box::pin(rolled(&World::start().await.unwrap(), &crash)).await;
        assert!(crash.has_crashed(), "step {n}");
        assert_eq!(result, expected, "crash after {:?}", crash.effects().last());
    }
}
