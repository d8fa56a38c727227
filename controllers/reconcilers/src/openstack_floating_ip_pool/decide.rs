//! Decision on the next step of a pool.

use std::collections::BTreeSet;

use apiserver_types::{Condition, NetworkStatus, OpenStackFloatingIPPool, ReclaimPolicy};
use controllers_infrastructure::FloatingIp;
use controllers_runtime::Journal;

use crate::lost_calls::LostCalls;

/// Kind of the journal's entries that reserve an address for a claim: the name is the claim's uid, the id is the address.
pub(super) const RESERVATION: &str = "claim";

/// Claim of the pool.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Claim {
    pub name: String,
    pub uid: String,
    pub deleting: bool,
    /// The claim or its Cluster is paused, or its Cluster does not exist: the claim is not touched.
    pub held: bool,
    /// Its status refers to an IPAddress.
    pub has_address: bool,
}

/// IPAddress of the pool.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct HeldAddress {
    pub name: String,
    pub claim: String,
    pub address: String,
    /// It is being deleted and waits for the release of its floating IP.
    pub releasing: bool,
}

/// Floating IP of the pool.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Member {
    /// The spec names it, so it is never deleted.
    pub given: bool,
    /// It was allocated for the pool, and lacks the pool's tag.
    pub lacks_tag: bool,
    /// Tags of pools on one that the spec names. With them, it would count as allocated once the spec does not name it.
    pub pool_tags: Vec<String>,
    pub ip: FloatingIp,
}

/// Observed state of a pool.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Observed {
    pub journal: Journal,
    /// Create calls whose answers were lost.
    pub lost_calls: LostCalls,
    /// Claims, oldest first.
    pub claims: Vec<Claim>,
    pub addresses: Vec<HeldAddress>,
    /// Floating IPs, with those of the spec first.
    pub members: Vec<Member>,
    pub network: Option<NetworkStatus>,
    /// Names of claims for which there is no address.
    pub unserved: Vec<String>,
    /// Condition of the login, if there was one.
    pub login: Option<Condition>,
}

/// Next step of a pool.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    /// Release the floating IP of an IPAddress that is being deleted.
    Release { object: String, ip: Option<FloatingIp>, delete: bool },
    /// Delete a floating IP of a pool that is being deleted.
    Delete(FloatingIp),
    /// Remove the reservation of a claim that does not exist any more.
    Unreserve(String),
    /// Reserve an address for a claim.
    Reserve { uid: String, address: String },
    /// Create the IPAddress of a claim.
    CreateAddress { claim: Claim, address: String },
    /// Write the reference to its IPAddress into a claim.
    Refer(Claim),
    /// Allocate a floating IP.
    Allocate,
    /// Tag a floating IP as one of the pool.
    Tag(FloatingIp),
    /// Remove tags of pools from a floating IP that the spec names.
    Untag { ip: FloatingIp, tags: Vec<String> },
    /// Nothing is left to do, or no address is left.
    Nothing,
}

impl Observed {
    /// Returns true if a claim or an IPAddress has the address.
    pub(super) fn is_claimed(&self, address: &str) -> bool {
        self.addresses.iter().any(|held| held.address == address)
            || self.journal.of_kind(RESERVATION).any(|entry| entry.id.as_deref() == Some(address))
    }

    /// Returns the number of addresses that count for the limit of the pool: claimed ones and available ones. One that
    /// another owner uses is neither.
    pub(super) fn counted(&self) -> usize {
        let held = self.addresses.iter().map(|held| held.address.as_str());
        let reserved = self.journal.of_kind(RESERVATION).filter_map(|entry| entry.id.as_deref());
        let claimed: BTreeSet<&str> = held.chain(reserved).collect();
        claimed.len() + self.available().count()
    }

    /// Returns the floating IPs that no claim uses.
    pub(super) fn available(&self) -> impl Iterator<Item = &Member> {
        let free = |member: &&Member| member.ip.port_id.is_none() && !self.is_claimed(&member.ip.address);
        self.members.iter().filter(free)
    }
}

/// Decides on the next step. Pure and total.
pub(super) fn next_step(pool: &OpenStackFloatingIPPool, observed: &Observed) -> Step {
    if let Some(step) = release(pool, observed).or_else(|| tags(observed)) {
        return step;
    }
    if pool.metadata.deletion_timestamp.is_some() {
        let unused = observed.available().find(|member| !member.given);
        // Addresses in use keep the pool.
        return unused.map_or(Step::Nothing, |member| Step::Delete(member.ip.clone()));
    }
    let serving = observed.claims.iter().filter(|claim| !claim.deleting && !claim.held);
    let step = serving
        .filter(|claim| !observed.unserved.contains(&claim.name))
        .find_map(|claim| serve(pool, observed, claim));
    step.unwrap_or(Step::Nothing)
}

