//! Chains from a Cluster to the object that holds it up. Pure.

use apiserver_machinery::object;
use jiff::Timestamp;
use serde_json::{Value, json};

use super::Advise;
use super::conditions::{
    BOOTSTRAP, CLUSTER, CLUSTER_PARTS, INFRASTRUCTURE, OWNER, condition, first_open, named, of_machine, owner,
};
use crate::rules::json_fields::text;

/// Objects of a Cluster, in their stored versions.
#[derive(Debug, Default)]
pub(super) struct Objects {
    pub cluster: Value,
    pub infrastructure: Option<Value>,
    pub control_plane: Option<Value>,
    pub deployments: Vec<Value>,
    pub sets: Vec<Value>,
    pub machines: Vec<Value>,
    pub servers: Vec<Value>,
    pub configs: Vec<Value>,
}

/// One object of a chain, with the condition that explains its state.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Link<'a> {
    pub kind: &'a str,
    pub name: &'a str,
    pub condition: Option<&'a Value>,
}

/// Links from the Cluster down to the first cause.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Chain<'a> {
    pub links: Vec<Link<'a>>,
    /// Further Machines of the same owner that something holds up.
    pub others: usize,
}

impl<'a> Link<'a> {
    fn new(kind: &'a str, object: &'a Value, kinds: &[&str]) -> Self {
        Self { kind, name: object::name(object), condition: first_open(object, kinds) }
    }

    /// Returns the link, unless nothing holds up the object.
    fn open(self) -> Option<Self> {
        self.condition.is_some().then_some(self)
    }

    fn field(&self, name: &str) -> &'a str {
        self.condition.and_then(|it| text(it, name)).unwrap_or_default()
    }
}

impl Chain<'_> {
    /// Time since which the first cause exists. Texts of this form are in the order of their times.
    fn since(&self) -> &str {
        self.links.last().map(|link| link.field("lastTransitionTime")).unwrap_or_default()
    }
}

/// Returns a chain for each part of the Cluster that something holds up, the most urgent one first: the Cluster's own
/// state, then infrastructure, control plane and workers. The workers wait for what is before them.
pub(super) fn chains(objects: &Objects) -> Vec<Chain<'_>> {
    let cluster = &objects.cluster;
    let own = Link::new("Cluster", cluster, CLUSTER).open();
    let is_probe = own.is_some_and(|link| link.field("type") == "RemoteConnectionProbe");
    let is_deleting = own.is_some_and(|link| link.field("type") == "Deleting");
    let top = Link::new("Cluster", cluster, &[CLUSTER, CLUSTER_PARTS].concat());
    let mut parts: Vec<Chain<'_>> =
        objects.infrastructure.iter().filter_map(|it| infrastructure(top, it)).collect();
    parts.extend(
        objects.control_plane.iter().filter_map(|it| of_owner(objects, top, "KubeadmControlPlane", it)),
    );
    parts.extend(workers(objects, top));
    let alone = |link| Chain { links: vec![link], others: 0 };
    match own {
        // What is below explains more than the Cluster.
        Some(link) if is_deleting && parts.is_empty() => vec![alone(link)],
        Some(_) if is_deleting => parts,
        Some(link) if is_probe => [parts, vec![alone(link)]].concat(),
        Some(link) => [vec![alone(link)], parts].concat(),
        None if parts.is_empty() => top.open().map(alone).into_iter().collect(),
        None => parts,
    }
}

fn infrastructure<'a>(top: Link<'a>, infrastructure: &'a Value) -> Option<Chain<'a>> {
    let link = Link::new("OpenStackCluster", infrastructure, INFRASTRUCTURE).open()?;
    Some(Chain { links: vec![top, link], others: 0 })
}

/// Returns the chains of the workers, the oldest cause first.
fn workers<'a>(objects: &'a Objects, top: Link<'a>) -> Vec<Chain<'a>> {
    let deployments = objects.deployments.iter().map(|it| ("MachineDeployment", it));
    let sets = objects.sets.iter().filter(|it| owner(it).is_none()).map(|it| ("MachineSet", it));
    let mut chains: Vec<Chain<'a>> =
        deployments.chain(sets).filter_map(|(kind, it)| of_owner(objects, top, kind, it)).collect();
    let alone = objects.machines.iter().filter(|it| owner(it).is_none());
    chains.extend(alone.filter_map(|it| {
        let links = [vec![top], machine(objects, it)?].concat();
        Some(Chain { links, others: 0 })
    }));
    chains.sort_by(|a, b| a.since().cmp(b.since()));
    chains
}

