//! Tests of power-off and power-on by controllers that crash before and after every single effect.

use std::sync::Arc;

use apiserver_types::{Machine, OperationPhase};
use controllers_infrastructure::PowerState;
use kube::Client;
use serde_json::json;
use tests_scenarios::{Controllers, CrashPoint, Side};

use crate::testbed::{Calls, Root, Testbed, is_over_everywhere};

/// One action on the power state.
struct Power {
    action: &'static str,
    /// State of the server before.
    before: PowerState,
    /// Name of the call to Nova.
    call: &'static str,
    /// Status of the server afterwards.
    status: &'static str,
    /// Status of the Machine's condition `InfrastructureReady` afterwards.
    ready: bool,
}

const POWER_OFF: Power =
    Power { action: "poweroff", before: PowerState::On, call: "os-stop", status: "SHUTOFF", ready: false };

const POWER_ON: Power =
    Power { action: "poweron", before: PowerState::Off, call: "os-start", status: "ACTIVE", ready: true };

/// Crashes before the n-th effect or after it, for every n there is.
async fn crash_everywhere(power: &Power) {
    let testbed = Testbed::new(Root::Image).await;
    let mut crashes = 0;
    for side in [Side::Before, Side::After] {
        for n in 0.. {
            let crash_point = Arc::new(CrashPoint::at(n, side));
            happens_once(&testbed, power, &crash_point).await;
            if !crash_point.has_crashed() {
                break;
            }
            crashes += 1;
        }
    }
    testbed.end().await;
    assert!(crashes > 12, "{}: {crashes} crashes", power.action);
}

async fn happens_once(testbed: &Testbed, power: &Power, crash_point: &Arc<CrashPoint>) {
    testbed.power(power.before).await;
    testbed.world.cloud.clear_log();
    let name = testbed.request(power.action, json!({})).await.unwrap();
    let first = Controllers::start(&testbed.world, crash_point);
    tokio::select! {
        () = crash_point.crashed() => {}
        result = first.until("the operation is finished", is_over_everywhere) => result.unwrap(),
    }
    let second = testbed.controllers();
    second.until("the operation is finished", is_over_everywhere).await.unwrap();
    let case = format!("{}, crash at {:?}", power.action, crash_point.effects().last());
    let operation = testbed.operation(&name).await;
    let phase = operation.status.as_ref().and_then(|status| status.phase);
    assert_eq!(phase, Some(OperationPhase::Complete), "{case}: {:#?}", operation.status);

    // A new process, which has no list of servers, reports the state and does not change it.
    let third = testbed.controllers();
    let reported = |client: Client| async move {
        let machine = kube::Api::<Machine>::namespaced(client, "ns").get("w").await?;
        Ok(machine.condition("InfrastructureReady").is_some_and(|it| it.holds() == power.ready))
    };
    third.until(&format!("{case}: the Machine reports the power state"), reported).await.unwrap();
    for _ in 0..3 {
        third.round().await.unwrap();
    }
    assert_eq!(testbed.calls(), Calls::from([(power.call.to_owned(), 1)]), "{case}");
    let server = testbed.server().await;
    assert_eq!((server.status.as_str(), server.task_state), (power.status, None), "{case}");
}

#[tokio::test]
async fn a_power_off_takes_effect_once_despite_crashes_and_the_server_stays_off() {
    crash_everywhere(&POWER_OFF).await;
}

#[tokio::test]
async fn a_power_on_takes_effect_once_despite_crashes_and_the_server_stays_on() {
    crash_everywhere(&POWER_ON).await;
}
