//! Order of the conditions of an object. It is fixed, so that changes of a status are small and readable.

use apiserver_types::Condition;

/// Types in upstream's order. Others follow in the order of the alphabet.
const FIRST: [&str; 32] = [
    "Available",
    "Ready",
    "UpToDate",
    "RemoteConnectionProbe",
    "BootstrapConfigReady",
    "InfrastructureReady",
    "ControlPlaneInitialized",
    "ControlPlaneAvailable",
    "WorkersAvailable",
    "NodeHealthy",
    "NodeReady",
    "NodeKubeadmLabelsAndTaintsSet",
    "EtcdPodHealthy",
    "EtcdMemberHealthy",
    "APIServerPodHealthy",
    "ControllerManagerPodHealthy",
    "SchedulerPodHealthy",
    "HealthCheckSucceeded",
    "OwnerRemediated",
    "ExternallyRemediated",
    "TopologyReconciled",
    "Updating",
    "RollingOut",
    "Remediating",
    "ScalingDown",
    "ScalingUp",
    "MachinesReady",
    "ControlPlaneMachinesReady",
    "WorkerMachinesReady",
    "MachinesUpToDate",
    "ControlPlaneMachinesUpToDate",
    "WorkerMachinesUpToDate",
];

/// Types that come after all others.
const LAST: [&str; 2] = ["Paused", "Deleting"];

/// Puts conditions in order.
pub(crate) fn sort(conditions: &mut [Condition]) {
    conditions.sort_by(|a, b| rank(&a.kind).cmp(&rank(&b.kind)).then_with(|| a.kind.cmp(&b.kind)));
}

/// Returns the position of a type: among the first, the others or the last ones, and its position there.
fn rank(kind: &str) -> (u8, usize) {
    let position = |list: &[&str]| list.iter().position(|it| *it == kind);
    match (position(&FIRST), position(&LAST)) {
        (Some(at), _) => (0, at),
        (None, None) => (1, 0),
        (None, Some(at)) => (2, at),
    }
}

#[cfg(test)]
mod tests {
    use apiserver_types::{ConditionStatus, Time};

    use super::*;

    /// The order was recorded from upstream's controllers.
    #[test]
    fn conditions_have_the_order_of_upstream() {
        let recorded = [
            "Available",
            "Ready",
            "UpToDate",
            "BootstrapConfigReady",
            "InfrastructureReady",
            "NodeHealthy",
            "NodeReady",
            "HealthCheckSucceeded",
            "OwnerRemediated",
            "Updating",
            "ADiskIsFull",
            "Burning",
            "Paused",
            "Deleting",
        ];
        let of = |kind: &&str| Condition::new(kind, ConditionStatus::True, "Fine", "", Time::default());
        let mut conditions: Vec<Condition> = recorded.iter().rev().map(of).collect();
        sort(&mut conditions);
        assert_eq!(conditions.iter().map(|it| it.kind.as_str()).collect::<Vec<_>>(), recorded);
    }
}
