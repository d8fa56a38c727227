//! Tests of a leader that freezes directly before a call to the cloud, after its permit. Another process takes over, and
//! then the late call reaches the cloud.

use std::sync::Arc;
use std::time::Duration;

use apiserver_types::Cluster;
use controllers_runtime::TermStart;
use kube::api::{DeleteParams, ListParams};
use kube::{Api, Client, ResourceExt};
use tests_scenarios::{Controllers, CrashPoint, Side, World};
use tokio::time::Instant;

use crate::{BALANCED, MANIFEST, gone, manifest, provisioned};

/// Age of the second term. The server waits for calls of the former leader for 65 seconds, so two are left.
const AGE: Duration = Duration::from_secs(63);

/// Time in which the second process looks for effects before the late call.
const LOOKING: Duration = Duration::from_millis(200);

fn second_term() -> TermStart {
    let now = Instant::now();
    TermStart::after_a_cut(2, now.checked_sub(AGE).unwrap_or(now))
}

/// Runs a process until it freezes, and another one that takes over. Then the late call of the first one happens, and the
/// second process finishes.
async fn with_late_call<F: Future<Output = anyhow::Result<bool>>>(
    world: &World,
    point: &Arc<CrashPoint>,
    what: &str,
    is_done: impl Fn(Client) -> F,
) {
    let first = Controllers::start_in(world, point, TermStart::in_order(1));
    let mut frozen = Box::pin(first.until(what, &is_done));
    tokio::select! {
        () = point.frozen() => {}
        result = &mut frozen => return result.unwrap(),
    }
    let second = Controllers::start_in(world, &Arc::new(CrashPoint::never()), second_term());
    let begun = Instant::now();
    second.until("the late call", async |_| Ok(begun.elapsed() > LOOKING)).await.unwrap();
    point.thaw();
    tokio::select! {
        () = point.crashed() => {}
        _ = &mut frozen => {}
    }
    drop(frozen);
    let result = second.until(what, &is_done).await;
    assert!(result.is_ok(), "{result:?}, late: {:?}", point.effects().last());
}

/// Creates and deletes a cluster, with a late call in each. Returns the resources of the complete cluster.
async fn create_and_delete(
    world: &World,
    text: &str,
    namespace: &str,
    [create, delete]: [&Arc<CrashPoint>; 2],
    whole: Option<&str>,
) -> String {
    let empty = world.counts();
    world.create(&manifest(world, text, namespace)).await.unwrap();
    let name = namespace.to_owned();
    let is_up = |client: Client| provisioned(client, name.clone());
    with_late_call(world, create, "the cluster is provisioned", is_up).await;
    let up = world.counts();
    if let Some(whole) = whole {
        assert_eq!(up, whole, "{namespace}: late: {:?}", create.effects().last());
    }
    let clusters: Api<Cluster> = Api::namespaced(world.admin(), namespace);
    for cluster in clusters.list(&ListParams::default()).await.unwrap() {
        clusters.delete(&cluster.name_any(), &DeleteParams::background()).await.unwrap();
    }
    let is_gone = |client: Client| gone(client, name.clone());
    with_late_call(world, delete, "the cluster is deleted", is_gone).await;
    let late = delete.effects();
    assert_eq!(world.counts(), empty, "{namespace}: late: {:?}", late.last());
    up
}

/// Returns true if a call is tested. Those for the network and the machine are the same with a load balancer.
fn is_selected(text: &str, effect: &str) -> bool {
    let of_balancer = ["load_balancer", "listener", "pool", "member", "health_monitor", "port"];
    // A write to the API is guarded by the version of its object.
    !effect.contains(' ') && (text == MANIFEST || of_balancer.iter().any(|part| effect.contains(part)))
}

/// Freezes at each call. `kinds` are begins of the names of calls that must be among them.
async fn late_everywhere(text: &str, kinds: &[&str]) {
    let world = World::start().await.unwrap();
    let never = || Arc::new(CrashPoint::never());
    let (create, delete) = (never(), never());
    let whole = create_and_delete(&world, text, "whole", [&create, &delete], None).await;
    let (creating, deleting) = (create.effects(), delete.effects());
    assert!(creating.len() > 30 && deleting.len() > 15, "{creating:#?} {deleting:#?}");
    let is_tested = |kind: &&str| {
        let mut all = creating.iter().chain(&deleting);
        all.any(|effect| effect.starts_with(kind) && is_selected(text, effect))
    };
    let untested: Vec<&&str> = kinds.iter().filter(|kind| !is_tested(kind)).collect();
    assert!(untested.is_empty(), "{untested:?} is in neither {creating:#?} nor {deleting:#?}");
    let mut count = 0;
    for n in 0..creating.len().max(deleting.len()) {
        let is_call = |effects: &[String]| effects.get(n).is_some_and(|effect| is_selected(text, effect));
        let point = |is_call: bool| {
            Arc::new(if is_call { CrashPoint::at(n, Side::Late) } else { CrashPoint::never() })
        };
        let (creates, deletes) = (is_call(&creating), is_call(&deleting));
        if !creates && !deletes {
            continue;
        }
        count += usize::from(creates) + usize::from(deletes);
        let (create, delete) = (point(creates), point(deletes));
        create_and_delete(&world, text, &format!("late-{n}"), [&create, &delete], Some(&whole)).await;
        assert!(!creates || create.has_crashed(), "{n}: the creation did not freeze");
    }
    eprintln!("{count} calls, each of them late once");
}

#[tokio::test]
async fn hv06_a_late_call_of_a_frozen_leader_leaves_one_of_each_thing() {
    let kinds = [
        "create_server",
        "delete_server",
        "create_volume",
        "create_port",
        "delete_port",
        "create_floating_ip",
        "delete_floating_ip",
    ];
    Box::pin(late_everywhere(MANIFEST, &kinds)).await;
}

#[tokio::test]
async fn hv06_a_late_call_for_a_load_balancer_leaves_one_of_each_thing() {
    let kinds = ["create_load_balancer", "create_member", "delete_load_balancer"];
    Box::pin(late_everywhere(BALANCED, &kinds)).await;
}
