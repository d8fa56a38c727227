//! Slot for a learner in etcd, which keeps a Machine from joining while it is deleted. Pure.
//!
//! Until its server is gone, kubeadm on a Machine without a member may still add one. If etcd has a single voter, the member
//! becomes the second one, and is lost with its server. Then the first one has no quorum any more, for good. kubeadm adds a
//! member as a learner, and etcd has room for one learner. So before such a Machine goes, a learner that never starts takes
//! the slot, and it stays until the Machine is gone. A Machine that waits for something else does not keep it: the Machine that
//! it waits for may have to join.
//!
//! With more voters, one more that goes with its server costs no quorum, and etcd adds none while a voter does not answer.

use kube::ResourceExt;

use super::etcd_projection::Member;
use super::machine_conditions::CONTROL_PLANE_ROLE;
use super::replica::{HOOK, NODE_LABELS, Replica};

/// URL of the learner that takes the slot. No server has a name below `invalid`.
pub(super) const URL: &str = "https://learner-slot.capstan.invalid:2380";

/// Reports whether a member is the one that takes the slot.
pub(super) fn is_taken_by(member: &Member) -> bool {
    member.peer_urls.iter().any(|url| url == URL)
}

/// Reports whether the slot has to be taken before a Machine without a member goes. A learner of another Machine takes it as
/// well: once that one has a vote, there are two voters.
pub(super) fn is_needed(leaving: &Replica, members: &[Member]) -> bool {
    voters(members) <= 1 && !members.iter().any(|it| it.is_learner) && may_join(leaving)
}

/// Reports whether kubeadm may still add the member of a Machine. It labels the Node afterwards. A label of the Machine itself
/// can be on the Node before.
fn may_join(replica: &Replica) -> bool {
    !replica.holds(NODE_LABELS) || replica.machine.labels().contains_key(CONTROL_PLANE_ROLE)
}

/// Reports whether the slot has to stay: nothing holds the deletion of a Machine any more, and its server may still exist.
pub(super) fn is_in_use(replicas: &[Replica]) -> bool {
    replicas.iter().any(is_on_its_way)
}

fn is_on_its_way(replica: &Replica) -> bool {
    replica.is_deleting() && !replica.has_annotation(HOOK)
}

/// Returns the name of a Machine that could join in place of a member: nothing holds its deletion any more, and without the
/// member, etcd would have a single voter or room for a learner.
pub(super) fn kept_out_by(member: &Member, members: &[Member], replicas: &[Replica]) -> Option<String> {
    let left = voters(members).saturating_sub(usize::from(member.has_vote()));
    replicas.iter().find(|it| is_on_its_way(it)).filter(|_| left <= 1).map(Replica::name)
}

fn voters(members: &[Member]) -> usize {
    members.iter().filter(|it| it.has_vote()).count()
}

#[cfg(test)]
mod tests {
    use apiserver_types::ConditionStatus;

    use super::super::replica::examples::{going, healthy, set};
    use super::*;

    fn voter(name: &str) -> Member {
        Member { name: name.to_owned(), ..Member::default() }
    }

    fn learner(url: &str) -> Member {
        Member { is_learner: true, peer_urls: vec![url.to_owned()], ..Member::default() }
    }

    #[test]
    fn the_slot_is_needed_beside_a_single_voter_only() {
        let leaving = going(healthy("b", 2));
        for (members, expected) in [
            (vec![voter("a")], true),
            (vec![voter("a"), voter("")], true),
            (vec![voter("a"), voter("b")], false),
            (vec![voter("a"), learner("https://10.0.0.2:2380")], false),
        ] {
            assert_eq!(is_needed(&leaving, &members), expected, "{members:?}");
        }
        assert!(is_taken_by(&learner(URL)) && !is_taken_by(&learner("https://10.0.0.2:2380")));
    }

    #[test]
    fn a_machine_whose_node_kubeadm_has_labelled_does_not_join_any_more() {
        let (mut leaving, members) = (going(healthy("b", 2)), [voter("a")]);
        set(&mut leaving, NODE_LABELS, ConditionStatus::False);
        assert!(is_needed(&leaving, &members));
        set(&mut leaving, NODE_LABELS, ConditionStatus::True);
        assert!(!is_needed(&leaving, &members));
        leaving.machine.labels_mut().insert(CONTROL_PLANE_ROLE.to_owned(), String::new());
        assert!(is_needed(&leaving, &members), "the label may come from the Machine");
    }

    #[test]
    fn a_member_stays_while_a_machine_that_nothing_holds_could_join_in_its_place() {
        let mut held = going(healthy("b", 2));
        held.machine.metadata.annotations = Some([(HOOK.to_owned(), String::new())].into());
        let (held, free) = (vec![healthy("a", 1), held], vec![healthy("a", 1), going(healthy("b", 2))]);
        let stray = learner("https://10.0.0.3:2380");
        let (one, two) = (vec![voter("a"), stray.clone()], vec![voter("a"), voter("x"), stray.clone()]);
        assert_eq!(kept_out_by(&stray, &one, &free).as_deref(), Some("b"));
        assert_eq!(kept_out_by(&stray, &two, &free), None, "a third voter costs no quorum");
        assert_eq!(kept_out_by(&voter("x"), &two, &free).as_deref(), Some("b"), "one voter would be left");
        assert_eq!(kept_out_by(&stray, &one, &held), None, "its hook waits for a look at etcd");
        assert!(is_in_use(&free) && !is_in_use(&held) && !is_in_use(&[healthy("a", 1)]));
    }
}
