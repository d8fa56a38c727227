//! The one thing to do next for a machine.

use std::collections::BTreeMap;

use apiserver_types::ResolvedPortSpec;
use controllers_infrastructure::{AddressPair, FloatingIp, Port, Server, Volume};
use controllers_runtime::{Journal, OwnershipTag};

use super::desired::VolumeWish;
use crate::names;

/// What a machine wants, with ids.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Desired {
    pub name: String,
    pub ports: Vec<ResolvedPortSpec>,
    pub volumes: Vec<VolumeWish>,
    /// The floating IP at which the cluster's API answers, if this machine may take it.
    pub takes_endpoint: bool,
    pub region: String,
}

/// What there is.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Observed {
    pub journal: Journal,
    pub ports: BTreeMap<String, Port>,
    pub volumes: BTreeMap<String, Volume>,
    pub server: Option<Server>,
    /// The id under which the server is known to the object.
    pub known_server: Option<String>,
    pub provider_id: Option<String>,
    /// Whether the machine was complete once: then its server is never made anew.
    pub provisioned: bool,
    /// Whether an operation has the server in its hands.
    pub in_operation: bool,
    pub endpoint_ip: Option<FloatingIp>,
}

/// What to do.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    /// Write these into the journal.
    Journal(Vec<(&'static str, String)>),
    /// Make a volume.
    CreateVolume(VolumeWish),
    /// Make a port.
    CreatePort(ResolvedPortSpec),
    /// OwnershipTag a port.
    TagPort { name: String, id: String, tags: Vec<String> },
    /// Change a port's address pairs.
    SetAddressPairs { name: String, id: String, pairs: Vec<AddressPair> },
    /// Make the server.
    CreateServer,
    /// Take away a server that Nova could not build, so that another can be tried.
    DeleteBroken { id: String, fault: String },
    /// Take away a volume that Cinder could not make, so that another can be tried.
    DeleteBrokenVolume { name: String, id: String, status: String },
    /// Write the server's id into the spec.
    SetProviderId(String),
    /// Let the cluster's floating IP lead here.
    TakeEndpoint { floating_ip: String, port: String },
    /// Look again later.
    Wait(Waiting),
    /// All there.
    Nothing,
}

impl Step {
    /// What it attempts in the cloud, for errors: names the object.
    pub(super) fn attempt(&self, server: &str) -> Option<String> {
        Some(match self {
            Self::CreateVolume(wish) => format!("create volume {:?}", wish.name),
            Self::CreatePort(spec) => format!("create port {:?}", spec.name),
            Self::TagPort { name, .. } => format!("tag port {name:?}"),
            Self::SetAddressPairs { name, .. } => format!("change the address pairs of port {name:?}"),
            Self::CreateServer => format!("create server {server:?}"),
            Self::DeleteBroken { .. } => format!("build server {server:?}"),
            Self::DeleteBrokenVolume { name, .. } => format!("create volume {name:?}"),
            Self::TakeEndpoint { floating_ip, .. } => {
                format!("lead floating IP {floating_ip} to server {server:?}")
            }
            Self::Journal(_) | Self::SetProviderId(_) | Self::Wait(_) | Self::Nothing => return None,
        })
    }
}

/// What is waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Waiting {
    /// A volume that is being filled.
    Volume { name: String, status: String },
    /// A server that is being built.
    Server { status: String },
    /// A server that is gone, or that an operation holds.
    Nobody,
}

/// What Cinder calls a volume that may be attached.
const AVAILABLE: &str = "available";

/// Says what to do next. Pure and total.
pub(super) fn next_step(wanted: &Desired, mark: &OwnershipTag, seen: &Observed) -> Step {
    if let Some(server) = &seen.server {
        return with_server(wanted, mark, seen, server);
    }
    if seen.provisioned || seen.in_operation || seen.provider_id.is_some() {
        return Step::Wait(Waiting::Nobody);
    }
    let missing: Vec<_> =
        intended(wanted).into_iter().filter(|(kind, name)| !seen.journal.has(kind, name)).collect();
    if !missing.is_empty() {
        return Step::Journal(missing);
    }
    volumes(wanted, seen).or_else(|| ports(wanted, mark, seen)).unwrap_or(Step::CreateServer)
}

