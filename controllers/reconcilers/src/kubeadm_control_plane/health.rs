//! Health of the control plane's components and of etcd, from the conditions of the Machines.

use apiserver_types::{Condition, ConditionStatus, KubeadmControlPlane, Time};
use kube::ResourceExt;

use super::inspection::Workload;
use super::machine_conditions::CONTROL_PLANE_ROLE;
use super::observe::Observed;
use super::replica::{PODS, Replica, managed_etcd};
use super::surplus::{self, Stay};
use crate::aggregate::{NAMES, list_names, plural};

/// Type of the condition of the static pods.
pub(super) const COMPONENTS: &str = "ControlPlaneComponentsHealthy";

/// Type of the condition of etcd.
pub(super) const ETCD_CLUSTER: &str = "EtcdClusterHealthy";

/// Returns the conditions of the components and of etcd. External etcd is not inspected, so that others may report it.
pub(super) fn conditions(
    control_plane: &KubeadmControlPlane,
    observed: &Observed,
    now: &Time,
) -> Vec<Condition> {
    let managed = managed_etcd(control_plane);
    let pods: Vec<&str> = PODS.into_iter().chain(managed.then_some("EtcdPodHealthy")).collect();
    let nodes = Extra { issues: nodes_without_machine(observed), notes: Vec::new() };
    let components = (COMPONENTS, pods, nodes);
    let members = (ETCD_CLUSTER, vec!["EtcdMemberHealthy"], members_without_machine(observed));
    let kinds = [Some(components), managed.then_some(members)];
    let known = control_plane.status.as_ref().and_then(|status| status.conditions.as_deref());
    let is_known = |kind: &str| apiserver_types::condition(known.unwrap_or_default(), kind).is_some();
    let mut conditions = Vec::new();
    for (kind, sources, extra) in kinds.into_iter().flatten() {
        let new =
            |status, reason: &str, message: &str| Condition::new(kind, status, reason, message, now.clone());
        let found = match &observed.workload {
            Workload::NotInspected => continue,
            Workload::NotInitialized { message, .. } => {
                new(ConditionStatus::Unknown, "InspectionFailed", message)
            }
            Workload::Unreachable { is_over: false, .. } if is_known(kind) => continue,
            Workload::Unreachable { message, reason, .. } => new(ConditionStatus::Unknown, reason, message),
            Workload::Reached(_) => {
                let (status, reason, message) = verdict(&observed.replicas, &sources, extra);
                new(status, reason, &message)
            }
        };
        conditions.push(found);
    }
    conditions
}

/// Lines of a message that come from no condition of a Machine.
#[derive(Debug, Default)]
struct Extra {
    /// Issues.
    issues: Vec<String>,
    /// Facts that may be no issue.
    notes: Vec<String>,
}

/// Returns status, reason and message from the conditions of the Machines.
fn verdict(replicas: &[Replica], kinds: &[&str], extra: Extra) -> (ConditionStatus, &'static str, String) {
    let mut folded: Vec<(ConditionStatus, String, Vec<String>)> = Vec::new();
    let mut reported = false;
    for replica in replicas {
        let Some((status, message)) = of_machine(replica, kinds) else { continue };
        reported = true;
        if status == ConditionStatus::True {
            continue;
        }
        match folded.iter_mut().find(|(known, text, _)| *known == status && *text == message) {
            Some((_, _, names)) => names.push(replica.name()),
            None => folded.push((status, message, vec![replica.name()])),
        }
    }
    let rank = |status: &ConditionStatus| usize::from(*status != ConditionStatus::False);
    folded.sort_by(|a, b| rank(&a.0).cmp(&rank(&b.0)).then_with(|| a.1.cmp(&b.1)));
    let is_false =
        !extra.issues.is_empty() || folded.iter().any(|(status, ..)| *status == ConditionStatus::False);
    let lines = folded.iter().map(|(_, message, names)| {
        let list = list_names(names.iter().map(String::as_str), NAMES);
        format!("* {} {list}:\n{message}", plural("Machine", names.len()))
    });
    let extra = extra.issues.into_iter().chain(extra.notes).map(|line| format!("* {line}"));
    let lines: Vec<String> = lines.chain(extra).collect();
    match (is_false, folded.is_empty(), reported) {
        (true, ..) => (ConditionStatus::False, "NotHealthy", lines.join("\n")),
        (false, false, _) => (ConditionStatus::Unknown, "HealthUnknown", lines.join("\n")),
        (false, true, false) => {
            (ConditionStatus::Unknown, "HealthUnknown", "No Machines report their status".to_owned())
        }
        (false, true, true) => (ConditionStatus::True, "Healthy", lines.join("\n")),
    }
}

