//! Corrections of a step: the fields, and their values before and after.

use controllers_infrastructure::{Listener, TaggedKind};
use controllers_runtime::OwnershipTag;

use super::super::balancer::{self, Backend, IDLE_TIMEOUT};
use super::super::decide::{Step, tagged};
use super::super::desired::{Desired, EndpointWish};
use super::super::gateway;
use super::super::observe::Observed;
use super::fields;

/// Conditions of the parts.
const NETWORK: &str = "NetworkReady";
const ROUTER: &str = "RouterReady";
const GROUPS: &str = "SecurityGroupsReady";
const ENDPOINT: &str = "APIEndpointReady";

/// Values of a rule or member that exists, or does not.
const PRESENT: &str = "present";
const ABSENT: &str = "absent";

/// Longest value in a message. Unit: characters.
const SHOWN: usize = 200;

/// Correction of one field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(in super::super) struct Correction {
    /// Condition of the part.
    pub condition: &'static str,
    /// Field, with its resource.
    pub field: String,
    /// All that Capstan sets together with the field.
    pub wish: String,
    /// Value that the cloud has.
    pub before: String,
    /// Value that Capstan sets.
    pub after: String,
}

impl Correction {
    fn new(condition: &'static str, field: String, before: String, after: String) -> Self {
        Self { condition, wish: fields::wish(&field, &after), field, before, after }
    }

    /// Returns the message of the Event.
    pub(in super::super) fn text(&self) -> String {
        format!(
            "corrected {}, which another client had changed: before {}, after {}",
            self.field,
            shown(&self.before),
            shown(&self.after)
        )
    }
}

fn shown(value: &str) -> String {
    match value.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", value.get(..end).unwrap_or_default()),
        None => value.to_owned(),
    }
}

/// Returns what a step sets in compared fields, with the values that they have before it. Pure.
pub(in super::super) fn of(
    step: &Step,
    desired: &Desired,
    tag: &OwnershipTag,
    observed: &Observed,
) -> Vec<Correction> {
    let text = str::to_owned;
    match step {
        Step::AddRules { role, rules } => {
            let Some(wish) = fields::rules(*role, desired, observed) else { return Vec::new() };
            let (before, after) = (text(ABSENT), text(PRESENT));
            let of_rule = |field: String| Correction {
                condition: GROUPS,
                field,
                wish: wish.clone(),
                before: before.clone(),
                after: after.clone(),
            };
            rules.iter().map(|rule| of_rule(fields::rule(rule))).collect()
        }
        Step::Balance(balancer::Step::AddMembers { pool, backends, .. }) => {
            let of_member = |backend: &Backend| Correction {
                condition: ENDPOINT,
                field: fields::member(pool, backend),
                wish: fields::members(pool, observed),
                before: text(ABSENT),
                after: backend.address.as_ref().map(|(address, _)| address.clone()).unwrap_or_default(),
            };
            backends.iter().map(of_member).collect()
        }
        step => single(step, desired, tag, observed).into_iter().collect(),
    }
}

fn single(step: &Step, desired: &Desired, tag: &OwnershipTag, observed: &Observed) -> Option<Correction> {
    let field = fields::of(step, observed)?;
    let own = || fields::list(tag.tags(Some(&desired.tags)));
    let (condition, before, after) = match step {
        Step::SetDnsNameservers { subnet, nameservers } => {
            let known = observed.subnets.iter().find(|it| it.id == *subnet)?;
            (NETWORK, fields::list(&known.dns_nameservers), fields::list(nameservers))
        }
        Step::SetPools { subnet, pools } => {
            let known = observed.subnets.iter().find(|it| it.id == *subnet)?;
            (NETWORK, fields::ranges(&known.allocation_pools), fields::ranges(pools))
        }
        Step::SetGateway { network, .. } => {
            let known = gateway::known(observed.router.as_ref()?);
            (ROUTER, known, gateway::wanted(network, &observed.gateway_ips))
        }
        Step::Tag { kind, id, .. } => {
            let (_, _, held, _) = tagged(observed).find(|it| it.0 == *kind && it.1 == id)?;
            (condition_of(*kind), fields::list(held), own())
        }
        Step::RemoveRule { role, .. } => {
            let wish = fields::rules(*role, desired, observed)?;
            let (before, after) = (PRESENT.to_owned(), ABSENT.to_owned());
            return Some(Correction { condition: GROUPS, field, wish, before, after });
        }
        Step::Balance(balancer::Step::SetTags { .. }) => {
            (ENDPOINT, fields::list(&observed.balancing.balancer.as_ref()?.tags), own())
        }
        Step::Balance(part) => {
            let (before, after) = of_part(part, desired, observed)?;
            (ENDPOINT, before, after)
        }
        _ => return None,
    };
    Some(Correction::new(condition, field, before, after))
}

