//! Hooks in the life of a Cluster: the calls in their order, and what they hold up.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use apiserver_types::{Cluster, KubeadmControlPlane, OpenStackCluster};
use controllers_extensions::Hook;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::{Value, json};
use tests_scenarios::{CrashPoint, Reply, Side};

use crate::life_testbed::{HOOKS, Testbed, handler, text};

/// Annotation with the hooks that are to come.
const PENDING: &str = "runtime.cluster.x-k8s.io/pending-hooks";

/// Annotation of a Cluster whose deletion may proceed.
const OK_TO_DELETE: &str = "runtime.cluster.x-k8s.io/ok-to-delete";

#[tokio::test]
async fn servers_are_called_in_upstreams_order_with_the_versions_of_each_step() {
    let mut testbed = Testbed::start("ordered", "v1.31.0", &HOOKS, "Fail").await;
    testbed.passes(2).await;
    assert_eq!(testbed.log(), ["BeforeClusterCreate"]);
    assert_eq!(testbed.annotation(PENDING).await.as_deref(), Some("AfterControlPlaneInitialized"));
    drop(testbed);

    let mut testbed = Testbed::done("ordered", "v1.31.0", &HOOKS, "Fail").await;
    let calls: Vec<String> = testbed.server.all_calls().iter().map(text).collect();
    assert_eq!(calls, ["BeforeClusterCreate", "AfterControlPlaneInitialized"]);
    assert_eq!(testbed.annotation(PENDING).await, None);

    // A plan calls no hook.
    let path = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ordered/clusters/blue/plan";
    let change = json!({"spec": {"topology": {"version": "v1.33.0"}}});
    let plan: Value = testbed.world.post(path, &change).await.unwrap();
    assert_eq!(plan["steps"].as_array().unwrap().len(), 3, "{plan:#}");
    assert_eq!(testbed.log(), [""; 0]);

    testbed.demand("v1.33.0").await.unwrap();
    testbed.play().await;
    let expected = [
        "BeforeClusterUpgrade v1.31.0 v1.33.0",
        "BeforeControlPlaneUpgrade v1.31.0 v1.32.0",
        "AfterControlPlaneUpgrade v1.32.0",
        "BeforeControlPlaneUpgrade v1.32.0 v1.33.0",
        "AfterControlPlaneUpgrade v1.33.0",
        "BeforeWorkersUpgrade v1.31.0 v1.33.0",
        "AfterWorkersUpgrade v1.33.0",
        "AfterClusterUpgrade v1.33.0",
    ];
    assert_eq!(testbed.log(), expected);
    assert_eq!(testbed.condition().await, "True ReconcileSucceeded ");
    assert_eq!(testbed.annotation(PENDING).await, None);
    let calls = testbed.server.calls(Hook::BeforeClusterUpgrade, &handler(Hook::BeforeClusterUpgrade));
    let message = &calls[0].message;
    assert_eq!(message["controlPlaneUpgrades"], json!([{"version": "v1.32.0"}, {"version": "v1.33.0"}]));
    assert_eq!(message["workersUpgrades"], json!([{"version": "v1.33.0"}]));
    let cluster = &message["cluster"];
    assert_eq!((&cluster["kind"], &cluster["status"]), (&json!("Cluster"), &Value::Null));
    let calls =
        testbed.server.calls(Hook::AfterControlPlaneUpgrade, &handler(Hook::AfterControlPlaneUpgrade));
    assert_eq!(calls[0].message["controlPlaneUpgrades"], json!([{"version": "v1.33.0"}]), "the rest");
}