/// Returns the worst status of a Machine, and its messages.
fn of_machine(replica: &Replica, kinds: &[&str]) -> Option<(ConditionStatus, String)> {
    let has_server = replica.machine.spec.provider_id.as_deref().is_some_and(|id| !id.is_empty());
    let found: Vec<&Condition> = kinds.iter().filter_map(|kind| replica.machine.condition(kind)).collect();
    let counts = |it: &&&Condition| it.status != ConditionStatus::Unknown || has_server;
    let counted: Vec<&Condition> = found.iter().filter(counts).copied().collect();
    if counted.is_empty() {
        return None;
    }
    let has = |status| counted.iter().any(|it| it.status == status);
    let worst = if has(ConditionStatus::False) {
        ConditionStatus::False
    } else if has(ConditionStatus::Unknown) {
        ConditionStatus::Unknown
    } else {
        ConditionStatus::True
    };
    let issues: Vec<(&str, &str)> = counted
        .iter()
        .filter(|it| it.status != ConditionStatus::True)
        .map(|it| {
            (it.kind.as_str(), if it.message.is_empty() { it.reason.as_str() } else { it.message.as_str() })
        })
        .collect();
    Some((worst, lines(&issues)))
}

/// Returns a line for each component, or one for all if they say the same.
fn lines(issues: &[(&str, &str)]) -> String {
    match issues {
        [(_, first), others @ ..] if !others.is_empty() && others.iter().all(|(_, text)| text == first) => {
            format!("  * Control plane components: {first}")
        }
        _ => issues.iter().map(|(kind, text)| format!("  * {kind}: {text}")).collect::<Vec<_>>().join("\n"),
    }
}

/// Returns the control plane Nodes that no Machine has. While a Machine waits for its Node, one may be its.
fn nodes_without_machine(observed: &Observed) -> Vec<String> {
    if observed.replicas.iter().any(|it| it.node().is_none()) {
        return Vec::new();
    }
    let nodes = observed.workload.nodes().unwrap_or_default();
    let ours = nodes.iter().filter(|node| node.labels().contains_key(CONTROL_PLANE_ROLE));
    let names = ours.map(ResourceExt::name_any);
    let without = names.filter(|name| !observed.replicas.iter().any(|it| it.node() == Some(name.as_str())));
    without.map(|name| format!("Control plane Node {name} does not have a corresponding Machine")).collect()
}

/// Returns the members of etcd that no Machine has, with the reasons for which they stay. One that may be that of a
/// Machine which joins is no issue.
fn members_without_machine(observed: &Observed) -> Extra {
    let mut extra = Extra::default();
    for stray in observed.of_etcd().map(surplus::strays).unwrap_or_default() {
        let line = format!("Etcd member {} does not have a corresponding Machine", stray.member.title());
        match stray.stays {
            None => extra.issues.push(line),
            Some(Stay::Needed(reason)) => extra.issues.push(format!("{line}. It is not removed: {reason}")),
            Some(Stay::Joins(reason)) => extra.notes.push(format!("{line}. It is not removed: {reason}")),
        }
    }
    extra
}

#[cfg(test)]
mod tests {
    use super::super::etcd_projection::Member;
    use super::super::inspection::Inspection;
    use super::super::replica::examples::{healthy, set};
    use super::*;

    fn reached(replicas: Vec<Replica>, members: &[&str]) -> Observed {
        let members = members.iter().map(|name| Member { name: (*name).to_owned(), ..Member::default() });
        let inspection =
            Inspection { nodes: Ok(Vec::new()), pods: Default::default(), members: Ok(members.collect()) };
        Observed { replicas, workload: Workload::Reached(inspection), ..Observed::default() }
    }

