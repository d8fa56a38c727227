//! Status of an OpenStackCluster, from the observed resources and the end of the pass.

use apiserver_types::{
    Condition, ConditionStatus, Initialization, LoadBalancer, NetworkStatus, NetworkStatusWithSubnets,
    OpenStackCluster, OpenStackClusterStatus, RouterStatus, SecurityGroupStatus, SubnetStatus, Time,
    condition, set_condition,
};
use controllers_infrastructure::{ErrorClass, Network, Subnet};
use controllers_runtime::{OwnershipTag, ReconcileError};

use super::balancer::{self, BalancerWish, DEGRADED, PENDING};
use super::blockers::BLOCKED;
use super::desired::{Desired, EndpointWish, NetworkWish, RouterWish, SubnetWish};
use super::observe::Observed;
use super::rules::Role;
use super::{drift, gateway, lost_network, zones};
use crate::kstatus;
use crate::login::Login;

/// Reason of a cluster whose spec gives its API no address.
const UNDETERMINED: &str = "APIEndpointConfigFailed";

/// End of a pass.
pub(super) enum Ending<'a> {
    /// Everything exists.
    Complete,
    /// An error stopped the pass.
    Stopped(&'a ReconcileError),
}

/// Writes the observed resources into the status.
pub(super) fn report(
    object: &mut OpenStackCluster,
    desired: &Desired,
    observed: &Observed,
    ending: &Ending<'_>,
    now: &Time,
) {
    let chosen = object.spec.control_plane_availability_zones.clone().unwrap_or_default();
    let omitted = object.spec.control_plane_omit_availability_zone == Some(true);
    let generation = object.metadata.generation;
    let tag = OwnershipTag::of(object);
    let status = object.status.get_or_insert_default();
    things(status, observed);
    if let Some(balancer) = load_balancer(desired, observed) {
        status.api_server_managed_load_balancer = Some(balancer);
    }
    let before = status.failure_domains.take();
    status.failure_domains = zones::domains(before, observed, omitted, &chosen, now);
    let parts = [
        ("NetworkReady", network(desired, observed)),
        ("RouterReady", router(desired, observed)),
        ("SecurityGroupsReady", groups(desired, observed)),
        ("APIEndpointReady", endpoint(desired, &tag, observed)),
    ];
    super::bastion::report::report(status, desired, observed, generation, now);
    let conditions = status.conditions.get_or_insert_default();
    let mut unready = None;
    for (kind, part) in parts {
        let condition = match (fought(kind, part, observed), ending) {
            (Part::Done, _) => Condition::new(kind, ConditionStatus::True, "Ready", "", now.clone()),
            (Part::Degraded(reason, message), _) => {
                Condition::new(kind, ConditionStatus::True, reason, &message, now.clone())
            }
            (Part::Wrong(reason, message), _) => {
                Condition::new(kind, ConditionStatus::False, reason, &message, now.clone())
            }
            (Part::Expected(_, _), Ending::Stopped(error @ ReconcileError::Cloud(_)))
                if unready.is_none() =>
            {
                let reason = reason_of(kind, desired, error);
                Condition::new(kind, ConditionStatus::False, reason, &error.to_string(), now.clone())
            }
            (Part::Expected(reason, message), _) => {
                Condition::new(kind, ConditionStatus::False, reason, &message, now.clone())
            }
            // It existed, and this pass ended before it was observed.
            (Part::Missing, Ending::Stopped(_)) if !observed.complete && holds(conditions, kind) => continue,
            (Part::Missing, Ending::Stopped(error)) => {
                // The error is reported on the first part that is missing; the other parts wait for it.
                let (reason, message) = match unready {
                    None => (reason_of(kind, desired, error), error.to_string()),
                    Some(earlier) => ("Waiting", format!("waiting for {earlier}")),
                };
                Condition::new(kind, ConditionStatus::False, reason, &message, now.clone())
            }
            (Part::Missing, Ending::Complete) => {
                Condition::new(kind, ConditionStatus::False, "Creating", "being made", now.clone())
            }
        };
        if !condition.holds() && unready.is_none() {
            unready = Some(kind);
        }
        set_condition(conditions, condition.at_generation(generation));
    }
    set_condition(conditions, ready(unready, conditions, ending, now).at_generation(generation));
    kstatus::report(conditions, None, generation, now);
    if unready.is_none() && matches!(ending, Ending::Complete) {
        status.initialization = Some(Initialization { provisioned: Some(true) });
    }
}

