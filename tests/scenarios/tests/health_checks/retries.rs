//! Retries of the remediation of workers: replacements that are unhealthy, too, end it, if an annotation says so.

use std::sync::Arc;
use std::time::Duration;

use apiserver_types::{Condition, Machine, MachineDeployment, MachineSet};
use kube::ResourceExt;
use kube::api::{Patch, PatchParams};
use serde_json::{Value, json};
use tests_scenarios::CrashPoint;

use crate::testbed::Bed;

/// Annotation of a Machine that a user wants to be replaced.
const REMEDIATE: &str = "cluster.x-k8s.io/remediate-machine";

/// Annotation of a set with its chains.
const CHAINS: &str = "capstan.dev/remediation-chains";

/// Machines that fail one after the other.
struct Failing {
    bed: Bed,
    /// The Machine that stays healthy.
    healthy: String,
}

impl Failing {
    async fn start(namespace: &'static str) -> Self {
        let spec = json!({"clusterName": "c", "selector": {"matchLabels": {"team": "a"}}});
        let bed = Bed::start(namespace, "role", &spec).await;
        let healthy = bed.names().await.swap_remove(0);
        Self { bed, healthy }
    }

    /// Returns the other Machine.
    async fn other(&self) -> Machine {
        let mut machines = self.bed.list::<Machine>().await;
        machines.retain(|machine| machine.name_any() != self.healthy);
        assert_eq!(machines.len(), 1, "{machines:#?}");
        machines.remove(0)
    }

    /// Lets the other Machine fail. Returns true if it is replaced, by processes without a memory.
    async fn fail(&self) -> bool {
        let name = self.other().await.name_any();
        self.bed.annotate(&name, REMEDIATE, json!("")).await;
        for _ in 0..4 {
            let controllers = self.bed.controllers(&Arc::new(CrashPoint::never()));
            self.bed.round(&controllers).await;
        }
        self.other().await.name_any() != name
    }

    async fn set(&self, settings: Value) {
        let change = Patch::Merge(json!({"metadata": {"annotations": settings}}));
        let api = self.bed.api::<MachineDeployment>();
        api.patch("md", &PatchParams::default(), &change).await.unwrap();
    }

    async fn answer(&self) -> Condition {
        self.other().await.condition("OwnerRemediated").unwrap().clone()
    }
}

#[tokio::test]
async fn after_the_limit_of_retries_a_machine_is_not_replaced_and_says_what_to_do() {
    let failing = Failing::start("retries").await;
    for _ in 0..3 {
        assert!(failing.fail().await, "without the annotation there is no limit");
    }
    let sets = failing.bed.list::<MachineSet>().await;
    assert!(!sets[0].annotations().contains_key(CHAINS), "and nothing is recorded");
    failing.set(json!({"capstan.dev/remediation-max-retry": "1"})).await;
    assert!(failing.fail().await, "a remediation");
    assert!(failing.fail().await, "a retry");
    assert!(!failing.fail().await, "no other one");
    let answer = failing.answer().await;
    assert_eq!(answer.reason, "RemediationExhausted");
    let set = failing.bed.list::<MachineSet>().await.remove(0);
    let message = format!(
        "MachineSet {} has replaced 1 unhealthy replacements in no failure domain, and the next one is unhealthy, too. The \
         annotation capstan.dev/remediation-max-retry of MachineDeployment md is 1. Repair the cause, then delete the \
         Machine, or increase the limit",
        set.name_any()
    );
    assert_eq!(answer.message, message);
    let old = json!(failing.other().await.status)["deprecated"]["v1beta1"]["conditions"].clone();
    let old = old.as_array().unwrap().iter().find(|it| it["type"] == "OwnerRemediated").cloned().unwrap();
    assert_eq!((&old["severity"], &old["reason"]), (&json!("Error"), &json!("RemediationFailed")));
    let deployment = failing.bed.api::<MachineDeployment>().get("md").await.unwrap();
    let shown = &deployment.condition("Remediating").unwrap().message;
    assert!(shown.contains(&message), "{shown}");
    let events = failing.bed.events("RemediationExhausted").await;
    assert!(events.len() == 1 && events[0].ends_with("x1"), "{events:#?}");
    // A person increases the limit, and later deletes the Machine.
    failing.set(json!({"capstan.dev/remediation-max-retry": "2"})).await;
    assert!(failing.fail().await);
    assert!(!failing.fail().await);
    let name = failing.other().await.name_any();
    failing.bed.api::<Machine>().delete(&name, &Default::default()).await.unwrap();
    failing.bed.rounds(&failing.bed.controllers(&Arc::new(CrashPoint::never()))).await;
    assert_ne!(failing.other().await.name_any(), name, "the set makes another one");
}