#[tokio::test]
async fn a_creation_waits_for_a_server_which_is_called_again_only_after_its_interval() {
    let mut testbed = Testbed::start("created", "v1.33.0", &[Hook::BeforeClusterCreate], "Fail").await;
    testbed.server.answer(Hook::BeforeClusterCreate, &handler(Hook::BeforeClusterCreate), |_| {
        Reply::retry(5, "quota is checked")
    });
    testbed.passes(2).await;
    let expected = "False ClusterCreating Following hooks are blocking Cluster topology creation: \
                    BeforeClusterCreate: quota is checked";
    assert_eq!(testbed.condition().await, expected);
    assert_eq!(testbed.owned::<OpenStackCluster>().await.len(), 0);
    assert_eq!(testbed.log().len(), 1, "its interval lasts");
    assert_eq!(testbed.annotation(PENDING).await, None);
    // Another process does not know the interval.
    testbed.restart(&Arc::new(CrashPoint::never()));
    testbed.server.answer(Hook::BeforeClusterCreate, &handler(Hook::BeforeClusterCreate), |_| {
        Reply::retry(5, "nearly")
    });
    testbed.passes(1).await;
    assert!(testbed.condition().await.ends_with("BeforeClusterCreate: nearly"));
    testbed
        .server
        .answer(Hook::BeforeClusterCreate, &handler(Hook::BeforeClusterCreate), |_| Reply::success());
    testbed.passes(1).await;
    assert_eq!(testbed.log().len(), 1);
    tokio::time::sleep(Duration::from_secs(5)).await;
    testbed.passes(2).await;
    assert_eq!(testbed.owned::<OpenStackCluster>().await.len(), 1, "{}", testbed.condition().await);
    assert_eq!(testbed.log().len(), 1, "the Cluster exists then");
}

#[tokio::test]
async fn an_annotation_holds_an_upgrade_before_its_servers_do_and_without_them_it_goes_on() {
    let mut testbed = Testbed::done("beside", "v1.33.0", &[Hook::BeforeClusterUpgrade], "Fail").await;
    testbed.server.answer(Hook::BeforeClusterUpgrade, &handler(Hook::BeforeClusterUpgrade), |_| {
        Reply::retry(600, "no window")
    });
    let hook = "before-upgrade.hook.cluster.cluster.x-k8s.io/backup";
    testbed.change(json!({"metadata": {"annotations": {hook: ""}}})).await.unwrap();
    testbed.demand("v1.34.0").await.unwrap();
    testbed.passes(2).await;
    let condition = testbed.condition().await;
    assert!(condition.contains(&format!("BeforeClusterUpgrade: annotation {hook} is set")), "{condition}");
    assert_eq!(testbed.log(), [""; 0]);
    testbed.change(json!({"metadata": {"annotations": {hook: null}}})).await.unwrap();
    testbed.play().await;
    let expected = "False ClusterUpgrading Cluster is upgrading to v1.34.0\n  * Following hooks are blocking \
                    upgrade: BeforeClusterUpgrade: no window\n  * KubeadmControlPlane pending upgrade to ";
    let condition = testbed.condition().await;
    assert!(condition.starts_with(expected), "{condition}");
    assert_eq!(testbed.versions().await, ["v1.33.0", "v1.33.0"]);
    assert_eq!(testbed.log(), ["BeforeClusterUpgrade v1.33.0 v1.34.0"]);
    testbed.unregister().await;
    testbed.play().await;
    assert_eq!(testbed.versions().await, ["v1.34.0", "v1.34.0"]);
    assert_eq!(testbed.condition().await, "True ReconcileSucceeded ");
}

