//! Condition `Available` of a control plane.

use apiserver_types::{Condition, ConditionStatus, KubeadmControlPlane, Time};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

use super::etcd_members::belongs;
use super::etcd_projection::Member;
use super::inspection::Workload;
use super::observe::Observed;
use super::outdated::timestamp;
use super::replica::{Replica, managed_etcd};

/// Time after the initialization, and after a Node appears, in which members of etcd may still be unknown.
const ETCD_STARTS: SignedDuration = SignedDuration::from_mins(2);

/// Age from which an unhealthy component is reported while the control plane is available. Upstream's value.
const REPORTED_AFTER: SignedDuration = SignedDuration::from_secs(10);

/// Returns whether the control plane serves.
pub(super) fn condition(
    control_plane: &KubeadmControlPlane,
    observed: &Observed,
    initialized: bool,
    now: &Time,
) -> Condition {
    let new =
        |status, reason, message: &str| Condition::new("Available", status, reason, message, now.clone());
    let (no, down) = (ConditionStatus::False, "NotAvailable");
    if control_plane.metadata.deletion_timestamp.is_some() {
        return new(no, down, "* Control plane metadata.deletionTimestamp is set");
    }
    if !initialized {
        return new(no, down, "Control plane not yet initialized");
    }
    let managed = managed_etcd(control_plane);
    let members = observed.workload.members();
    if managed && members.is_none() {
        let reached = matches!(observed.workload, Workload::Reached(_));
        return if reached && is_young(control_plane, now) {
            new(no, down, "Waiting for etcd to report the list of members")
        } else {
            new(ConditionStatus::Unknown, "InspectionFailed", &unknown(&observed.workload))
        };
    }
    let mut issues = Vec::new();
    if !observed.certificates.is_available() {
        issues.push("* Control plane certificates are not available".to_owned());
    }
    if !observed.replicas.iter().any(|it| it.is_healthy(managed)) {
        issues.push("* There are no control plane Machines with all their components healthy".to_owned());
    }
    if let Some(members) = members.filter(|_| managed) {
        let nodes = observed.workload.nodes().unwrap_or_default();
        issues.extend(etcd(&observed.replicas, nodes, members, now));
    }
    if issues.is_empty() {
        let unhealthy = unhealthy_components(&observed.replicas, members, managed, now);
        return new(ConditionStatus::True, "Available", &unhealthy.join("\n"));
    }
    new(no, down, &issues.join("\n"))
}

/// Reports whether the control plane was initialized a short time ago.
fn is_young(control_plane: &KubeadmControlPlane, now: &Time) -> bool {
    let since = control_plane.condition("Initialized").filter(|it| it.holds());
    let since = since.and_then(|it| timestamp(&it.last_transition_time));
    since.is_none_or(|since| is_within(since, now))
}

fn is_within(since: Timestamp, now: &Time) -> bool {
    timestamp(now).is_some_and(|now| now.duration_since(since) < ETCD_STARTS)
}

/// Returns why the members of etcd are not known.
fn unknown(workload: &Workload) -> String {
    match workload {
        Workload::Reached(inspection) => match &inspection.members {
            Err(error) => format!("Failed to get etcd members: {error}"),
            Ok(_) => String::new(),
        },
        Workload::Unreachable { message, .. } => message.clone(),
        Workload::NotInspected | Workload::NotInitialized { .. } => "Failed to get etcd members".to_owned(),
    }
}

/// Returns the issues of etcd: members that match no Machine, and a lost quorum.
fn etcd(replicas: &[Replica], nodes: &[Node], members: &[Member], now: &Time) -> Vec<String> {
    let waits = replicas.iter().filter(|it| it.node().is_none()).count();
    let without = |member: &&Member| !replicas.iter().any(|it| belongs(member, it));
    let mut issues = Vec::new();
    if waits == 0 && members.iter().any(|member| without(&member)) {
        issues.push("* The list of etcd members does not match the list of Machines".to_owned());
    }
    let has_member = |it: &Replica| members.iter().any(|member| belongs(member, it));
    let is_old = |node: &Node| node.creation_timestamp().is_some_and(|since| !is_within(since.0, now));
    let node = |it: &Replica| nodes.iter().find(|node| Some(node.name_any().as_str()) == it.node());
    let is_late = |it: &&Replica| !it.is_deleting() && !has_member(it) && node(it).is_some_and(is_old);
    issues.extend(
        replicas.iter().filter(is_late).map(|it| format!("* Machine {} has no etcd member", it.name())),
    );
    let quorum = Quorum::of(replicas, members);
    if quorum.healthy < quorum.required {
        issues.push(quorum.text());
    }
    issues
}