fn tags(observed: &Observed) -> Option<Step> {
    let tagged = observed.members.iter().find(|member| member.given && !member.pool_tags.is_empty());
    let untag = tagged.map(|member| Step::Untag { ip: member.ip.clone(), tags: member.pool_tags.clone() });
    untag.or_else(|| {
        let untagged = observed.members.iter().find(|member| !member.given && member.lacks_tag);
        untagged.map(|member| Step::Tag(member.ip.clone()))
    })
}

fn release(pool: &OpenStackFloatingIPPool, observed: &Observed) -> Option<Step> {
    if let Some(held) = observed.addresses.iter().find(|held| held.releasing) {
        let member = observed.members.iter().find(|member| member.ip.address == held.address);
        let delete = pool.spec.reclaim_policy == ReclaimPolicy::Delete && member.is_some_and(|it| !it.given);
        return Some(Step::Release {
            object: held.name.clone(),
            ip: member.map(|member| member.ip.clone()),
            delete,
        });
    }
    let is_over = |uid: &str, address: Option<&str>| {
        observed.claims.iter().all(|claim| claim.uid != uid || claim.deleting)
            && observed.addresses.iter().all(|held| Some(held.address.as_str()) != address)
    };
    let mut reservations = observed.journal.of_kind(RESERVATION);
    let over = reservations.find(|entry| is_over(&entry.name, entry.id.as_deref()))?;
    Some(Step::Unreserve(over.name.clone()))
}

fn serve(pool: &OpenStackFloatingIPPool, observed: &Observed, claim: &Claim) -> Option<Step> {
    if observed.addresses.iter().any(|held| held.claim == claim.name && !held.releasing) {
        return (!claim.has_address).then(|| Step::Refer(claim.clone()));
    }
    if let Some(address) = observed.journal.id(RESERVATION, &claim.uid) {
        return Some(Step::CreateAddress { claim: claim.clone(), address: address.to_owned() });
    }
    if let Some(member) = observed.available().next() {
        return Some(Step::Reserve { uid: claim.uid.clone(), address: member.ip.address.clone() });
    }
    let count = observed.counted();
    let limit =
        pool.spec.max_ips.as_ref().map_or(usize::MAX, |limit| usize::try_from(limit.0).unwrap_or_default());
    (count < limit).then_some(Step::Allocate)
}

#[cfg(test)]
mod tests {
    use apiserver_types::{Integer, OpenStackFloatingIPPoolSpec};

    use super::*;

    fn pool(policy: ReclaimPolicy, limit: Option<i64>) -> OpenStackFloatingIPPool {
        let spec = OpenStackFloatingIPPoolSpec {
            reclaim_policy: policy,
            max_ips: limit.map(Integer),
            ..OpenStackFloatingIPPoolSpec::default()
        };
        OpenStackFloatingIPPool::new("pool", spec)
    }

    fn member(address: &str, given: bool) -> Member {
        let ip =
            FloatingIp { id: format!("id-{address}"), address: address.to_owned(), ..FloatingIp::default() };
        Member { given, ip, ..Member::default() }
    }

    fn claim(name: &str) -> Claim {
        Claim { name: name.to_owned(), uid: format!("uid-{name}"), ..Claim::default() }
    }

    fn held(claim: &str, address: &str) -> HeldAddress {
        HeldAddress {
            name: claim.to_owned(),
            claim: claim.to_owned(),
            address: address.to_owned(),
            releasing: false,
        }
    }

    #[test]
    fn a_claim_of_a_paused_cluster_gets_no_address() {
        let pool = pool(ReclaimPolicy::Retain, None);
        let mut observed = Observed { claims: vec![claim("a")], ..Observed::default() };
        assert_eq!(next_step(&pool, &observed), Step::Allocate);
        observed.claims[0].held = true;
        assert_eq!(next_step(&pool, &observed), Step::Nothing);
    }

    #[test]
    fn two_claims_never_get_one_address() {
        let pool = pool(ReclaimPolicy::Retain, Some(2));
        let mut observed = Observed {
            claims: vec![claim("a"), claim("b")],
            members: vec![member("192.0.2.1", true)],
            ..Observed::default()
        };
        let reserve = Step::Reserve { uid: "uid-a".to_owned(), address: "192.0.2.1".to_owned() };
        assert_eq!(next_step(&pool, &observed), reserve);
        observed.journal.learn(RESERVATION, "uid-a", "192.0.2.1");
        let create = Step::CreateAddress { claim: claim("a"), address: "192.0.2.1".to_owned() };
        assert_eq!(next_step(&pool, &observed), create, "also after a crash");
        observed.addresses.push(held("a", "192.0.2.1"));
        assert_eq!(next_step(&pool, &observed), Step::Refer(claim("a")));
        observed.claims[0].has_address = true;
        assert_eq!(next_step(&pool, &observed), Step::Allocate);
        observed.members.push(member("192.0.2.2", false));
        let reserve = Step::Reserve { uid: "uid-b".to_owned(), address: "192.0.2.2".to_owned() };
        assert_eq!(next_step(&pool, &observed), reserve);
        observed.journal.learn(RESERVATION, "uid-b", "192.0.2.2");
        observed.addresses.push(held("b", "192.0.2.2"));
        observed.claims[1].has_address = true;
        observed.claims.push(claim("c"));
        assert_eq!(next_step(&pool, &observed), Step::Nothing, "the limit is reached");
    }

