//! Healing of a load balancer in ERROR, without another address.

use std::time::Duration;

use controllers_infrastructure::LoadBalancer;

use super::{BROKEN, BalancerView, DEGRADED, ERROR, PENDING, RECREATE, STUCK, Step};

/// Reason of a replacement.
pub(super) const REQUESTED: &str = "the user requests another one";

/// Interval between two failovers: one takes minutes, and cannot mend what the last one did not.
const FAILOVER_INTERVAL: Duration = Duration::from_mins(30);

/// Time without an answer after which a broken load balancer is replaced.
const SILENCE: Duration = Duration::from_mins(5);

/// Time after which a change counts as stuck: Octavia takes minutes at most.
const LONGEST_CHANGE: Duration = Duration::from_mins(15);

/// Returns the reason and message of the wait for a load balancer that Octavia changes.
pub(super) fn pending(now: jiff::Timestamp, balancer: &LoadBalancer) -> (&'static str, String) {
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

/// Returns the step that heals a load balancer in ERROR. `worked` is true if it has ever been ACTIVE.
pub(super) fn heal(view: &BalancerView, id: &str, worked: bool) -> Step {
    let id = id.to_owned();
    if !worked {
        let why = "Octavia could not build it. It gives no reason; its operator sees one".to_owned();
        return Step::Replace { id, why, failed: true };
    }
    if view.recreate.is_some() {
        return Step::Replace { id, why: REQUESTED.to_owned(), failed: false };
    }
    if view.failed_over.is_none_or(|last| is_over(last, view.now, FAILOVER_INTERVAL)) {
        return Step::FailOver { id, at: view.now };
    }
    if !view.answers && view.silent_since.is_some_and(|since| is_over(since, view.now, SILENCE)) {
        let why = "it is in ERROR and forwards no connections".to_owned();
        return Step::Replace { id, why, failed: false };
    }
    let message = format!(
        "load balancer {id} is in ERROR. Octavia gives no reason; its operator sees one. \
         Annotate the OpenStackCluster with {RECREATE} to create another one behind the same address"
    );
    Step::Wait { reason: if view.answers { DEGRADED } else { BROKEN }, message }
}

fn is_over(since: jiff::Timestamp, now: jiff::Timestamp, interval: Duration) -> bool {
    now.duration_since(since).unsigned_abs() >= interval
}

/// Returns the step that removes a broken part, so that the next pass creates it again.
pub(super) fn broken_part(view: &BalancerView) -> Option<Step> {
    let member = view.pools.iter().find_map(|pool| {
        let broken = pool.members.iter().find(|member| member.provisioning_status == ERROR)?;
        Some(Step::RemoveBrokenMember { pool: pool.pool.id.clone(), id: broken.id.clone() })
    });
    let monitor = view.pools.iter().filter_map(|pool| pool.monitor.as_ref());
    let monitor = || monitor.clone().find(|monitor| monitor.provisioning_status == ERROR);
    let pool = || view.pools.iter().find(|pool| pool.pool.provisioning_status == ERROR);
    let listener = || view.listeners.iter().find(|listener| listener.provisioning_status == ERROR);
    member
        .or_else(|| Some(Step::RemoveBrokenMonitor(monitor()?.id.clone())))
        .or_else(|| Some(Step::RemoveBrokenPool(pool()?.pool.id.clone())))
        .or_else(|| Some(Step::RemoveBrokenListener(listener()?.id.clone())))
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
}
