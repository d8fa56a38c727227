//! Tests of controllers that are cut before and after every single step, and of others that continue.
#![allow(clippy::unwrap_used, reason = "a test says what is wrong by panicking")]

use std::sync::Arc;

use apiserver_types::{Cluster, ClusterPhase, Machine, MachinePhase};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client, ResourceExt};
use tests_scenarios::{Controllers, Fuse, Side, World};

/// Cluster with everything that can be created for one: network, subnet, router, groups, floating IP; and
/// a control plane Machine with two ports and two volumes.
const MANIFEST: &str = include_str!("cluster.yaml");

fn manifest(world: &World, namespace: &str) -> String {
    let clouds = world.cloud.clouds_yaml("demo");
    let clouds: String = clouds.lines().map(|line| format!("    {line}\n")).collect();
    MANIFEST.replace("NAMESPACE", namespace).replace("CLOUDS\n", &clouds)
}

async fn provisioned(client: Client, namespace: String) -> anyhow::Result<bool> {
    let clusters =
        Api::<Cluster>::namespaced(client.clone(), &namespace).list(&ListParams::default()).await?;
    let machines = Api::<Machine>::namespaced(client, &namespace).list(&ListParams::default()).await?;
    let phase = |cluster: &Cluster| cluster.status.as_ref().and_then(|status| status.phase);
    let machine_phase = |machine: &Machine| machine.status.as_ref().and_then(|status| status.phase);
    Ok(clusters.iter().all(|cluster| phase(cluster) == Some(ClusterPhase::Provisioned))
        && machines.iter().all(|machine| {
            machine_phase(machine) == Some(MachinePhase::Provisioned)
                && machine.condition("InfrastructureReady").is_some_and(|it| it.holds())
        }))
}

async fn gone(client: Client, namespace: String) -> anyhow::Result<bool> {
    Ok(Api::<Cluster>::namespaced(client, &namespace).list(&ListParams::default()).await?.items.is_empty())
}

/// Creates and deletes a cluster, with the fuses in the processes that do so. Returns the resources of the
/// complete cluster.
async fn life(
    world: &World,
    namespace: &str,
    create: Arc<Fuse>,
    delete: Arc<Fuse>,
    whole: Option<&str>,
) -> String {
    world.create(&manifest(world, namespace)).await.unwrap();
    let (client, name) = (world.admin(), namespace.to_owned());
    let is_up = |client: Client| provisioned(client, name.clone());
    let first = Controllers::start(world, &create);
    tokio::select! {
        () = create.blows() => {}
        result = first.until("the cluster is provisioned", is_up) => result.unwrap(),
    }
    drop(first);
    let second = Controllers::start(world, &Arc::new(Fuse::never()));
    second.until("the cluster is provisioned after the cut", is_up).await.unwrap();
    let up = world.counts();
    if let Some(whole) = whole {
        assert_eq!(up, whole, "in {namespace}, cut at {:?}", create.effects().last());
    }
    let clusters: Api<Cluster> = Api::namespaced(client, namespace);
    for cluster in clusters.list(&ListParams::default()).await.unwrap() {
        clusters.delete(&cluster.name_any(), &DeleteParams::background()).await.unwrap();
    }
    let is_gone = |client: Client| gone(client, name.clone());
    let third = Controllers::start(world, &delete);
    tokio::select! {
        () = delete.blows() => {}
        result = third.until("the cluster is deleted", is_gone) => result.unwrap(),
    }
    drop(third);
    second.until("the cluster is deleted after the cut", is_gone).await.unwrap();
    up
}

#[tokio::test]
async fn no_cut_before_a_step_loses_or_doubles_anything() {
    cut_everywhere(Side::Before).await;
}

#[tokio::test]
async fn no_cut_after_a_step_loses_or_doubles_anything() {
    cut_everywhere(Side::After).await;
}

async fn cut_everywhere(side: Side) {
    let world = World::start().await.unwrap();
    let empty = world.counts();
    let (create, delete) = (Arc::new(Fuse::never()), Arc::new(Fuse::never()));
    let whole = life(&world, "whole", Arc::clone(&create), Arc::clone(&delete), None).await;
    assert_eq!(world.counts(), empty, "a run without cuts left resources behind");
    let (creating, deleting) = (create.effects(), delete.effects());
    assert!(creating.len() > 30 && deleting.len() > 15, "{creating:#?} {deleting:#?}");
    for n in 0..creating.len().max(deleting.len()) {
        let namespace = format!("cut-{n}-{side:?}").to_lowercase();
        let create = if n < creating.len() { Fuse::at(n, side) } else { Fuse::never() };
        let delete = if n < deleting.len() { Fuse::at(n, side) } else { Fuse::never() };
        let (create, delete) = (Arc::new(create), Arc::new(delete));
        life(&world, &namespace, Arc::clone(&create), Arc::clone(&delete), Some(&whole)).await;
        assert!(n >= creating.len() || create.is_blown(), "{namespace}: the creation was not cut");
        assert_eq!(world.counts(), empty, "{namespace}: cut at {:?}", delete.effects().last());
    }
    eprintln!(
        "{} steps of a creation and {} steps of a deletion, each cut {side:?}",
        creating.len(),
        deleting.len()
    );
}
