//! Tests of operations by controllers that are cut before and after every single effect.

use std::sync::Arc;

use tests_scenarios::{Controllers, Fuse, Side};

use crate::testbed::{Root, Testbed};
use crate::worker::{AUTO, AUTO_VOLUME, HARD, Plan, REBUILD, REPLACE, SOFT, Worker};

/// Cuts before the n-th effect or after it, for every n there is; and once after every effect.
async fn cut_everywhere(plan: Plan, root: Root) {
    let begun = std::time::Instant::now();
    let mut worker = Worker::new(Testbed::new(root).await);
    let mut cuts = 0;
    for side in [Side::Before, Side::After] {
        for n in 0.. {
            let fuse = Arc::new(Fuse::at(n, side));
            let (name, goal) = worker.request(&plan).await;
            worker.testbed.settle_through(&fuse).await;
            let case = format!("{}, cut {side:?} {n}, {:?}", plan.name, fuse.effects().last());
            worker.check(&plan, &name, goal, &case).await;
            if !fuse.is_blown() {
                break;
            }
            cuts += 1;
        }
    }
    let (name, goal) = worker.request(&plan).await;
    let mut lives = 0;
    loop {
        let fuse = Arc::new(Fuse::at(0, Side::After));
        let controllers = Controllers::start(&worker.testbed.world, &fuse);
        tokio::select! {
            () = fuse.blows() => lives += 1,
            () = worker.testbed.settle(&controllers) => break,
        }
    }
    worker.check(&plan, &name, goal, &format!("{}, cut after every effect", plan.name)).await;
    worker.testbed.end().await;
    assert!(cuts > 12 && lives > 6, "{}: {cuts} cuts, {lives} processes in a row", plan.name);
    eprintln!("{}: {cuts} cuts, {lives} processes in a row, in {:?}", plan.name, begun.elapsed());
}

#[tokio::test]
async fn a_hard_reboot_that_is_cut_happens_once() {
    cut_everywhere(HARD, Root::Image).await;
}

#[tokio::test]
async fn a_soft_reboot_that_is_cut_happens_once() {
    cut_everywhere(SOFT, Root::Image).await;
}

#[tokio::test]
async fn a_rebuild_that_is_cut_happens_once() {
    cut_everywhere(REBUILD, Root::Image).await;
}

#[tokio::test]
async fn an_upgrade_that_is_cut_happens_once() {
    cut_everywhere(AUTO, Root::Image).await;
}

#[tokio::test]
async fn a_replacement_that_is_cut_happens_once() {
    cut_everywhere(REPLACE, Root::Image).await;
}

#[tokio::test]
async fn a_replacement_of_a_volumes_server_that_is_cut_happens_once() {
    cut_everywhere(AUTO_VOLUME, Root::Volume).await;
}
