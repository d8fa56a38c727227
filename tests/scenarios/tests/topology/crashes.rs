//! Crashes of the controller at each write: nothing is made twice, and no template is left over.

use std::sync::Arc;

use serde_json::json;
use tests_scenarios::{CrashPoint, Side, World};

use crate::manifest;
use crate::testbed::Testbed;

/// Makes a Cluster, and changes its class so that templates rotate.
async fn work(testbed: &Testbed) {
    testbed.settle().await;
    let reference = json!({"templateRef": {
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "OpenStackMachineTemplate", "name": "larger",
    }});
    testbed.control_plane_is_done().await;
    testbed.change_class(json!({"controlPlane": {"machineInfrastructure": reference}})).await;
    testbed.settle().await;
}

/// Works with a crash of the first process. Returns the number of each kind of object, and the condition.
async fn run(namespace: &'static str, crash: &Arc<CrashPoint>) -> ([usize; 6], String) {
    let world = World::start().await.unwrap();
    world.create(&manifest(&world, namespace, "v1.33.0")).await.unwrap();
    let first = Testbed::resume(world, namespace, Arc::clone(crash)).await;
    tokio::select! {
        () = crash.crashed() => {}
        () = work(&first) => {}
    }
    let second = Testbed::resume(first.world, namespace, Arc::new(CrashPoint::never())).await;
    work(&second).await;
    (second.counts().await, second.condition().await)
}

#[tokio::test]
async fn a_crash_at_any_write_leaves_nothing_twice_and_nothing_behind() {
    let never = Arc::new(CrashPoint::never());
    let expected = ([1, 1, 1, 2, 1, 1], "True ReconcileSucceeded ".to_owned());
    assert_eq!(Box::pin(run("whole", &never)).await, expected);
    let steps = never.effects().len();
    assert!(steps > 10, "{:#?}", never.effects());
    for side in [Side::Before, Side::After] {
        for n in 0..steps {
            let crash = Arc::new(CrashPoint::at(n, side));
            let found = Box::pin(run("crash", &crash)).await;
            assert!(crash.has_crashed(), "step {n}");
            assert_eq!(found, expected, "crash {side:?} {:?}", crash.effects().last());
        }
    }
}
