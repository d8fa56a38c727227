//! Creation and deletion of a cluster, with injected failures or without.

use std::sync::Arc;

use anyhow::{Context, ensure};
use apiserver_types::{Cluster, ClusterPhase, Machine, OpenStackCluster, OpenStackMachine};
use k8s_openapi::api::core::v1::Event;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client};
use serde_json::{Value, json};
use tests_scenarios::{Controllers, CrashPoint, World};

use crate::Case;
use crate::injection::{Spot, spots};

/// Password of the project's user, which is also its name.
const PASSWORD: &str = "demo";

/// Run without failures: its calls, and the project's resources between creation and deletion.
#[derive(Debug)]
pub(crate) struct CleanRun {
    pub(crate) creating: Vec<Spot>,
    pub(crate) deleting: Vec<Spot>,
    counts: String,
    empty: String,
}

fn manifest(world: &World, namespace: &str) -> String {
    let clouds = world.cloud.clouds_yaml("demo");
    let clouds: String = clouds.lines().map(|line| format!("    {line}\n")).collect();
    include_str!("../cluster.yaml").replace("NAMESPACE", namespace).replace("CLOUDS\n", &clouds)
}

async fn create_cluster(world: &World, namespace: &str) -> anyhow::Result<()> {
    world.create(&manifest(world, namespace)).await?;
    let controllers = Controllers::start(world, &Arc::new(CrashPoint::never()));
    controllers.until("the cluster is provisioned", |client| is_up(client, namespace.to_owned())).await
}

async fn delete_cluster(world: &World, namespace: &str) -> anyhow::Result<()> {
    let clusters: Api<Cluster> = Api::namespaced(world.admin(), namespace);
    clusters.delete("c", &DeleteParams::background()).await?;
    let controllers = Controllers::start(world, &Arc::new(CrashPoint::never()));
    controllers.until("the cluster is deleted", |client| is_gone(client, namespace.to_owned())).await
}

/// Creates and deletes a cluster without failures.
pub(crate) async fn run_without_failures() -> anyhow::Result<CleanRun> {
    let world = World::start().await?;
    let empty = world.counts();
    create_cluster(&world, "without-failures").await?;
    let (creating, counts) = (spots(&world.cloud.log()), world.counts());
    world.cloud.clear_log();
    delete_cluster(&world, "without-failures").await?;
    ensure!(world.counts() == empty, "a run without failures left {}", world.counts());
    Ok(CleanRun { creating, deleting: spots(&world.cloud.log()), counts, empty })
}

/// Creates and deletes a cluster with failures.
pub(crate) async fn run_with_failures(world: &World, whole: &CleanRun, case: &Case) -> anyhow::Result<()> {
    let namespace = format!("case-{}", case.number);
    inject_failure(world, case.creating.as_ref(), case);
    create_cluster(world, &namespace).await.context("creating the cluster")?;
    ensure!(world.counts() == whole.counts, "the project has {} instead of {}", world.counts(), whole.counts);
    check_failure_occurred(world, case.creating.as_ref(), case)?;
    inject_failure(world, case.deleting.as_ref(), case);
    delete_cluster(world, &namespace).await.context("deleting the cluster")?;
    ensure!(world.counts() == whole.empty, "left are {} instead of {}", world.counts(), whole.empty);
    check_failure_occurred(world, case.deleting.as_ref(), case)?;
    let events: Api<Event> = Api::namespaced(world.admin(), &namespace);
    for event in events.list(&ListParams::default()).await? {
        is_clean(&json!({"message": event.message, "reason": event.reason}))?;
    }
    Ok(())
}

fn inject_failure(world: &World, spot: Option<&Spot>, case: &Case) {
    world.cloud.clear_log();
    world.cloud.clear_faults();
    if let Some(spot) = spot {
        spot.inject(world, case.mode);
    }
}

fn check_failure_occurred(world: &World, spot: Option<&Spot>, case: &Case) -> anyhow::Result<()> {
    let hit = spot.is_none_or(|spot| spot.was_hit(world, case.mode));
    ensure!(hit, "the injected failure hit no call: {spot:?}");
    Ok(())
}

async fn is_up(client: Client, namespace: String) -> anyhow::Result<bool> {
    let all = ListParams::default();
    let clusters = Api::<Cluster>::namespaced(client.clone(), &namespace).list(&all).await?;
    let machines = Api::<Machine>::namespaced(client.clone(), &namespace).list(&all).await?;
    statuses_are_clean(client, &namespace).await?;
    let provisioned = |cluster: &Cluster| {
        cluster.status.as_ref().and_then(|status| status.phase) == Some(ClusterPhase::Provisioned)
    };
    let ready = |machine: &Machine| machine.condition("InfrastructureReady").is_some_and(|it| it.holds());
    Ok(clusters.iter().all(provisioned) && machines.iter().all(ready))
}

async fn is_gone(client: Client, namespace: String) -> anyhow::Result<bool> {
    statuses_are_clean(client.clone(), &namespace).await?;
    let clusters = Api::<Cluster>::namespaced(client, &namespace);
    Ok(clusters.list(&ListParams::default()).await?.items.is_empty())
}

/// Checks that no status contains a secret or markup.
async fn statuses_are_clean(client: Client, namespace: &str) -> anyhow::Result<()> {
    let all = ListParams::default();
    for object in Api::<Cluster>::namespaced(client.clone(), namespace).list(&all).await? {
        is_clean(&json!(object.status))?;
    }
    for object in Api::<Machine>::namespaced(client.clone(), namespace).list(&all).await? {
        is_clean(&json!(object.status))?;
    }
    for object in Api::<OpenStackCluster>::namespaced(client.clone(), namespace).list(&all).await? {
        is_clean(&json!(object.status))?;
    }
    for object in Api::<OpenStackMachine>::namespaced(client, namespace).list(&all).await? {
        is_clean(&json!(object.status))?;
    }
    Ok(())
}

fn is_clean(said: &Value) -> anyhow::Result<()> {
    let text = said.to_string();
    let mut tags = text.match_indices('<').filter_map(|(at, _)| text.get(at + 1..)?.chars().next());
    ensure!(!tags.any(|next| next == '/' || next.is_ascii_alphabetic()), "markup in {text}");
    ensure!(!text.contains(PASSWORD), "the password in {text}");
    Ok(())
}
