//! Members of etcd without a Machine: what a Machine left behind that went without care, or never joined fully.

use super::etcd_projection::{self, Change, Member};
use super::replica::Replica;

/// Member of etcd that has no Machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Surplus {
    /// Id by which the member is removed.
    pub id: u64,
    /// Name of its Node. Empty if the member never started.
    pub name: String,
}

/// Returns the member to remove; `None` if there is none, or if it cannot go now.
///
/// A member belongs to a Machine that has its name or its address. With the address, a member that has not started is
/// told from one that never will.
pub(super) fn find(members: &[Member], replicas: &[Replica]) -> Option<Surplus> {
    let is_healthy = |it: &Replica| it.holds("EtcdMemberHealthy");
    if members.len() == replicas.len() && replicas.iter().all(is_healthy) {
        return None;
    }
    // A Machine without an address may be the one that a member belongs to.
    if members.len() <= 1 || replicas.iter().any(|it| it.node().is_none() && addresses(it).is_empty()) {
        return None;
    }
    let mut without: Vec<&Member> =
        members.iter().filter(|member| !replicas.iter().any(|it| belongs(member, it))).collect();
    without.sort_by(|a, b| a.name.cmp(&b.name).then(a.id.cmp(&b.id)));
    let member = *without.first()?;
    let is_safe =
        member.name.is_empty() || etcd_projection::is_safe(members, replicas, Change::Leave(&member.name));
    is_safe.then(|| Surplus { id: member.id, name: member.name.clone() })
}

/// Reports whether a member is that of a Machine.
pub(super) fn belongs(member: &Member, replica: &Replica) -> bool {
    let is_named = !member.name.is_empty() && replica.node() == Some(member.name.as_str());
    is_named || member.peer_urls.iter().any(|url| addresses(replica).contains(&host(url)))
}

fn addresses(replica: &Replica) -> Vec<&str> {
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
    use apiserver_types::{ConditionStatus, MachineAddress, MachineAddressType};

    use super::super::replica::examples::{healthy, replica, set};
    use super::*;

    fn member(id: u64, name: &str, host: &str) -> Member {
        let peer_urls = vec![format!("https://{host}:2380")];
        Member { id, name: name.to_owned(), peer_urls, ..Member::default() }
    }

    fn addressed(mut replica: Replica, address: &str) -> Replica {
        let address = MachineAddress { address: address.to_owned(), kind: MachineAddressType::InternalIP };
        replica.machine.status.get_or_insert_default().addresses = Some(vec![address]);
        replica
    }

    #[test]
    fn a_member_is_removed_only_if_no_machine_has_its_name_or_its_address_and_the_quorum_stays() {
        let machines = || vec![addressed(healthy("a", 1), "10.0.0.1"), addressed(healthy("b", 1), "fd00::2")];
        let members = || vec![member(1, "a", "10.0.0.1"), member(2, "b", "[fd00::2]")];
        let with = |extra: Member| members().into_iter().chain([extra]).collect::<Vec<_>>();
        let and = |extra: Replica| machines().into_iter().chain([extra]).collect::<Vec<_>>();
        let mut broken = machines();
        set(&mut broken[0], "EtcdMemberHealthy", ConditionStatus::False);
        let joining = addressed(replica("c", 1), "10.0.0.3");
        let surplus = |id, name: &str| Some(Surplus { id, name: name.to_owned() });
        let table = [
            ("all match", members(), machines(), None),
            ("gone", with(member(3, "c", "10.0.0.3")), machines(), surplus(3, "c")),
            ("never started", with(member(3, "", "10.0.0.3")), machines(), surplus(3, "")),
            ("starting", with(member(3, "", "10.0.0.3")), and(joining), None),
            ("without an address yet", with(member(3, "", "10.0.0.3")), and(replica("c", 1)), None),
            ("it holds the quorum", with(member(3, "c", "10.0.0.3")), broken, None),
            ("the last one", vec![member(3, "c", "10.0.0.3")], machines(), None),
        ];
        for (case, members, replicas, expected) in table {
            assert_eq!(find(&members, &replicas), expected, "{case}");
        }
    }
}
