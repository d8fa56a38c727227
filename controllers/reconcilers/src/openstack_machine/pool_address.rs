//! Floating IP of a machine from a pool: its claim, and the association with a port of the server.

use apiserver_types::{
    Condition, ConditionStatus, ContractVersionedObjectReference, IPAddress, IPAddressClaim,
    IPAddressClaimSpec, OpenStackFloatingIPPool, OpenStackMachine,
};
use controllers_infrastructure::{
    FailedStep, FixedIp, FloatingIp, FloatingIpQuery, NetworkQuery, Port, PortQuery,
};
use controllers_runtime::{ReconcileError, now};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use kube::api::{DeleteParams, PostParams};
use kube::{Api, Client, ResourceExt};

use super::decide::{Desired, Observed};
use super::observe::Observer;
use crate::CLUSTER_NAME_LABEL;

/// Condition of the floating IP. Upstream's name.
const CONDITION: &str = "FloatingAddressFromPoolReady";

/// Finalizer that keeps a claim until its machine releases it. Upstream's name.
const FINALIZER: &str = "openstackmachine.infrastructure.cluster.x-k8s.io/ip-claim";

/// Group of our pools, which a reference without a group names.
const GROUP: &str = "infrastructure.cluster.x-k8s.io";

/// Device owners of a router's interfaces.
const INTERFACES: [&str; 4] = [
    "network:router_interface",
    "network:router_interface_distributed",
    "network:ha_router_replicated_interface",
    "network:router_ha_interface",
];

/// Returns the name of the claim of a server. Upstream's name.
fn claim_name(server: &str) -> String {
    format!("{server}-floating-ip-address")
}

/// Returns the address that the pool has allocated; `None` if the spec requests none. Creates the claim.
///
/// # Errors
/// The pool has allocated no address yet; the condition is in the status then.
pub(super) async fn address(
    client: &Client,
    object: &mut OpenStackMachine,
    owner: OwnerReference,
) -> Result<Option<String>, ReconcileError> {
    let Some(reference) = object.spec.floating_ip_pool_ref.clone() else { return Ok(None) };
    let namespace = object.namespace().unwrap_or_default();
    let claims: Api<IPAddressClaim> = Api::namespaced(client.clone(), &namespace);
    let name = claim_name(&object.name_any());
    let claim = match claims.get_opt(&name).await? {
        Some(claim) => claim,
        None => claims.create(&PostParams::default(), &new_claim(object, &name, owner.clone())).await?,
    };
    if !claim.owner_references().iter().any(|known| known.uid == owner.uid) {
        let text = match claim.metadata.deletion_timestamp {
            Some(_) => "of an earlier machine of this name is being deleted",
            None => "belongs to another object. Delete it",
        };
        return Err(waiting(object, &format!("IPAddressClaim {namespace}/{name} {text}")));
    }
    let allocated = claim.status.as_ref().and_then(|status| status.address_ref.as_ref());
    let addresses: Api<IPAddress> = Api::namespaced(client.clone(), &namespace);
    let address = match allocated {
        Some(allocated) => addresses.get_opt(&allocated.name).await?,
        None => None,
    };
    match address {
        Some(address) => Ok(Some(address.spec.address)),
        None => {
            let why = claim.status.as_ref().and_then(|status| status.conditions.as_ref());
            let why = why.into_iter().flatten().find(|it| it.kind == "Ready" && !it.holds());
            let why = why.map(|it| format!(": {}", it.message)).unwrap_or_default();
            let (kind, pool) = (&reference.kind, &reference.name);
            let message = format!("waiting for an address for IPAddressClaim {name} from {kind} {pool}{why}");
            Err(waiting(object, &message))
        }
    }
}

/// Returns true if the pool that the spec names has to allocate a floating IP for the machine, which the quota of the
/// project limits. Pools of other kinds hand out addresses that exist.
pub(super) async fn is_to_be_allocated(
    client: &Client,
    object: &OpenStackMachine,
) -> Result<bool, ReconcileError> {
    let Some(reference) = object.spec.floating_ip_pool_ref.as_ref() else { return Ok(false) };
    let group = reference.api_group.as_deref().unwrap_or(GROUP);
    if group != GROUP || reference.kind != "OpenStackFloatingIPPool" {
        return Ok(false);
    }
    let namespace = object.namespace().unwrap_or_default();
    let claims: Api<IPAddressClaim> = Api::namespaced(client.clone(), &namespace);
    let claim = claims.get_opt(&claim_name(&object.name_any())).await?;
    if claim.and_then(|claim| claim.status?.address_ref).is_some() {
        return Ok(false);
    }
    let pools: Api<OpenStackFloatingIPPool> = Api::namespaced(client.clone(), &namespace);
    Ok(pools.get_opt(&reference.name).await?.is_some_and(|pool| !has_free(&pool)))
}