/// Healthy members of etcd, those with a vote, and those that a quorum requires.
struct Quorum {
    healthy: usize,
    voters: usize,
    required: usize,
}

impl Quorum {
    fn of(replicas: &[Replica], members: &[Member]) -> Self {
        let voters: Vec<&Member> = members.iter().filter(|member| !member.is_learner).collect();
        let machine = |member: &Member| replicas.iter().find(|it| belongs(member, it));
        let is_healthy = |member: &&&Member| {
            member.name.is_empty() || machine(member).is_some_and(|it| it.holds("EtcdMemberHealthy"))
        };
        // The only Machine that waits for its Node has the member with its address, or else the only started one that
        // matches none: a member has its vote before the cloud provider completes the Node.
        let waits: Vec<&Replica> = replicas.iter().filter(|it| it.node().is_none()).collect();
        let started = || voters.iter().filter(|member| !member.name.is_empty());
        let without = started().filter(|member| machine(member).is_none()).count();
        let is_credited = |it: &Replica| started().any(|member| belongs(member, it)) || without == 1;
        let credited = usize::from(matches!(waits.as_slice(), [only] if is_credited(only)));
        let healthy = voters.iter().filter(is_healthy).count().saturating_add(credited);
        Self { healthy, voters: voters.len(), required: voters.len() / 2 + 1 }
    }

    fn text(&self) -> String {
        let Self { healthy, voters, required } = self;
        format!(
            "* {healthy} of {voters} etcd members are healthy, at least {required} required for etcd quorum"
        )
    }
}

/// Describes the unhealthy components and etcd members of an available control plane, unless they have just become so.
fn unhealthy_components(
    replicas: &[Replica],
    members: Option<&[Member]>,
    managed: bool,
    now: &Time,
) -> Vec<String> {
    let is_old = |since: &Time| {
        let age = timestamp(now).zip(timestamp(since)).map(|(now, since)| now.duration_since(since));
        age.is_some_and(|age| age > REPORTED_AFTER)
    };
    let fails = |replica: &Replica, kind| {
        let found = replica.machine.condition(kind).filter(|it| it.status != ConditionStatus::True);
        found.is_some_and(|it| is_old(&it.last_transition_time))
    };
    let is_broken = |it: &&Replica| Replica::components(managed).any(|kind| fails(it, kind));
    let healthy = replicas.len().saturating_sub(replicas.iter().filter(is_broken).count());
    let mut lines = Vec::new();
    if healthy < replicas.len() {
        lines.push(format!(
            "* {healthy} of {} Machines have healthy control plane components, at least 1 required",
            replicas.len()
        ));
    }
    let quorum = members.filter(|_| managed).map(|members| Quorum::of(replicas, members));
    let is_incomplete =
        |it: &Quorum| it.healthy < it.voters && replicas.iter().any(|it| fails(it, "EtcdMemberHealthy"));
    lines.extend(quorum.filter(is_incomplete).map(|quorum| quorum.text()));
    lines
}

#[cfg(test)]
mod tests {
    use super::super::inspection::Inspection;
    use super::super::replica::examples::{healthy, set};
    use super::*;

    fn found(healthy_members: &[bool], members: Result<Vec<Member>, String>, minutes: i64) -> Condition {
        let replicas = healthy_members.iter().enumerate().map(|(index, is_healthy)| {
            let mut replica = healthy(&index.to_string(), 0);
            if !is_healthy {
                set(&mut replica, "EtcdMemberHealthy", ConditionStatus::False);
            }
            for condition in
                replica.machine.status.iter_mut().flat_map(|it| it.conditions.iter_mut().flatten())
            {
                condition.last_transition_time = Time("1970-01-01T00:00:00Z".to_owned());
            }
            replica
        });
        let replicas: Vec<Replica> = replicas.collect();
        let node = |it: &Replica| Node { metadata: it.machine.metadata.clone(), ..Node::default() };
        let nodes = Ok(replicas.iter().map(node).collect());
        let inspection = Inspection { nodes, pods: Default::default(), members };
        let mut observed =
            Observed { replicas, workload: Workload::Reached(inspection), ..Observed::default() };
        observed.certificates.examined = true;
        let mut control_plane = KubeadmControlPlane::default();
        let epoch = Time("1970-01-01T00:00:00Z".to_owned());
        let initialized = Condition::new("Initialized", ConditionStatus::True, "Initialized", "", epoch);
        control_plane.status.get_or_insert_default().conditions = Some(vec![initialized]);
        let now = Timestamp::from_second(minutes * 60).unwrap();
        condition(&control_plane, &observed, true, &Time(now.to_string()))
    }

