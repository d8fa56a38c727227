//! Healing of a load balancer in ERROR, without another address.

use std::time::Duration;

use controllers_infrastructure::{Listener, LoadBalancer, LoadBalancerPart, Member, Pool};
use controllers_runtime::OwnershipTag;

use super::repairs::Repair;
use super::wish::BalancerWish;
use super::{
    ACTIVE, BEING_DELETED, BROKEN, BalancerView, DEGRADED, DISABLED, ERROR, PENDING, RECREATE, STUCK, Step,
    foreign_parts,
};

/// Reason of a replacement.
pub(super) const REQUESTED: &str = "the user requests another one";

/// Interval between two failovers: one takes minutes, and cannot mend what the last one did not.
const FAILOVER_INTERVAL: Duration = Duration::from_mins(30);

/// Interval in which a load balancer is switched on once.
const ENABLE_INTERVAL: Duration = Duration::from_hours(1);

/// Time without an answer after which a broken load balancer is replaced.
const SILENCE: Duration = Duration::from_mins(5);

/// Time after which a change counts as stuck: Octavia takes minutes at most.
const LONGEST_CHANGE: Duration = Duration::from_mins(15);

/// Returns the reason and message of the wait for a load balancer that Octavia changes.
pub(in super::super) fn pending(now: jiff::Timestamp, balancer: &LoadBalancer) -> (&'static str, String) {
    let LoadBalancer { name, id, provisioning_status: status, .. } = balancer;
    let since: Option<jiff::Timestamp> = balancer.changed_at.parse().ok();
    match since.filter(|since| is_over(*since, now, LONGEST_CHANGE)) {
        None => (PENDING, format!("load balancer {name} ({id}) is in {status}")),
        Some(since) => {
            let message = format!(
                "load balancer {name} ({id}) of provider {:?} has been in {status} since {since}. \
                 Only the operator of the cloud can end that, by setting it to ERROR",
                balancer.provider
            );
            (STUCK, message)
        }
    }
}

/// Returns the reason and message of the wait for a load balancer of a cluster that stays.
pub(super) fn changing(view: &BalancerView, balancer: &LoadBalancer) -> (&'static str, String) {
    let LoadBalancer { name, id, provisioning_status: status, .. } = balancer;
    let (reason, message) = pending(view.now, balancer);
    if status != "PENDING_DELETE" || reason == STUCK || view.replaced.as_ref() == Some(id) {
        return (reason, message);
    }
    let message = format!(
        "another client deletes load balancer {name} ({id}). Capstan then creates another one behind the same address"
    );
    (BEING_DELETED, message)
}

/// Returns the step for a load balancer that another client has switched off. One who does it again has a reason.
pub(super) fn switched_off(view: &BalancerView, id: &str) -> Step {
    let Some(last) = view.enabled.filter(|last| !is_over(*last, view.now, ENABLE_INTERVAL)) else {
        return Step::Enable { id: id.to_owned(), at: view.now };
    };
    let message = format!(
        "another client has switched load balancer {id} off again, after Capstan switched it on at {last}. Capstan \
         switches it on an hour after that. Stop that client"
    );
    Step::Wait { reason: DISABLED, message }
}

/// Returns the step that heals a load balancer in ERROR. `worked` is true if the cluster had one that was ACTIVE.
pub(super) fn heal(view: &BalancerView, id: &str, worked: bool) -> Step {
    let id = id.to_owned();
    if view.is_being_replaced(&id) {
        let why = "an earlier attempt to delete it had no effect".to_owned();
        return Step::Replace { id, why, failed: true };
    }
    if !worked || (view.recreations.is_unproven() && !view.answers) {
        return build_again(view, id);
    }
    let limit = view.recreations.delay_of_proven(view.now);
    if view.recreate.is_some() && limit.is_none() {
        return Step::Replace { id, why: REQUESTED.to_owned(), failed: false };
    }
    if view.failed_over.is_none_or(|last| is_over(last, view.now, FAILOVER_INTERVAL)) {
        return Step::FailOver { id, at: view.now };
    }
    let is_silent = silent_since(view).is_some_and(|since| is_over(since, view.now, SILENCE));
    if !view.answers && is_silent && limit.is_none() {
        let why = "it is in ERROR and forwards no connections".to_owned();
        return Step::Replace { id, why, failed: false };
    }
    let remedy = match limit {
        None => format!(
            "Annotate the OpenStackCluster with {RECREATE} to create another one behind the same address"
        ),
        Some(next) => {
            format!("Capstan creates another one behind the same address at {next} at the earliest")
        }
    };
    let title = title(view, &id);
    let message = format!("{title} is in ERROR. Octavia gives no reason; its operator sees one. {remedy}");
    Step::Wait { reason: if view.answers { DEGRADED } else { BROKEN }, message }
}