/// Returns true if a pool has an address that no claim has. Pure.
fn has_free(pool: &OpenStackFloatingIPPool) -> bool {
    let addresses = match &pool.status {
        Some(status) => &status.available_ips,
        None => &pool.spec.pre_allocated_floating_ips,
    };
    addresses.as_ref().is_some_and(|addresses| !addresses.is_empty())
}

/// Writes the condition of a machine that waits for its address, and returns the error that ends the pass.
fn waiting(object: &mut OpenStackMachine, message: &str) -> ReconcileError {
    let reason = "WaitingForIPAMProvider";
    let condition = Condition::new(CONDITION, ConditionStatus::False, reason, message, now());
    super::report::add(object, Some(condition));
    ReconcileError::waiting(reason, message)
}

fn new_claim(object: &OpenStackMachine, name: &str, owner: OwnerReference) -> IPAddressClaim {
    let reference = object.spec.floating_ip_pool_ref.clone().unwrap_or_default();
    let cluster = object.labels().get(CLUSTER_NAME_LABEL);
    let spec = IPAddressClaimSpec {
        pool_ref: ContractVersionedObjectReference {
            // As upstream: a reference without a group names a pool of this group.
            api_group: reference.api_group.unwrap_or_else(|| GROUP.to_owned()),
            kind: reference.kind,
            name: reference.name,
        },
        cluster_name: cluster.cloned(),
    };
    let mut claim = IPAddressClaim::new(name, spec);
    claim.metadata.namespace = object.namespace();
    claim.metadata.labels = cluster.map(|cluster| [(CLUSTER_NAME_LABEL.to_owned(), cluster.clone())].into());
    claim.metadata.owner_references = Some(vec![owner]);
    claim.metadata.finalizers = Some(vec![FINALIZER.to_owned()]);
    claim
}

/// Deletes the claim of a machine that is being deleted, if it has one.
pub(super) async fn release(client: &Client, object: &OpenStackMachine) -> Result<(), ReconcileError> {
    if object.spec.floating_ip_pool_ref.is_none() {
        return Ok(());
    }
    let claims: Api<IPAddressClaim> =
        Api::namespaced(client.clone(), &object.namespace().unwrap_or_default());
    let name = claim_name(&object.name_any());
    let Some(claim) = claims.get_opt(&name).await? else { return Ok(()) };
    if !claim.owner_references().iter().any(|owner| Some(&owner.uid) == object.uid().as_ref()) {
        return Ok(());
    }
    if claim.metadata.deletion_timestamp.is_none() {
        claims.delete(&name, &DeleteParams::default()).await?;
    }
    match claims.get_opt(&name).await? {
        Some(claim) => crate::finalizers::remove(&claims, &claim, FINALIZER).await,
        None => Ok(()),
    }
}

/// Associates the address with a port of the server, if it is not yet. Returns the condition.
pub(super) async fn associate(
    observer: &Observer<'_>,
    desired: &Desired,
    observed: &mut Observed,
    address: &str,
) -> Result<Condition, ReconcileError> {
    let failed =
        |reason, message: &str| Ok(Condition::new(CONDITION, ConditionStatus::False, reason, message, now()));
    let query = FloatingIpQuery { address: Some(address.to_owned()), ..FloatingIpQuery::default() };
    let Some(ip) = observer.cloud.floating_ips(&query).await?.into_iter().next() else {
        let message = format!("floating IP {address} does not exist in the project of the machine");
        return failed("FloatingIPError", &message);
    };
    if observed.ports.is_empty() {
        observer.parts(observed, desired).await?;
    }
    if let Some(held) = &ip.port_id {
        if observed.ports.values().any(|port| port.id == *held) {
            return Ok(Condition::new(CONDITION, ConditionStatus::True, "Ready", "", now()));
        }
        let message = format!("floating IP {address} is associated with port {held} of another server");
        return failed("FloatingIPError", &message);
    }
    let Some((port, fixed)) = reachable(observer, desired, observed, &ip).await? else {
        let message = format!(
            "no port of the server is in a subnet with a router to network {}, which floating IP {address} is on. Connect one",
            ip.network_id
        );
        return failed("UnableToFindFloatingIPNetwork", &message);
    };
    let made = observer.cloud.take_floating_ip(&ip, &port, fixed.as_deref()).await;
    made.map_err(|error| {
        let attempt = || format!("associate floating IP {address} with port {port}");
        let failure = FailedStep::new("FloatingIPError", "FailedAssociateFloatingIP");
        ReconcileError::from(error).during(attempt).of_step(Some(failure))
    })?;
    Ok(Condition::new(CONDITION, ConditionStatus::True, "Ready", "", now()))
}

