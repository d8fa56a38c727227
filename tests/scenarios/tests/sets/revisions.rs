//! History of a MachineDeployment, rollback, and restart.

use apiserver_types::{MachineDeploymentRevision, OpenStackMachineTemplate};
use kube::api::{DeleteParams, Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::SECRET;
use crate::machines::list;
use crate::testbed::Life;

/// Calls a verb of the MachineDeployment. Returns the response, or the message of the error.
pub(crate) async fn call(life: &Life, verb: &str, body: Option<Value>) -> Result<Value, String> {
    let namespace = life.namespace;
    let path = format!("/apis/cluster.x-k8s.io/v1beta2/namespaces/{namespace}/machinedeployments/md/{verb}");
    let request = match body {
        None => http::Request::get(path).body(Vec::new()),
        Some(body) => http::Request::post(path)
            .header("content-type", "application/json")
            .body(serde_json::to_vec(&body).unwrap()),
    };
    life.world.admin().request(request.unwrap()).await.map_err(|error| error.to_string())
}

async fn template(life: &Life) -> String {
    life.deployment().await.spec.template.spec.infrastructure_ref.name
}

#[tokio::test]
async fn a_rollback_restores_an_earlier_template_even_if_what_it_refers_to_was_deleted() {
    let life = Life::start("revisions", SECRET).await;
    life.until_complete(2).await;
    let change = json!({
        "metadata": {"annotations": {"kubernetes.io/change-cause": "more memory"}},
        "spec": {"template": {"spec": {"infrastructureRef": {"name": "second"}}}},
    });
    life.change(change).await;
    life.until_complete(2).await;
    let history = call(&life, "history", None).await.unwrap();
    assert_eq!(history["kind"], "MachineDeploymentRevisionList");
    let newest = &history["items"][0]["spec"];
    assert_eq!(history["items"].as_array().unwrap().len(), 2);
    assert_eq!((&newest["revision"], &newest["changeCause"]), (&json!(2), &json!("more memory")));
    assert!(newest["changedBy"].is_string() && newest["changedAt"].is_string(), "{newest}");
    let changes = newest["changes"].as_array().unwrap();
    let expected = "template.spec.infrastructureRef.name: \"first\" -> \"second\"";
    assert!(changes.contains(&json!(expected)), "{changes:?}");

    let templates: Api<OpenStackMachineTemplate> = Api::namespaced(life.client.clone(), life.namespace);
    templates.delete("first", &DeleteParams::default()).await.unwrap();
    let planned = call(&life, "rollback", Some(json!({"dryRun": true}))).await.unwrap();
    assert_eq!(planned["spec"]["template"]["spec"]["infrastructureRef"]["name"], "first-r1");
    assert_eq!(template(&life).await, "second", "a dry run changes nothing");
    assert!(templates.get_opt("first-r1").await.unwrap().is_none());

    let body = json!({"toRevision": 0, "reason": "too expensive"});
    call(&life, "rollback", Some(body)).await.unwrap();
    assert_eq!(template(&life).await, "first-r1");
    let again = templates.get("first-r1").await.unwrap();
    assert_eq!(json!(again.spec)["template"]["spec"]["flavor"], json!({"filter": {"name": "m1.small"}}));
    life.until_complete(2).await;
    let history = call(&life, "history", None).await.unwrap();
    let newest = &history["items"][0]["spec"];
    let told = (&newest["revision"], &newest["changeCause"], &newest["changedBy"]);
    assert_eq!(told, (&json!(3), &json!("too expensive"), &json!("admin")));

    // It is the present revision.
    let before = life.deployment().await.resource_version();
    let body = json!({"toRevision": 3, "reason": "again"});
    let same = call(&life, "rollback", Some(body)).await.unwrap();
    assert_eq!(same["metadata"]["annotations"]["kubernetes.io/change-cause"], "too expensive");
    assert_eq!(life.deployment().await.resource_version(), before, "nothing is changed");

    let unknown = call(&life, "rollback", Some(json!({"toRevision": 9}))).await.unwrap_err();
    assert!(unknown.contains("known revisions: 3, 2, 1"), "{unknown}");

    // No pass has recorded this template yet.
    life.change(json!({"spec": {"template": {"spec": {"infrastructureRef": {"name": "second"}}}}})).await;
    let planned = call(&life, "rollback", Some(json!({"dryRun": true}))).await.unwrap();
    assert_eq!(planned["spec"]["template"]["spec"]["infrastructureRef"]["name"], "first-r1");
}

/// The second rollback changes no field of the first one: user, reason and template are the same.
#[tokio::test]
async fn each_of_several_rollbacks_that_only_remove_fields_has_the_user_of_the_verb() {
    let life = Life::start("again", SECRET).await;
    life.until_complete(2).await;
    // The times of changes have whole seconds.
    let second = std::time::Duration::from_millis(1100);
    for revision in [3, 5] {
        tokio::time::sleep(second).await;
        life.change(json!({"spec": {"template": {"metadata": {"labels": {"stage": "test"}}}}})).await;
        life.until_complete(2).await;
        tokio::time::sleep(second).await;
        call(&life, "rollback", Some(json!({"toRevision": 1}))).await.unwrap();
        life.until_complete(2).await;
        let history = call(&life, "history", None).await.unwrap();
        let newest = &history["items"][0]["spec"];
        let found = (&newest["revision"], &newest["changedBy"]);
        assert_eq!(found, (&json!(revision), &json!("admin")), "{newest}");
    }
}

#[tokio::test]
async fn a_deployment_of_a_topology_is_not_rolled_back() {
    let life = Life::start("topology", SECRET).await;
    life.until_complete(2).await;
    life.change(json!({"metadata": {"labels": {
        "topology.cluster.x-k8s.io/owned": "", "topology.cluster.x-k8s.io/deployment-name": "blue",
    }}}))
    .await;
    let refused = call(&life, "rollback", Some(json!({}))).await.unwrap_err();
    assert!(refused.contains("spec.topology.workers.machineDeployments[name=blue]"), "{refused}");
}

#[tokio::test]
async fn a_restart_replaces_all_machines_and_old_revisions_are_removed() {
    let life = Life::start("restart", SECRET).await;
    life.until_complete(2).await;
    let names = |machines: Vec<apiserver_types::Machine>| {
        machines.iter().map(ResourceExt::name_any).collect::<Vec<_>>()
    };
    let before = names(life.machines().await);
    // The set must be older than the second of the restart.
    tokio::time::sleep(std::time::Duration::from_millis(1100)).await;
    call(&life, "restart", Some(json!({"reason": "certificates"}))).await.unwrap();
    for _ in 0..20 {
        life.round().await;
    }
    life.until_complete(2).await;
    let after = names(life.machines().await);
    assert!(before.iter().all(|name| !after.contains(name)), "{before:?} {after:?}");
    life.change(json!({"metadata": {"annotations": {"capstan.dev/revision-history-limit": "2"}}})).await;
    for stage in ["a", "b", "c"] {
        life.change(json!({"spec": {"template": {"metadata": {"labels": {"stage": stage}}}}})).await;
        life.round().await;
    }
    let revisions: Vec<MachineDeploymentRevision> = list(&life.client, life.namespace).await;
    let numbers: Vec<i64> = revisions.iter().map(|it| it.spec.revision).collect();
    assert_eq!(numbers, [3, 4]);
    let owner = &revisions[0].owner_references()[0];
    assert_eq!((owner.kind.as_str(), owner.name.as_str()), ("MachineDeployment", "md"));
    // A client cannot take the number of a revision away.
    let api: Api<MachineDeploymentRevision> = Api::namespaced(life.client.clone(), life.namespace);
    let wrong = Patch::Merge(json!({"spec": {"revision": 0}}));
    assert!(api.patch("md-r4", &PatchParams::default(), &wrong).await.is_err());
}