    fn found(observed: &Observed, kind: &str) -> (ConditionStatus, String, String) {
        let conditions = conditions(&KubeadmControlPlane::default(), observed, &Time::default());
        let found = apiserver_types::condition(&conditions, kind).unwrap();
        (found.status, found.reason.clone(), found.message.clone())
    }

    #[test]
    fn machines_with_equal_messages_share_an_entry_and_the_worst_status_counts() {
        let mut machines: Vec<Replica> = ["a", "b", "c"].iter().map(|name| healthy(name, 1)).collect();
        let members = ["a", "b", "c"];
        let healthy = (ConditionStatus::True, "Healthy".to_owned(), String::new());
        assert_eq!(found(&reached(machines.clone(), &members), COMPONENTS), healthy);
        assert_eq!(found(&reached(machines.clone(), &members), ETCD_CLUSTER), healthy);
        let mut silent = machines.clone();
        for kind in PODS {
            set(&mut silent[0], kind, ConditionStatus::False);
        }
        let message = found(&reached(silent, &members), COMPONENTS).2;
        assert_eq!(message, "* Machine a:\n  * Control plane components: Reason");
        for machine in machines.iter_mut().take(2) {
            machine.machine.spec.provider_id = Some("openstack:///1".to_owned());
            set(machine, "EtcdMemberHealthy", ConditionStatus::Unknown);
        }
        let (status, reason, message) = found(&reached(machines.clone(), &members), ETCD_CLUSTER);
        assert_eq!((status, reason.as_str()), (ConditionStatus::Unknown, "HealthUnknown"));
        assert_eq!(message, "* Machines a, b:\n  * EtcdMemberHealthy: Reason");
        set(&mut machines[2], "EtcdMemberHealthy", ConditionStatus::False);
        let (status, _, message) = found(&reached(machines, &["a", "b", "c", "d"]), ETCD_CLUSTER);
        assert_eq!(status, ConditionStatus::False);
        let expected = "* Machine c:\n  * EtcdMemberHealthy: Reason\n* Machines a, b:\n  * EtcdMemberHealthy: Reason\n\
            * Etcd member d does not have a corresponding Machine. It is not removed: without it, etcd would have 0 of 3 \
            voting members healthy, 2 required";
        assert_eq!(message, expected);
    }

    /// A member stayed for good because of the quorum, and the condition did not say so.
    #[test]
    fn d7_a_member_without_a_machine_is_told_with_the_reason_for_which_it_stays() {
        let mut broken = vec![healthy("a", 1), healthy("b", 1)];
        set(&mut broken[0], "EtcdMemberHealthy", ConditionStatus::False);
        let (status, _, message) = found(&reached(broken, &["a", "b", "c"]), ETCD_CLUSTER);
        let line = "* Etcd member c does not have a corresponding Machine. It is not removed: ";
        let quorum = "without it, etcd would have 1 of 2 voting members healthy, 2 required";
        assert_eq!(status, ConditionStatus::False);
        assert!(message.ends_with(&format!("{line}{quorum}")), "{message}");
        let joining = vec![healthy("a", 1), super::super::replica::examples::replica("d", 1)];
        let (status, _, message) = found(&reached(joining, &["a", "c"]), ETCD_CLUSTER);
        assert_eq!(status, ConditionStatus::True, "it may be that of a Machine which joins");
        let joins =
            "it may be that of Machine d, which has no Node yet. Delete the Machine if it does not join";
        assert_eq!(message, format!("{line}{joins}"));
    }

    #[test]
    fn a_lost_connection_replaces_health_only_after_the_grace_period() {
        let mut observed = reached(vec![healthy("a", 1)], &["a"]);
        let lost =
            |is_over| Workload::Unreachable { message: "no".to_owned(), is_over, reason: "ConnectionDown" };
        observed.workload = lost(false);
        let mut control_plane = KubeadmControlPlane::default();
        let of = |control_plane: &KubeadmControlPlane, observed: &Observed| {
            conditions(control_plane, observed, &Time::default())
        };
        let first = of(&control_plane, &observed);
        assert_eq!(first.len(), 2, "nothing is known yet");
        control_plane.status.get_or_insert_default().conditions = Some(first);
        assert!(of(&control_plane, &observed).is_empty());
        observed.workload = lost(true);
        assert_eq!(of(&control_plane, &observed).len(), 2);
    }
}
