//! Tests of the cancellation of operations, and of the deletion of their Machines, at every step.

use std::sync::Arc;

use apiserver_types::MachineOperation;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use tests_scenarios::{CrashPoint, Side, is_over};

use crate::testbed::{Root, Testbed};
use crate::worker::{AUTO_VOLUME, HARD, Plan, REBUILD, REPLACE, SOFT, Worker, expected};

/// Way in which an operation is cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StopMethod {
    /// By `spec.cancelRequested`.
    Cancel,
    /// By its deletion.
    Delete,
}

async fn stop(testbed: &Testbed, name: &str, how: StopMethod) {
    let api = testbed.operations();
    match how {
        StopMethod::Cancel => {
            let change = Patch::Merge(json!({"spec": {"cancelRequested": true}}));
            api.patch(name, &PatchParams::default(), &change).await.map(|_| ()).unwrap();
        }
        StopMethod::Delete => {
            api.delete(name, &DeleteParams::default()).await.map(|_| ()).unwrap();
        }
    }
}

/// Checks that nothing was done, or all of it, and that the operation reports which.
async fn all_or_nothing(
    worker: &mut Worker,
    plan: &Plan,
    name: &str,
    goal: (String, String),
    case: &str,
) -> bool {
    let calls = worker.testbed.calls();
    let left = worker.testbed.operations().get_opt(name).await.unwrap();
    let was_done = !calls.is_empty();
    match left {
        Some(operation) if was_done => {
            assert!(is_over(&operation), "{case}: {:#?}", operation.status);
            worker.check(plan, name, goal, case).await;
        }
        Some(operation) => worker.check_no_effect(&operation, case).await,
        // Deleted, and absent.
        None if was_done => {
            assert_eq!(calls, expected(plan), "{case}");
            worker.check_goal(goal, case).await;
        }
        None => {
            worker.check_unchanged(case).await;
        }
    }
    was_done
}

/// Cancels after a crash at every effect, so that no process remembers what was done. The state before the
/// next effect is that after this one, so one side of each is enough.
async fn stop_after_every_crash(plan: Plan, root: Root, how: StopMethod) {
    let mut worker = Worker::new(Testbed::new(root).await);
    let mut outcomes = [0, 0];
    for n in 0.. {
        let crash_point = Arc::new(CrashPoint::at(n, Side::After));
        let (name, goal) = worker.request(&plan).await;
        worker.testbed.work_until_crash(&crash_point).await;
        stop(&worker.testbed, &name, how).await;
        worker.testbed.settle(&worker.testbed.controllers()).await;
        let case = format!("{}, {how:?} at crash {n}, {:?}", plan.name, crash_point.effects().last());
        outcomes[usize::from(all_or_nothing(&mut worker, &plan, &name, goal, &case).await)] += 1;
        if !crash_point.has_crashed() {
            break;
        }
    }
    finish(worker, plan, how, outcomes).await;
}

/// Cancels after every number of rounds, while the same process continues.
async fn stop_after_every_round(plan: Plan, root: Root, how: StopMethod) {
    let mut worker = Worker::new(Testbed::new(root).await);
    let mut outcomes = [0, 0];
    for rounds in 0.. {
        let (name, goal) = worker.request(&plan).await;
        let controllers = worker.testbed.controllers();
        for _ in 0..rounds {
            controllers.round().await.unwrap();
        }
        let operation: MachineOperation = worker.testbed.operation(&name).await;
        let over = is_over(&operation);
        stop(&worker.testbed, &name, how).await;
        worker.testbed.settle(&controllers).await;
        let case = format!("{}, {how:?} after {rounds} rounds", plan.name);
        outcomes[usize::from(all_or_nothing(&mut worker, &plan, &name, goal, &case).await)] += 1;
        if over {
            break;
        }
    }
    finish(worker, plan, how, outcomes).await;
}

async fn finish(worker: Worker, plan: Plan, how: StopMethod, [untouched, done]: [usize; 2]) {
    worker.testbed.end().await;
    assert!(untouched > 2 && done > 0, "{}: {untouched} had no effect, {done} were completed", plan.name);
    eprintln!("{}, {how:?}: {untouched} had no effect, {done} were completed", plan.name);
}

#[tokio::test]
async fn a_cancelled_reboot_has_full_effect_or_none() {
    stop_after_every_crash(HARD, Root::Image, StopMethod::Cancel).await;
    stop_after_every_round(SOFT, Root::Image, StopMethod::Cancel).await;
}

#[tokio::test]
async fn a_cancelled_rebuild_has_full_effect_or_none() {
    stop_after_every_crash(REBUILD, Root::Image, StopMethod::Cancel).await;
    stop_after_every_round(REBUILD, Root::Image, StopMethod::Cancel).await;
}

#[tokio::test]
async fn a_cancelled_replacement_has_full_effect_or_none() {
    stop_after_every_crash(AUTO_VOLUME, Root::Volume, StopMethod::Cancel).await;
    stop_after_every_round(REPLACE, Root::Image, StopMethod::Cancel).await;
}

#[tokio::test]
async fn a_deleted_operation_is_removed_with_full_effect_or_none() {
    stop_after_every_crash(SOFT, Root::Image, StopMethod::Delete).await;
    stop_after_every_round(REBUILD, Root::Image, StopMethod::Delete).await;
    stop_after_every_round(REPLACE, Root::Image, StopMethod::Delete).await;
}

/// Deletes the Machine at every effect of its replacement; all its resources are deleted with it.
#[tokio::test]
async fn a_machine_deleted_during_its_replacement_leaves_no_resources() {
    for (plan, root) in [(REPLACE, Root::Image), (AUTO_VOLUME, Root::Volume)] {
        let mut worker = Worker::new(Testbed::new(root).await);
        let mut crashes = 0;
        for n in 0.. {
            let crash_point = Arc::new(CrashPoint::at(n, Side::After));
            worker.request(&plan).await;
            worker.testbed.work_until_crash(&crash_point).await;
            worker.testbed.machines().delete("w", &DeleteParams::background()).await.unwrap();
            let case = format!(
                "{}, its Machine deleted at crash {n}, {:?}",
                plan.name,
                crash_point.effects().last()
            );
            worker.testbed.machine_is_gone(&case).await;
            let created = worker.testbed.calls().remove("POST servers").unwrap_or_default();
            assert!(created <= 1, "{case}: {created} servers were created");
            worker.recreate().await;
            if !crash_point.has_crashed() {
                break;
            }
            crashes += 1;
        }
        worker.testbed.end().await;
        assert!(crashes > 15, "{}: {crashes} crashes", plan.name);
        eprintln!("{}: its Machine was deleted at {crashes} crashes", plan.name);
    }
}
