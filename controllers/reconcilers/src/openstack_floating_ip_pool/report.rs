//! Status of a pool.

use apiserver_types::{Condition, ConditionStatus, OpenStackFloatingIPPool, Time, set_condition};
use controllers_infrastructure::ErrorClass;
use controllers_runtime::ReconcileError;

use super::decide::{Member, Observed};
use crate::login::Login;

/// Condition of a pool. Upstream's name, which ends in "Condition" indeed.
const READY: &str = "OpenstackFloatingIPPoolReadyCondition";

/// Reason of a pool that is being deleted, and waits for its claims.
const DELETING: &str = "Deleting";

/// Writes the observed addresses and the end of the pass into the status.
pub(super) fn report(
    pool: &mut OpenStackFloatingIPPool,
    observed: &Observed,
    error: Option<&ReconcileError>,
    now: &Time,
) {
    let given = pool.spec.pre_allocated_floating_ips.clone().unwrap_or_default();
    let generation = pool.metadata.generation;
    let in_use = in_use(pool, observed).filter(|_| error.is_none());
    let status = pool.status.get_or_insert_default();
    if let Some(network) = &observed.network {
        status.floating_ip_network = Some(network.clone());
        let exists = |address: &String| observed.members.iter().any(|member| member.ip.address == *address);
        let mut claimed: Vec<String> = observed.addresses.iter().map(|held| held.address.clone()).collect();
        claimed.sort();
        let mut failed: Vec<String> =
            given.iter().chain(&claimed).filter(|it| !exists(it)).cloned().collect();
        failed.sort();
        failed.dedup();
        let address = |member: &Member| member.ip.address.clone();
        status.available_ips = Some(observed.available().map(address).collect());
        status.claimed_ips = Some(claimed);
        status.failed_ips = (!failed.is_empty()).then_some(failed);
    }
    let login = observed.login.clone().or_else(|| Login::Failed(error).condition(now));
    if let Some(login) = login {
        set_condition(status.conditions.get_or_insert_default(), login.at_generation(generation));
    }
    let (holds, reason, message) =
        in_use.map_or_else(|| ready(observed, error), |message| (ConditionStatus::False, DELETING, message));
    let condition = Condition::new(READY, holds, reason, &message, now.clone());
    set_condition(status.conditions.get_or_insert_default(), condition.at_generation(generation));
}

/// Returns the messages about addresses that failed since the last pass: their floating IPs do not exist. Pure.
pub(super) fn newly_failed(
    before: &OpenStackFloatingIPPool,
    after: &OpenStackFloatingIPPool,
    observed: &Observed,
) -> Vec<String> {
    let failed = |pool: &OpenStackFloatingIPPool| {
        pool.status.as_ref().and_then(|status| status.failed_ips.clone()).unwrap_or_default()
    };
    let known = failed(before);
    let new = failed(after).into_iter().filter(|address| !known.contains(address));
    new.map(|address| match observed.addresses.iter().find(|held| held.address == address) {
        Some(held) => format!(
            "floating IP {address} of claim {} does not exist any more. The claim keeps the address. Delete the claim to \
             get another one",
            held.claim
        ),
        None => format!(
            "floating IP {address} of spec.preAllocatedFloatingIPs does not exist on the network of the pool. Allocate it, \
             or remove it from the spec"
        ),
    })
    .collect()
}

/// Returns why the deletion of a pool waits: claims have its addresses.
fn in_use(pool: &OpenStackFloatingIPPool, observed: &Observed) -> Option<String> {
    pool.metadata.deletion_timestamp.as_ref()?;
    let mut claims: Vec<&str> = observed.addresses.iter().map(|held| held.claim.as_str()).collect();
    if claims.is_empty() {
        return None;
    }
    claims.sort_unstable();
    let claims = claims.join(", ");
    Some(format!("the pool is kept while claims have its addresses: {claims}. Delete them"))
}

fn ready(observed: &Observed, error: Option<&ReconcileError>) -> (ConditionStatus, &'static str, String) {
    let no = ConditionStatus::False;
    match error {
        Some(ReconcileError::Cloud(error))
            if observed.network.is_none()
                && matches!(error.class, ErrorClass::NotFound | ErrorClass::Ambiguous) =>
        {
            (no, "UnableToFindNetwork", error.to_string())
        }
        Some(error) => (no, "OpenStackError", error.to_string()),
        None if !observed.unserved.is_empty() => {
            let message = format!(
                "no address is left for the claims {}. Raise spec.maxIPs, or delete another claim",
                observed.unserved.join(", ")
            );
            (no, "MaxIPsReached", message)
        }
        None => (ConditionStatus::True, "Ready", String::new()),
    }
}

