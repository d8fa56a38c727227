//! Drift: what Capstan set in the cloud, and another client changed.
//!
//! Each pass compares the cloud with the spec and sets what differs. A difference is drift if the last complete pass set
//! the same for the same spec; otherwise the wish has changed. Each correction of drift gives an Event. A field that is
//! corrected too often is left alone until the spec changes.

mod corrections;
mod fields;
mod record;
#[cfg(test)]
mod tests;

pub(super) use corrections::{Correction, of, permitted, permitted_part};
pub(super) use fields::wishes;
pub(super) use record::{ANNOTATION, Drift};

use super::balancer;
use super::decide::Step;
use super::observe::Observed;

/// Reason of the Event about a correction.
pub(super) const CORRECTED: &str = "DriftCorrected";

/// Reason of a part with a field that Capstan does not correct any more, and of the Event about that.
pub(super) const FIGHT: &str = "DriftFight";

/// Forgets what was set, if a step removes a part that Capstan itself creates again. What differs then is no drift.
pub(super) fn forget_dependent(step: &Step, observed: &mut Observed) {
    let removes =
        matches!(step, Step::Balance(balancer::Step::RemoveBroken { .. } | balancer::Step::Replace { .. }));
    if removes {
        observed.drift.forget();
    }
}

/// Forgets members that are left alone and that no pool is to have any more: their Machines are gone, or have other
/// addresses.
pub(super) fn forget_old_members(observed: &mut Observed) {
    let wanted = fields::all_members(observed);
    observed.drift.retain_stopped(|field| !fields::is_member(field) || wanted.contains(field));
}
