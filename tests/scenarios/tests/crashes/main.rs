//! Tests of controllers that crash before and after every single step, and of others that continue.
#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod late_calls;

use std::sync::Arc;

use apiserver_types::{Cluster, ClusterPhase, Machine, MachinePhase};
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client, ResourceExt};
use tests_scenarios::{Controllers, CrashPoint, Side, World};

/// Cluster with everything that can be created for one: network, subnet, router, groups, floating IP; and
/// a control plane Machine with two ports and two volumes.
const MANIFEST: &str = include_str!("../cluster.yaml");

/// Cluster with a load balancer of two ports, and a control plane Machine that is its member.
const BALANCED: &str = include_str!("../load_balancer.yaml");

fn manifest(world: &World, text: &str, namespace: &str) -> String {
    let clouds = world.cloud.clouds_yaml("demo");
    let clouds: String = clouds.lines().map(|line| format!("    {line}\n")).collect();
    text.replace("NAMESPACE", namespace).replace("CLOUDS\n", &clouds)
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

/// Creates and deletes a cluster, with crash points in the processes that do so. Returns the resources of the
/// complete cluster.
async fn create_and_delete(
    world: &World,
    text: &str,
    namespace: &str,
    create: Arc<CrashPoint>,
    delete: Arc<CrashPoint>,
    whole: Option<&str>,
) -> String {
    world.create(&manifest(world, text, namespace)).await.unwrap();
    let (client, name) = (world.admin(), namespace.to_owned());
    let is_up = |client: Client| provisioned(client, name.clone());
    let first = Controllers::start(world, &create);
    tokio::select! {
        () = create.crashed() => {}
        result = first.until("the cluster is provisioned", is_up) => result.unwrap(),
    }
    drop(first);
    let second = Controllers::start(world, &Arc::new(CrashPoint::never()));
    let crash = format!("in {namespace}, crash at {:?}", create.effects().last());
    let result = second.until("the cluster is provisioned after the crash", is_up).await;
    assert!(result.is_ok(), "{result:?} {crash}");
    let up = world.counts();
    if let Some(whole) = whole {
        assert_eq!(up, whole, "in {namespace}, crash at {:?}", create.effects().last());
    }
    let clusters: Api<Cluster> = Api::namespaced(client, namespace);
    for cluster in clusters.list(&ListParams::default()).await.unwrap() {
        clusters.delete(&cluster.name_any(), &DeleteParams::background()).await.unwrap();
    }
    let is_gone = |client: Client| gone(client, name.clone());
    let third = Controllers::start(world, &delete);
    tokio::select! {
        () = delete.crashed() => {}
        result = third.until("the cluster is deleted", is_gone) => result.unwrap(),
    }
    drop(third);
    second.until("the cluster is deleted after the crash", is_gone).await.unwrap();
    up
}

#[tokio::test]
async fn a_crash_before_any_step_neither_loses_nor_duplicates_resources() {
    Box::pin(crash_everywhere(MANIFEST, Side::Before)).await;
}

#[tokio::test]
async fn a_crash_before_any_step_of_a_load_balancer_neither_loses_nor_duplicates_resources() {
    Box::pin(crash_everywhere(BALANCED, Side::Before)).await;
}

#[tokio::test]
async fn a_crash_after_any_step_of_a_load_balancer_neither_loses_nor_duplicates_resources() {
    Box::pin(crash_everywhere(BALANCED, Side::After)).await;
}

#[tokio::test]
async fn a_crash_after_any_step_neither_loses_nor_duplicates_resources() {
    Box::pin(crash_everywhere(MANIFEST, Side::After)).await;
}

/// Returns true if a step is tested. Writes to the API are the same with a load balancer, which needs many passes.
fn is_selected(text: &str, effect: &str) -> bool {
    let in_cloud = !effect.contains(' ');
    text == MANIFEST || in_cloud
}

async fn crash_everywhere(text: &str, side: Side) {
    let world = World::start().await.unwrap();
    let empty = world.counts();
    let (create, delete) = (Arc::new(CrashPoint::never()), Arc::new(CrashPoint::never()));
    let whole =
        Box::pin(create_and_delete(&world, text, "whole", Arc::clone(&create), Arc::clone(&delete), None))
            .await;
    assert_eq!(world.counts(), empty, "a run without crashes left resources behind");
    let (creating, deleting) = (create.effects(), delete.effects());
    assert!(creating.len() > 30 && deleting.len() > 15, "{creating:#?} {deleting:#?}");
    for n in 0..creating.len().max(deleting.len()) {
        let namespace = format!("crash-{n}-{side:?}").to_lowercase();
        let crashes = |effects: &[String]| effects.get(n).is_some_and(|effect| is_selected(text, effect));
        let (creates, deletes) = (crashes(&creating), crashes(&deleting));
        if !creates && !deletes {
            continue;
        }
        let create = if creates { CrashPoint::at(n, side) } else { CrashPoint::never() };
        let delete = if deletes { CrashPoint::at(n, side) } else { CrashPoint::never() };
        let (create, delete) = (Arc::new(create), Arc::new(delete));
        Box::pin(create_and_delete(
            &world,
            text,
            &namespace,
            Arc::clone(&create),
            Arc::clone(&delete),
            Some(&whole),
        ))
        .await;
        assert!(!creates || create.has_crashed(), "{namespace}: the creation did not crash");
        assert_eq!(world.counts(), empty, "{namespace}: crash at {:?}", delete.effects().last());
    }
    eprintln!(
        "{} steps of a creation and {} steps of a deletion, with a crash {side:?} each that is selected",
        creating.len(),
        deleting.len()
    );
}
