//! Dry run of a drain: lists the treatment of each Pod in the result, and changes nothing.

use std::convert::Infallible;

use apiserver_types::{OperationResult, OperationStep, PodTreatment, PodVerdict, StepState};
use async_trait::async_trait;
use controllers_runtime::ReconcileError;
use controllers_workload::drain;

use super::NO_NODE;
use crate::core::decision::{Change, Decision, Outcome, StepUpdate};
use crate::core::node_drain::{self, node_name};
use crate::core::procedure::Procedure;
use crate::core::target::{Stop, Target, find};

/// Step that looks at the Pods.
pub(super) const PREVIEW: &str = "PreviewDrain";

/// Most Pods in the result: a Node has 110 by default, and an object of the store has a limited size.
const MOST: usize = 250;

/// Most refused Pods that the message names.
const NAMED: usize = 10;

/// Dry run of a drain.
#[derive(Debug)]
pub(super) struct Preview;

/// Everything a decision is made from.
#[derive(Debug, Clone, Default)]
pub(super) struct Observed {
    steps: Vec<OperationStep>,
    has_node: bool,
    /// Treatment of each Pod, or why it is unknown; `None` before the step has begun.
    pods: Option<Result<Vec<PodVerdict>, String>>,
    /// The time limit is over.
    late: bool,
    stop: Option<Stop>,
}

#[async_trait]
impl Procedure for Preview {
    type Observed = Observed;
    /// A dry run changes nothing.
    type Effect = Infallible;

    async fn observe(&self, target: &Target) -> Result<Observed, ReconcileError> {
        let is_running = target.step(PREVIEW).is_some_and(|step| step.state == StepState::Running);
        let has_node = node_name(&target.machine).is_some();
        let pods = match is_running && has_node {
            true => Some(look(target).await),
            false => None,
        };
        let late = node_drain::elapsed(target, PREVIEW) > node_drain::timeout(target);
        Ok(Observed { steps: target.steps().to_vec(), has_node, pods, late, stop: target.stop() })
    }

    fn decide(&self, observed: &Observed) -> Decision<Infallible> {
        if let Some(stop) = &observed.stop {
            return Decision::End(Outcome::stopped(stop, "nothing was changed"));
        }
        if !observed.has_node {
            return Decision::End(Outcome::failed(PREVIEW, "Unsupported", NO_NODE));
        }
        let is_running = find(&observed.steps, PREVIEW).is_some_and(|it| it.state == StepState::Running);
        match &observed.pods {
            Some(Ok(pods)) => Decision::End(complete(pods)),
            Some(Err(error)) if observed.late => {
                let message = format!("the Pods of the Node were not read in time: {error}");
                Decision::End(Outcome::failed(PREVIEW, "DrainBlocked", message))
            }
            Some(Err(error)) => Decision::wait(PREVIEW, error.clone()),
            None if is_running => Decision::wait(PREVIEW, "the Pods of the Node are not read yet"),
            None => {
                Decision::record(Change::of([StepUpdate::running(PREVIEW, "reading the Pods of the Node")]))
            }
        }
    }

    async fn act(&self, _target: &Target, effect: &Infallible) -> Result<Change, ReconcileError> {
        match *effect {}
    }
}

async fn look(target: &Target) -> Result<Vec<PodVerdict>, String> {
    let client = node_drain::workload(target).map_err(|error| error.to_string())?;
    let rules = node_drain::rules(target).await.map_err(|error| error.to_string())?;
    let name = node_name(&target.machine).unwrap_or_default();
    drain::preview(&client, name, &rules).await.map_err(|error| error.to_string())
}

/// Returns the end of a dry run that has found these Pods.
fn complete(pods: &[PodVerdict]) -> Outcome {
    let message = summary(pods);
    let result = OperationResult {
        pods: Some(pods.iter().take(MOST).cloned().collect()),
        ..OperationResult::default()
    };
    let change = Change::of([StepUpdate::done(PREVIEW, message.clone())]).with(result);
    Outcome::complete(message, change)
}

