//! Members of etcd and their Machines: which member is that of which Machine.
//!
//! A member has the name of its Node from its first start on, and the address of its server from the moment at which
//! kubeadm adds it. So a member is known before its Machine has a Node.

use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;

use super::etcd_projection::Member;
use super::replica::Replica;
use crate::cidrs::same_address;

/// Reports whether a member is that of a Machine.
pub(super) fn belongs(member: &Member, replica: &Replica) -> bool {
    let has = |url: &String| addresses(replica).iter().any(|address| same_address(address, host(url)));
    is_named(member, replica) || member.peer_urls.iter().any(has)
}

/// Returns the Machine of a member: the one whose Node has its name, or else one with its address.
pub(super) fn machine_of<'a>(member: &Member, replicas: &'a [Replica]) -> Option<&'a Replica> {
    let named = replicas.iter().find(|it| is_named(member, it));
    named.or_else(|| replicas.iter().find(|it| belongs(member, it)))
}

/// Returns the member of a Machine: the one with the name of its Node, or else one with its address that is not that of
/// another Machine.
pub(super) fn member_of<'a>(
    replica: &Replica,
    replicas: &[Replica],
    nodes: &[Node],
    members: &'a [Member],
) -> Option<&'a Member> {
    let (name, node) = (replica.name(), node_of(replica, nodes));
    let has_name = |it: &&Member| !it.name.is_empty() && node.as_deref() == Some(it.name.as_str());
    let is_ours = |it: &&Member| machine_of(it, replicas).is_some_and(|machine| machine.name() == name);
    members.iter().find(has_name).or_else(|| members.iter().find(is_ours))
}

/// Reports whether etcd may need the member of a Machine: it has a vote, or it has the name of the Machine's Node. Any other
/// member has not joined, and its departure takes no vote.
pub(super) fn may_be_needed(member: &Member, replica: &Replica, nodes: &[Node]) -> bool {
    let is_of_node = || !member.name.is_empty() && node_of(replica, nodes).as_ref() == Some(&member.name);
    member.has_vote() || is_of_node()
}

/// Returns the name of a Machine's Node: the one that the Machine names, or the one that has its provider ID.
fn node_of(replica: &Replica, nodes: &[Node]) -> Option<String> {
    if let Some(node) = replica.node() {
        return Some(node.to_owned());
    }
    let id = replica.machine.spec.provider_id.as_deref()?;
    let of_server =
        |node: &&Node| node.spec.as_ref().and_then(|spec| spec.provider_id.as_deref()) == Some(id);
    nodes.iter().find(of_server).map(ResourceExt::name_any)
}

fn is_named(member: &Member, replica: &Replica) -> bool {
    !member.name.is_empty() && replica.node() == Some(member.name.as_str())
}

/// Returns the addresses of a Machine.
pub(super) fn addresses(replica: &Replica) -> Vec<&str> {
    let status = replica.machine.status.as_ref();
    let addresses = status.and_then(|status| status.addresses.as_deref()).unwrap_or_default();
    addresses.iter().map(|address| address.address.as_str()).collect()
}

/// Returns the host of a URL such as `https://10.6.0.2:2380`, without the brackets of IPv6.
fn host(url: &str) -> &str {
    let authority = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = authority.split('/').next().unwrap_or(authority);
    let host = authority.rsplit_once(':').map_or(authority, |(host, _)| host);
    host.trim_start_matches('[').trim_end_matches(']')
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::replica::examples::{addressed, healthy, replica};
    use super::*;

    fn member(id: u64, name: &str, host: &str) -> Member {
        let peer_urls = vec![format!("https://{host}:2380")];
        Member { id, name: name.to_owned(), peer_urls, ..Member::default() }
    }

    #[test]
    fn a_member_belongs_to_the_machine_with_its_address_in_any_notation() {
        let replica = addressed(replica("c", 1), "fd00:20::5");
        let is_of = |host: &str| belongs(&member(3, "", host), &replica);
        assert!(is_of("[fd00:20::5]") && is_of("[FD00:20:0::5]") && !is_of("[fd00:20::6]"));
    }

    #[test]
    fn a_machine_without_a_node_has_the_member_with_its_address() {
        let joins = || addressed(replica("c", 1), "10.0.0.3");
        let replicas = [addressed(healthy("a", 1), "10.0.0.1"), joins()];
        let a = || member(1, "a", "10.0.0.1");
        let table = [
            ("it has not started", vec![a(), member(3, "", "10.0.0.3")], Some(3)),
            ("it votes", vec![a(), member(3, "c", "10.0.0.3")], Some(3)),
            ("another server", vec![a(), member(3, "", "10.0.0.30")], None),
            ("none", vec![a()], None),
        ];
        for (case, members, expected) in table {
            let found = member_of(&replicas[1], &replicas, &[], &members).map(|it| it.id);
            assert_eq!(found, expected, "{case}");
        }
        let mut registered = joins();
        registered.machine.spec.provider_id = Some("openstack:///3".to_owned());
        let node = json!({"metadata": {"name": "c"}, "spec": {"providerID": "openstack:///3"}});
        let nodes: [Node; 1] = [serde_json::from_value(node).unwrap()];
        let members = [a(), member(3, "c", "192.0.2.3")];
        let alone = std::slice::from_ref(&registered);
        let found = member_of(&registered, alone, &nodes, &members).map(|it| it.id);
        assert_eq!(found, Some(3), "by the Node with its provider ID");
    }

    #[test]
    fn etcd_may_need_a_voter_and_a_learner_with_a_node() {
        let learner = |name: &str| Member { is_learner: true, ..member(3, name, "10.0.0.3") };
        let joins = addressed(replica("c", 1), "10.0.0.3");
        let joined = addressed(healthy("c", 1), "10.0.0.3");
        let table = [
            (&joins, member(3, "c", "10.0.0.3"), true),
            (&joins, learner("c"), false),
            (&joins, learner(""), false),
            (&joined, learner("c"), true),
            (&joined, learner(""), false),
        ];
        for (replica, member, expected) in table {
            let has_node = replica.node().is_some();
            assert_eq!(may_be_needed(&member, replica, &[]), expected, "{member:?}, has a Node: {has_node}");
        }
    }

    #[test]
    fn a_member_with_the_name_of_a_node_is_not_that_of_a_machine_with_the_same_address() {
        let shares = addressed(replica("c", 1), "10.0.0.1");
        let replicas = [shares, addressed(healthy("a", 1), "10.0.0.1")];
        let members = [member(1, "a", "10.0.0.1")];
        assert_eq!(member_of(&replicas[0], &replicas, &[], &members), None);
        assert_eq!(machine_of(&members[0], &replicas).map(Replica::name).as_deref(), Some("a"));
    }
}