/// Writes into the status if the login succeeded. An outage says nothing about the credentials.
pub(super) fn report_login(object: &mut OpenStackCluster, login: &Login<'_>, now: &Time) {
    let Some(condition) = login.condition(now) else { return };
    let generation = object.metadata.generation;
    let conditions = object.status.get_or_insert_default().conditions.get_or_insert_default();
    set_condition(conditions, condition.at_generation(generation));
}

/// Writes into the status why the pass could not begin, or that the object is being deleted. What blocks the deletion
/// is also the reason of the network.
pub(super) fn report_stopped(object: &mut OpenStackCluster, error: &ReconcileError, now: &Time) {
    report_error(object, "Ready", error, now);
    if error.reason() == BLOCKED {
        report_error(object, "NetworkReady", error, now);
    }
    let generation = object.metadata.generation;
    let conditions = object.status.get_or_insert_default().conditions.get_or_insert_default();
    kstatus::report(conditions, None, generation, now);
}

/// Removes from the status that a pass works on the object. Nothing else changes while it is paused.
pub(super) fn report_pause(object: &mut OpenStackCluster) {
    if let Some(conditions) = object.status.as_mut().and_then(|status| status.conditions.as_mut()) {
        kstatus::remove(conditions);
    }
}

fn report_error(object: &mut OpenStackCluster, kind: &str, error: &ReconcileError, now: &Time) {
    let generation = object.metadata.generation;
    let conditions = object.status.get_or_insert_default().conditions.get_or_insert_default();
    let condition =
        Condition::new(kind, ConditionStatus::False, error.reason(), &error.to_string(), now.clone());
    set_condition(conditions, condition.at_generation(generation));
}

/// Writes the condition that names the load balancers and volumes of the workload cluster.
pub(super) fn report_leftovers(object: &mut OpenStackCluster, kind: &str, message: &str, now: &Time) {
    let generation = object.metadata.generation;
    let conditions = object.status.get_or_insert_default().conditions.get_or_insert_default();
    let condition = Condition::new(kind, ConditionStatus::True, kind, message, now.clone());
    set_condition(conditions, condition.at_generation(generation));
}

fn ready(unready: Option<&str>, parts: &[Condition], ending: &Ending<'_>, now: &Time) -> Condition {
    let failing = unready.and_then(|kind| parts.iter().find(|condition| condition.kind == kind));
    match (failing, ending) {
        (Some(part), _) => {
            let message = format!("{}: {}", part.kind, part.message);
            Condition::new("Ready", ConditionStatus::False, &part.reason, &message, now.clone())
        }
        (None, Ending::Stopped(error)) => {
            Condition::new("Ready", ConditionStatus::False, error.reason(), &error.to_string(), now.clone())
        }
        (None, Ending::Complete) => Condition::new("Ready", ConditionStatus::True, "Ready", "", now.clone()),
    }
}

/// Returns the reason of a part that an error has stopped.
fn reason_of(kind: &str, desired: &Desired, error: &ReconcileError) -> &'static str {
    let balanced = matches!(desired.endpoint, EndpointWish::LoadBalancer(_));
    if kind == "APIEndpointReady" && balanced && is_without_permission(error) {
        return "LoadBalancerUnavailable";
    }
    match (kind, error.reason()) {
        ("NetworkReady", "NotFound") => "NetworkNotFound",
        ("NetworkReady", "Ambiguous") => "NetworkAmbiguous",
        ("APIEndpointReady", "QuotaExceeded") if balanced => "LoadBalancerQuota",
        (_, reason) => reason,
    }
}

/// Returns true for a user without permission. Octavia's permissions are a role of their own, and not every cloud has
/// Octavia. Refusals of other services are not meant: Neutron refuses a floating IP with a chosen address.
fn is_without_permission(error: &ReconcileError) -> bool {
    let ReconcileError::Cloud(error) = error else { return false };
    let is_of_octavia = error.service.is_none_or(|service| service == "Octavia");
    is_of_octavia && matches!(error.class, ErrorClass::Forbidden | ErrorClass::Credentials)
}