/// Returns the values of a field of the load balancer before and after a step.
fn of_part(step: &balancer::Step, desired: &Desired, observed: &Observed) -> Option<(String, String)> {
    let view = &observed.balancing;
    let listener = |id: &String| view.listeners.iter().find(|known| known.id == *id);
    Some(match step {
        balancer::Step::Associate { port, .. } => {
            let known = observed.floating_ip.as_ref()?.port_id.clone();
            (known.unwrap_or_else(|| "none".to_owned()), port.clone())
        }
        balancer::Step::SetCidrs { listener: id, cidrs } => {
            (fields::list(&listener(id)?.allowed_cidrs), fields::list(cidrs))
        }
        balancer::Step::SetIdleTimeout(id) => (timeouts(listener(id)?), IDLE_TIMEOUT.to_string()),
        balancer::Step::SetAlgorithm { pool, algorithm } => {
            let known = view.pools.iter().find(|known| known.pool.id == *pool)?;
            (known.pool.algorithm.clone(), (*algorithm).to_owned())
        }
        balancer::Step::UpdateMonitor(id) => {
            let EndpointWish::LoadBalancer(wish) = &desired.endpoint else { return None };
            let mut monitors = view.pools.iter().filter_map(|known| known.monitor.as_ref());
            let known = monitors.find(|known| known.id == *id)?;
            (fields::times(&known.times), fields::times(&wish.times))
        }
        _ => return None,
    })
}

fn timeouts(listener: &Listener) -> String {
    fields::list(listener.idle_timeout.into_iter().chain(listener.member_timeout))
}

/// Returns the condition of the part to which a tagged resource belongs.
const fn condition_of(kind: TaggedKind) -> &'static str {
    match kind {
        TaggedKind::Network | TaggedKind::Subnet => NETWORK,
        TaggedKind::Router => ROUTER,
        TaggedKind::SecurityGroup => GROUPS,
        TaggedKind::Port
        | TaggedKind::FloatingIp
        | TaggedKind::Trunk
        | TaggedKind::Server
        | TaggedKind::LoadBalancer => ENDPOINT,
    }
}

/// Returns the step without fields that are not corrected any more; `None` if nothing is left of it. Pure.
pub(in super::super) fn permitted(step: Step, observed: &Observed) -> Option<Step> {
    let is_stopped = |field: &str| observed.drift.is_stopped(field);
    match step {
        Step::AddRules { role, mut rules } => {
            rules.retain(|rule| !is_stopped(&fields::rule(rule)));
            (!rules.is_empty()).then_some(Step::AddRules { role, rules })
        }
        Step::Balance(part) => permitted_part(part, observed).map(Step::Balance),
        step => {
            let is_left_alone = fields::of(&step, observed).is_some_and(|field| is_stopped(&field));
            (!is_left_alone).then_some(step)
        }
    }
}

/// The same for a step of the load balancer. Pure.
pub(in super::super) fn permitted_part(step: balancer::Step, observed: &Observed) -> Option<balancer::Step> {
    let is_stopped = |field: &str| observed.drift.is_stopped(field);
    match step {
        balancer::Step::AddMembers { pool, port, mut backends } => {
            backends.retain(|backend| !is_stopped(&fields::member(&pool, backend)));
            (!backends.is_empty()).then_some(balancer::Step::AddMembers { pool, port, backends })
        }
        step => {
            let is_left_alone = fields::of_part(&step).is_some_and(|field| is_stopped(&field));
            (!is_left_alone).then_some(step)
        }
    }
}