/// Returns the first port, and its address, from which a router leads to the network of the floating IP. The port on the
/// cluster's network comes first.
async fn reachable(
    observer: &Observer<'_>,
    desired: &Desired,
    observed: &Observed,
    ip: &FloatingIp,
) -> Result<Option<(String, Option<String>)>, ReconcileError> {
    let mut ports: Vec<&Port> =
        desired.ports.iter().filter_map(|spec| observed.ports.get(&spec.name)).collect();
    ports.sort_by_key(|port| Some(&port.network_id) != desired.network.as_ref());
    for port in ports {
        let query = PortQuery {
            network_id: Some(port.network_id.clone()),
            device_owners: INTERFACES.map(str::to_owned).to_vec(),
            ..PortQuery::default()
        };
        for interface in observer.cloud.ports(&query).await? {
            let query = NetworkQuery { id: Some(interface.device_id.clone()), ..NetworkQuery::default() };
            let routers = observer.cloud.routers(&query).await?;
            let leads = routers.iter().any(|it| it.external_network_id.as_ref() == Some(&ip.network_id));
            if let Some(fixed) = leads.then(|| shared_subnet(port, &interface)).flatten() {
                return Ok(Some((port.id.clone(), fixed)));
            }
        }
    }
    Ok(None)
}

/// Returns the address of a port in a subnet of a router's interface. Floating IPs lead to addresses of IPv4 only.
fn shared_subnet(port: &Port, interface: &Port) -> Option<Option<String>> {
    let shared = |subnet: &Option<String>| interface.fixed_ips.iter().any(|ip| ip.subnet_id == *subnet);
    let is_v4 = |ip: &&FixedIp| ip.ip_address.as_ref().is_none_or(|address| !address.contains(':'));
    let found = port.fixed_ips.iter().filter(is_v4).find(|ip| shared(&ip.subnet_id));
    found.map(|ip| ip.ip_address.clone())
}

#[cfg(test)]
mod tests {
    use apiserver_types::{OpenStackMachineSpec, TypedLocalRef};
    use serde_json::json;

    use super::*;

    #[test]
    fn the_claim_of_a_machine_names_its_pool_and_has_upstreams_name_and_finalizer() {
        let mut object = OpenStackMachine::new("m", OpenStackMachineSpec::default());
        object.labels_mut().insert(CLUSTER_NAME_LABEL.to_owned(), "c".to_owned());
        object.spec.floating_ip_pool_ref =
            Some(TypedLocalRef { kind: "Pool".to_owned(), name: "p".to_owned(), api_group: None });
        let claim = new_claim(&object, &claim_name("m"), OwnerReference::default());
        assert_eq!(claim.name_any(), "m-floating-ip-address");
        assert_eq!(claim.finalizers(), [FINALIZER]);
        assert_eq!(claim.spec.cluster_name.as_deref(), Some("c"));
        assert_eq!(claim.spec.pool_ref.api_group, "infrastructure.cluster.x-k8s.io");
    }

    #[test]
    fn a_pool_with_a_free_address_allocates_none() {
        let pool = |status: serde_json::Value| -> OpenStackFloatingIPPool {
            let spec = json!({
                "identityRef": {"name": "s", "cloudName": "c"}, "reclaimPolicy": "Delete",
                "preAllocatedFloatingIPs": ["203.0.113.7"],
            });
            let mut pool = OpenStackFloatingIPPool::new("p", serde_json::from_value(spec).unwrap());
            pool.status = serde_json::from_value(status).unwrap();
            pool
        };
        assert!(has_free(&pool(json!(null))), "the controller of the pool has not seen it yet");
        assert!(has_free(&pool(json!({"availableIPs": ["203.0.113.7"]}))));
        assert!(!has_free(&pool(json!({"claimedIPs": ["203.0.113.7"]}))));
    }

    #[test]
    fn the_floating_ip_is_on_the_address_that_the_router_reaches() {
        let fixed = |subnet: &str, address: &str| FixedIp {
            subnet_id: Some(subnet.to_owned()),
            ip_address: Some(address.to_owned()),
        };
        let port =
            Port { fixed_ips: vec![fixed("a", "10.0.0.1"), fixed("b", "10.1.0.1")], ..Port::default() };
        let interface = Port { fixed_ips: vec![fixed("b", "10.1.0.254")], ..Port::default() };
        assert_eq!(shared_subnet(&port, &interface), Some(Some("10.1.0.1".to_owned())));
        assert_eq!(shared_subnet(&interface, &Port::default()), None);
        let six = |address: &str| fixed("six", address);
        let port = Port { fixed_ips: vec![six("fd00::1"), fixed("b", "10.1.0.1")], ..Port::default() };
        let interface =
            Port { fixed_ips: vec![six("fd00::fe"), fixed("b", "10.1.0.254")], ..Port::default() };
        assert_eq!(shared_subnet(&port, &interface), Some(Some("10.1.0.1".to_owned())));
    }
}
