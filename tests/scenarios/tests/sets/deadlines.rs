//! Deadline of a MachineDeployment: it is reported once nothing has changed for a time, and pauses only on request.

use std::sync::Arc;
use std::time::Duration;

use apiserver_types::{Condition, ConditionStatus, MachineDeployment};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};
use tests_scenarios::{Controllers, CrashPoint};

use crate::SECRET;
use crate::testbed::Life;

/// Default of the deadline.
const DEADLINE: Duration = Duration::from_mins(30);

impl Life {
    /// Makes rounds in which no Machine proceeds, in a new process.
    async fn blocked_rounds(&mut self) {
        self.controllers = Controllers::start(&self.world, &Arc::new(CrashPoint::never()));
        for _ in 0..4 {
            self.controllers.round_of_sets().await.unwrap();
        }
    }

    async fn progressing(&self) -> Condition {
        self.deployment().await.condition("Progressing").unwrap().clone()
    }

    async fn refusal(&self, annotations: Value) -> String {
        let api: Api<MachineDeployment> = Api::namespaced(self.client.clone(), self.namespace);
        let change = Patch::Merge(json!({"metadata": {"annotations": annotations}}));
        api.patch("md", &PatchParams::default(), &change).await.unwrap_err().to_string()
    }

    /// Returns the revisions of all objects that the controllers write.
    async fn revisions(&self) -> Vec<Option<String>> {
        let sets = self.sets().await.into_iter().map(|set| set.resource_version());
        let machines = self.machines().await.into_iter().map(|machine| machine.resource_version());
        [self.deployment().await.resource_version()].into_iter().chain(sets).chain(machines).collect()
    }
}

#[tokio::test]
async fn a_blocked_deployment_exceeds_its_deadline_and_one_at_rest_does_not() {
    let mut life = Life::start("deadline", SECRET).await;
    life.blocked_rounds().await;
    let begun = life.progressing().await;
    assert_eq!((begun.status, begun.reason.as_str()), (ConditionStatus::True, "Progressing"));
    life.world.clock.advance(DEADLINE - Duration::from_secs(60));
    life.blocked_rounds().await;
    assert_eq!(
        life.progressing().await,
        begun,
        "it is not over yet, and another process knows when it began"
    );
    let before = life.deployment().await;
    life.world.clock.advance(Duration::from_secs(120));
    life.blocked_rounds().await;
    let found = life.progressing().await;
    assert_eq!((found.status, found.reason.as_str()), (ConditionStatus::False, "ProgressDeadlineExceeded"));
    let oldest = life.machines().await.iter().map(ResourceExt::name_any).min().unwrap();
    let cause = format!("Machine {oldest}, the oldest one that is blocked, is not available: ");
    assert!(found.message.starts_with("No progress for more than 30m (since "), "{found:?}");
    assert!(found.message.contains(&cause), "{found:?}");
    let after = life.deployment().await;
    assert_eq!(after.spec, before.spec, "without the annotation, nothing is done");
    for kind in ["Available", "ScalingUp", "RollingOut", "MachinesReady"] {
        assert_eq!(after.condition(kind), before.condition(kind), "{kind} does not depend on it");
    }
    let events = async || {
        let events = life.events().await;
        events.into_iter().filter(|text| text.contains("ProgressDeadlineExceeded")).count()
    };
    assert_eq!(events().await, 1);
    // The Machines proceed, and everything is done.
    life.until_complete(2).await;
    life.round().await;
    let rest = life.progressing().await;
    assert_eq!((rest.status, rest.reason.as_str()), (ConditionStatus::True, "Complete"));
    life.blocked_rounds().await;
    let revisions = life.revisions().await;
    for _ in 0..2 {
        life.world.clock.advance(DEADLINE * 5);
        life.blocked_rounds().await;
    }
    assert_eq!(life.revisions().await, revisions, "at rest, nothing is written");
}

#[tokio::test]
async fn with_the_annotation_the_deadline_pauses_a_rollout_until_a_person_goes_on() {
    let mut life = Life::start("on-deadline", SECRET).await;
    life.until_complete(2).await;
    life.change(json!({
        "metadata": {"annotations": {
            "capstan.dev/progress-deadline": "5m", "capstan.dev/on-deadline": "pause",
        }},
        "spec": {"template": {"spec": {"infrastructureRef": {"name": "second"}}}},
    }))
    .await;
    life.blocked_rounds().await;
    assert_eq!(life.machines().await.len(), 3, "the surge");
    // The clock also runs by itself, and a busy machine needs seconds for the rounds.
    life.world.clock.advance(Duration::from_secs(240));
    life.blocked_rounds().await;
    assert_eq!(life.deployment().await.spec.paused, None);
    life.world.clock.advance(Duration::from_secs(120));
    life.blocked_rounds().await;
    assert_eq!(life.deployment().await.spec.paused, Some(true));
    let found = life.progressing().await;
    assert_eq!((found.status, found.reason.as_str()), (ConditionStatus::False, "ProgressDeadlineExceeded"));
    assert!(found.message.contains("Capstan has set spec.paused at "), "{found:?}");
    // The new Machine becomes available, but the rollout stays where it is.
    for _ in 0..4 {
        life.round().await;
    }
    assert_eq!(life.machines().await.len(), 3);
    let found = life.progressing().await;
    assert_eq!((found.status, found.reason.as_str()), (ConditionStatus::Unknown, "RolloutPaused"));
    assert!(found.message.contains("Capstan has set spec.paused at "), "{found:?}");
    for set in life.sets().await {
        let copied =
            set.annotations().keys().filter(|key| key.contains("deadline") || key.ends_with("/progress"));
        assert_eq!(copied.count(), 0, "the sets have no use for it");
    }
    life.change(json!({"spec": {"paused": false}})).await;
    life.until_complete(2).await;
    life.round().await;
    assert_eq!(life.progressing().await.reason, "Complete");
}

#[tokio::test]
async fn settings_that_cannot_be_used_are_refused_with_their_path() {
    let life = Life::start("settings", SECRET).await;
    let table = [
        ("progress-deadline", "soon", "must be a duration of at least 1m"),
        ("progress-deadline", "5s", "must be a duration of at least 1m"),
        ("on-deadline", "delete", "must be \"pause\""),
        ("remediation-max-retry", "-1", "must be a number"),
        ("remediation-retry-period", "10", "must be a duration"),
        ("remediation-min-healthy-period", "", "must be a duration"),
        ("remediation-max-in-flight", "1", "set spec.remediation.maxInFlight"),
    ];
    for (key, value, expected) in table {
        let key = format!("capstan.dev/{key}");
        let text = life.refusal(json!({key.clone(): value})).await;
        assert!(text.contains(&format!("metadata.annotations[{key}]")) && text.contains(expected), "{text}");
    }
}
