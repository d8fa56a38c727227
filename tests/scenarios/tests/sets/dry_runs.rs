//! Dry runs of ordinary changes: they answer with the object, warn of the effects on Machines, and store nothing.

use std::time::{Duration, Instant};

use apiserver_types::{Cluster, OpenStackMachineTemplate};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tests_scenarios::dry_run;

use crate::SECRET;
use crate::plans::{create_template, stored};
use crate::testbed::Life;

/// Last warning about a change of the MachineDeployment.
const MORE: &str = "The whole plan, with all steps: capstan plan machinedeployment md -n ";

/// First warning about another template.
const REPLACED: &str = "MachineDeployment md: 2 Machines are replaced one after the other: * OpenStackMachine is not \
                        up-to-date";

/// Makes a dry run of a change of the MachineDeployment.
async fn dry(life: &Life, version: &str, change: &Value) -> (Value, Vec<String>) {
    let before = stored(life).await;
    let namespace = life.namespace;
    let path = format!("/apis/cluster.x-k8s.io/{version}/namespaces/{namespace}/machinedeployments/md");
    let result = dry_run(&life.client, &path, change).await.unwrap();
    assert_eq!(stored(life).await, before, "a dry run stores nothing");
    result
}

fn to(template: &str) -> Value {
    json!({"spec": {"template": {"spec": {"infrastructureRef": {"name": template}}}}})
}

#[tokio::test]
async fn a_dry_run_of_a_deployment_has_the_plan_as_warnings() {
    let life = Life::start("dry-run", SECRET).await;
    life.until_complete(2).await;
    let (object, warnings) = dry(&life, "v1beta2", &json!({"spec": {"replicas": 3}})).await;
    assert_eq!((&object["kind"], &object["spec"]["replicas"]), (&json!("MachineDeployment"), &json!(3)));
    assert_eq!(object["metadata"]["uid"], json!(life.deployment().await.metadata.uid));
    assert_eq!(warnings[0], "MachineDeployment md: 1 Machine is created: * spec.replicas is 3");
    assert!(warnings.last().unwrap().starts_with(MORE), "{warnings:#?}");

    let (object, warnings) = dry(&life, "v1beta2", &to("second")).await;
    assert_eq!(object["spec"]["template"]["spec"]["infrastructureRef"]["name"], "second");
    assert_eq!(warnings[0], REPLACED);
    let (object, warnings) = dry(&life, "v1beta1", &to("second")).await;
    assert_eq!(object["apiVersion"], "cluster.x-k8s.io/v1beta1");
    assert!(warnings.iter().any(|text| text == REPLACED), "{warnings:#?}");
    let label = json!({"spec": {"template": {"metadata": {"labels": {"stage": "test"}}}}});
    let (_, warnings) = dry(&life, "v1beta2", &label).await;
    let text = "2 Machines are changed in place: * spec.template.metadata.labels.stage changes in place";
    assert_eq!(warnings[0], format!("MachineDeployment md: {text}"));
    for nothing in [json!({}), json!({"metadata": {"labels": {"of-the-user": "yes"}}})] {
        assert_eq!(dry(&life, "v1beta2", &nothing).await.1, [""; 0], "{nothing}");
    }
}

#[tokio::test]
async fn a_rollout_that_goes_on_without_the_change_is_no_effect_of_it() {
    let life = Life::start("dry-run-rolling", SECRET).await;
    life.until_complete(2).await;
    life.change(to("second")).await;
    let label = json!({"metadata": {"labels": {"of-the-user": "yes"}}});
    assert_eq!(dry(&life, "v1beta2", &label).await.1, [""; 0]);
    assert_eq!(dry(&life, "v1beta2", &to("first")).await.1, [""; 0], "it takes the rollout back");
    let (_, warnings) = dry(&life, "v1beta2", &json!({"spec": {"replicas": 3}})).await;
    assert!(warnings[0].starts_with("MachineDeployment md: 2 Machines are replaced"), "{warnings:#?}");
}

#[tokio::test]
async fn what_holds_up_a_rollout_and_a_surge_that_never_fits_are_in_the_warnings() {
    let life = Life::start("dry-run-held", SECRET).await;
    life.until_complete(2).await;
    let (_, warnings) = dry(&life, "v1beta2", &to("nowhere")).await;
    assert!(warnings[0].starts_with("MachineDeployment md: 2 Machines are kept, but out of date: "));
    let missing = "MachineDeployment md: the steps wait: OpenStackMachineTemplate nowhere does not exist";
    assert!(warnings[1].starts_with(missing), "{warnings:#?}");

    let clusters: Api<Cluster> = Api::namespaced(life.client.clone(), life.namespace);
    let pause = Patch::Merge(json!({"spec": {"paused": true}}));
    clusters.patch("c", &PatchParams::default(), &pause).await.unwrap();
    create_template(&life, &life.world.cloud.clouds_yaml("demo")).await;
    assert!(life.world.cloud.set_quota("demo", "instances", 2));
    let (_, warnings) = dry(&life, "v1beta2", &to("third")).await;
    let has = |beginning: &str| warnings.iter().any(|text| text.starts_with(beginning));
    assert!(has("MachineDeployment md: the steps wait: Cluster spec.paused is set to true"), "{warnings:#?}");
    let never = "MachineDeployment md: spec.replicas 2 with maxSurge 1 can never fit the quota: in project ";
    assert!(has(never), "{warnings:#?}");
}

#[tokio::test]
async fn a_cloud_that_does_not_answer_is_a_warning_and_delays_a_dry_run_for_a_short_time() {
    let life = Life::start("dry-run-cloud", SECRET).await;
    life.until_complete(2).await;
    // The system accepts connections, and no program reads them.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let clouds = life.world.cloud.clouds_yaml("demo");
    let url = format!("http://{}/v3", silent.local_addr().unwrap());
    create_template(&life, &clouds.replace(&life.world.cloud.auth_url(), &url)).await;
    let begun = Instant::now();
    let (_, warnings) = dry(&life, "v1beta2", &to("third")).await;
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert!(warnings[0].starts_with("MachineDeployment md: 2 Machines are replaced"), "{warnings:#?}");
    let compared = "MachineDeployment md: maxSurge was not compared with the quota of the project: ";
    assert!(warnings[1].starts_with(compared), "{warnings:#?}");
}

#[tokio::test]
async fn a_dry_run_of_a_template_has_the_plans_of_its_users() {
    let life = Life::start("dry-run-template", SECRET).await;
    life.until_complete(2).await;
    let api: Api<OpenStackMachineTemplate> = Api::namespaced(life.client.clone(), life.namespace);
    let before = api.get("first").await.unwrap().resource_version();
    let group = "/apis/infrastructure.cluster.x-k8s.io/v1beta2/namespaces";
    let path = format!("{group}/{}/openstackmachinetemplates/first", life.namespace);
    let machines = stored(&life).await;
    let flavor = json!({"spec": {"template": {"spec": {"flavor": {"filter": {"name": "m1.large"}}}}}});
    let (object, warnings) = dry_run(&life.client, &path, &flavor).await.unwrap();
    assert_eq!(object["metadata"]["annotations"]["capstan.dev/template-revision"], "2");
    assert!(warnings.iter().any(|text| text == REPLACED), "{warnings:#?}");
    let (_, warnings) =
        dry_run(&life.client, &path, &json!({"metadata": {"labels": {"a": "b"}}})).await.unwrap();
    assert_eq!(warnings, [""; 0], "it is no edit");
    assert_eq!(api.get("first").await.unwrap().resource_version(), before);
    assert_eq!(stored(&life).await, machines);
}