#[cfg(test)]
mod tests {
    use apiserver_types::OpenStackFloatingIPPoolSpec;
    use controllers_infrastructure::{CloudError, FloatingIp};
    use controllers_runtime::now;

    use super::super::decide::HeldAddress;
    use super::*;

    #[test]
    fn r11_4_an_address_that_was_deleted_behind_the_pool_is_a_failed_one() {
        let spec = OpenStackFloatingIPPoolSpec {
            pre_allocated_floating_ips: Some(vec!["192.0.2.9".to_owned()]),
            ..OpenStackFloatingIPPoolSpec::default()
        };
        let mut pool = OpenStackFloatingIPPool::new("pool", spec);
        let free = FloatingIp { address: "192.0.2.1".to_owned(), ..FloatingIp::default() };
        let observed = Observed {
            network: Some(apiserver_types::NetworkStatus::default()),
            members: vec![Member { ip: free, ..Member::default() }],
            addresses: vec![HeldAddress {
                address: "192.0.2.2".to_owned(),
                claim: "web".to_owned(),
                ..HeldAddress::default()
            }],
            ..Observed::default()
        };
        let before = pool.clone();
        report(&mut pool, &observed, None, &now());
        let warned = newly_failed(&before, &pool, &observed);
        assert_eq!(warned.len(), 2);
        assert!(
            warned[0].starts_with("floating IP 192.0.2.2 of claim web does not exist any more"),
            "{warned:?}"
        );
        assert!(warned[1].starts_with("floating IP 192.0.2.9 of spec.preAllocatedFloatingIPs"), "{warned:?}");
        assert_eq!(newly_failed(&pool, &pool, &observed), Vec::<String>::new(), "once");
        let status = pool.status.unwrap();
        assert_eq!(status.available_ips.unwrap(), ["192.0.2.1"]);
        assert_eq!(status.claimed_ips.unwrap(), ["192.0.2.2"]);
        assert_eq!(status.failed_ips.unwrap(), ["192.0.2.2", "192.0.2.9"]);
    }

    /// `kubectl delete` of a pool in use waited, and the pool was reported as ready.
    #[test]
    fn a_deleted_pool_names_the_claims_that_it_waits_for() {
        let mut pool = OpenStackFloatingIPPool::new("pool", OpenStackFloatingIPPoolSpec::default());
        let held = |claim: &str| HeldAddress { claim: claim.to_owned(), ..HeldAddress::default() };
        let observed = Observed { addresses: vec![held("b"), held("a")], ..Observed::default() };
        let reason = |pool: &mut OpenStackFloatingIPPool, observed: &Observed| {
            report(pool, observed, None, &now());
            let conditions = pool.status.clone().unwrap().conditions.unwrap();
            let found = conditions.into_iter().find(|it| it.kind == READY).unwrap();
            (found.reason, found.message)
        };
        assert_eq!(reason(&mut pool, &observed).0, "Ready");
        let time = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH);
        pool.metadata.deletion_timestamp = Some(time);
        let (found, message) = reason(&mut pool, &observed);
        assert_eq!(found, "Deleting");
        assert!(message.contains("claims have its addresses: a, b. "), "{message}");
        assert_eq!(reason(&mut pool, &Observed::default()).0, "Ready", "nothing is left to wait for");
    }

    #[test]
    fn the_condition_says_why_claims_wait() {
        let observed = Observed { unserved: vec!["c".to_owned()], ..Observed::default() };
        assert_eq!(ready(&observed, None).1, "MaxIPsReached");
        let none = CloudError::new(ErrorClass::NotFound, "resolve spec.floatingIPNetwork", "none").into();
        assert_eq!(ready(&Observed::default(), Some(&none)).1, "UnableToFindNetwork");
        let quota = CloudError::new(ErrorClass::Quota, "allocate", "Quota exceeded").into();
        assert_eq!(ready(&Observed::default(), Some(&quota)).1, "OpenStackError");
    }
}
