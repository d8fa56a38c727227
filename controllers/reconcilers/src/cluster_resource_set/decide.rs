//! Decision about a set on one Cluster: which resource is applied next. Pure.

use std::time::Duration;

use apiserver_types::{ResourceBinding, Time};
use jiff::Timestamp;

use super::settings::Settings;

/// Progress of a pass with one resource on one Cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Progress {
    /// The resource can be read, and must be applied.
    pub due: bool,
    /// This pass has tried to apply it.
    pub attempted: bool,
    /// Its objects are ready.
    pub ready: bool,
}

/// Next step of a pass, with the position of a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Apply(usize),
    /// Look whether the objects of a resource are ready, because the next resource waits for them.
    LookAtReadiness(usize),
    Finish,
}

/// Decides on the next step. Resources are applied in the order of the set.
pub(super) fn next_step(progress: &[Progress], settings: Settings) -> Step {
    let is_open = |it: &Progress| it.due && !it.attempted;
    for (index, it) in progress.iter().enumerate() {
        if is_open(it) {
            return Step::Apply(index);
        }
        let mut later = progress.iter().skip(index.saturating_add(1));
        if settings.wait && !it.ready && later.any(is_open) {
            return Step::LookAtReadiness(index);
        }
    }
    Step::Finish
}

/// Returns true if a resource with this hash must be applied.
pub(super) fn is_due(
    record: Option<&ResourceBinding>,
    hash: &str,
    settings: Settings,
    now: Timestamp,
) -> bool {
    let Some(record) = record.filter(|record| record.applied) else { return true };
    settings.reconcile
        && (record.hash.as_deref() != Some(hash)
            || until_repeat(record, settings, now).is_some_and(|left| left.is_zero()))
}

/// Returns the time until a resource is applied again although it has not changed.
pub(super) fn until_repeat(record: &ResourceBinding, settings: Settings, now: Timestamp) -> Option<Duration> {
    let interval = settings.reapply?;
    let last = record.last_applied_time.as_ref().and_then(parsed)?;
    let passed = Duration::try_from(now.duration_since(last)).unwrap_or_default();
    Some(interval.saturating_sub(passed))
}

fn parsed(time: &Time) -> Option<Timestamp> {
    time.0.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn progress(due: bool, attempted: bool, ready: bool) -> Progress {
        Progress { due, attempted, ready }
    }

    #[test]
    fn resources_are_applied_in_order_and_a_failed_one_stops_no_other() {
        let settings = Settings::default();
        let all = [progress(false, false, false), progress(true, true, false), progress(true, false, false)];
        assert_eq!(next_step(&all, settings), Step::Apply(2));
        assert_eq!(next_step(&all[..2], settings), Step::Finish);
        assert_eq!(next_step(&[], settings), Step::Finish);
    }

    #[test]
    fn a_resource_waits_for_those_before_it_if_the_set_says_so() {
        let settings = Settings { wait: true, ..Settings::default() };
        let (applied, open) = (progress(false, false, false), progress(true, false, false));
        assert_eq!(next_step(&[applied, open], settings), Step::LookAtReadiness(0));
        assert_eq!(next_step(&[progress(false, false, true), open], settings), Step::Apply(1));
        assert_eq!(next_step(&[applied, applied], settings), Step::Finish, "nothing waits");
        assert_eq!(next_step(&[open, applied], settings), Step::Apply(0));
    }

    #[test]
    fn the_strategy_and_the_record_decide_what_is_due() {
        let now: Timestamp = "2026-11-21T06:10:00Z".parse().unwrap();
        let record = |applied: bool, hash: Option<&str>| ResourceBinding {
            applied,
            hash: hash.map(str::to_owned),
            last_applied_time: Some(Time("2026-11-21T06:00:00Z".to_owned())),
            ..ResourceBinding::default()
        };
        let once = Settings::default();
        let reconcile = Settings { reconcile: true, ..once };
        let repeat = |minutes: u64| Settings { reapply: Some(Duration::from_mins(minutes)), ..reconcile };
        let applied = record(true, Some("a"));
        for (record, hash, settings, expected) in [
            (None, "a", once, true),
            (Some(&record(false, None)), "a", once, true),
            (Some(&applied), "b", once, false),
            (Some(&applied), "b", reconcile, true),
            (Some(&applied), "a", reconcile, false),
            (Some(&applied), "a", repeat(11), false),
            (Some(&applied), "a", repeat(10), true),
        ] {
            assert_eq!(is_due(record, hash, settings, now), expected, "{record:?} {hash} {settings:?}");
        }
        assert_eq!(until_repeat(&applied, repeat(11), now), Some(Duration::from_mins(1)));
        assert_eq!(until_repeat(&applied, reconcile, now), None);
    }
}