#[tokio::test]
async fn a_server_that_fails_holds_an_upgrade_and_its_policy_ignores_only_silence() {
    let hooks = [Hook::BeforeClusterUpgrade, Hook::AfterControlPlaneUpgrade];
    let testbed = Testbed::done("failing", "v1.33.0", &hooks, "Fail").await;
    testbed.server.set_down(true);
    testbed.demand("v1.34.0").await.unwrap();
    testbed.play().await;
    let condition = testbed.condition().await;
    let expected = "False ReconcileFailed extension handler beforeclusterupgrade.ext of ExtensionConfig ext, hook \
                    BeforeClusterUpgrade: ";
    assert!(condition.starts_with(expected), "{condition}");
    assert_eq!(testbed.versions().await, ["v1.33.0", "v1.33.0"]);
    testbed.server.set_down(false);
    testbed.server.answer(Hook::AfterControlPlaneUpgrade, &handler(Hook::AfterControlPlaneUpgrade), |_| {
        Reply::failure("etcd has no backup")
    });
    testbed.play().await;
    let condition = testbed.condition().await;
    let expected = "hook AfterControlPlaneUpgrade: the server refused: etcd has no backup";
    assert!(condition.contains(expected), "{condition}");
    assert_eq!(testbed.versions().await, ["v1.34.0", "v1.33.0"]);
    let calls = testbed.server.calls(Hook::BeforeClusterUpgrade, &handler(Hook::BeforeClusterUpgrade)).len();
    assert_eq!(calls, 1, "what it has agreed to is kept");
    testbed.server.answer(Hook::AfterControlPlaneUpgrade, &handler(Hook::AfterControlPlaneUpgrade), |_| {
        Reply::success()
    });
    testbed.play().await;
    assert_eq!(testbed.versions().await, ["v1.34.0", "v1.34.0"]);

    let testbed = Testbed::done("ignored", "v1.33.0", &hooks, "Ignore").await;
    testbed.server.answer(Hook::BeforeClusterUpgrade, &handler(Hook::BeforeClusterUpgrade), |_| {
        Reply::failure("no window")
    });
    testbed.demand("v1.34.0").await.unwrap();
    testbed.play().await;
    assert_eq!(testbed.versions().await, ["v1.33.0", "v1.33.0"], "a refusal is not ignored");
    testbed.server.set_down(true);
    testbed.play().await;
    assert_eq!(testbed.versions().await, ["v1.34.0", "v1.34.0"]);
    assert_eq!(testbed.condition().await, "True ReconcileSucceeded ");
}

/// Other controllers write the status while a server takes its time. Each such write made the pass begin again, with another
/// call.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_status_that_is_written_during_a_call_does_not_repeat_the_call() {
    let hook = Hook::BeforeClusterUpgrade;
    let mut testbed = Testbed::done("written", "v1.33.0", &[hook], "Fail").await;
    let is_written = Arc::new(AtomicBool::new(false));
    let end = Arc::clone(&is_written);
    testbed.server.answer(hook, &handler(hook), move |_| {
        while !end.load(Ordering::SeqCst) {
            std::thread::sleep(Duration::from_millis(5));
        }
        Reply::success()
    });
    testbed.demand("v1.34.0").await.unwrap();
    let write = async {
        let begun = Instant::now();
        while testbed.server.calls(hook, &handler(hook)).is_empty()
            && begun.elapsed() < Duration::from_secs(60)
        {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        let change = Patch::Merge(json!({"status": {"phase": "Provisioned"}}));
        let written = testbed.api::<Cluster>().patch_status("blue", &PatchParams::default(), &change).await;
        is_written.store(true, Ordering::SeqCst);
        written.unwrap();
    };
    tokio::join!(testbed.passes(1), write);
    assert_eq!(testbed.versions().await, ["v1.34.0", "v1.33.0"], "{}", testbed.condition().await);
    testbed.play().await;
    assert_eq!(testbed.log(), ["BeforeClusterUpgrade v1.33.0 v1.34.0"]);
}

#[tokio::test]
async fn the_next_upgrade_waits_for_the_servers_of_the_last_one() {
    let testbed = Testbed::done("after", "v1.33.0", &[Hook::AfterClusterUpgrade], "Fail").await;
    testbed.server.answer(Hook::AfterClusterUpgrade, &handler(Hook::AfterClusterUpgrade), |_| {
        Reply::retry(600, "report")
    });
    testbed.demand("v1.34.0").await.unwrap();
    testbed.play().await;
    assert_eq!(testbed.versions().await, ["v1.34.0", "v1.34.0"]);
    let expected = "False ClusterUpgrading Cluster is upgrading to v1.34.0\n  * Following hooks are blocking \
                    upgrade: AfterClusterUpgrade: report";
    assert_eq!(testbed.condition().await, expected);
    let refused = testbed.demand("v1.35.0").await.unwrap_err();
    assert!(refused.contains("when the \"AfterClusterUpgrade\" hook is still blocking"), "{refused}");
}

