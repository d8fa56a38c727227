//! End of a drain by force: the Pods that could not be evicted in time are deleted. Containers still get their grace
//! period, because nothing else proves that they have ended.

use std::time::Duration;

use controllers_runtime::Requeue;
use controllers_workload::drain::{self, DrainProgress};
use jiff::Timestamp;

use crate::core::cordon;
use crate::core::decision::{Change, Outcome, StepUpdate};
use crate::core::node_drain::{self, DELETE_PODS, INTERVAL, node_name};
use crate::core::report;
use crate::core::step_pause;
use crate::core::target::Target;

/// Time limit of the deletions, and of the wait for the end of the Pods: several times their usual grace period of 30 s.
const TIMEOUT: Duration = Duration::from_mins(2);

/// Next step of the deletion of Pods.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Next {
    /// Wait, for this reason.
    Wait(String),
    /// The end of the deletion.
    Over(StepUpdate),
    /// Pods cannot be deleted. For people.
    Blocked(String),
}

/// Makes one pass: deletes the Pods that are left, and looks which ones remain.
///
/// # Errors
/// The API's own failure.
pub(super) async fn pass(target: &Target) -> Result<Requeue, kube::Error> {
    if let Some(stop) = target.stop() {
        let outcome = Outcome::stopped(&stop, "the pods that were evicted or deleted do not return");
        return node_drain::end(target, outcome).await;
    }
    if let Some(why) = &target.paused {
        step_pause::begin(target, DELETE_PODS, why).await?;
        return Ok(Requeue::After(INTERVAL));
    }
    if step_pause::end(target, DELETE_PODS).await? {
        return Ok(Requeue::Now);
    }
    let started = target.step(DELETE_PODS).and_then(report::started).unwrap_or(target.now);
    let late = node_drain::elapsed(target, DELETE_PODS) > TIMEOUT;
    match decide(&delete(target).await, started, late) {
        Next::Wait(message) => {
            report::note(target, Some(DELETE_PODS), &message).await?;
            Ok(Requeue::After(INTERVAL))
        }
        Next::Over(update) => {
            report::write(target, &Change::of([update])).await?;
            Ok(Requeue::Now)
        }
        Next::Blocked(message) => {
            node_drain::fail(target, Outcome::failed(DELETE_PODS, "DrainBlocked", message)).await
        }
    }
}

/// Decides after a pass of deletions. `late`: the time limit is over. Pure and total.
fn decide(progress: &Result<DrainProgress, String>, started: Timestamp, late: bool) -> Next {
    let waiting = match progress {
        Ok(DrainProgress::Done) => return Next::Over(StepUpdate::done(DELETE_PODS, "no Pod is left")),
        Err(error) if late => return Next::Blocked(format!("the Pods were not deleted in time: {error}")),
        Err(error) => return Next::Wait(error.clone()),
        Ok(DrainProgress::Waiting(waiting)) => waiting,
    };
    if !late {
        return Next::Wait(waiting.message(started));
    }
    let left = waiting.given_up();
    match waiting.failed.is_empty() {
        true => {
            Next::Over(StepUpdate::failed(DELETE_PODS, format!("gave up the wait for the end of {left}")))
        }
        false => Next::Blocked(format!("the Pods were not deleted in time: {left}")),
    }
}

async fn delete(target: &Target) -> Result<DrainProgress, String> {
    let client = node_drain::workload(target).map_err(|error| error.to_string())?;
    let name = node_name(&target.machine).unwrap_or_default();
    // With the annotation, if an uncordon in between is undone.
    cordon::begin(&client, name, target.uid()).await?;
    let rules = node_drain::rules(target).await.map_err(|error| error.to_string())?;
    drain::delete_pods(&client, name, &rules).await.map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use controllers_workload::drain::DrainWaiting;

    use super::*;

    #[test]
    fn pods_that_end_too_slowly_are_given_up_and_those_that_stay_fail_the_drain() {
        let waiting = |waiting: DrainWaiting| Ok(DrainProgress::Waiting(waiting));
        let pods = || vec!["web/a".to_owned()];
        let ending = || waiting(DrainWaiting { terminating: pods(), ..DrainWaiting::default() });
        let staying = || {
            let failed = BTreeMap::from([("no".to_owned(), pods())]);
            waiting(DrainWaiting { failed, ..DrainWaiting::default() })
        };
        let unreachable = || Err("not connected".to_owned());
        let table = [
            ("gone", Ok(DrainProgress::Done), true, "Done no Pod is left"),
            ("ending", ending(), false, "wait"),
            ("ending for long", ending(), true, "Failed gave up the wait for the end of Pod web/a"),
            ("staying", staying(), false, "wait"),
            ("staying for long", staying(), true, "blocked the Pods were not deleted in time: Pod web/a: no"),
            ("unreachable", unreachable(), false, "wait"),
            (
                "unreachable for long",
                unreachable(),
                true,
                "blocked the Pods were not deleted in time: not connected",
            ),
        ];
        for (case, progress, late, expected) in table {
            let found = match decide(&progress, Timestamp::UNIX_EPOCH, late) {
                Next::Wait(_) => "wait".to_owned(),
                Next::Over(update) => format!("{:?} {}", update.state, update.message.unwrap()),
                Next::Blocked(message) => format!("blocked {message}"),
            };
            assert!(found.starts_with(expected), "{case}: {found}");
        }
    }
}
