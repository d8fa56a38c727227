//! Transitions: every change of a load balancer or of its parts takes a while.

use super::*;
use crate::context::Fate;
use crate::neutron::ports;
use crate::object::{set, text};

/// Change in progress of one load balancer. Octavia makes one at a time.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Transition {
    /// End of the change.
    until: Timestamp,
    /// Changed objects: the load balancer itself, or parts of it.
    targets: Vec<(BalancerKind, String)>,
    /// The change ends in ERROR.
    fails: bool,
    /// The targets are deleted at the end.
    deletes: bool,
}

/// Provider whose changes never end.
const FROZEN: &str = "frozen";

/// Begins a change of a load balancer, and sets the states of its targets.
pub(super) fn begin(
    state: &mut CloudState,
    context: &Context<'_>,
    load_balancer: &str,
    targets: Vec<(BalancerKind, String)>,
    status: &str,
) {
    let pending = [(BalancerKind::LoadBalancer, load_balancer.to_owned())];
    for (kind, id) in pending.iter().chain(&targets) {
        let own = targets.contains(&(*kind, id.clone()));
        if let Some(object) = state.balancer_mut(*kind, id) {
            set(object, STATUS, if own { status } else { "PENDING_UPDATE" });
            if status != "PENDING_CREATE" || !own {
                set(object, "updated_at", time(context.now));
            }
        }
    }
    let provider = draft::provider(state, load_balancer);
    if provider == FROZEN {
        return;
    }
    let options = context.options;
    let time = options.load_balancer_times.get(provider).copied().unwrap_or(options.load_balancer_time);
    let until = context.after(time);
    let deletes = status == "PENDING_DELETE";
    let transition = Transition { until, targets, fails: context.fate == Fate::Error, deletes };
    state.balancer_transitions.insert(load_balancer.to_owned(), transition);
    state.expect(until);
}

/// Completes the changes that are due. Returns the time of the next one.
pub(crate) fn advance(state: &mut CloudState, now: Timestamp) -> Option<Timestamp> {
    let due: Vec<String> = state
        .balancer_transitions
        .iter()
        .filter(|(_, transition)| transition.until <= now)
        .map(|(id, _)| id.clone())
        .collect();
    for id in due {
        if let Some(transition) = state.balancer_transitions.remove(&id) {
            finish(state, &id, &transition, now);
        }
    }
    state.balancer_transitions.values().map(|transition| transition.until).min()
}

fn finish(state: &mut CloudState, load_balancer: &str, transition: &Transition, now: Timestamp) {
    let whole = (BalancerKind::LoadBalancer, load_balancer.to_owned());
    if transition.deletes && !transition.fails && transition.targets.contains(&whole) {
        return remove_whole(state, load_balancer, now);
    }
    let is_target_broken = transition.fails && transition.targets.contains(&whole);
    end(state, &whole, if is_target_broken { "ERROR" } else { "ACTIVE" });
    for target in transition.targets.iter().filter(|target| **target != whole) {
        match (transition.fails, transition.deletes) {
            (true, _) => end(state, target, "ERROR"),
            (false, true) => {
                state.load_balancing.entry(target.0).or_default().remove(&target.1);
            }
            (false, false) => end(state, target, "ACTIVE"),
        }
    }
}

fn end(state: &mut CloudState, (kind, id): &(BalancerKind, String), status: &str) {
    let Some(object) = state.balancer_mut(*kind, id) else { return };
    set(object, STATUS, status);
    let operating = match (status, kind) {
        ("ERROR", _) => "ERROR",
        (_, BalancerKind::Member) => "NO_MONITOR",
        _ => "ONLINE",
    };
    set(object, "operating_status", operating);
}

/// Removes a load balancer with all its parts, and the port that Octavia created for it.
fn remove_whole(state: &mut CloudState, id: &str, now: Timestamp) {
    let removed = state.load_balancing.entry(BalancerKind::LoadBalancer).or_default().remove(id);
    for kind in BalancerKind::ALL {
        let table = state.load_balancing.entry(kind).or_default();
        table.retain(|_, object| text(object, LOAD_BALANCER) != id);
    }
    let port = removed.as_ref().map(|it| text(it, "vip_port_id").to_owned()).unwrap_or_default();
    let found = state.find(crate::neutron::ResourceKind::Port, &port);
    if found.is_some_and(|port| text(port, "device_owner") == balancers::OWNER) {
        ports::discard(state, &port, now);
    }
}
