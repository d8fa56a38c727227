//! Warnings about attributes that an old Octavia does not have.

use controllers_infrastructure::LoadBalancerLimits;

/// Event of a warning: reason and message.
type Warning = (&'static str, String);

/// Returns the warning about a load balancer that gets no tags. Pure.
pub(super) fn of_load_balancer(limits: &LoadBalancerLimits) -> Option<Warning> {
    let message = "Octavia has no tags before version 2.5. The load balancer and its parts have none, and Capstan \
                   recognizes them by description and names. Upgrade Octavia";
    limits.lacks_tags.then(|| ("TagNotApplied", message.to_owned()))
}

/// Returns the warning about a listener that gets no timeouts. Pure.
pub(super) fn of_listener(limits: &LoadBalancerLimits) -> Option<Warning> {
    let message = "Octavia has no timeouts of listeners before version 2.1, so it ends connections that are silent for \
                   50 seconds, for example those of kubectl logs --follow. Upgrade Octavia";
    limits.lacks_idle_timeouts.then(|| ("IdleTimeoutUnsupported", message.to_owned()))
}