#[tokio::test]
async fn a_deletion_waits_until_the_server_agrees() {
    let mut testbed = Testbed::done("deleted", "v1.33.0", &[Hook::BeforeClusterDelete], "Fail").await;
    testbed.server.answer(Hook::BeforeClusterDelete, &handler(Hook::BeforeClusterDelete), |_| {
        Reply::retry(600, "backup")
    });
    let finalizers = json!({"metadata": {"finalizers": ["cluster.cluster.x-k8s.io"]}});
    testbed.change(finalizers).await.unwrap();
    testbed.api::<Cluster>().delete("blue", &DeleteParams::default()).await.unwrap();
    testbed.passes(2).await;
    let expected = "False Deleting Cluster is deleting. Following hooks are blocking delete: \
                    BeforeClusterDelete: backup";
    assert_eq!(testbed.condition().await, expected);
    assert_eq!(testbed.annotation(OK_TO_DELETE).await, None);
    assert_eq!(testbed.log(), ["BeforeClusterDelete"]);
    testbed.restart(&Arc::new(CrashPoint::never()));
    testbed.server.set_down(true);
    testbed.passes(1).await;
    let condition = testbed.condition().await;
    let expected = "False ReconcileFailed extension handler beforeclusterdelete.ext of ";
    assert!(condition.starts_with(expected), "{condition}");
    assert_eq!(testbed.annotation(OK_TO_DELETE).await, None);
    testbed.server.set_down(false);
    testbed
        .server
        .answer(Hook::BeforeClusterDelete, &handler(Hook::BeforeClusterDelete), |_| Reply::success());
    testbed.passes(2).await;
    assert_eq!(testbed.annotation(OK_TO_DELETE).await.as_deref(), Some(""));
    assert_eq!(testbed.condition().await, "False Deleting Cluster is deleting");
    assert_eq!(testbed.log(), ["BeforeClusterDelete"], "not again");
}

/// Plays an upgrade whose first process crashes.
async fn upgraded(crash: &Arc<CrashPoint>) {
    let mut testbed = Testbed::done("crash", "v1.33.0", &HOOKS, "Fail").await;
    testbed.demand("v1.34.0").await.unwrap();
    testbed.restart(crash);
    tokio::select! {
        () = crash.crashed() => {}
        () = testbed.play() => {}
    }
    testbed.restart(&Arc::new(CrashPoint::never()));
    testbed.play().await;
    let last = crash.effects().last().cloned().unwrap_or_default();
    assert_eq!(testbed.versions().await, ["v1.34.0", "v1.34.0"], "{last}");
    assert_eq!(testbed.condition().await, "True ReconcileSucceeded ", "{last}");
    assert_eq!(testbed.annotation(PENDING).await, None, "{last}");
    assert_eq!(testbed.owned::<KubeadmControlPlane>().await.len(), 1);
    let mut first: Vec<String> = Vec::new();
    for call in testbed.log() {
        if !first.contains(&call) {
            first.push(call);
        }
    }
    let expected = [
        "BeforeClusterUpgrade v1.33.0 v1.34.0",
        "BeforeControlPlaneUpgrade v1.33.0 v1.34.0",
        "AfterControlPlaneUpgrade v1.34.0",
        "BeforeWorkersUpgrade v1.33.0 v1.34.0",
        "AfterWorkersUpgrade v1.34.0",
        "AfterClusterUpgrade v1.34.0",
    ];
    assert_eq!(first, expected, "{last}");
}

#[tokio::test]
async fn a_crash_at_any_write_of_an_upgrade_repeats_calls_at_most_and_none_comes_too_early() {
    let never = Arc::new(CrashPoint::never());
    Box::pin(upgraded(&never)).await;
    let steps = never.effects().len();
    assert!(steps > 6, "{:#?}", never.effects());
    for side in [Side::Before, Side::After] {
        for n in 0..steps {
            let crash = Arc::new(CrashPoint::at(n, side));
            Box::pin(upgraded(&crash)).await;
            assert!(crash.has_crashed(), "step {n}");
        }
    }
}