    /// A floating IP that another owner used counted for the limit, and one that was deleted behind the pool did not.
    #[test]
    fn r11_the_limit_counts_claimed_and_available_addresses() {
        let pool = pool(ReclaimPolicy::Retain, Some(2));
        let used = |address: &str| {
            let ip = FloatingIp { port_id: Some("p".to_owned()), ..member(address, false).ip };
            Member { ip, ..Member::default() }
        };
        let mut observed = Observed {
            claims: vec![claim("new")],
            members: vec![used("192.0.2.1"), used("192.0.2.2")],
            addresses: vec![held("a", "192.0.2.1")],
            ..Observed::default()
        };
        assert_eq!(observed.counted(), 1, "no claim has 192.0.2.2, and it is not available");
        assert_eq!(next_step(&pool, &observed), Step::Allocate);
        observed.addresses.push(held("b", "192.0.2.9"));
        assert_eq!(observed.counted(), 2, "claim b keeps its address, which does not exist any more");
        assert_eq!(next_step(&pool, &observed), Step::Nothing);
    }

    #[test]
    fn r11_1_an_allocated_address_has_the_tag_of_the_pool_and_a_given_one_has_none() {
        let pool = pool(ReclaimPolicy::Retain, None);
        let mut allocated = member("192.0.2.1", false);
        allocated.lacks_tag = true;
        let observed = Observed { members: vec![allocated.clone()], ..Observed::default() };
        assert_eq!(next_step(&pool, &observed), Step::Tag(allocated.ip));
        let tags = vec!["cluster-api-provider-openstack-fip-pool-pool".to_owned()];
        let mut given = member("192.0.2.9", true);
        given.pool_tags.clone_from(&tags);
        let observed = Observed { members: vec![given.clone()], ..Observed::default() };
        assert_eq!(next_step(&pool, &observed), Step::Untag { ip: given.ip, tags });
    }

    #[test]
    fn a_released_address_is_deleted_only_by_policy_and_never_if_the_spec_names_it() {
        let table = [
            (ReclaimPolicy::Delete, false, true),
            (ReclaimPolicy::Delete, true, false),
            (ReclaimPolicy::Retain, false, false),
        ];
        for (policy, given, expected) in table {
            let observed = Observed {
                members: vec![member("192.0.2.1", given)],
                addresses: vec![HeldAddress { releasing: true, ..held("a", "192.0.2.1") }],
                ..Observed::default()
            };
            let step = next_step(&pool(policy, None), &observed);
            assert!(matches!(step, Step::Release { delete, .. } if delete == expected), "{step:?}");
        }
    }

    #[test]
    fn r11_3_the_reservation_of_a_claim_that_is_gone_ends() {
        let mut observed = Observed::default();
        observed.journal.learn(RESERVATION, "uid-a", "192.0.2.1");
        let pool = pool(ReclaimPolicy::Retain, None);
        assert_eq!(next_step(&pool, &observed), Step::Unreserve("uid-a".to_owned()));
        observed.addresses.push(held("a", "192.0.2.1"));
        assert_eq!(next_step(&pool, &observed), Step::Nothing, "its IPAddress still has it");
    }

    #[test]
    fn r11_5_a_deleted_pool_gives_back_what_is_free_and_was_not_given() {
        let mut pool = pool(ReclaimPolicy::Retain, None);
        let time =
            k8s_openapi::apimachinery::pkg::apis::meta::v1::Time("2026-01-01T00:00:00Z".parse().unwrap());
        pool.metadata.deletion_timestamp = Some(time);
        let mut observed = Observed {
            claims: vec![claim("waiting")],
            members: vec![member("192.0.2.1", true), member("192.0.2.2", false), member("192.0.2.3", false)],
            addresses: vec![held("a", "192.0.2.2")],
            ..Observed::default()
        };
        assert_eq!(next_step(&pool, &observed), Step::Delete(member("192.0.2.3", false).ip));
        observed.members.pop();
        assert_eq!(next_step(&pool, &observed), Step::Nothing);
    }
}
