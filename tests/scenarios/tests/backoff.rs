//! Test of the backoff: a failed pass is retried with exponential backoff, however many watches report its status.

use std::time::Duration;

use apiserver_types::{Machine, MachinePhase};
use k8s_openapi::api::core::v1::Event;
use kube::Api;
use kube::api::ListParams;
use tests_openstack_simulator::{FaultEffect, InjectedFault};
use tests_scenarios::{World, run};
use tokio_util::sync::CancellationToken;

const NAMESPACE: &str = "refused";

#[tokio::test(flavor = "multi_thread")]
async fn a_refused_call_is_retried_with_backoff() {
    let world = World::start().await.unwrap();
    // Each refusal has a request id of its own, so each one changes the status.
    let refusal = r#"{"forbidden": {"code": 403, "message": "Quota exceeded for instances"}}"#;
    world.cloud.inject(InjectedFault {
        method: Some("POST".to_owned()),
        path: Some("/compute/v2.1/servers".to_owned()),
        ..InjectedFault::new(FaultEffect::Status {
            code: 403,
            body: refusal.to_owned(),
            content_type: Some("application/json".to_owned()),
            retry_after: None,
        })
    });
    let clouds = world.cloud.clouds_yaml("demo");
    let clouds: String = clouds.lines().map(|line| format!("    {line}\n")).collect();
    let manifest = include_str!("cluster.yaml").replace("NAMESPACE", NAMESPACE).replace("CLOUDS\n", &clouds);
    world.create(&manifest).await.unwrap();
    let term = CancellationToken::new();
    let running = run(&world, &term);
    let attempts = || world.cloud.log().iter().filter(|call| is_create(&call.method, &call.path)).count();
    while attempts() == 0 {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // Intervals of 1, 2 and 4 seconds: a fourth attempt comes after seven at the earliest.
    tokio::time::sleep(Duration::from_secs(6)).await;
    assert!(attempts() <= 3, "{} attempts", attempts());
    let events: Api<Event> = Api::namespaced(world.admin(), NAMESPACE);
    let events = events.list(&ListParams::default()).await.unwrap();
    let reported = events.iter().filter(|event| event.reason.as_deref() == Some("FailedCreateServer"));
    assert_eq!(reported.count(), 1, "a repeated Event must be counted, not recorded again");
    // It succeeds when the cause is removed, within the longest interval.
    world.cloud.clear_faults();
    let machines: Api<Machine> = Api::namespaced(world.admin(), NAMESPACE);
    let up = async {
        loop {
            let machine = machines.get("m").await.unwrap();
            if machine.status.as_ref().and_then(|status| status.phase) == Some(MachinePhase::Provisioned) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(60), up).await.expect("the Machine is provisioned");
    term.cancel();
    running.join_all().await;
}

fn is_create(method: &str, path: &str) -> bool {
    method == "POST" && path.trim_end_matches('/').ends_with("/servers")
}