/// Returns since when a load balancer in ERROR forwards nothing. It may have been unusable earlier, in another state.
fn silent_since(view: &BalancerView) -> Option<jiff::Timestamp> {
    let changed = view.balancer.as_ref().and_then(|balancer| balancer.changed_at.parse().ok());
    view.silent_since.map(|since| changed.map_or(since, |changed: jiff::Timestamp| changed.max(since)))
}

/// Names a load balancer.
fn title(view: &BalancerView, id: &str) -> String {
    let name = view.balancer.as_ref().map(|balancer| balancer.name.as_str()).unwrap_or_default();
    format!("load balancer {name} ({id})")
}

/// Returns the step for a load balancer that Octavia could not build.
fn build_again(view: &BalancerView, id: String) -> Step {
    let why = "Octavia could not build it. It gives no reason; its operator sees one".to_owned();
    match view.recreations.delay_of_unproven(view.now) {
        None => Step::Replace { id, why, failed: true },
        Some(next) => {
            let title = title(view, &id);
            let message = format!("{title} is in ERROR: {why}. Capstan creates another one at {next}");
            Step::Wait { reason: BROKEN, message }
        }
    }
}

/// Returns true if Octavia has had a load balancer in ERROR, or in one change, for so long that nothing waits for it.
pub(crate) fn is_given_up(now: jiff::Timestamp, balancer: &LoadBalancer) -> bool {
    let since = balancer.changed_at.parse().ok();
    balancer.provisioning_status != ACTIVE && since.is_some_and(|since| is_over(since, now, LONGEST_CHANGE))
}

/// Returns true if an interval has passed. The clock of another replica may be behind; a time that is further off does
/// not count.
pub(super) fn is_over(since: jiff::Timestamp, now: jiff::Timestamp, interval: Duration) -> bool {
    now.duration_since(since).unsigned_abs() >= interval
}

/// Part of a load balancer in ERROR.
struct Broken {
    /// Name under which its repairs are recorded, which it has also after it was created again.
    key: String,
    part: LoadBalancerPart,
}

/// Returns the step that repairs a broken part: it is set again once, then removed, so that the next pass creates it again.
/// A part that was removed too often stays as it is for a while.
pub(super) fn broken_part(wish: &BalancerWish, tag: &OwnershipTag, view: &BalancerView) -> Option<Step> {
    broken_parts(wish, tag, view).into_iter().find_map(|Broken { key, part }| {
        let repair = view.repairs.next(&key, part.id(), view.now)?;
        let repairs = view.repairs.after(&key, part.id(), repair, view.now);
        Some(match repair {
            Repair::SetAgain => Step::SetAgain { part, repairs },
            Repair::Delete => Step::RemoveBroken { part, repairs },
        })
    })
}

/// Returns the message about broken parts that are not repaired for a while.
pub(super) fn given_up(wish: &BalancerWish, tag: &OwnershipTag, view: &BalancerView) -> Option<String> {
    let mut left = broken_parts(wish, tag, view);
    left.retain(|it| view.repairs.next(&it.key, it.part.id(), view.now).is_none());
    let names: Vec<String> = left.iter().map(|it| format!("{} ({})", it.key, it.part.id())).collect();
    (!names.is_empty()).then(|| {
        format!(
            "in ERROR, also after it was created again three times within an hour: {}. Octavia gives no reason; its \
             operator sees one",
            names.join(", ")
        )
    })
}

/// Returns true if the listener of a port, or its pool, is in ERROR, so that Octavia refuses changes below it.
pub(super) fn is_port_broken(view: &BalancerView, port: i32) -> bool {
    let Some(listener) = view.listener(port) else { return false };
    let pool = view.pool_of(listener);
    listener.provisioning_status == ERROR || pool.is_some_and(|it| it.pool.provisioning_status == ERROR)
}

