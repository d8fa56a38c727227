//! The whole status of a cluster, from what was seen and what stopped us.

use apiserver_types::{
    Condition, ConditionStatus, FailureDomain, Initialization, NetworkStatus, NetworkStatusWithSubnets,
    OpenStackCluster, OpenStackClusterStatus, RouterStatus, SecurityGroupStatus, SubnetStatus, Time,
    condition, remove_condition, set_condition,
};
use controllers_runtime::ReconcileError;

use super::desired::{Desired, EndpointWish, NetworkWish, RouterWish, SubnetWish};
use super::observe::Observed;
use super::rules::Role;

/// What a pass ended with.
pub(super) enum Ending<'a> {
    /// Everything is there.
    Complete,
    /// It goes on later.
    Stopped(&'a ReconcileError),
}

/// Writes what was seen into the status.
pub(super) fn report(
    object: &mut OpenStackCluster,
    wanted: &Desired,
    seen: &Observed,
    ending: &Ending<'_>,
    now: &Time,
) {
    let zones = object.spec.control_plane_availability_zones.clone().unwrap_or_default();
    let generation = object.metadata.generation;
    let status = object.status.get_or_insert_default();
    things(status, seen);
    failure_domains(status, seen, &zones);
    let parts = [
        ("NetworkReady", network(wanted, seen)),
        ("RouterReady", router(wanted, seen)),
        ("SecurityGroupsReady", groups(wanted, seen)),
        ("APIEndpointReady", endpoint(wanted, seen)),
    ];
    let bastion = object.spec.bastion.as_ref().is_some_and(|bastion| bastion.enabled != Some(false));
    let conditions = status.conditions.get_or_insert_default();
    if bastion {
        let message = "spec.bastion: bastions are not made yet. Set enabled to false, or remove it";
        let condition =
            Condition::new("BastionReady", ConditionStatus::False, "NotSupported", message, now.clone());
        set_condition(conditions, condition.at_generation(generation));
    } else {
        remove_condition(conditions, "BastionReady");
    }
    let mut unready = None;
    for (kind, part) in parts {
        let condition = match (part, ending) {
            (Part::Done, _) => Condition::new(kind, ConditionStatus::True, "Ready", "", now.clone()),
            (Part::Wrong(reason, message), _) => {
                Condition::new(kind, ConditionStatus::False, reason, &message, now.clone())
            }
            // It was there, and this time nobody came to look.
            (Part::Missing, Ending::Stopped(_)) if !seen.looked && holds(conditions, kind) => continue,
            (Part::Missing, Ending::Stopped(trouble)) => {
                // What stopped us stands at the first part that is missing; the rest waits for it.
                let (reason, message) = match unready {
                    None => (trouble.reason(), trouble.to_string()),
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
    if unready.is_none() && matches!(ending, Ending::Complete) {
        status.initialization = Some(Initialization { provisioned: Some(true) });
    }
}

/// Writes into the status why nothing can be done at all, or that it is being deleted.
pub(super) fn report_stopped(object: &mut OpenStackCluster, trouble: &ReconcileError, now: &Time) {
    let generation = object.metadata.generation;
    let conditions = object.status.get_or_insert_default().conditions.get_or_insert_default();
    let condition =
        Condition::new("Ready", ConditionStatus::False, trouble.reason(), &trouble.to_string(), now.clone());
    set_condition(conditions, condition.at_generation(generation));
}

fn ready(unready: Option<&str>, parts: &[Condition], ending: &Ending<'_>, now: &Time) -> Condition {
    let failing = unready.and_then(|kind| parts.iter().find(|condition| condition.kind == kind));
    match (failing, ending) {
        (Some(part), _) => {
            let message = format!("{}: {}", part.kind, part.message);
            Condition::new("Ready", ConditionStatus::False, &part.reason, &message, now.clone())
        }
        (None, Ending::Stopped(trouble)) => Condition::new(
            "Ready",
            ConditionStatus::False,
            trouble.reason(),
            &trouble.to_string(),
            now.clone(),
        ),
        (None, Ending::Complete) => Condition::new("Ready", ConditionStatus::True, "Ready", "", now.clone()),
    }
}

fn holds(conditions: &[Condition], kind: &str) -> bool {
    condition(conditions, kind).is_some_and(Condition::holds)
}

/// How far one part is.
enum Part {
    Done,
    Missing,
    Wrong(&'static str, String),
}

impl Part {
    fn when(done: bool) -> Self {
        if done { Self::Done } else { Self::Missing }
    }
}

fn network(wanted: &Desired, seen: &Observed) -> Part {
    let managed = matches!(wanted.network, NetworkWish::Managed { .. });
    match (&seen.network, seen.subnets.is_empty()) {
        (Some(network), true) if !managed && matches!(wanted.subnets, SubnetWish::All) => {
            Part::Wrong("NotFound", format!("network {} ({}) has no subnet", network.name, network.id))
        }
        (Some(_), false) => Part::Done,
        _ => Part::Missing,
    }
}

fn router(wanted: &Desired, seen: &Observed) -> Part {
    match &wanted.router {
        RouterWish::None => Part::Done,
        // Nobody named an external network and there is none: a cluster without a way out.
        RouterWish::Managed { .. }
            if seen.network.is_some() && !seen.subnets.is_empty() && seen.external.is_none() =>
        {
            Part::Done
        }
        _ => Part::when(seen.router.is_some() && seen.connected),
    }
}

fn groups(wanted: &Desired, seen: &Observed) -> Part {
    let complete = |wish: &super::desired::GroupWish| {
        let id_of = |role: Role| seen.groups.get(&role).map(|group| group.id.clone());
        seen.groups.get(&wish.role).is_some_and(|group| {
            wish.rules.iter().all(|rule| {
                let rule = rule.resolve(&group.id, id_of);
                rule.is_some_and(|rule| {
                    group.rules.iter().any(|known| super::rules::same_traffic(&known.rule, &rule))
                })
            })
        })
    };
    Part::when(wanted.groups.iter().all(complete))
}

fn endpoint(wanted: &Desired, seen: &Observed) -> Part {
    match &wanted.endpoint {
        _ if seen.endpoint.as_ref().is_some_and(|(_, port)| *port > 0) => Part::Done,
        EndpointWish::LoadBalancer => Part::Wrong(
            "LoadBalancerNotSupported",
            "spec.apiServer.managedLoadBalancer.enabled: load balancers are not made yet. \
             Set it to false, or set spec.controlPlaneEndpoint"
                .to_owned(),
        ),
        EndpointWish::Nowhere => Part::Wrong(
            "NoEndpoint",
            "there is no floating IP to answer at. Set spec.controlPlaneEndpoint or spec.apiServer.fixedIP"
                .to_owned(),
        ),
        EndpointWish::Floating(_)
            if seen.network.is_some() && !seen.subnets.is_empty() && seen.external.is_none() =>
        {
            Part::Wrong(
                "NoExternalNetwork",
                "a floating IP needs an external network and the cloud has none. \
                 Set spec.controlPlaneEndpoint or spec.apiServer.fixedIP"
                    .to_owned(),
            )
        }
        _ => Part::Missing,
    }
}

fn things(status: &mut OpenStackClusterStatus, seen: &Observed) {
    let tags = |tags: &[String]| (!tags.is_empty()).then(|| tags.to_vec());
    // What was not seen this time is not forgotten: a pass may end before it has looked.
    let network = seen.network.as_ref().map(|network| NetworkStatusWithSubnets {
        id: network.id.clone(),
        name: network.name.clone(),
        tags: tags(&network.tags),
        subnets: Some(
            seen.subnets
                .iter()
                .map(|subnet| SubnetStatus {
                    cidr: subnet.cidr.clone(),
                    id: subnet.id.clone(),
                    // A subnet need not have a name; the field must.
                    name: if subnet.name.is_empty() { subnet.id.clone() } else { subnet.name.clone() },
                    tags: tags(&subnet.tags),
                })
                .collect(),
        ),
    });
    status.network = network.or_else(|| status.network.take());
    let external = seen.external.as_ref().map(|network| NetworkStatus {
        id: network.id.clone(),
        name: network.name.clone(),
        tags: tags(&network.tags),
    });
    status.external_network = external.or_else(|| status.external_network.take());
    let router = seen.router.as_ref().map(|router| RouterStatus {
        id: router.id.clone(),
        name: router.name.clone(),
        ips: (!router.external_ips.is_empty()).then(|| router.external_ips.clone()),
        tags: tags(&router.tags),
    });
    status.router = router.or_else(|| status.router.take());
    let group = |role, known: Option<SecurityGroupStatus>| {
        let seen = seen.groups.get(&role);
        seen.map(|group| SecurityGroupStatus { id: group.id.clone(), name: group.name.clone() }).or(known)
    };
    status.control_plane_security_group =
        group(Role::ControlPlane, status.control_plane_security_group.take());
    status.worker_security_group = group(Role::Worker, status.worker_security_group.take());
}

fn failure_domains(status: &mut OpenStackClusterStatus, seen: &Observed, for_control_planes: &[String]) {
    let domains = seen.zones.iter().map(|zone| FailureDomain {
        name: zone.clone(),
        control_plane: Some(for_control_planes.is_empty() || for_control_planes.contains(zone)),
        attributes: None,
    });
    let mut domains: Vec<FailureDomain> = domains.collect();
    domains.sort_by(|a, b| a.name.cmp(&b.name));
    if !domains.is_empty() {
        status.failure_domains = Some(domains);
    }
}