    #[test]
    fn a_control_plane_is_available_while_a_machine_is_whole_and_etcd_has_its_quorum() {
        use ConditionStatus::{False, True, Unknown};
        let members = |count: usize| {
            let member = |index: usize| Member { name: index.to_string(), ..Member::default() };
            Ok((0..count).map(member).collect::<Vec<_>>())
        };
        let table = [
            (vec![true], members(1), 5, True),
            (vec![true, true, false], members(3), 5, True),
            (vec![true, false, false], members(3), 5, False),
            (vec![false], members(1), 5, False),
            (vec![true, true], members(3), 5, False),
            (vec![true, true, true], members(2), 5, False),
            (vec![true, true, true], members(2), 1, True),
            (vec![true], Err("no".to_owned()), 1, False),
            (vec![true], Err("no".to_owned()), 5, Unknown),
        ];
        for (machines, members, minutes, expected) in table {
            let found = found(&machines, members.clone(), minutes);
            assert_eq!(found.status, expected, "{machines:?} {members:?} {minutes}: {}", found.message);
        }
    }

    /// A control plane that went from one Machine to two was not available from the vote of the second member until the
    /// cloud provider had completed its Node.
    #[test]
    fn a_member_with_the_address_of_the_only_machine_without_a_node_counts_as_healthy() {
        let member = |name: &str, host: &str| Member {
            name: name.to_owned(),
            peer_urls: vec![format!("https://{host}:2380")],
            ..Member::default()
        };
        let mut joins = super::super::replica::examples::replica("b", 1);
        let address = apiserver_types::MachineAddress {
            address: "10.0.0.2".to_owned(),
            kind: apiserver_types::MachineAddressType::InternalIP,
        };
        joins.machine.status.get_or_insert_default().addresses = Some(vec![address]);
        let replicas = [healthy("a", 0), joins];
        for (members, expected) in [
            (vec![member("a", "10.0.0.1"), member("b", "10.0.0.2")], 2),
            (vec![member("a", "10.0.0.1"), member("b", "10.0.0.3")], 2),
            (vec![member("a", "10.0.0.1"), member("b", "10.0.0.2"), member("c", "10.0.0.3")], 2),
            (vec![member("a", "10.0.0.1"), member("", "10.0.0.3")], 2),
            (vec![member("a", "10.0.0.1"), member("c", "10.0.0.3"), member("d", "10.0.0.4")], 1),
        ] {
            assert_eq!(Quorum::of(&replicas, &members).healthy, expected, "{members:?}");
        }
    }

    #[test]
    fn a_control_plane_that_serves_tells_what_does_not_work_after_ten_seconds() {
        let members = |count: usize| {
            let member = |index: usize| Member { name: index.to_string(), ..Member::default() };
            Ok((0..count).map(member).collect::<Vec<_>>())
        };
        let lines = "* 2 of 3 Machines have healthy control plane components, at least 1 required\n\
            * 2 of 3 etcd members are healthy, at least 2 required for etcd quorum";
        assert_eq!(found(&[true, true, false], members(3), 5).message, lines);
        assert_eq!(found(&[true, true, true], members(3), 5).message, "");
        assert_eq!(found(&[true, true, false], members(3), 0).message, "", "it has just begun");
    }

    /// A control plane whose Machine was older than its Node was not available while kubeadm added the member.
    #[test]
    fn a_machine_has_two_minutes_from_its_node_on_to_have_a_member() {
        let replicas = [healthy("a", 0), healthy("b", 0)];
        let members = [Member { name: "a".to_owned(), ..Member::default() }];
        let late = "* Machine b has no etcd member";
        for (name, second, expected) in
            [("b", 3600, vec![]), ("b", 3480, vec![late]), ("b", 3481, vec![]), ("x", 0, vec![])]
        {
            let mut node = Node::default();
            node.metadata.name = Some(name.to_owned());
            let created = Timestamp::from_second(second).unwrap();
            node.metadata.creation_timestamp =
                Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(created));
            let now = Time(Timestamp::from_second(3600).unwrap().to_string());
            assert_eq!(etcd(&replicas, &[node], &members, &now), expected, "{name} {second}");
        }
    }
}