/// Returns our parts in ERROR, the smallest ones first. Parts of other owners stay.
fn broken_parts(wish: &BalancerWish, tag: &OwnershipTag, view: &BalancerView) -> Vec<Broken> {
    let is_broken = |status: &str| status == ERROR;
    let ours = |it: &&Listener| foreign_parts::is_our_listener(wish, tag, it);
    let listeners: Vec<&Listener> = view.listeners.iter().filter(ours).collect();
    let serves = |pool: &Pool| listeners.iter().any(|it| it.default_pool_id.as_ref() == Some(&pool.id));
    let is_our_pool = |pool: &Pool| foreign_parts::is_our_pool(wish, tag, view, pool);
    let pools = || view.pools.iter().filter(|it| is_our_pool(&it.pool) || serves(&it.pool));
    let broken = |kind: &str, name: &str, part| Broken { key: format!("{kind}/{name}"), part };
    let members = pools().flat_map(|pool| pool.members.iter().map(|member| (pool.pool.id.clone(), member)));
    let is_our_member = |it: &Member| foreign_parts::is_our_member(wish, tag, view, it);
    let members = members.filter(|(_, it)| is_our_member(it) && is_broken(&it.provisioning_status));
    let members = members
        .map(|(pool, it)| broken("member", &it.name, LoadBalancerPart::Member { pool, id: it.id.clone() }));
    let monitors = pools().filter_map(|pool| Some((&pool.pool.name, pool.monitor.as_ref()?)));
    let monitors = monitors.filter(|(_, it)| is_broken(&it.provisioning_status));
    let monitors = monitors
        .map(|(name, it)| broken("health monitor", name, LoadBalancerPart::HealthMonitor(it.id.clone())));
    let broken_pools = pools().map(|it| &it.pool).filter(|it| is_broken(&it.provisioning_status));
    let broken_pools = broken_pools.map(|it| broken("pool", &it.name, LoadBalancerPart::Pool(it.id.clone())));
    let listeners = listeners.iter().filter(|it| is_broken(&it.provisioning_status));
    let listeners =
        listeners.map(|it| broken("listener", &it.name, LoadBalancerPart::Listener(it.id.clone())));
    members.chain(monitors).chain(broken_pools).chain(listeners).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r8_9_a_change_of_more_than_a_quarter_of_an_hour_is_stuck_also_while_the_cluster_is_deleted() {
        let text = str::to_owned;
        let balancer = LoadBalancer {
            id: text("1"),
            name: text("lb"),
            provider: text("amphora"),
            provisioning_status: text("PENDING_UPDATE"),
            changed_at: text("2026-01-01T00:00:00Z"),
            ..LoadBalancer::default()
        };
        for (now, expected, words) in [
            ("2026-01-01T00:14:59Z", PENDING, "lb (1) is in PENDING_UPDATE"),
            (
                "2026-01-01T00:15:00Z",
                STUCK,
                "since 2026-01-01T00:00:00Z. Only the operator of the cloud can end that",
            ),
        ] {
            let (reason, message) = pending(now.parse().unwrap(), &balancer);
            assert_eq!(reason, expected);
            assert!(message.contains(words), "{message}");
        }
    }

    fn at(time: &str) -> jiff::Timestamp {
        format!("2026-01-01T{time}Z").parse().unwrap()
    }

    #[test]
    fn a_deletion_by_another_client_is_told_from_our_own() {
        let balancer = LoadBalancer {
            id: "1".to_owned(),
            provisioning_status: "PENDING_DELETE".to_owned(),
            changed_at: "2026-01-01T00:00:00Z".to_owned(),
            ..LoadBalancer::default()
        };
        let mut view = BalancerView { now: at("00:01:00"), ..BalancerView::default() };
        assert_eq!(changing(&view, &balancer).0, "LoadBalancerBeingDeleted");
        view.replaced = Some("1".to_owned());
        assert_eq!(changing(&view, &balancer).0, PENDING);
        view = BalancerView { now: at("00:15:00"), ..BalancerView::default() };
        assert_eq!(changing(&view, &balancer).0, STUCK);
    }

    #[test]
    fn a_load_balancer_is_switched_on_once_per_hour() {
        let mut view = BalancerView { now: at("02:00:00"), ..BalancerView::default() };
        for (enabled, expected) in [(None, true), (Some("01:00:01"), false), (Some("01:00:00"), true)] {
            view.enabled = enabled.map(at);
            let step = switched_off(&view, "1");
            assert_eq!(matches!(step, Step::Enable { .. }), expected, "{enabled:?}: {step:?}");
            let is_reported = matches!(step, Step::Wait { reason: "LoadBalancerDisabled", .. });
            assert_eq!(is_reported, !expected, "{enabled:?}");
        }
    }

    #[test]
    fn r8_23_a_machine_waits_a_quarter_of_an_hour_for_a_load_balancer_that_cannot_change() {
        let of = |status: &str| LoadBalancer {
            provisioning_status: status.to_owned(),
            changed_at: "2026-01-01T00:00:00Z".to_owned(),
            ..LoadBalancer::default()
        };
        for (status, time, expected) in [
            ("ERROR", "00:14:59", false),
            ("ERROR", "00:15:00", true),
            ("PENDING_UPDATE", "00:15:00", true),
            ("ACTIVE", "09:00:00", false),
        ] {
            assert_eq!(is_given_up(at(time), &of(status)), expected, "{status} at {time}");
        }
    }
}
