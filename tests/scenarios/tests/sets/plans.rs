//! Plans of changes of a MachineDeployment: what they say is what then happens, and they write nothing.

use apiserver_types::Cluster;
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use crate::SECRET;
use crate::machines::proceed;
use crate::revisions::call;
use crate::testbed::{Life, ROUNDS};

/// Returns what is stored about a MachineDeployment, with the revisions of its objects.
pub(crate) async fn stored(life: &Life) -> Vec<Option<String>> {
    let mut versions = vec![life.deployment().await.resource_version()];
    versions.extend(life.sets().await.iter().map(ResourceExt::resource_version));
    versions.extend(life.machines().await.iter().map(ResourceExt::resource_version));
    versions
}

async fn plan(life: &Life, change: Value) -> Value {
    let before = stored(life).await;
    let plan = call(life, "plan", Some(change)).await.unwrap();
    assert_eq!(stored(life).await, before, "a plan writes nothing");
    assert_eq!(plan["kind"], "RolloutPlan");
    plan
}

fn summary(numbers: [u8; 5]) -> Value {
    let [keep, in_place, replace, create, delete] = numbers;
    json!({"keep": keep, "inPlace": in_place, "replace": replace, "create": create, "delete": delete})
}

#[tokio::test]
async fn a_plan_says_which_machines_a_change_replaces_and_in_which_order() {
    let life = Life::start("plan", SECRET).await;
    life.until_complete(2).await;
    let nothing = plan(&life, json!({})).await;
    assert_eq!((&nothing["summary"], &nothing["steps"]), (&summary([2, 0, 0, 0, 0]), &json!([])));
    let more = plan(&life, json!({"spec": {"replicas": 3}})).await;
    assert_eq!(more["summary"], summary([2, 0, 0, 1, 0]));
    let label = json!({"spec": {"template": {"metadata": {"labels": {"stage": "test"}}}}});
    let labelled = plan(&life, label).await;
    assert_eq!(labelled["summary"], summary([0, 2, 0, 0, 0]));
    let reasons = json!(["spec.template.metadata.labels.stage changes in place"]);
    assert_eq!(labelled["machines"][0]["reasons"], reasons);

    let change = json!({"spec": {"template": {"spec": {"infrastructureRef": {"name": "second"}}}}});
    let planned = plan(&life, change.clone()).await;
    assert_eq!(planned["summary"], summary([0, 0, 2, 0, 0]));
    assert_eq!(planned["machines"][0]["reasons"], json!(["OpenStackMachine is not up-to-date"]));
    let actions: Vec<&str> =
        planned["steps"].as_array().unwrap().iter().map(|step| step["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["Create", "Delete", "Create", "Delete"]);
    // The first Machine that goes is that of the plan.
    life.change(change).await;
    let going = async || {
        let machines = life.machines().await;
        let mut going = machines.iter().filter(|it| it.metadata.deletion_timestamp.is_some());
        going.next().map(ResourceExt::name_any)
    };
    for _ in 0..ROUNDS {
        life.controllers.round_of_sets().await.unwrap();
        if going().await.is_some() {
            break;
        }
        proceed(&life.client, life.namespace).await;
    }
    assert_eq!(going().await.as_deref(), planned["steps"][1]["machine"].as_str());
}

/// Makes a template `third` whose servers are in the project of a `clouds.yaml`.
pub(crate) async fn create_template(life: &Life, clouds: &str) {
    let metadata = |name: &str| json!({"name": name, "namespace": life.namespace});
    let spec = json!({
        "flavor": {"filter": {"name": "m1.small"}}, "image": {"filter": {"name": "ubuntu-2204-kube-v1.29.0"}},
        "identityRef": {"name": "openrc", "cloudName": "openstack"},
    });
    let documents = [
        json!({"apiVersion": "v1", "kind": "Secret", "stringData": {"clouds.yaml": clouds},
            "metadata": metadata("openrc")}),
        json!({"apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "OpenStackMachineTemplate",
            "metadata": metadata("third"), "spec": {"template": {"spec": spec}}}),
    ];
    for document in documents {
        life.world.create(&document.to_string()).await.unwrap();
    }
}

#[tokio::test]
async fn a_plan_names_a_surge_that_never_fits_before_a_first_try_and_a_quota_that_it_cannot_read() {
    let life = Life::start("plan-quota", SECRET).await;
    life.until_complete(2).await;
    let to = |name: &str| json!({"spec": {"template": {"spec": {"infrastructureRef": {"name": name}}}}});
    let unread = plan(&life, to("second")).await;
    let line = unread["forecasts"][0].as_str().unwrap();
    assert!(line.starts_with("maxSurge was not compared with the quota of the project: "), "{line}");
    assert_eq!(unread["summary"], summary([0, 0, 2, 0, 0]));

    create_template(&life, &life.world.cloud.clouds_yaml("demo")).await;
    assert!(life.world.cloud.set_quota("demo", "instances", 3));
    let fits = plan(&life, to("third")).await;
    assert_eq!((&fits["summary"], &fits["forecasts"]), (&summary([0, 0, 2, 0, 0]), &json!([])));
    assert!(life.world.cloud.set_quota("demo", "instances", 2));
    let never = plan(&life, to("third")).await;
    let line = never["forecasts"][0].as_str().unwrap();
    assert!(
        line.starts_with("spec.replicas 2 with maxSurge 1 can never fit the quota: in project "),
        "{line}"
    );
    assert!(line.contains("3 of this size need 3 instances, which never fit into 2"), "{line}");
    assert_eq!((&never["summary"], &never["obstacles"]), (&summary([0, 0, 2, 0, 0]), &json!([])));
    assert!(life.world.cloud.set_quota("demo", "instances", -1));
    assert!(life.world.cloud.set_quota("demo", "port", 2));
    let without_ports = plan(&life, to("third")).await;
    let line = without_ports["forecasts"][0].as_str().unwrap();
    assert!(line.contains("3 of this size need 3 port, which never fit into 2"), "{line}");
    assert_eq!(plan(&life, json!({})).await["forecasts"], json!([]), "nothing is made");
}

#[tokio::test]
async fn a_plan_has_the_checks_of_a_change_and_names_what_is_missing() {
    let life = Life::start("plan-checks", SECRET).await;
    life.until_complete(2).await;
    let refused = call(&life, "plan", Some(json!({"spec": {"replicaz": 3}}))).await.unwrap_err();
    assert!(refused.contains("replicaz"), "{refused}");
    let refused = call(&life, "plan", Some(json!({"spec": {"clusterName": "other"}}))).await.unwrap_err();
    assert!(refused.contains("clusterName"), "{refused}");
    let change = json!({"spec": {"template": {"spec": {"infrastructureRef": {"name": "nowhere"}}}}});
    let planned = plan(&life, change).await;
    assert_eq!((&planned["summary"], &planned["steps"]), (&summary([2, 0, 0, 0, 0]), &json!([])));
    let obstacle = planned["obstacles"][0].as_str().unwrap();
    assert!(obstacle.starts_with("OpenStackMachineTemplate nowhere does not exist"), "{obstacle}");
}

#[tokio::test]
async fn a_plan_names_the_pause_of_the_cluster_and_a_cluster_without_a_topology_has_the_plans_of_its_parts() {
    let life = Life::start("plan-cluster", SECRET).await;
    life.until_complete(2).await;
    let clusters: Api<Cluster> = Api::namespaced(life.client.clone(), life.namespace);
    let change = Patch::Merge(json!({"spec": {"paused": true}}));
    clusters.patch("c", &PatchParams::default(), &change).await.unwrap();
    let paused = plan(&life, json!({"spec": {"replicas": 3}})).await;
    assert_eq!(paused["summary"], summary([2, 0, 0, 1, 0]));
    let obstacle = paused["obstacles"][0].as_str().unwrap();
    assert!(obstacle.starts_with("Cluster spec.paused is set to true"), "{obstacle}");

    let path = format!("/apis/cluster.x-k8s.io/v1beta2/namespaces/{}/clusters/c/plan", life.namespace);
    let request = http::Request::post(path).header("content-type", "application/json");
    let body = json!({"spec": {"paused": null}}).to_string().into_bytes();
    let of_cluster: Value = life.client.request(request.body(body).unwrap()).await.unwrap();
    assert_eq!(of_cluster["kind"], "ClusterPlan");
    assert_eq!(of_cluster["summary"], summary([2, 0, 0, 0, 0]));
    assert_eq!(of_cluster["rollouts"][0]["name"], "md");
    let obstacles = json!([[], []]);
    assert_eq!(
        json!([of_cluster["obstacles"], of_cluster["rollouts"][0]["obstacles"]]),
        obstacles,
        "it ends the pause"
    );
}
