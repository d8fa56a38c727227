//! All controllers with their watches: a change of a MachineDeployment reaches its servers, and it goes with all of them.

use std::time::{Duration, Instant};

use apiserver_types::{Machine, MachineDeployment, MachineSet, OpenStackMachine, OpenStackMachineTemplate};
use kube::Api;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use tests_scenarios::World;
use tokio_util::sync::CancellationToken;

use crate::machines::list;
use crate::{MANIFEST, SECRET};

/// Namespace of the test.
const NAMESPACE: &str = "watches";

/// Cluster with a network, in which servers can be created.
const CLUSTER: &str = include_str!("../cluster.yaml");

/// Timeout of each wait: shorter than the interval after which a controller looks without an event.
const LIMIT: Duration = Duration::from_secs(60);

async fn until(what: &str, settled: impl AsyncFn() -> bool) {
    let begun = Instant::now();
    while !settled().await {
        assert!(begun.elapsed() < LIMIT, "timed out, waiting until {what}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

#[tokio::test]
async fn changes_of_a_deployment_reach_its_servers_by_watches() {
    let world = World::start().await.unwrap();
    let clouds = world.cloud.clouds_yaml("demo");
    let clouds: String = clouds.lines().map(|line| format!("    {line}\n")).collect();
    world.create(&CLUSTER.replace("NAMESPACE", NAMESPACE).replace("CLOUDS\n", &clouds)).await.unwrap();
    let documents: Vec<&str> = MANIFEST.split("---\n").skip(2).collect();
    let manifest = documents.join("---\n").replace("NAMESPACE", NAMESPACE).replace("BOOTSTRAP", SECRET);
    world.create(&manifest).await.unwrap();
    let (client, term) = (world.admin(), CancellationToken::new());
    let mut running = tests_scenarios::run(&world, &term);
    let workers = async || -> Vec<Machine> {
        let all: Vec<Machine> = list(&client, NAMESPACE).await;
        all.into_iter().filter(|it| kube::ResourceExt::labels(it).contains_key("team")).collect()
    };
    let provisioned = async |count: usize| {
        let machines = workers().await;
        let is_ready = |it: &Machine| it.condition("InfrastructureReady").is_some_and(|ready| ready.holds());
        machines.len() == count && machines.iter().all(is_ready)
    };
    until("two servers are there", async || provisioned(2).await).await;
    let api: Api<MachineDeployment> = Api::namespaced(client.clone(), NAMESPACE);
    let more = Patch::Merge(json!({"spec": {"replicas": 3}}));
    api.patch_scale("md", &PatchParams::default(), &more).await.unwrap();
    until("three servers are there", async || provisioned(3).await).await;
    let label = Patch::Merge(json!({"spec": {"template": {"metadata": {"labels": {"stage": "test"}}}}}));
    api.patch("md", &PatchParams::default(), &label).await.unwrap();
    until("the servers have a label", async || {
        let servers: Vec<OpenStackMachine> = list(&client, NAMESPACE).await;
        servers.iter().filter(|it| kube::ResourceExt::labels(*it).contains_key("stage")).count() == 3
    })
    .await;
    let templates: Api<OpenStackMachineTemplate> = Api::namespaced(client.clone(), NAMESPACE);
    let larger = json!({"spec": {"template": {"spec": {"flavor": {"filter": {"name": "m1.medium"}}}}}});
    templates.patch("first", &PatchParams::default(), &Patch::Merge(&larger)).await.unwrap();
    until("a server of the edited template is there", async || {
        let servers: Vec<OpenStackMachine> = list(&client, NAMESPACE).await;
        servers.iter().any(|it| json!(it.spec)["flavor"]["filter"]["name"] == "m1.medium")
    })
    .await;
    until("the other Machines are not up to date", async || {
        let is_old = |it: &Machine| {
            let condition = it.condition("UpToDate");
            condition.is_some_and(|it| it.message == "* OpenStackMachine is not up-to-date")
        };
        workers().await.iter().filter(|it| is_old(it)).count() == 3
    })
    .await;
    api.delete("md", &DeleteParams::background()).await.unwrap();
    until("everything of the deployment is deleted", async || {
        let deployments: Vec<MachineDeployment> = list(&client, NAMESPACE).await;
        let sets: Vec<MachineSet> = list(&client, NAMESPACE).await;
        let servers: Vec<OpenStackMachine> = list(&client, NAMESPACE).await;
        deployments.is_empty() && sets.is_empty() && workers().await.is_empty() && servers.len() == 1
    })
    .await;
    term.cancel();
    while running.join_next().await.is_some() {}
}
