//! Decision on a server that went into ERROR before its machine was complete.

use controllers_infrastructure::Server;
use controllers_runtime::OwnershipTag;

use super::{Observed, Step, Waiting};

/// Returns true if the server is a failed build, as far as the object knows: Capstan created it, and it never worked. Other
/// servers in ERROR are left to the Machine's owner. Pure.
pub(in super::super) fn is_failed_build(tag: &OwnershipTag, observed: &Observed) -> bool {
    let is_ours = |server: &Server| server.status == "ERROR" && server.tags.contains(&tag.text());
    !observed.provisioned
        && !observed.in_operation
        && observed.provider_id.is_none()
        && observed.server.as_ref().is_some_and(is_ours)
}

/// Returns the step for a server in ERROR: another build, or a wait.
pub(super) fn step(tag: &OwnershipTag, observed: &Observed, server: &Server) -> Step {
    if !is_failed_build(tag, observed) {
        return Step::Wait(Waiting::Unavailable);
    }
    if let Some(why) = &observed.after_restore {
        return Step::Wait(Waiting::Restored(why.clone()));
    }
    let fault = server.fault.clone().unwrap_or_else(|| "Nova gives no reason".to_owned());
    match observed.failed_builds.may_try_again(&fault, observed.now) {
        true => Step::DeleteBroken { id: server.id.clone(), fault },
        false => Step::Wait(Waiting::Unavailable),
    }
}
