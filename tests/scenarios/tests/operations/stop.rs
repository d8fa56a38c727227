//! Tests of the cancellation of operations, and of the deletion of their Machines, at every step.

use std::sync::Arc;

use apiserver_types::MachineOperation;
use kube::api::{DeleteParams, Patch, PatchParams};
use serde_json::json;
use tests_scenarios::{Fuse, Side, is_over};

use crate::testbed::{Root, Testbed};
use crate::worker::{AUTO_VOLUME, HARD, Plan, REBUILD, REPLACE, SOFT, Worker, expected};

/// Way of cancellation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum How {
    /// By `spec.cancelRequested`.
    Cancel,
    /// By its deletion.
    Delete,
}

async fn tell(testbed: &Testbed, name: &str, how: How) {
    let api = testbed.operations();
    match how {
        How::Cancel => {
            let change = Patch::Merge(json!({"spec": {"cancelRequested": true}}));
            api.patch(name, &PatchParams::default(), &change).await.map(|_| ()).unwrap();
        }
        How::Delete => {
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
        Some(operation) => worker.untouched(&operation, case).await,
        // Deleted, and absent.
        None if was_done => {
            assert_eq!(calls, expected(plan), "{case}");
            worker.arrived(goal, case).await;
        }
        None => {
            worker.stayed(case).await;
        }
    }
    was_done
}

/// Cancels after a cut at every effect, so that no process remembers what was done. The state before the
/// next effect is that after this one, so one side of each is enough.
async fn stop_after_every_cut(plan: Plan, root: Root, how: How) {
    let mut worker = Worker::new(Testbed::new(root).await);
    let mut outcomes = [0, 0];
    for n in 0.. {
        let fuse = Arc::new(Fuse::at(n, Side::After));
        let (name, goal) = worker.request(&plan).await;
        worker.testbed.work_until_cut(&fuse).await;
        tell(&worker.testbed, &name, how).await;
        worker.testbed.settle(&worker.testbed.controllers()).await;
        let case = format!("{}, {how:?} at cut {n}, {:?}", plan.name, fuse.effects().last());
        outcomes[usize::from(all_or_nothing(&mut worker, &plan, &name, goal, &case).await)] += 1;
        if !fuse.is_blown() {
            break;
        }
    }
    finish(worker, plan, how, outcomes).await;
}

/// Cancels after every number of rounds, while the same process continues.
async fn stop_after_every_round(plan: Plan, root: Root, how: How) {
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
        tell(&worker.testbed, &name, how).await;
        worker.testbed.settle(&controllers).await;
        let case = format!("{}, {how:?} after {rounds} rounds", plan.name);
        outcomes[usize::from(all_or_nothing(&mut worker, &plan, &name, goal, &case).await)] += 1;
        if over {
            break;
        }
    }
    finish(worker, plan, how, outcomes).await;
}

async fn finish(worker: Worker, plan: Plan, how: How, [untouched, done]: [usize; 2]) {
    worker.testbed.end().await;
    assert!(untouched > 2 && done > 0, "{}: {untouched} had no effect, {done} were completed", plan.name);
    eprintln!("{}, {how:?}: {untouched} had no effect, {done} were completed", plan.name);
}

#[tokio::test]
async fn a_reboot_that_is_cancelled_happens_or_does_not() {
    stop_after_every_cut(HARD, Root::Image, How::Cancel).await;
    stop_after_every_round(SOFT, Root::Image, How::Cancel).await;
}

#[tokio::test]
async fn a_rebuild_that_is_cancelled_happens_or_does_not() {
    stop_after_every_cut(REBUILD, Root::Image, How::Cancel).await;
    stop_after_every_round(REBUILD, Root::Image, How::Cancel).await;
}

#[tokio::test]
async fn a_replacement_that_is_cancelled_happens_or_does_not() {
    stop_after_every_cut(AUTO_VOLUME, Root::Volume, How::Cancel).await;
    stop_after_every_round(REPLACE, Root::Image, How::Cancel).await;
}

#[tokio::test]
async fn an_operation_that_is_deleted_goes_and_its_work_is_done_or_not() {
    stop_after_every_cut(SOFT, Root::Image, How::Delete).await;
    stop_after_every_round(REBUILD, Root::Image, How::Delete).await;
    stop_after_every_round(REPLACE, Root::Image, How::Delete).await;
}

/// Deletes the Machine at every effect of its replacement; all its resources are deleted with it.
#[tokio::test]
async fn a_machine_that_is_deleted_in_its_replacement_leaves_nothing() {
    for (plan, root) in [(REPLACE, Root::Image), (AUTO_VOLUME, Root::Volume)] {
        let mut worker = Worker::new(Testbed::new(root).await);
        let mut cuts = 0;
        for n in 0.. {
            let fuse = Arc::new(Fuse::at(n, Side::After));
            worker.request(&plan).await;
            worker.testbed.work_until_cut(&fuse).await;
            worker.testbed.machines().delete("w", &DeleteParams::background()).await.unwrap();
            let case = format!("{}, its Machine deleted at cut {n}, {:?}", plan.name, fuse.effects().last());
            worker.testbed.machine_is_gone(&case).await;
            let created = worker.testbed.calls().remove("POST servers").unwrap_or_default();
            assert!(created <= 1, "{case}: {created} servers were created");
            worker.again().await;
            if !fuse.is_blown() {
                break;
            }
            cuts += 1;
        }
        worker.testbed.end().await;
        assert!(cuts > 15, "{}: {cuts} cuts", plan.name);
        eprintln!("{}: its Machine was deleted at {cuts} cuts", plan.name);
    }
}