/// Counts the Pods by their treatment, and names those whose eviction is refused.
fn summary(pods: &[PodVerdict]) -> String {
    let of = |treatment: PodTreatment| pods.iter().filter(move |pod| pod.verdict == treatment);
    let counts = [
        (PodTreatment::Evict, "would be evicted"),
        (PodTreatment::Refused, "would be refused"),
        (PodTreatment::Terminating, "end already"),
        (PodTreatment::WaitCompleted, "would have to complete"),
        (PodTreatment::Skip, "would stay"),
    ];
    let counts = counts.map(|(treatment, text)| (of(treatment).count(), text));
    let counts: Vec<String> = counts
        .into_iter()
        .filter(|(count, _)| *count > 0)
        .map(|(count, text)| format!("{count} {text}"))
        .collect();
    let counts = if counts.is_empty() { "none".to_owned() } else { counts.join(", ") };
    let refused: Vec<String> = of(PodTreatment::Refused)
        .take(NAMED)
        .map(|pod| {
            let why = pod.message.as_deref().unwrap_or_default();
            format!(". {}/{}: {why}", pod.namespace, pod.name)
        })
        .collect();
    format!("nothing was changed. Of {} Pods: {counts}{}", pods.len(), refused.concat())
}

#[cfg(test)]
mod tests {
    use apiserver_types::OperationPhase;

    use super::*;

    fn pod(name: &str, verdict: PodTreatment, message: Option<&str>) -> PodVerdict {
        PodVerdict {
            name: name.to_owned(),
            namespace: "web".to_owned(),
            verdict,
            message: message.map(str::to_owned),
            ..PodVerdict::default()
        }
    }

    fn word(observed: &Observed) -> String {
        match Preview.decide(observed) {
            Decision::Wait { .. } => "wait".to_owned(),
            Decision::End(outcome) => format!("{:?} {}", outcome.phase, outcome.reason),
            other => format!("{other:?}"),
        }
    }

    #[test]
    fn a_dry_run_ends_with_what_it_has_read() {
        let stop = Some(Stop { reason: "Requested", why: "enough".to_owned() });
        let fresh = || Observed { has_node: true, ..Observed::default() };
        let with = |pods| Observed { pods: Some(pods), ..fresh() };
        let unreachable = || with(Err("not connected".to_owned()));
        let table = [
            ("first", fresh(), "Record"),
            ("without a Node", Observed::default(), "Failed Unsupported"),
            ("read", with(Ok(Vec::new())), "Complete Succeeded"),
            ("read late", Observed { late: true, ..with(Ok(Vec::new())) }, "Complete Succeeded"),
            ("unreachable", unreachable(), "wait"),
            ("unreachable for long", Observed { late: true, ..unreachable() }, "Failed DrainBlocked"),
            ("stopped", Observed { stop, ..unreachable() }, "Cancelled Requested"),
        ];
        for (case, observed, expected) in table {
            let found = word(&observed);
            assert!(found.starts_with(expected), "{case}: {found}");
        }
    }

    #[test]
    fn the_message_names_the_budgets_that_would_refuse() {
        let pods = [
            pod("a", PodTreatment::Evict, None),
            pod("b", PodTreatment::Refused, Some("the budget b")),
            pod("c", PodTreatment::Skip, Some("a DaemonSet controls the Pod")),
            pod("d", PodTreatment::Evict, None),
        ];
        let outcome = complete(&pods);
        let expected = "nothing was changed. Of 4 Pods: 2 would be evicted, 1 would be refused, 1 would stay. web/b: the \
                        budget b";
        assert_eq!((outcome.phase, outcome.message.as_str()), (OperationPhase::Complete, expected));
        assert_eq!(outcome.change.result.pods.as_deref(), Some(&pods[..]));
        assert_eq!(summary(&[]), "nothing was changed. Of 0 Pods: none");
        let many = vec![pod("a", PodTreatment::Refused, None); MOST + 1];
        let outcome = complete(&many);
        assert_eq!(outcome.change.result.pods.map(|pods| pods.len()), Some(MOST));
        assert_eq!(outcome.message.matches("web/a").count(), NAMED);
    }
}
