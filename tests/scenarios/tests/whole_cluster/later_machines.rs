//! A second and a third control plane Machine that never boot: each is replaced, and the first one serves all the time.

use std::collections::BTreeSet;
use std::time::Duration;

use tests_hollow_cluster::BootStep;
use tokio_util::sync::CancellationToken;

use super::looks::Looks;
use super::remediations::{mark, until_failed};
use super::rollouts::Scene;

/// Delay of each boot, in which the test lets the boot of one Machine fail.
const DELAY: Duration = Duration::from_secs(3);

impl Scene {
    /// Waits for the Machine that exists beside these. Returns its name.
    async fn until_another(&self, known: &BTreeSet<String>) -> String {
        let mut looks = Looks::begin();
        loop {
            let names = self.names().await;
            if let Some(name) = names.difference(known).next() {
                return name.clone();
            }
            looks.again(&format!("another Machine than {known:?}")).await;
        }
    }

    /// Lets the next Machine fail to boot, and has it replaced by one that boots. Returns the name of that one.
    async fn fail_next(&self, known: &BTreeSet<String>) -> String {
        let doomed = self.until_another(known).await;
        self.hollow.boot_failure(&doomed, BootStep::Preflight);
        let failed = until_failed(self, known).await;
        assert_eq!(failed, doomed);
        mark(self, &failed).await;
        self.observer.until_deleted(Some(&failed)).await;
        self.until_another(known).await
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn d6_a_second_and_a_third_machine_that_never_boot_are_replaced() {
    let scene = Scene::create("later", 1, |it| {
        it.replace("apiServer: {}", "apiServer: {managedLoadBalancer: {enabled: true}}")
    })
    .await;
    let term = CancellationToken::new();
    let running = tests_scenarios::run(&scene.world, &term);
    scene.observer.until_available(1, 1).await;
    let mut known = scene.names().await;
    scene.hollow.boot_delay(DELAY);
    scene.change(serde_json::json!({"replicas": 3})).await;
    let healed = async {
        for _ in 0..2 {
            let name = scene.fail_next(&known).await;
            known.insert(name);
        }
        scene.observer.until_available(3, 1).await;
        scene.observer.until_nodes_are_ready(4).await;
    };
    scene.guarded(1..=3, healed).await;
    scene.assert_members().await;
    // The second Machine might have joined while it was deleted, and the first one had no other voter beside it.
    let reasons = scene.reasons().await;
    for reason in ["EtcdLearnerSlotTaken", "EtcdLearnerSlotFreed"] {
        assert!(reasons.contains(reason), "{reason}: {reasons:?}");
    }
    term.cancel();
    running.join_all().await;
}
