//! What a Lease says, and what it says over time.

use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::{Lease, LeaseSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::MicroTime;
use tokio::time::Instant;

/// What a candidate saw of the Lease, and when it saw it change.
#[derive(Debug, Default)]
pub(super) struct View(Option<(LeaseSpec, Instant)>);

impl View {
    /// Takes note of what the Lease says now.
    pub(super) fn observe(&mut self, lease: &Lease, now: Instant) {
        let spec = lease.spec.clone().unwrap_or_default();
        if self.0.as_ref().is_none_or(|(before, _)| *before != spec) {
            self.0 = Some((spec, now));
        }
    }

    /// Whether it may be taken: it is nobody's, it is ours, or its holder gave no sign of life for
    /// as long as the Lease lasts. `usual` is how long one lasts that does not say.
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

/// Whether the Lease names this holder.
pub(super) fn is_held_by(lease: &Lease, identity: &str) -> bool {
    lease.spec.as_ref().is_some_and(|spec| holder(spec) == identity)
}

/// What the Lease says once this holder takes or renews it.
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

/// What it says once its holder gave it back.
pub(super) fn released(lease: &Lease) -> LeaseSpec {
    let spec = lease.spec.clone().unwrap_or_default();
    LeaseSpec { holder_identity: None, renew_time: None, acquire_time: None, ..spec }
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
    fn only_silence_that_was_watched_frees_a_lease() {
        let start = Instant::now();
        let mut view = View::default();
        assert!(!view.is_free("me", LASTS, start), "nothing was seen");
        // The holder's clock is years behind: that says nothing.
        view.observe(&lease("other", "2001-01-01T00:00:00Z"), start);
        assert!(!view.is_free("me", LASTS, start));
        view.observe(&lease("other", "2001-01-01T00:00:00Z"), start + LASTS / 2);
        assert!(!view.is_free("me", LASTS, start + LASTS / 2));
        assert!(view.is_free("me", LASTS, start + LASTS));
        // Its clock jumps back: a sign of life all the same.
        view.observe(&lease("other", "1999-01-01T00:00:00Z"), start + LASTS);
        assert!(!view.is_free("me", LASTS, start + LASTS));
        view.observe(&lease("me", "1999-01-01T00:00:00Z"), start + LASTS);
        assert!(view.is_free("me", LASTS, start + LASTS));
        view.observe(&lease("", "1999-01-01T00:00:00Z"), start + LASTS);
        assert!(view.is_free("me", LASTS, start + LASTS));
    }

    #[test]
    fn transitions_are_counted() {
        let now: Timestamp = "2026-11-21T12:00:00Z".parse().unwrap();
        let first = taken(&Lease::default(), "a", LASTS, now);
        assert_eq!((first.lease_transitions, first.lease_duration_seconds), (Some(0), Some(15)));
        let held = Lease { spec: Some(first), ..Lease::default() };
        let again = taken(&held, "a", LASTS, now + Duration::from_secs(5));
        assert_eq!((again.lease_transitions, again.acquire_time), (Some(0), Some(MicroTime(now))));
        let free = Lease { spec: Some(released(&held)), ..Lease::default() };
        assert_eq!(taken(&free, "b", LASTS, now).lease_transitions, Some(1));
    }
}
