//! Contents of the Lease, and the observation of its changes over time.

use std::time::Duration;

use controllers_runtime::TermStart;
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use tokio::time::Instant;

/// Annotation of a released Lease: `true` if the holder has ended its calls to clouds, else `false`. Releases of earlier
/// versions have none, and count as `true`.
pub(super) const DRAINED: &str = "capstan.dev/drained";

/// Annotation with the time until which calls of former holders may still reach a cloud.
pub(super) const UNSETTLED_UNTIL: &str = "capstan.dev/unsettled-until";

/// Last observed state of the Lease, and the time at which the candidate observed that it changed.
#[derive(Debug, Default)]
pub(super) struct View(Option<(LeaseSpec, Instant)>);

impl View {
    /// Records the current state of the Lease.
    pub(super) fn observe(&mut self, lease: &Lease, now: Instant) {
        let spec = lease.spec.clone().unwrap_or_default();
        if self.0.as_ref().is_none_or(|(before, _)| *before != spec) {
            self.0 = Some((spec, now));
        }
    }

    /// Reports whether this candidate may acquire the Lease. It may if the Lease has no holder, if the candidate holds
    /// it itself, or if its holder did not renew it for its whole duration. `usual` is the least duration.
    pub(super) fn is_free(&self, identity: &str, usual: Duration, now: Instant) -> bool {
        let Some((spec, changed)) = &self.0 else { return false };
        let holder = holder(spec);
        let lasts = spec.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let lasts = lasts.map_or(usual, Duration::from_secs).max(usual);
        holder.is_empty() || holder == identity || now.duration_since(*changed) >= lasts
    }
}

fn holder(spec: &LeaseSpec) -> &str {
    spec.holder_identity.as_deref().unwrap_or_default()
}

/// Reports whether the Lease names this holder.
pub(super) fn is_held_by(lease: &Lease, identity: &str) -> bool {
    lease.spec.as_ref().is_some_and(|spec| holder(spec) == identity)
}

/// Reports whether the Lease names any holder: one that releases it removes its name.
pub(super) fn has_holder(lease: &Lease) -> bool {
    lease.spec.as_ref().is_some_and(|spec| !holder(spec).is_empty())
}

/// Returns the contents of the Lease after this holder acquires or renews it.
pub(super) fn taken(lease: &Lease, identity: &str, lasts: Duration, now: Timestamp) -> LeaseSpec {
    let mut spec = lease.spec.clone().unwrap_or_default();
    if holder(&spec) != identity {
        let before = spec.lease_transitions.filter(|_| lease.spec.is_some());
        spec.lease_transitions = Some(before.map_or(0, |count| count.saturating_add(1)));
        spec.acquire_time = Some(MicroTime(now));
        spec.holder_identity = Some(identity.to_owned());
    }
    spec.renew_time = Some(MicroTime(now));
    // Whole seconds on the wire, and at least one.
    spec.lease_duration_seconds = Some(i32::try_from(lasts.as_secs()).unwrap_or(i32::MAX).max(1));
    spec
}

/// Returns the time for which calls of former holders may still reach a cloud when the Lease is taken; `None` if none can.
///
/// It is the longest such time if the last holder was cut off, or was not drained. Otherwise it is the rest of an earlier
/// such time. A clock that differs can shorten the rest, and cannot make it longer than the longest time.
pub(super) fn unsettled(lease: &Lease, now: Timestamp) -> Option<Duration> {
    if has_holder(lease) || annotation(lease, DRAINED) == Some("false") {
        return Some(TermStart::LATE);
    }
    rest(lease, now).map(|rest| rest.min(TermStart::LATE))
}

/// Returns the rest of the time in the annotation; `None` if it is over.
fn rest(lease: &Lease, now: Timestamp) -> Option<Duration> {
    let until: Timestamp = annotation(lease, UNSETTLED_UNTIL)?.parse().ok()?;
    Duration::try_from(until.duration_since(now)).ok().filter(|rest| !rest.is_zero())
}

fn annotation<'a>(lease: &'a Lease, key: &str) -> Option<&'a str> {
    lease.metadata.annotations.as_ref()?.get(key).map(String::as_str)
}

/// Records how long calls of former holders may still reach a cloud, when the Lease is taken.
pub(super) fn set_unsettled(lease: &mut Lease, rest: Option<Duration>, now: Timestamp) {
    let annotations = lease.metadata.annotations.get_or_insert_default();
    annotations.remove(DRAINED);
    match rest.and_then(|rest| now.checked_add(rest).ok()) {
        Some(until) => annotations.insert(UNSETTLED_UNTIL.to_owned(), until.to_string()),
        None => annotations.remove(UNSETTLED_UNTIL),
    };
}

