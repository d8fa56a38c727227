//! Projection of etcd: whether it keeps its quorum after a member comes or goes.

use super::etcd_members;
use super::replica::Replica;

/// Member of etcd.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Member {
    /// Id by which a member is removed.
    pub id: u64,
    /// Name of the Node. Empty until the member has started.
    pub name: String,
    /// The member has no vote yet.
    pub is_learner: bool,
    /// An alarm (NOSPACE, CORRUPT) is raised on the member.
    pub has_alarm: bool,
    /// Addresses at which other members reach this one.
    pub peer_urls: Vec<String>,
}

impl Member {
    /// Reports whether the quorum counts the member. kubeadm adds it as a learner, so one that has not started has no vote.
    pub(super) fn has_vote(&self) -> bool {
        !self.is_learner && !self.name.is_empty()
    }
}

/// Change of the members.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change<'a> {
    /// One more member joins.
    Join,
    /// The member of this name leaves.
    Leave(&'a str),
}

/// Members of etcd after a change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Projection {
    voters: usize,
    unhealthy: usize,
    learners: usize,
}

impl Projection {
    /// Reports whether etcd has a quorum of healthy voters and no learner.
    pub(super) fn is_safe(self) -> bool {
        self.learners == 0 && self.healthy() >= self.required()
    }

    fn healthy(self) -> usize {
        self.voters.saturating_sub(self.unhealthy)
    }

    fn required(self) -> usize {
        self.voters / 2 + 1
    }

    /// Describes the members, for people.
    pub(super) fn text(self) -> String {
        let (healthy, voters, required) = (self.healthy(), self.voters, self.required());
        let learners = match self.learners {
            0 => String::new(),
            count => format!(", and {count} without a vote"),
        };
        format!("{healthy} of {voters} voting members healthy, {required} required{learners}")
    }
}

/// Returns the members of etcd after a change.
pub(super) fn project(members: &[Member], replicas: &[Replica], change: Change<'_>) -> Projection {
    let leaves = |member: &&Member| {
        !member.name.is_empty() && matches!(change, Change::Leave(name) if name == member.name)
    };
    let has_vote = |member: &&Member| member.has_vote();
    let (leaving, stay): (Vec<&Member>, Vec<&Member>) = members.iter().partition(leaves);
    let (voters, learners): (Vec<&Member>, Vec<&Member>) = stay.into_iter().partition(has_vote);
    let of_machine = leaving.iter().any(|member| etcd_members::machine_of(member, replicas).is_some());
    let unhealthy = voters.iter().filter(|member| !is_healthy(member, replicas, of_machine)).count();
    let joins = usize::from(change == Change::Join);
    // The second member of an etcd joins while the only one holds the quorum by itself.
    let unhealthy = unhealthy.saturating_add(if members.len() <= 1 { 0 } else { joins });
    let voters = voters.len().saturating_add(joins);
    Projection { voters, unhealthy, learners: learners.len() }
}

/// Reports whether a member works: its Machine says so, or, without a Machine, it has no alarm. A list of members does not
/// say which of them run, so the pod of etcd counts, too.
///
/// If the member of a Machine leaves, one without a Machine does not count: it was left behind, and its server is gone.
/// Upstream counts it, and the quorum can get lost by that.
fn is_healthy(member: &Member, replicas: &[Replica], of_machine: bool) -> bool {
    let machine = machine_of(&member.name, replicas);
    let runs = |machine: &Replica| machine.holds("EtcdMemberHealthy") && !machine.fails("EtcdPodHealthy");
    machine.map_or(!of_machine && !member.has_alarm, runs)
}

fn machine_of<'a>(member: &str, replicas: &'a [Replica]) -> Option<&'a Replica> {
    replicas.iter().find(|it| it.node() == Some(member))
}

#[cfg(test)]
mod tests {
    use apiserver_types::ConditionStatus;

    use super::super::replica::examples::{healthy, set};
    use super::*;

    fn is_safe(members: &[Member], replicas: &[Replica], change: Change<'_>) -> bool {
        project(members, replicas, change).is_safe()
    }

    /// Returns members and Machines: `+` healthy, `-` unhealthy, `l` a learner, `?` a member without a name.
    fn cluster(text: &str) -> (Vec<Member>, Vec<Replica>) {
        let mut members = Vec::new();
        let mut replicas = Vec::new();
        for (index, letter) in text.chars().enumerate() {
            let name = if letter == '?' { String::new() } else { index.to_string() };
            let mut replica = healthy(&index.to_string(), 1);
            if letter != '+' {
                set(&mut replica, "EtcdMemberHealthy", ConditionStatus::Unknown);
            }
            members.push(Member { name, is_learner: letter == 'l', ..Member::default() });
            replicas.push(replica);
        }
        (members, replicas)
    }

    #[test]
    fn a_member_comes_or_goes_only_if_a_quorum_of_healthy_voters_is_left() {
        let (join, first) = (Change::Join, Change::Leave("0"));
        let table = [
            ("+", join, true),
            ("-", join, false),
            ("++", join, true),
            ("+-", join, false),
            ("+++", join, true),
            ("++-", join, false),
            ("++++", join, true),
            ("+++-", join, true),
            ("++l", join, false),
            ("++?", join, false),
            ("++", first, true),
            ("+-", first, false),
            ("-+", first, true),
            ("+++", first, true),
            ("++-", first, false),
            ("-++", first, true),
            ("l++", first, true),
            ("+l+", first, false),
            ("+++++", first, true),
            ("+++--", first, false),
            ("-++-+", first, true),
            ("+", first, false),
        ];
        for (text, change, expected) in table {
            let (members, replicas) = cluster(text);
            assert_eq!(is_safe(&members, &replicas, change), expected, "{text} {change:?}");
        }
    }

    #[test]
    fn a_member_without_a_machine_does_not_count_when_that_of_a_machine_leaves() {
        let (members, mut replicas) = cluster("+++");
        assert!(is_safe(&members, &replicas, Change::Leave("0")));
        replicas.remove(2);
        assert!(!is_safe(&members, &replicas, Change::Leave("0")));
    }

    #[test]
    fn without_the_departure_of_a_machine_a_member_without_one_is_unhealthy_if_it_has_an_alarm() {
        let (mut members, mut replicas) = cluster("+++");
        replicas.truncate(1);
        assert!(is_safe(&members, &replicas, Change::Leave("2")));
        members[1].has_alarm = true;
        assert!(!is_safe(&members, &replicas, Change::Leave("2")));
        assert!(!is_safe(&members, &replicas, Change::Join));
    }

    /// Etcd on a Node that was ready did not start any more, and its member was one to spare.
    #[test]
    fn a_member_whose_pod_fails_is_unhealthy() {
        let (members, mut replicas) = cluster("+++");
        set(&mut replicas[2], "EtcdPodHealthy", ConditionStatus::False);
        assert!(!is_safe(&members, &replicas, Change::Leave("0")));
        assert!(is_safe(&members, &replicas, Change::Leave("2")), "it leaves itself");
    }
}