#[tokio::test]
async fn a_retry_waits_for_its_period() {
    let failing = Failing::start("period").await;
    failing.set(json!({"capstan.dev/remediation-retry-period": "10m"})).await;
    assert!(failing.fail().await, "the first one is no retry");
    assert!(!failing.fail().await);
    let answer = failing.answer().await;
    assert_eq!(answer.reason, "RemediationDeferred");
    let text = "The next one follows 10m later (annotation capstan.dev/remediation-retry-period of MachineDeployment md)";
    assert!(answer.message.ends_with(text), "{answer:?}");
    failing.bed.world.clock.advance(Duration::from_mins(9));
    assert!(!failing.fail().await);
    assert_eq!(failing.answer().await, answer);
    failing.bed.world.clock.advance(Duration::from_mins(2));
    assert!(failing.fail().await);
    // A value that cannot be used is refused, and the one before stays.
    let change =
        Patch::Merge(json!({"metadata": {"annotations": {"capstan.dev/remediation-retry-period": "soon"}}}));
    let refused = failing.bed.api::<MachineDeployment>().patch("md", &PatchParams::default(), &change).await;
    let text = refused.unwrap_err().to_string();
    assert!(text.contains("metadata.annotations[capstan.dev/remediation-retry-period]"), "{text}");
}

/// Fails two times, with a crash of the process that replaces the first replacement. Returns whether the second
/// replacement is replaced, too, with a limit of one retry.
async fn crashed_retry(crash: &Arc<CrashPoint>) -> (bool, String) {
    let failing = Failing::start("retry-crash").await;
    failing.set(json!({"capstan.dev/remediation-max-retry": "1"})).await;
    assert!(failing.fail().await);
    let name = failing.other().await.name_any();
    failing.bed.annotate(&name, REMEDIATE, json!("")).await;
    let controllers = failing.bed.controllers(crash);
    tokio::select! {
        () = crash.crashed() => {}
        () = failing.bed.round(&controllers) => {}
    }
    drop(controllers);
    for _ in 0..4 {
        failing.bed.round(&failing.bed.controllers(&Arc::new(CrashPoint::never()))).await;
    }
    assert_ne!(failing.other().await.name_any(), name, "the retry is made");
    (failing.fail().await, failing.answer().await.reason)
}

#[tokio::test]
async fn a_crash_at_any_step_of_a_retry_neither_loses_nor_repeats_it() {
    use tests_scenarios::Side;
    let expected = || (false, "RemediationExhausted".to_owned());
    let never = Arc::new(CrashPoint::never());
    assert_eq!(Box::pin(crashed_retry(&never)).await, expected());
    let steps = never.effects().len();
    assert!(steps > 4, "{:#?}", never.effects());
    for side in [Side::Before, Side::After] {
        for n in 0..steps {
            let crash = Arc::new(CrashPoint::at(n, side));
            let found = Box::pin(crashed_retry(&crash)).await;
            assert!(crash.has_crashed(), "step {n}");
            assert_eq!(found, expected(), "crash {side:?} {:?}", crash.effects().last());
        }
    }
}