fn holds(conditions: &[Condition], kind: &str) -> bool {
    condition(conditions, kind).is_some_and(Condition::holds)
}

/// State of one part.
enum Part {
    Done,
    Missing,
    Wrong(&'static str, String),
    /// The pass creates it. If an error of the cloud has stopped the pass, that error is the cause.
    Expected(&'static str, String),
    /// It works, with a defect.
    Degraded(&'static str, String),
}

impl Part {
    fn when(done: bool) -> Self {
        if done { Self::Done } else { Self::Missing }
    }
}

/// Returns the state of a part, of which a field may be left to another client that changes it again and again.
fn fought(kind: &str, part: Part, observed: &Observed) -> Part {
    let Some(message) = observed.drift.fight(kind) else { return part };
    match part {
        Part::Done => Part::Degraded(drift::FIGHT, message),
        Part::Missing if observed.complete => Part::Wrong(drift::FIGHT, message),
        part => part,
    }
}

fn network(desired: &Desired, observed: &Observed) -> Part {
    if let Some(message) = lost_network::message(desired, observed) {
        return Part::Wrong(lost_network::NETWORK_LOST, message);
    }
    let managed = matches!(desired.network, NetworkWish::Managed { .. });
    match (&observed.network, observed.subnets.is_empty()) {
        (Some(network), true) if !managed && matches!(desired.subnets, SubnetWish::All) => {
            Part::Wrong("NotFound", format!("network {} ({}) has no subnet", network.name, network.id))
        }
        (Some(_), false) => Part::Done,
        _ => Part::Missing,
    }
}

fn router(desired: &Desired, observed: &Observed) -> Part {
    if let Some(refused) = &observed.gateway_refused {
        return Part::Wrong(refused.reason(), refused.to_string());
    }
    match &desired.router {
        RouterWish::None => Part::Done,
        RouterWish::Connected(_) => Part::when(observed.router.is_some()),
        // The spec names no external network and there is none: the cluster has no router.
        RouterWish::Managed { .. }
            if observed.network.is_some() && !observed.subnets.is_empty() && observed.external.is_none() =>
        {
            Part::Done
        }
        _ => Part::when(
            observed.router.is_some() && observed.connected && gateway::is_as_wanted(desired, observed),
        ),
    }
}

fn groups(desired: &Desired, observed: &Observed) -> Part {
    let clients = super::decide::clients(desired, observed);
    let context = observed.rule_context(&clients);
    let complete = |wish: &super::desired::GroupWish| {
        observed.groups.get(&wish.role).is_some_and(|group| {
            let has = |rule| group.rules.iter().any(|known| super::rules::same_traffic(&known.rule, rule));
            context.resolve(&wish.rules, &group.id).iter().all(has)
        })
    };
    if !desired.groups.iter().all(complete) {
        return Part::Missing;
    }
    match desired.invalid_rules.join("; ") {
        message if message.is_empty() => Part::Done,
        message => Part::Wrong("SecurityGroupRuleInvalid", message),
    }
}

fn endpoint(desired: &Desired, tag: &OwnershipTag, observed: &Observed) -> Part {
    let is_known = observed.endpoint.as_ref().is_some_and(|(_, port)| *port > 0);
    match &desired.endpoint {
        EndpointWish::LoadBalancer(wish) if is_known => balanced(wish, tag, observed),
        _ if observed.unresolvable.is_some() => {
            let message = observed.unresolvable.clone().unwrap_or_default();
            Part::Wrong("EndpointNotResolvable", message)
        }
        _ if is_known => Part::Done,
        EndpointWish::Nowhere => Part::Wrong(
            UNDETERMINED,
            "the API has no address, because the spec requests no floating IP. \
             Set spec.controlPlaneEndpoint or spec.apiServer.fixedIP"
                .to_owned(),
        ),
        EndpointWish::LoadBalancer(wish) if !wish.floating => Part::Missing,
        EndpointWish::Floating(_) | EndpointWish::LoadBalancer(_)
            if observed.network.is_some() && !observed.subnets.is_empty() && observed.external.is_none() =>
        {
            Part::Wrong(
                UNDETERMINED,
                "a floating IP needs an external network and the cloud has none. \
                 Set spec.controlPlaneEndpoint or spec.apiServer.fixedIP"
                    .to_owned(),
            )
        }
        _ => Part::Missing,
    }
}

/// Returns the state of an endpoint at a load balancer: whether clients reach the API there, as far as the cloud shows it.
fn balanced(wish: &BalancerWish, tag: &OwnershipTag, observed: &Observed) -> Part {
    let view = &observed.balancing;
    if let Some(message) = view.taken.clone() {
        return Part::Wrong(balancer::NAME_TAKEN, message);
    }
    match balancer::unusable(wish, tag, observed) {
        Some((DEGRADED, message)) => return Part::Degraded(DEGRADED, message),
        Some((PENDING, message)) if balancer::missing_listener(wish, view).is_some() => {
            return Part::Expected(PENDING, message);
        }
        Some((reason, message)) => return Part::Wrong(reason, message),
        None => {}
    }
    if let Some(message) = observed.unresolvable.clone() {
        return Part::Wrong("EndpointNotResolvable", message);
    }
    // The error that keeps Capstan from creating another one is reported.
    if view.balancer.is_none() || wish.floating && observed.floating_ip.is_none() {
        return Part::Missing;
    }
    let left = view.given_up.clone();
    left.map_or(Part::Done, |message| Part::Degraded(DEGRADED, message))
}

/// Returns the status of the load balancer, once all of it is known.
fn load_balancer(desired: &Desired, observed: &Observed) -> Option<LoadBalancer> {
    let EndpointWish::LoadBalancer(wish) = &desired.endpoint else { return None };
    let balancer = observed.balancing.balancer.as_ref().filter(|it| !it.vip_address.is_empty())?;
    let cidrs = observed.balancing.listener(desired.port).map(|it| it.allowed_cidrs.clone());
    let network = observed.balancing.network.as_ref();
    Some(LoadBalancer {
        id: balancer.id.clone(),
        internal_ip: balancer.vip_address.clone(),
        ip: observed.balanced_host(wish)?,
        name: balancer.name.clone(),
        allowed_cidrs: cidrs.filter(|cidrs| !cidrs.is_empty()),
        load_balancer_network: network.map(|(network, subnets)| network_status(network, subnets)),
        tags: (!balancer.tags.is_empty()).then(|| balancer.tags.clone()),
    })
}

fn things(status: &mut OpenStackClusterStatus, observed: &Observed) {
    let tags = |tags: &[String]| (!tags.is_empty()).then(|| tags.to_vec());
    // Resources that this pass did not observe stay: it may have ended early.
    let network = observed.network.as_ref().map(|network| network_status(network, &observed.subnets));
    status.network = network.or_else(|| status.network.take());
    let external = observed.external.as_ref().map(|network| NetworkStatus {
        id: network.id.clone(),
        name: network.name.clone(),
        tags: tags(&network.tags),
    });
    status.external_network = external.or_else(|| status.external_network.take());
    let router = observed.router.as_ref().map(|router| RouterStatus {
        id: router.id.clone(),
        name: router.name.clone(),
        ips: (!router.external_ips.is_empty()).then(|| router.external_ips.clone()),
        tags: tags(&router.tags),
    });
    status.router = router.or_else(|| status.router.take());
    let group = |role, known: Option<SecurityGroupStatus>| {
        let observed = observed.groups.get(&role);
        observed.map(|group| SecurityGroupStatus { id: group.id.clone(), name: group.name.clone() }).or(known)
    };
    status.control_plane_security_group =
        group(Role::ControlPlane, status.control_plane_security_group.take());
    status.worker_security_group = group(Role::Worker, status.worker_security_group.take());
}

fn network_status(network: &Network, subnets: &[Subnet]) -> NetworkStatusWithSubnets {
    let tags = |tags: &[String]| (!tags.is_empty()).then(|| tags.to_vec());
    let subnet = |subnet: &Subnet| SubnetStatus {
        cidr: subnet.cidr.clone(),
        id: subnet.id.clone(),
        // A subnet may lack a name; the field is required.
        name: if subnet.name.is_empty() { subnet.id.clone() } else { subnet.name.clone() },
        tags: tags(&subnet.tags),
    };
    NetworkStatusWithSubnets {
        id: network.id.clone(),
        name: network.name.clone(),
        tags: tags(&network.tags),
        subnets: Some(subnets.iter().map(subnet).collect()),
    }
}
