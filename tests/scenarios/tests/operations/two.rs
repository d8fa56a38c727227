//! Two who want something of the same worker.

use std::sync::Arc;

use apiserver_types::{MachineOperation, OperationPhase};
use kube::api::ListParams;
use serde_json::json;
use tests_scenarios::{Controllers, Fuse, Side};

use crate::testbed::{Place, Root};
use crate::worker::{Plan, Worker};

const TWO_REBOOTS: Plan = Plan { name: "two reboots", body: "{}", calls: &["reboot", "reboot"] };

/// Never are two under way.
async fn one_at_a_time(place: &Place, case: &str) {
    let all = place.operations().list(&ListParams::default()).await.unwrap();
    let phase = |phase| {
        all.iter().filter(move |it| it.status.as_ref().and_then(|status| status.phase) == Some(phase))
    };
    assert!(phase(OperationPhase::Running).count() <= 1, "{case}: two are under way");
}

/// When an operation began and ended.
fn span(operation: &MachineOperation) -> (String, String) {
    let status = operation.status.clone().unwrap();
    (status.start_time.unwrap().0, status.completion_time.unwrap().0)
}

#[tokio::test]
async fn a_second_verb_is_refused_and_names_the_first() {
    let place = Place::new(Root::Image).await;
    place.world.cloud.clear_log();
    let key = json!({"idempotencyKey": "k"});
    let (one, other) = tokio::join!(place.ask("reboot", key.clone()), place.ask("reboot", json!({})));
    // Whichever came first.
    let (first, refused) = match (one, other) {
        (Ok(first), Err(refused)) | (Err(refused), Ok(first)) => (first, refused.to_string()),
        both => panic!("both or none: {both:?}"),
    };
    assert!(refused.contains(&format!("machineoperation \"{first}\" is not finished")), "{refused}");
    let refused = place.ask("upgrade", json!({"version": "v1.30.0"})).await.unwrap_err().to_string();
    assert!(refused.contains(&first), "{refused}");
    let controllers = place.controllers();
    place.settle(&controllers).await;
    assert_eq!(place.calls(), [("reboot".to_owned(), 1)].into());
    // The key makes one of however many, before and after it is done.
    let second = place.ask("reboot", key.clone()).await.unwrap();
    assert_eq!(place.ask("reboot", key.clone()).await.unwrap(), second);
    place.settle(&controllers).await;
    assert_eq!(place.ask("reboot", key).await.unwrap(), second);
    place.settle(&controllers).await;
    let times = if second == first { 1 } else { 2 };
    assert_eq!(place.calls(), [("reboot".to_owned(), times)].into());
    place.end().await;
}

/// One by the verb and one declared: the second waits, whoever dies meanwhile.
#[tokio::test]
async fn a_declared_second_waits_for_the_first_wherever_they_are_cut() {
    let mut worker = Worker::new(Place::new(Root::Image).await);
    let mut cuts = 0;
    for side in [Side::Before, Side::After] {
        for n in 0.. {
            let fuse = Arc::new(Fuse::at(n, side));
            let case = format!("two reboots, cut {side:?} {n}");
            let (name, goal) = worker.ask(&TWO_REBOOTS).await;
            let second = format!("second-{n}-{side:?}").to_lowercase();
            let reboot = json!({"action": "Reboot", "reboot": {"type": "Hard"}});
            worker.place.declare(&second, reboot).await;
            let place = &worker.place;
            let first = Controllers::start(&place.world, &fuse);
            let watched = async {
                while !fuse.is_blown() {
                    one_at_a_time(place, &case).await;
                    tokio::time::sleep(std::time::Duration::from_millis(2)).await;
                }
            };
            tokio::select! {
                () = watched => {}
                () = place.settle(&first) => {}
            }
            drop(first);
            place.settle(&place.controllers()).await;
            let (one, other) = (span(&place.operation(&name).await), span(&place.operation(&second).await));
            // Of those made in the same second, the name says which goes first.
            assert!(one.1 <= other.0 || other.1 <= one.0, "{case}: at one time: {one:?}, {other:?}");
            worker.check(&TWO_REBOOTS, &name, goal, &case).await;
            if !fuse.is_blown() {
                break;
            }
            cuts += 1;
        }
    }
    worker.place.end().await;
    assert!(cuts > 20, "{cuts} cuts");
    eprintln!("two reboots: {cuts} cuts");
}