/// Returns the chain of an owner of Machines: to its Machine with the oldest cause, else to a MachineSet or itself.
fn of_owner<'a>(objects: &'a Objects, top: Link<'a>, kind: &'a str, of: &'a Value) -> Option<Chain<'a>> {
    let this = Link::new(kind, of, OWNER);
    let is_own = |it: &Value| owner(it) == Some((kind, object::name(of)));
    let sets: Vec<&'a Value> = objects.sets.iter().filter(|it| is_own(it)).collect();
    let set_of = |machine: &Value| {
        let (_, name) = owner(machine).filter(|(kind, _)| *kind == "MachineSet")?;
        sets.iter().copied().find(|set| object::name(set) == name)
    };
    let set_link = |set| Link::new("MachineSet", set, OWNER);
    let blocked = objects.machines.iter().filter_map(|it| {
        let set = set_of(it);
        let below = (set.is_some() || is_own(it)).then(|| machine(objects, it)).flatten()?;
        let links = [vec![top, this], set.map(set_link).into_iter().collect(), below].concat();
        Some(Chain { links, others: 0 })
    });
    let mut blocked: Vec<Chain<'a>> = blocked.collect();
    blocked.sort_by(|a, b| a.since().cmp(b.since()));
    let others = blocked.len().saturating_sub(1);
    if let Some(oldest) = blocked.into_iter().next() {
        return Some(Chain { others, ..oldest });
    }
    let set = sets.into_iter().find_map(|set| set_link(set).open());
    this.open().or(set)?;
    Some(Chain { links: [vec![top, this], set.into_iter().collect()].concat(), others: 0 })
}

/// Returns the links of a Machine and of the object below it. `None` if nothing holds up the Machine.
fn machine<'a>(objects: &'a Objects, machine: &'a Value) -> Option<Vec<Link<'a>>> {
    let link =
        Link { kind: "Machine", name: object::name(machine), condition: of_machine(machine) }.open()?;
    let server = || {
        let server = named(&objects.servers, text(machine, "spec.infrastructureRef.name")?)?;
        Link::new("OpenStackMachine", server, INFRASTRUCTURE).open()
    };
    let config = || {
        let config = named(&objects.configs, text(machine, "spec.bootstrap.configRef.name")?)?;
        Link::new("KubeadmConfig", config, BOOTSTRAP).open()
    };
    let node = || {
        let name = text(machine, "status.nodeRef.name")?;
        Some(Link { kind: "Node", name, condition: condition(machine, link.field("type")) })
    };
    let below = match link.field("type") {
        "BootstrapConfigReady" => config(),
        "InfrastructureReady" => server(),
        "NodeHealthy" | "NodeReady" => node(),
        "Deleting" if link.field("reason") == "WaitingForInfrastructureDeletion" => server(),
        _ => None,
    };
    Some([link].into_iter().chain(below).collect())
}

/// Returns the response.
pub(super) fn answer(objects: &Objects, now: Timestamp, advise: Advise) -> Value {
    let chains = chains(objects);
    let name = object::name(&objects.cluster);
    let first = chains.first().and_then(|chain| chain.links.last());
    let message = match first {
        None => format!("Nothing holds up Cluster {name}"),
        Some(link) => {
            format!("{} {}: {}: {}", link.kind, link.name, link.field("reason"), link.field("message"))
        }
    };
    let chains: Vec<Value> = chains.iter().map(|chain| shown(chain, now, advise)).collect();
    let cause = chains.first().map(|chain| chain["cause"].clone());
    let mut answer = json!({
        "metadata": {"name": name, "namespace": object::namespace(&objects.cluster)},
        "message": message, "chains": chains,
    });
    if let Some(cause) = cause {
        answer["cause"] = cause;
    }
    answer
}

fn shown(chain: &Chain<'_>, now: Timestamp, advise: Advise) -> Value {
    let links: Vec<Value> = chain.links.iter().map(shown_link).collect();
    let mut cause = links.last().cloned().unwrap_or_default();
    if let Some(seconds) = age_seconds(chain.since(), now) {
        cause["ageSeconds"] = json!(seconds);
    }
    let reason = chain.links.last().map(|link| link.field("reason")).unwrap_or_default();
    if let Some(advice) = advise(reason) {
        cause["unblock"] = json!(advice.unblock);
        cause["nextTry"] = json!(advice.next_try);
    }
    json!({"links": links, "cause": cause, "otherMachines": chain.others})
}

/// Returns the time since a time of a condition. `None` if it is no time. Unit: seconds.
pub(super) fn age_seconds(since: &str, now: Timestamp) -> Option<i64> {
    let since: Timestamp = since.parse().ok()?;
    Some(now.duration_since(since).as_secs().max(0))
}

fn shown_link(link: &Link<'_>) -> Value {
    let mut shown = json!({"kind": link.kind, "name": link.name});
    for (field, from) in [
        ("condition", "type"),
        ("status", "status"),
        ("reason", "reason"),
        ("message", "message"),
        ("since", "lastTransitionTime"),
    ] {
        if !link.field(from).is_empty() {
            shown[field] = json!(link.field(from));
        }
    }
    shown
}

#[cfg(test)]
#[path = "chain_tests.rs"]
mod tests;
