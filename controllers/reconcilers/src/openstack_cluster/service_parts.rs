//! Parts of a load balancer that Services of several workload clusters share: those of a cluster that goes. Pure.
//!
//! The load balancer stays, since the others use it. The listeners, pools and members that lead to machines of the cluster
//! go, one per change, and so does the tag by which the cloud provider counts the Service.

use std::collections::BTreeSet;

use controllers_infrastructure::{Listener, LoadBalancer, Member, Pool};

use super::service_balancers::SERVICE_PREFIX;

/// Parts of a load balancer.
#[derive(Debug, Clone, Default)]
pub(super) struct Parts {
    /// Listeners.
    pub listeners: Vec<Listener>,
    /// Pools with their members.
    pub pools: Vec<(Pool, Vec<Member>)>,
}

/// Next change of a shared load balancer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Removal {
    /// Its tags are replaced by these.
    Tags(Vec<String>),
    /// A listener is deleted. Text: id, title.
    Listener(String, String),
    /// A pool is deleted. Text: id, title.
    Pool(String, String),
    /// A member is deleted. Text: id of the pool, id, title.
    Member(String, String, String),
}

/// Returns the next change. The tag goes before the listener that shows which one it is. Pure.
pub(super) fn next(
    balancer: &LoadBalancer,
    parts: &Parts,
    is_own: impl Fn(&Member) -> bool,
) -> Option<Removal> {
    let is_own_pool =
        |(_, members): &&(Pool, Vec<Member>)| !members.is_empty() && members.iter().all(&is_own);
    let own_pools: BTreeSet<&str> =
        parts.pools.iter().filter(is_own_pool).map(|(pool, _)| pool.id.as_str()).collect();
    let is_own_listener =
        |it: &&Listener| it.default_pool_id.as_deref().is_some_and(|pool| own_pools.contains(pool));
    let (own, others): (Vec<&Listener>, Vec<&Listener>) = parts.listeners.iter().partition(is_own_listener);
    let kept: BTreeSet<&str> = others.into_iter().flat_map(services).collect();
    let mut gone = own.iter().flat_map(|it| services(it)).filter(|service| !kept.contains(service));
    if gone.clone().any(|service| balancer.tags.iter().any(|tag| tag == service)) {
        let gone: BTreeSet<&str> = gone.by_ref().collect();
        let left = balancer.tags.iter().filter(|tag| !gone.contains(tag.as_str())).cloned();
        return Some(Removal::Tags(left.collect()));
    }
    if let Some(listener) = own.first() {
        let title = format!("listener {} ({}, port {})", listener.name, listener.id, listener.protocol_port);
        return Some(Removal::Listener(listener.id.clone(), title));
    }
    if let Some((pool, _)) = parts.pools.iter().find(is_own_pool) {
        return Some(Removal::Pool(pool.id.clone(), format!("pool {} ({})", pool.name, pool.id)));
    }
    parts.pools.iter().find_map(|(pool, members)| {
        let member = members.iter().find(|it| is_own(it))?;
        let title = format!("member {} ({}) of pool {}", member.address, member.id, pool.name);
        Some(Removal::Member(pool.id.clone(), member.id.clone(), title))
    })
}

/// Returns the names of the load balancers that the Services of a listener would have alone: the cloud provider puts them
/// into its tags, and at the end of its name.
fn services(listener: &Listener) -> Vec<&str> {
    let in_name = listener.name.find(SERVICE_PREFIX).and_then(|at| listener.name.get(at..));
    let in_tags = listener.tags.iter().map(String::as_str).filter(|tag| tag.starts_with(SERVICE_PREFIX));
    in_tags.chain(in_name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const OURS: &str = "kube_service_prod_default_web";
    const THEIRS: &str = "kube_service_test_default_web";

    fn listener(id: &str, service: &str, pool: &str) -> Listener {
        Listener {
            id: id.to_owned(),
            name: format!("listener_0_{service}"),
            default_pool_id: Some(pool.to_owned()),
            protocol_port: 80,
            ..Listener::default()
        }
    }

    fn pool(id: &str, members: &[&str]) -> (Pool, Vec<Member>) {
        let pool = Pool { id: id.to_owned(), name: id.to_owned(), ..Pool::default() };
        let member = |address: &&str| Member {
            id: format!("{id}-{address}"),
            address: (*address).to_owned(),
            ..Member::default()
        };
        (pool, members.iter().map(member).collect())
    }

    fn balancer(tags: &[&str]) -> LoadBalancer {
        LoadBalancer { tags: tags.iter().map(|it| (*it).to_owned()).collect(), ..LoadBalancer::default() }
    }

    fn is_own(member: &Member) -> bool {
        member.address.starts_with("10.0.0.")
    }

    #[test]
    fn r17_3_of_a_shared_load_balancer_only_our_parts_and_our_tag_go() {
        let mut balancer = balancer(&[OURS, THEIRS, "user"]);
        let mut parts = Parts {
            listeners: vec![listener("theirs", THEIRS, "p-theirs"), listener("ours", OURS, "p-ours")],
            pools: vec![
                pool("p-theirs", &["10.9.0.1"]),
                pool("p-ours", &["10.0.0.1", "10.0.0.2"]),
                pool("p-mixed", &["10.9.0.1", "10.0.0.1"]),
                pool("p-empty", &[]),
            ],
        };
        let tags = vec![THEIRS.to_owned(), "user".to_owned()];
        assert_eq!(next(&balancer, &parts, is_own), Some(Removal::Tags(tags.clone())));
        balancer.tags = tags;
        let title = format!("listener listener_0_{OURS} (ours, port 80)");
        assert_eq!(next(&balancer, &parts, is_own), Some(Removal::Listener("ours".to_owned(), title)));
        parts.listeners.pop();
        let title = "pool p-ours (p-ours)".to_owned();
        assert_eq!(next(&balancer, &parts, is_own), Some(Removal::Pool("p-ours".to_owned(), title)));
        parts.pools.remove(1);
        let title = "member 10.0.0.1 (p-mixed-10.0.0.1) of pool p-mixed".to_owned();
        let (pool, id) = ("p-mixed".to_owned(), "p-mixed-10.0.0.1".to_owned());
        assert_eq!(next(&balancer, &parts, is_own), Some(Removal::Member(pool, id, title)));
        parts.pools.remove(1);
        assert_eq!(next(&balancer, &parts, is_own), None, "the rest is the other cluster's");
    }

    #[test]
    fn r17_3_a_tag_that_a_listener_of_another_cluster_names_stays() {
        // Two workload clusters have the same name, and their Services, too.
        let parts = Parts {
            listeners: vec![listener("theirs", OURS, "p-theirs"), listener("ours", OURS, "p-ours")],
            pools: vec![pool("p-theirs", &["10.9.0.1"]), pool("p-ours", &["10.0.0.1"])],
        };
        let found = next(&balancer(&[OURS]), &parts, is_own);
        assert!(matches!(found, Some(Removal::Listener(id, _)) if id == "ours"));
    }
}
