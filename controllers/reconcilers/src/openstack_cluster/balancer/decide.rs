//! Decision on the next step of a load balancer.

use std::collections::BTreeSet;

use controllers_infrastructure::{FailedStep, Listener, LoadBalancerPart, Pool};
use controllers_runtime::OwnershipTag;
use jiff::Timestamp;

use super::super::drift::permitted_part;
use super::super::observe::Observed;
use super::repairs::PartRepairs;
use super::{
    ACTIVE, Backend, BalancerView, BalancerWish, ERROR, IDLE_TIMEOUT, LOST, NAME_TAKEN, OVN, PENDING,
    PoolView, allowed_cidrs, clients, foreign_parts, health, members, none_fits, passes_clients, unusable,
};
use crate::applied_tags;

/// Next step of a load balancer.
#[derive(Debug, Clone, PartialEq)]
pub(in super::super) enum Step {
    /// Create the port of the address.
    CreateVipPort { network: String, subnet: String },
    /// Create the load balancer.
    Create,
    /// Switch it on.
    Enable { id: String, at: Timestamp },
    /// Have Octavia build it anew behind its address.
    FailOver { id: String, at: Timestamp },
    /// Delete it, so that another one is created behind the same address.
    Replace {
        id: String,
        why: String,
        /// It never worked, so the next attempt is delayed.
        failed: bool,
    },
    /// Associate the floating IP with the address.
    Associate { floating_ip: String, port: String },
    /// Add a listener.
    CreateListener { balancer: String, port: i32 },
    /// Change how long connections may be silent.
    SetIdleTimeout(String),
    /// Tag the load balancer.
    SetTags { id: String, tags: Vec<String> },
    /// Change the clients that may connect.
    SetCidrs { listener: String, cidrs: Vec<String> },
    /// Remove a listener that the spec does not name any more.
    RemoveListener(String),
    /// Add the pool of a listener.
    CreatePool { listener: String, port: i32 },
    /// Change how a pool chooses members.
    SetAlgorithm { pool: String, algorithm: &'static str },
    /// Remove a pool that no listener uses.
    RemovePool(String),
    /// Add the monitor of a pool.
    CreateMonitor { pool: String, port: i32 },
    /// Change a monitor.
    UpdateMonitor(String),
    /// Add machines to a pool.
    AddMembers { pool: String, port: i32, backends: Vec<Backend> },
    /// Send a machine no new connections, because it leaves.
    DrainMember { pool: String, id: String, name: String },
    /// Remove a machine from a pool.
    RemoveMember { pool: String, id: String, name: String },
    /// Remove a monitor that checks in another way, so that the next one is as desired.
    RemoveMonitor(String),
    /// Have Octavia configure a part in ERROR once more. `repairs` is the record after that.
    SetAgain { part: LoadBalancerPart, repairs: PartRepairs },
    /// Remove a part in ERROR. `repairs` is the record after that.
    RemoveBroken { part: LoadBalancerPart, repairs: PartRepairs },
    /// Note that the load balancer has been ACTIVE.
    NoteActive,
    /// Wait.
    Wait { reason: &'static str, message: String },
}

impl Step {
    /// Returns true if the step, made twice, creates two resources.
    pub(in super::super) fn creates(&self) -> bool {
        matches!(
            self,
            Self::CreateVipPort { .. }
                | Self::Create
                | Self::CreateListener { .. }
                | Self::CreatePool { .. }
                | Self::CreateMonitor { .. }
        )
    }

    /// Returns true if the step removes a part that Octavia could not change.
    pub(super) fn heals(&self) -> bool {
        matches!(self, Self::RemoveBroken { .. })
    }

    /// Returns the reasons of the conditions and Events if the step fails.
    pub(in super::super) fn failure(&self) -> FailedStep {
        let event = match self {
            Self::CreateVipPort { .. } => "FailedCreatePort",
            Self::Create | Self::Replace { .. } => "FailedCreateLoadBalancer",
            Self::Associate { .. } => "FailedAssociateFloatingIP",
            Self::CreateListener { .. } => "FailedCreateListener",
            Self::SetCidrs { .. } | Self::SetIdleTimeout(_) => "FailedUpdateListener",
            Self::RemoveListener(_) | Self::RemoveBroken { part: LoadBalancerPart::Listener(_), .. } => {
                "FailedDeleteListener"
            }
            Self::CreatePool { .. } => "FailedCreatePool",
            Self::SetAlgorithm { .. } => "FailedUpdatePool",
            Self::RemovePool(_) | Self::RemoveBroken { part: LoadBalancerPart::Pool(_), .. } => {
                "FailedDeletePool"
            }
            Self::CreateMonitor { .. } => "FailedCreateHealthMonitor",
            Self::UpdateMonitor(_) => "FailedUpdateHealthMonitor",
            Self::RemoveMonitor(_) | Self::RemoveBroken { part: LoadBalancerPart::HealthMonitor(_), .. } => {
                "FailedDeleteHealthMonitor"
            }
            Self::AddMembers { .. } => "FailedCreateMember",
            Self::DrainMember { .. } => "FailedUpdateMember",
            Self::RemoveMember { .. } | Self::RemoveBroken { .. } => "FailedDeleteMember",
            _ => "FailedUpdateLoadBalancer",
        };
        FailedStep::new(CONFIG_FAILED, event)
    }

    /// Describes the attempt in the cloud for errors.
    pub(in super::super) fn attempt(&self, name: &str) -> String {
        match self {
            Self::CreateVipPort { .. } => format!("create port \"{name}-vip\""),
            Self::Create => format!("create load balancer {name:?}"),
            Self::FailOver { .. } => format!("fail over load balancer {name:?}"),
            Self::Replace { .. } => format!("replace load balancer {name:?}"),
            Self::Associate { floating_ip, .. } => {
                format!("associate floating IP {floating_ip} with load balancer {name:?}")
            }
            Self::CreateListener { port, .. } => format!("create listener \"{name}-{port}\""),
            Self::CreatePool { port, .. } => format!("create pool \"{name}-{port}\""),
            Self::CreateMonitor { port, .. } => format!("create health monitor \"{name}-{port}\""),
            Self::AddMembers { port, backends, .. } => {
                let members = backends.iter().map(|backend| format!("\"{name}-{port}-{}\"", backend.machine));
                format!("add member {}", members.collect::<Vec<_>>().join(", "))
            }
            Self::DrainMember { name: member, .. } => format!("drain member {member:?}"),
            Self::RemoveMember { name: member, .. } => format!("remove member {member:?}"),
            _ => format!("change load balancer {name:?}"),
        }
    }
}

/// Reason of a spec that the cloud cannot fulfil. Upstream's name.
const CONFIG_FAILED: &str = "APIEndpointConfigFailed";

/// Decides on the port of the address and on the load balancer itself. Pure.
pub(in super::super) fn base(wish: &BalancerWish, observed: &Observed) -> Option<Step> {
    let view = &observed.balancing;
    if view.balancer.is_some() {
        // Another port with the address comes with another load balancer.
        let lost = unusable::lost_port(view).filter(|_| view.recreate.is_none());
        return lost.map(|message| Step::Wait { reason: LOST, message });
    }
    if let Some(message) = view.taken.clone() {
        return Some(Step::Wait { reason: NAME_TAKEN, message });
    }
    if view.vip_port.is_none() {
        if let Some(message) = view.misplaced.clone() {
            return Some(Step::Wait { reason: CONFIG_FAILED, message });
        }
        if !wish.floating
            && let Some(wait) = unresolvable(observed)
        {
            return Some(wait);
        }
        let (network, subnet) = place(wish, observed)?;
        return Some(Step::CreateVipPort { network, subnet });
    }
    Some(Step::Create)
}

/// Returns the wait for a host name that has no address, which decides about the address of the load balancer. Pure.
pub(in super::super) fn unresolvable(observed: &Observed) -> Option<Step> {
    let message = observed.unresolvable.clone()?;
    Some(Step::Wait { reason: "EndpointNotResolvable", message })
}

/// Returns the network and subnet of the address: those that the spec names, or the cluster's first.
pub(super) fn place(wish: &BalancerWish, observed: &Observed) -> Option<(String, String)> {
    if wish.has_place() {
        return observed.balancing.place.clone();
    }
    Some((observed.network.as_ref()?.id.clone(), observed.own_subnet()?.id.clone()))
}

/// Decides whether the floating IP has to move. Pure.
pub(in super::super) fn floating_ip(
    wish: &BalancerWish,
    tag: &OwnershipTag,
    observed: &Observed,
) -> Option<Step> {
    let ip = observed.floating_ip.as_ref().filter(|_| wish.floating && !observed.balancing.is_port_lost)?;
    let port = observed.balancing.vip_port_id()?;
    match ip.port_id.as_deref() {
        Some(known) if known == port => None,
        // Another owner's address that is in use is not taken away.
        Some(other) if !tag.is_on(&ip.tags, &ip.description) => Some(Step::Wait {
            reason: "FloatingIPInUse",
            message: format!("floating IP {} is associated with port {other}", ip.address),
        }),
        _ => Some(Step::Associate { floating_ip: ip.id.clone(), port: port.to_owned() }),
    }
}

/// Decides on what the load balancer's state requires before any other change. Pure.
pub(in super::super) fn state(observed: &Observed) -> Option<Step> {
    let view = &observed.balancing;
    let Some(balancer) = &view.balancer else {
        let message = "the load balancer needs a network with a subnet".to_owned();
        return Some(Step::Wait { reason: PENDING, message });
    };
    let worked = observed.endpoint.as_ref().is_some_and(|(_, port)| *port > 0);
    match balancer.provisioning_status.as_str() {
        ACTIVE => {}
        ERROR => return Some(health::heal(view, &balancer.id, worked)),
        _ => {
            let (reason, message) = health::changing(view, balancer);
            return Some(Step::Wait { reason, message });
        }
    }
    if !balancer.admin_state_up {
        return Some(health::switched_off(view, &balancer.id));
    }
    if view.recreate.is_some() {
        let (id, why) = (balancer.id.clone(), health::REQUESTED.to_owned());
        return Some(Step::Replace { id, why, failed: false });
    }
    view.recreations.is_unproven().then_some(Step::NoteActive)
}

/// Decides on the listener of the API, which the endpoint needs. Pure.
pub(in super::super) fn first_listener(
    wish: &BalancerWish,
    tag: &OwnershipTag,
    observed: &Observed,
) -> Option<Step> {
    let port = *wish.ports.first()?;
    if foreign_parts::taken_port(wish, tag, &observed.balancing, port).is_some() {
        return foreign_parts::wait(wish, tag, &observed.balancing);
    }
    listener(wish, observed, port)
}

fn listener(wish: &BalancerWish, observed: &Observed, port: i32) -> Option<Step> {
    let view = &observed.balancing;
    let balancer = view.balancer.as_ref()?;
    if view.listener(port).is_some() {
        return None;
    }
    let create = || Step::CreateListener { balancer: balancer.id.clone(), port };
    Some(no_client(wish, observed).unwrap_or_else(create))
}

/// Returns the wait for a list of clients of which one can be admitted. A listener that exists keeps its list.
fn no_client(wish: &BalancerWish, observed: &Observed) -> Option<Step> {
    none_fits(wish, observed).map(|message| Step::Wait { reason: CONFIG_FAILED, message })
}

/// Decides on the parts of an ACTIVE load balancer. Pure.
pub(in super::super) fn parts(wish: &BalancerWish, tag: &OwnershipTag, observed: &Observed) -> Option<Step> {
    let view = &observed.balancing;
    let is_ours = |port: &i32| {
        !health::is_port_broken(view, *port) && foreign_parts::taken_port(wish, tag, view, *port).is_none()
    };
    let ports = || wish.ports.iter().copied().filter(is_ours);
    let permitted = |step: Option<Step>| step.and_then(|step| permitted_part(step, observed));
    health::broken_part(wish, tag, view)
        .or_else(|| ports().find_map(|port| listener(wish, observed, port)))
        .or_else(|| ports().find_map(|port| pool(wish, tag, observed, port)))
        .or_else(|| ports().find_map(|port| permitted(cidrs(wish, observed, view.listener(port)?))))
        .or_else(|| {
            ports().find_map(|port| permitted(idle_timeout(wish, tag, observed, view.listener(port)?)))
        })
        .or_else(|| surplus(wish, tag, view))
        .or_else(|| ports().find_map(|port| members::taken(wish, tag, view, port)))
        .or_else(|| no_client(wish, observed))
        .or_else(|| foreign_parts::wait(wish, tag, view))
}

fn pool(wish: &BalancerWish, tag: &OwnershipTag, observed: &Observed, port: i32) -> Option<Step> {
    let view = &observed.balancing;
    let listener = view.listener(port)?;
    let Some(pool) = view.pool_of(listener) else {
        return Some(Step::CreatePool { listener: listener.id.clone(), port });
    };
    let permitted = |step: Option<Step>| step.and_then(|step| permitted_part(step, observed));
    permitted(members::next(wish, tag, view, pool, port))
        .or_else(|| permitted(monitor(wish, view, pool, port)))
        .or_else(|| permitted(set_algorithm(wish, tag, observed, &pool.pool, port)))
}

/// Returns how our pools choose a member for a connection. OVN has one way only.
pub(in super::super) fn algorithm(observed: &Observed) -> &'static str {
    let balancer = observed.balancing.balancer.as_ref();
    if balancer.is_some_and(|it| it.provider == OVN) { "SOURCE_IP_PORT" } else { "ROUND_ROBIN" }
}

/// Changes the algorithm of our pool, if the cloud shows another one.
fn set_algorithm(
    wish: &BalancerWish,
    tag: &OwnershipTag,
    observed: &Observed,
    pool: &Pool,
    port: i32,
) -> Option<Step> {
    let ours =
        pool.name == wish.part_name(port) || foreign_parts::is_our_pool(wish, tag, &observed.balancing, pool);
    let desired = algorithm(observed);
    let differs = !pool.algorithm.is_empty() && pool.algorithm != desired;
    (ours && differs).then(|| Step::SetAlgorithm { pool: pool.id.clone(), algorithm: desired })
}

fn monitor(wish: &BalancerWish, view: &BalancerView, pool: &PoolView, port: i32) -> Option<Step> {
    match &pool.monitor {
        None if view.no_monitors => None,
        None => Some(Step::CreateMonitor { pool: pool.pool.id.clone(), port }),
        // Octavia cannot change the type of a monitor.
        Some(known) if known.check != wish.check => Some(Step::RemoveMonitor(known.id.clone())),
        Some(known) => (known.times != wish.times).then(|| Step::UpdateMonitor(known.id.clone())),
    }
}

fn cidrs(wish: &BalancerWish, observed: &Observed, listener: &Listener) -> Option<Step> {
    if passes_clients(wish, observed) || none_fits(wish, observed).is_some() {
        return None;
    }
    let desired = allowed_cidrs(wish, observed);
    let known: BTreeSet<&String> = listener.allowed_cidrs.iter().collect();
    (known != desired.iter().collect())
        .then(|| Step::SetCidrs { listener: listener.id.clone(), cidrs: desired })
}

/// Changes the timeout of our listener, if the cloud shows it. A load balancer that passes connections on has none.
fn idle_timeout(
    wish: &BalancerWish,
    tag: &OwnershipTag,
    observed: &Observed,
    listener: &Listener,
) -> Option<Step> {
    let has_none =
        clients::passes_connections(wish, observed) || observed.balancing.limits.lacks_idle_timeouts;
    if has_none || !foreign_parts::is_our_listener(wish, tag, listener) {
        return None;
    }
    let known = [Some(listener.idle_timeout?), listener.member_timeout];
    let differs = known.into_iter().flatten().any(|timeout| timeout != IDLE_TIMEOUT);
    differs.then(|| Step::SetIdleTimeout(listener.id.clone()))
}

/// Tags the load balancer as the spec says. One without our tag is of an Octavia that has no tags. Pure.
pub(in super::super) fn tags(own: &[String], tag: &OwnershipTag, observed: &Observed) -> Option<Step> {
    let balancer = observed.balancing.balancer.as_ref().filter(|it| it.tags.contains(&tag.text()))?;
    let change = applied_tags::changed(own, &observed.applied_tags, &balancer.tags)?;
    // Octavia takes all tags at once.
    let mut tags = balancer.tags.clone();
    change.apply(&mut tags);
    Some(Step::SetTags { id: balancer.id.clone(), tags })
}

/// Removes our listeners and pools that the spec does not name any more.
fn surplus(wish: &BalancerWish, tag: &OwnershipTag, view: &BalancerView) -> Option<Step> {
    let listener = view
        .listeners
        .iter()
        .find(|it| foreign_parts::is_our_listener(wish, tag, it) && !wish.ports.contains(&it.protocol_port))
        .map(|listener| Step::RemoveListener(listener.id.clone()));
    let used = |id: &String| view.listeners.iter().any(|it| it.default_pool_id.as_ref() == Some(id));
    listener.or_else(|| {
        let pool = view.pools.iter().map(|view| &view.pool);
        let ours = |pool: &Pool| foreign_parts::is_our_pool(wish, tag, view, pool);
        let unused = pool.into_iter().find(|pool| ours(pool) && !used(&pool.id));
        unused.map(|pool| Step::RemovePool(pool.id.clone()))
    })
}