/// The journal's entries for all that is to be made.
fn intended(wanted: &Desired) -> Vec<(&'static str, String)> {
    let volumes = wanted.volumes.iter().map(|volume| (names::VOLUME, volume.name.clone()));
    let ports = wanted.ports.iter().map(|port| (names::PORT, port.name.clone()));
    volumes.chain(ports).chain([(names::SERVER, wanted.name.clone())]).collect()
}

fn volumes(wanted: &Desired, seen: &Observed) -> Option<Step> {
    // All are asked for before any is waited for: Cinder fills them side by side.
    let absent = wanted.volumes.iter().find(|volume| !seen.volumes.contains_key(&volume.name));
    if let Some(volume) = absent {
        return Some(Step::CreateVolume(volume.clone()));
    }
    if let Some(broken) = seen.volumes.values().find(|volume| volume.status.starts_with("error")) {
        let (name, id) = (broken.name.clone(), broken.id.clone());
        return Some(Step::DeleteBrokenVolume { name, id, status: broken.status.clone() });
    }
    let unready = seen.volumes.values().find(|volume| volume.status != AVAILABLE)?;
    Some(Step::Wait(Waiting::Volume { name: unready.name.clone(), status: unready.status.clone() }))
}

fn ports(wanted: &Desired, mark: &OwnershipTag, seen: &Observed) -> Option<Step> {
    wanted.ports.iter().find_map(|spec| {
        let Some(port) = seen.ports.get(&spec.name) else { return Some(Step::CreatePort(spec.clone())) };
        port_step(spec, mark, port)
    })
}

fn port_step(spec: &ResolvedPortSpec, mark: &OwnershipTag, port: &Port) -> Option<Step> {
    let lacking = mark.tags(spec.tags.as_deref()).into_iter().filter(|tag| !port.tags.contains(tag));
    let lacking: Vec<String> = lacking.collect();
    if !lacking.is_empty() {
        let tags = port.tags.iter().cloned().chain(lacking).collect();
        return Some(Step::TagPort { name: spec.name.clone(), id: port.id.clone(), tags });
    }
    let pairs = address_pairs(spec);
    let same = pairs.len() == port.allowed_address_pairs.len()
        && pairs.iter().all(|pair| {
            port.allowed_address_pairs.iter().any(|known| {
                // Neutron fills in the port's own MAC address where none is asked for.
                known.ip_address == pair.ip_address
                    && match (&pair.mac_address, &known.mac_address) {
                        (Some(asked), Some(known)) => asked.eq_ignore_ascii_case(known),
                        (asked, _) => asked.is_none(),
                    }
            })
        });
    (!same).then(|| Step::SetAddressPairs { name: spec.name.clone(), id: port.id.clone(), pairs })
}

/// A port's address pairs in the cloud's words.
pub(super) fn address_pairs(spec: &ResolvedPortSpec) -> Vec<AddressPair> {
    let pair = |pair: &apiserver_types::AddressPair| AddressPair {
        ip_address: pair.ip_address.clone(),
        mac_address: pair.mac_address.clone(),
    };
    spec.allowed_address_pairs.iter().flatten().map(pair).collect()
}

fn with_server(wanted: &Desired, mark: &OwnershipTag, seen: &Observed, server: &Server) -> Step {
    if server.task_state.as_deref() == Some("deleting") {
        return Step::Wait(Waiting::Server { status: format!("{} and being deleted", server.status) });
    }
    if !seen.provisioned && !seen.in_operation {
        match server.status.as_str() {
            "ACTIVE" => {}
            // Only one that was made here and never worked; any other is for its owner to judge.
            "ERROR" if seen.provider_id.is_none() && server.tags.contains(&mark.tag()) => {
                let fault = server.fault.clone().unwrap_or_else(|| "Nova gives no reason".to_owned());
                return Step::DeleteBroken { id: server.id.clone(), fault };
            }
            "ERROR" => return Step::Wait(Waiting::Nobody),
            status => return Step::Wait(Waiting::Server { status: status.to_owned() }),
        }
    }
    let provider_id = format!("openstack://{}/{}", wanted.region, server.id);
    // An operation that makes another server writes its id itself.
    if !seen.in_operation && seen.provider_id.is_none() {
        return Step::SetProviderId(provider_id);
    }
    let changed = wanted.ports.iter().find_map(|spec| port_step(spec, mark, seen.ports.get(&spec.name)?));
    if let Some(step) = changed {
        return step;
    }
    let free = seen.endpoint_ip.as_ref().filter(|ip| wanted.takes_endpoint && ip.port_id.is_none());
    let port = wanted.ports.first().and_then(|spec| seen.ports.get(&spec.name));
    match (free, port) {
        (Some(ip), Some(port)) => Step::TakeEndpoint { floating_ip: ip.id.clone(), port: port.id.clone() },
        _ => Step::Nothing,
    }
}

