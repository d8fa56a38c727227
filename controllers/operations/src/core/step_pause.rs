//! Pauses of a step: the times in which the Machine, its OpenStackMachine or its Cluster is paused. They do not count for
//! the time limit of the step.
//!
//! A pause is in the status, so that another leader knows it. It begins and ends with the pass that sees it.

use std::time::Duration;

use apiserver_types::OperationStep;
use jiff::Timestamp;

use crate::core::report;
use crate::core::target::Target;

/// Records that a step is paused, and why.
///
/// # Errors
/// The API's own failure.
pub(crate) async fn begin(target: &Target, name: &'static str, why: &str) -> Result<(), kube::Error> {
    let change = |step: &mut OperationStep| {
        step.paused_since.get_or_insert_with(|| report::stamp(target.now));
        step.message = Some(why.to_owned());
    };
    report::change_step(target, name, change).await
}

/// Records the end of the pause of a step. Returns false if the step was not paused; else another pass is due.
///
/// # Errors
/// The API's own failure.
pub(crate) async fn end(target: &Target, name: &'static str) -> Result<bool, kube::Error> {
    if target.step(name).is_none_or(|step| step.paused_since.is_none()) {
        return Ok(false);
    }
    let change = |step: &mut OperationStep| {
        close(step, target.now);
        step.message = Some("the pause has ended".to_owned());
    };
    report::change_step(target, name, change).await?;
    Ok(true)
}

/// Adds the present pause of a step, if there is one, to those that have ended.
pub(crate) fn close(step: &mut OperationStep, now: Timestamp) {
    if step.paused_since.is_some() {
        step.paused_seconds = i64::try_from(paused(step, now).as_secs()).ok();
        step.paused_since = None;
    }
}

/// Returns the time since the start of a step, without its pauses.
pub(crate) fn elapsed(step: &OperationStep, now: Timestamp) -> Duration {
    let since = report::started(step).map(|started| report::elapsed(started, now));
    since.unwrap_or_default().saturating_sub(paused(step, now))
}

/// Returns the time for which a step was paused until now.
fn paused(step: &OperationStep, now: Timestamp) -> Duration {
    let ended = step.paused_seconds.and_then(|seconds| u64::try_from(seconds).ok());
    let since = step.paused_since.as_ref().and_then(report::moment);
    let present = since.map(|since| report::elapsed(since, now));
    Duration::from_secs(ended.unwrap_or_default()).saturating_add(present.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    #[test]
    fn the_time_of_a_step_is_that_without_its_pauses() {
        let seconds = Duration::from_secs;
        let mut step = OperationStep::default();
        assert_eq!(elapsed(&step, at(10)), Duration::ZERO, "it has not begun");
        step.start_time = Some(report::stamp(at(100)));
        assert_eq!(elapsed(&step, at(130)), seconds(30));
        step.paused_since = Some(report::stamp(at(120)));
        assert_eq!(elapsed(&step, at(130)), seconds(20));
        assert_eq!(elapsed(&step, at(4000)), seconds(20), "no time passes in a pause");
        close(&mut step, at(4000));
        assert_eq!((step.paused_seconds, &step.paused_since), (Some(3880), &None));
        assert_eq!(elapsed(&step, at(4010)), seconds(30));
        close(&mut step, at(5000));
        assert_eq!(step.paused_seconds, Some(3880), "there is no pause to close");
        step.paused_since = Some(report::stamp(at(4010)));
        close(&mut step, at(4020));
        assert_eq!(elapsed(&step, at(4025)), seconds(35), "several pauses add up");
        step.paused_since = Some(report::stamp(at(9000)));
        assert_eq!(elapsed(&step, at(4025)), seconds(35), "the clock has jumped back");
        step.paused_seconds = Some(i64::MAX);
        assert_eq!(elapsed(&step, at(4025)), Duration::ZERO);
    }
}