/// Returns the Lease after its holder releases it. `is_drained`: the holder has ended its calls to clouds.
pub(super) fn released(mut lease: Lease, is_drained: bool, now: Timestamp) -> Lease {
    let is_unsettled = rest(&lease, now).is_some();
    let annotations = lease.metadata.annotations.get_or_insert_default();
    annotations.insert(DRAINED.to_owned(), is_drained.to_string());
    if !is_unsettled {
        annotations.remove(UNSETTLED_UNTIL);
    }
    let spec = lease.spec.take().unwrap_or_default();
    lease.spec = Some(LeaseSpec { holder_identity: None, renew_time: None, acquire_time: None, ..spec });
    lease
}

#[cfg(test)]
mod tests {
    use super::*;

    const LASTS: Duration = Duration::from_secs(15);

    fn lease(holder: &str, renewed: &str) -> Lease {
        let spec = LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            renew_time: Some(MicroTime(renewed.parse().unwrap())),
            lease_duration_seconds: Some(15),
            ..LeaseSpec::default()
        };
        Lease { spec: Some(spec), ..Lease::default() }
    }

    #[test]
    fn a_lease_is_free_only_after_it_was_observed_unchanged_for_its_duration() {
        let start = Instant::now();
        let mut view = View::default();
        assert!(!view.is_free("me", LASTS, start), "nothing was observed");
        // The holder's clock is years behind. That has no effect.
        view.observe(&lease("other", "2001-01-01T00:00:00Z"), start);
        assert!(!view.is_free("me", LASTS, start));
        view.observe(&lease("other", "2001-01-01T00:00:00Z"), start + LASTS / 2);
        assert!(!view.is_free("me", LASTS, start + LASTS / 2));
        assert!(view.is_free("me", LASTS, start + LASTS));
        // Its clock jumps back. The Lease still changed, so it was renewed.
        view.observe(&lease("other", "1999-01-01T00:00:00Z"), start + LASTS);
        assert!(!view.is_free("me", LASTS, start + LASTS));
        view.observe(&lease("me", "1999-01-01T00:00:00Z"), start + LASTS);
        assert!(view.is_free("me", LASTS, start + LASTS));
        view.observe(&lease("", "1999-01-01T00:00:00Z"), start + LASTS);
        assert!(view.is_free("me", LASTS, start + LASTS));
    }

    #[test]
    fn a_transition_is_counted_when_the_holder_changes() {
        let now: Timestamp = "2026-11-21T12:00:00Z".parse().unwrap();
        let first = taken(&Lease::default(), "a", LASTS, now);
        assert_eq!((first.lease_transitions, first.lease_duration_seconds), (Some(0), Some(15)));
        let held = Lease { spec: Some(first), ..Lease::default() };
        let again = taken(&held, "a", LASTS, now + Duration::from_secs(5));
        assert_eq!((again.lease_transitions, again.acquire_time), (Some(0), Some(MicroTime(now))));
        let free = released(held, true, now);
        assert_eq!(taken(&free, "b", LASTS, now).lease_transitions, Some(1));
    }

    #[test]
    fn hv_05_only_a_holder_that_was_cut_off_or_not_drained_leaves_calls_behind() {
        let now: Timestamp = "2026-11-21T12:00:00Z".parse().unwrap();
        let held = || lease("a", "2026-11-21T11:59:58Z");
        assert_eq!(unsettled(&held(), now), Some(TermStart::LATE), "cut off");
        assert_eq!(unsettled(&released(held(), false, now), now), Some(TermStart::LATE));
        let mut drained = released(held(), true, now);
        assert_eq!(annotation(&drained, DRAINED), Some("true"));
        assert_eq!(unsettled(&drained, now), None);
        drained.metadata.annotations = None;
        assert_eq!(unsettled(&drained, now), None, "released by an earlier version");
        assert_eq!(unsettled(&Lease::default(), now), None, "no leader before");
    }

    #[test]
    fn hv_04_the_time_after_a_cut_outlasts_an_orderly_handover() {
        let now: Timestamp = "2026-11-21T12:00:00Z".parse().unwrap();
        let second = Duration::from_secs(1);
        let mut lease = lease("b", "2026-11-21T12:00:00Z");
        set_unsettled(&mut lease, Some(TermStart::LATE), now);
        let early = released(lease.clone(), true, now + 20 * second);
        assert_eq!(unsettled(&early, now + 21 * second), Some(44 * second));
        assert_eq!(unsettled(&early, now + TermStart::LATE), None);
        assert_eq!(unsettled(&early, now - 3600 * second), Some(TermStart::LATE), "a clock that is behind");
        let mut next = early.clone();
        set_unsettled(&mut next, unsettled(&early, now + 21 * second), now + 21 * second);
        assert_eq!(annotation(&next, UNSETTLED_UNTIL), annotation(&early, UNSETTLED_UNTIL));
        assert_eq!(annotation(&next, DRAINED), None, "it says nothing about the next holder");
        let late = released(lease, true, now + TermStart::LATE);
        assert_eq!(annotation(&late, UNSETTLED_UNTIL), None);
        set_unsettled(&mut next, None, now);
        assert_eq!(annotation(&next, UNSETTLED_UNTIL), None);
    }
}