#[cfg(test)]
mod tests {
    use apiserver_types::{OpenStackMachine, OpenStackMachineSpec};

    use super::*;

    fn wanted() -> Desired {
        Desired {
            name: "m1".to_owned(),
            ports: vec![ResolvedPortSpec { name: "m1-0".to_owned(), ..ResolvedPortSpec::default() }],
            region: "R".to_owned(),
            ..Desired::default()
        }
    }

    fn server(status: &str) -> Option<Server> {
        let tags = vec!["capstan-u".to_owned()];
        Some(Server { id: "s".to_owned(), status: status.to_owned(), tags, ..Server::default() })
    }

    #[test]
    fn each_situation_has_its_step() {
        let mut object = OpenStackMachine::new("m1", OpenStackMachineSpec::default());
        object.metadata.uid = Some("u".to_owned());
        let mark = OwnershipTag::of(&object);
        let mut journal = Journal::default();
        for (kind, name) in [(names::PORT, "m1-0"), (names::SERVER, "m1")] {
            journal.intend(kind, name);
        }
        let port = Port { id: "p".to_owned(), tags: vec![mark.tag()], ..Port::default() };
        let ports: BTreeMap<_, _> = [("m1-0".to_owned(), port.clone())].into();
        let bare = Port { tags: Vec::new(), ..port };
        let base = Observed { journal, ports, ..Observed::default() };
        let known = Some("openstack://R/s".to_owned());
        let table = [
            ("nothing yet", Observed::default(), "Journal"),
            ("journalled", Observed { ports: BTreeMap::new(), ..base.clone() }, "CreatePort"),
            ("not marked", Observed { ports: [("m1-0".to_owned(), bare)].into(), ..base.clone() }, "TagPort"),
            ("with its port", base.clone(), "CreateServer"),
            ("building", Observed { server: server("BUILD"), ..base.clone() }, "Wait(Server"),
            ("broken", Observed { server: server("ERROR"), ..base.clone() }, "DeleteBroken"),
            (
                "broken, of an id that somebody wrote",
                Observed { server: server("ERROR"), provider_id: known.clone(), ..base.clone() },
                "Wait(Nobody",
            ),
            (
                "built",
                Observed { server: server("ACTIVE"), ..base.clone() },
                "SetProviderId(\"openstack://R/s",
            ),
            (
                "complete",
                Observed { server: server("ACTIVE"), provider_id: known.clone(), ..base.clone() },
                "Nothing",
            ),
            (
                "broken later",
                Observed {
                    server: server("ERROR"),
                    provisioned: true,
                    provider_id: known.clone(),
                    ..base.clone()
                },
                "Nothing",
            ),
            (
                "gone later",
                Observed { provisioned: true, provider_id: known.clone(), ..base.clone() },
                "Wait(Nobody",
            ),
            ("id known, no server", Observed { provider_id: known.clone(), ..base.clone() }, "Wait(Nobody"),
            ("in an operation", Observed { in_operation: true, ..base.clone() }, "Wait(Nobody"),
            (
                "broken in an operation",
                Observed { in_operation: true, server: server("ERROR"), provider_id: known, ..base },
                "Nothing",
            ),
        ];
        for (case, seen, expected) in table {
            let step = format!("{:?}", next_step(&wanted(), &mark, &seen));
            assert!(step.starts_with(expected), "{case}: {step}");
        }
    }
}
