//! Decision on the next step of an OpenStackMachine.

use std::collections::BTreeMap;

use apiserver_types::{OpenStackMachine, ResolvedPortSpec};
use controllers_infrastructure::{AddressPair, FloatingIp, Port, Server, Volume};
use controllers_runtime::{Journal, OwnershipTag};

use super::desired::VolumeWish;
use crate::names;

/// Desired cloud resources of a machine, with ids.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Desired {
    pub name: String,
    pub ports: Vec<ResolvedPortSpec>,
    pub volumes: Vec<VolumeWish>,
    /// The machine may take the floating IP of the cluster's API.
    pub takes_endpoint: bool,
    /// The Machine is being deleted, so clients must not be sent to it any more.
    pub is_leaving: bool,
    /// Load balancer of the API, of which the machine is a member.
    pub balancer: Option<String>,
    /// Number of ports of the load balancer.
    pub balanced_ports: usize,
    /// Network of the cluster: the port on it serves the API.
    pub network: Option<String>,
    pub region: String,
}

/// Observed cloud resources.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Observed {
    pub journal: Journal,
    pub ports: BTreeMap<String, Port>,
    pub volumes: BTreeMap<String, Volume>,
    pub server: Option<Server>,
    /// Id of the server, as the object has it.
    pub known_server: Option<String>,
    pub provider_id: Option<String>,
    /// The machine was complete once; then its server is never created again.
    pub provisioned: bool,
    /// An operation has claimed the server.
    pub in_operation: bool,
    pub endpoint_ip: Option<FloatingIp>,
    /// State of the machine's membership in the load balancer.
    pub membership: Membership,
}

/// State of a machine's membership in the load balancer of the API.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Membership {
    /// Not observed.
    #[default]
    Unknown,
    /// Not a member of every pool yet.
    Pending,
    /// Member of every pool.
    Complete,
    /// A member is in ERROR.
    Broken,
}

/// Next step of an OpenStackMachine.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Step {
    /// Write these entries into the journal.
    Journal(Vec<(&'static str, String)>),
    /// Create a volume.
    CreateVolume(VolumeWish),
    /// Create a port.
    CreatePort(ResolvedPortSpec),
    /// Tag a port.
    TagPort { name: String, id: String, tags: Vec<String> },
    /// Change a port's address pairs.
    SetAddressPairs { name: String, id: String, pairs: Vec<AddressPair> },
    /// Create the server.
    CreateServer,
    /// Delete a server that Nova could not build, so that another one can be created.
    DeleteBroken { id: String, fault: String },
    /// Delete a volume that Cinder could not create, so that another one can be created.
    DeleteBrokenVolume { name: String, id: String, status: String },
    /// Write the server's id into the spec.
    SetProviderId(String),
    /// Associate the cluster's floating IP with the machine's port.
    TakeEndpoint { floating_ip: String, port: String },
    /// Wait.
    Wait(Waiting),
    /// Nothing is left to do.
    Nothing,
}

impl Step {
    /// Describes the attempt in the cloud for errors, with the name of the resource.
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
                format!("associate floating IP {floating_ip} with server {server:?}")
            }
            Self::Journal(_) | Self::SetProviderId(_) | Self::Wait(_) | Self::Nothing => return None,
        })
    }
}

/// Reason to wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Waiting {
    /// A volume is being created.
    Volume { name: String, status: String },
    /// A server is being built.
    Server { status: String },
    /// The machine is no member of the load balancer yet.
    Member,
    /// The server does not exist any more, or an operation has claimed it.
    Unavailable,
}

/// Cinder's status of a volume that may be attached.
const AVAILABLE: &str = "available";

/// Decides on the next step. Pure and total.
pub(super) fn next_step(desired: &Desired, tag: &OwnershipTag, observed: &Observed) -> Step {
    if let Some(server) = &observed.server {
        return with_server(desired, tag, observed, server);
    }
    if observed.provisioned || observed.in_operation || observed.provider_id.is_some() {
        return Step::Wait(Waiting::Unavailable);
    }
    let missing: Vec<_> =
        intended(desired).into_iter().filter(|(kind, name)| !observed.journal.has(kind, name)).collect();
    if !missing.is_empty() {
        return Step::Journal(missing);
    }
    volumes(desired, observed).or_else(|| ports(desired, tag, observed)).unwrap_or(Step::CreateServer)
}

/// Returns true if a pass needs the volumes and ports: it does unless the server exists and a pass has
/// already applied this generation of the spec. Pure.
pub(super) fn needs_parts(object: &OpenStackMachine, observed: &Observed) -> bool {
    let generation = object.metadata.generation;
    let ready = object.condition("InstanceReady");
    let applied = ready.is_some_and(|it| it.holds() && it.observed_generation == generation);
    let settled = observed.provisioned && (applied || observed.in_operation);
    observed.server.is_none() || !settled
}

/// Returns the journal's entries of all resources that are to be created.
fn intended(desired: &Desired) -> Vec<(&'static str, String)> {
    let volumes = desired.volumes.iter().map(|volume| (names::VOLUME, volume.name.clone()));
    let ports = desired.ports.iter().map(|port| (names::PORT, port.name.clone()));
    volumes.chain(ports).chain([(names::SERVER, desired.name.clone())]).collect()
}

fn volumes(desired: &Desired, observed: &Observed) -> Option<Step> {
    // All are created before the pass waits for one: Cinder fills them in parallel.
    let absent = desired.volumes.iter().find(|volume| !observed.volumes.contains_key(&volume.name));
    if let Some(volume) = absent {
        return Some(Step::CreateVolume(volume.clone()));
    }
    if let Some(broken) = observed.volumes.values().find(|volume| volume.status.starts_with("error")) {
        let (name, id) = (broken.name.clone(), broken.id.clone());
        return Some(Step::DeleteBrokenVolume { name, id, status: broken.status.clone() });
    }
    let unready = observed.volumes.values().find(|volume| volume.status != AVAILABLE)?;
    Some(Step::Wait(Waiting::Volume { name: unready.name.clone(), status: unready.status.clone() }))
}

fn ports(desired: &Desired, tag: &OwnershipTag, observed: &Observed) -> Option<Step> {
    desired.ports.iter().find_map(|spec| {
        let Some(port) = observed.ports.get(&spec.name) else { return Some(Step::CreatePort(spec.clone())) };
        port_step(spec, tag, port)
    })
}

fn port_step(spec: &ResolvedPortSpec, tag: &OwnershipTag, port: &Port) -> Option<Step> {
    let lacking = tag.tags(spec.tags.as_deref()).into_iter().filter(|tag| !port.tags.contains(tag));
    let lacking: Vec<String> = lacking.collect();
    if !lacking.is_empty() {
        let tags = port.tags.iter().cloned().chain(lacking).collect();
        return Some(Step::TagPort { name: spec.name.clone(), id: port.id.clone(), tags });
    }
    let pairs = address_pairs(spec);
    let same = pairs.len() == port.allowed_address_pairs.len()
        && pairs.iter().all(|pair| {
            port.allowed_address_pairs.iter().any(|known| {
                // Neutron fills in the port's own MAC address if none is requested.
                known.ip_address == pair.ip_address
                    && match (&pair.mac_address, &known.mac_address) {
                        (Some(requested), Some(known)) => requested.eq_ignore_ascii_case(known),
                        (requested, _) => requested.is_none(),
                    }
            })
        });
    (!same).then(|| Step::SetAddressPairs { name: spec.name.clone(), id: port.id.clone(), pairs })
}

/// Returns a port's address pairs in the cloud's types.
pub(super) fn address_pairs(spec: &ResolvedPortSpec) -> Vec<AddressPair> {
    let pair = |pair: &apiserver_types::AddressPair| AddressPair {
        ip_address: pair.ip_address.clone(),
        mac_address: pair.mac_address.clone(),
    };
    spec.allowed_address_pairs.iter().flatten().map(pair).collect()
}

fn with_server(desired: &Desired, tag: &OwnershipTag, observed: &Observed, server: &Server) -> Step {
    if server.task_state.as_deref() == Some("deleting") {
        return Step::Wait(Waiting::Server { status: format!("{} and being deleted", server.status) });
    }
    if !observed.provisioned && !observed.in_operation {
        match server.status.as_str() {
            "ACTIVE" => {}
            // Only a server that Capstan created and that never worked; others are left to the Machine's owner.
            "ERROR" if observed.provider_id.is_none() && server.tags.contains(&tag.text()) => {
                let fault = server.fault.clone().unwrap_or_else(|| "Nova gives no reason".to_owned());
                return Step::DeleteBroken { id: server.id.clone(), fault };
            }
            "ERROR" => return Step::Wait(Waiting::Unavailable),
            status => return Step::Wait(Waiting::Server { status: status.to_owned() }),
        }
    }
    let provider_id = format!("openstack://{}/{}", desired.region, server.id);
    // An operation that creates another server writes its id itself.
    if !observed.in_operation && observed.provider_id.is_none() {
        return Step::SetProviderId(provider_id);
    }
    let changed = desired.ports.iter().find_map(|spec| port_step(spec, tag, observed.ports.get(&spec.name)?));
    if let Some(step) = changed {
        return step;
    }
    if desired.balancer.is_some() && !observed.provisioned && observed.membership != Membership::Complete {
        return Step::Wait(Waiting::Member);
    }
    let takes = desired.takes_endpoint && !desired.is_leaving;
    let free = observed.endpoint_ip.as_ref().filter(|ip| takes && ip.port_id.is_none());
    match (free, management_port(desired, observed)) {
        (Some(ip), Some(port)) => Step::TakeEndpoint { floating_ip: ip.id.clone(), port: port.id.clone() },
        _ => Step::Nothing,
    }
}

/// Returns the port through which the API server is reached: the first on the cluster's network. A machine
/// without such a port has only its first one.
fn management_port<'a>(desired: &Desired, observed: &'a Observed) -> Option<&'a Port> {
    let on_network = |spec: &&ResolvedPortSpec| Some(&spec.network_id) == desired.network.as_ref();
    let spec = desired.ports.iter().find(on_network).or_else(|| desired.ports.first())?;
    observed.ports.get(&spec.name)
}

#[cfg(test)]
mod tests {
    use apiserver_types::OpenStackMachineSpec;

    use super::*;

    fn desired() -> Desired {
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
    fn each_state_has_its_step() {
        let mut object = OpenStackMachine::new("m1", OpenStackMachineSpec::default());
        object.metadata.uid = Some("u".to_owned());
        let tag = OwnershipTag::of(&object);
        let mut journal = Journal::default();
        for (kind, name) in [(names::PORT, "m1-0"), (names::SERVER, "m1")] {
            journal.intend(kind, name);
        }
        let port = Port { id: "p".to_owned(), tags: vec![tag.text()], ..Port::default() };
        let ports: BTreeMap<_, _> = [("m1-0".to_owned(), port.clone())].into();
        let bare = Port { tags: Vec::new(), ..port };
        let base = Observed { journal, ports, ..Observed::default() };
        let known = Some("openstack://R/s".to_owned());
        let table = [
            ("nothing yet", Observed::default(), "Journal"),
            ("journalled", Observed { ports: BTreeMap::new(), ..base.clone() }, "CreatePort"),
            ("not tagged", Observed { ports: [("m1-0".to_owned(), bare)].into(), ..base.clone() }, "TagPort"),
            ("with its port", base.clone(), "CreateServer"),
            ("building", Observed { server: server("BUILD"), ..base.clone() }, "Wait(Server"),
            ("broken", Observed { server: server("ERROR"), ..base.clone() }, "DeleteBroken"),
            (
                "broken, of an id that a user wrote",
                Observed { server: server("ERROR"), provider_id: known.clone(), ..base.clone() },
                "Wait(Unavailable",
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
                "powered off by an operation or a user",
                Observed {
                    server: server("SHUTOFF"),
                    provisioned: true,
                    provider_id: known.clone(),
                    ..base.clone()
                },
                "Nothing",
            ),
            (
                "powered off while it was built",
                Observed { server: server("SHUTOFF"), ..base.clone() },
                "Wait(Server",
            ),
            (
                "gone later",
                Observed { provisioned: true, provider_id: known.clone(), ..base.clone() },
                "Wait(Unavailable",
            ),
            (
                "id known, no server",
                Observed { provider_id: known.clone(), ..base.clone() },
                "Wait(Unavailable",
            ),
            ("in an operation", Observed { in_operation: true, ..base.clone() }, "Wait(Unavailable"),
            (
                "broken in an operation",
                Observed { in_operation: true, server: server("ERROR"), provider_id: known, ..base },
                "Nothing",
            ),
        ];
        for (case, observed, expected) in table {
            let step = format!("{:?}", next_step(&desired(), &tag, &observed));
            assert!(step.starts_with(expected), "{case}: {step}");
        }
    }

    #[test]
    fn the_floating_ip_of_the_api_goes_to_the_port_on_the_network_of_the_cluster() {
        let spec = |name: &str, network: &str| ResolvedPortSpec {
            name: name.to_owned(),
            network_id: network.to_owned(),
            ..ResolvedPortSpec::default()
        };
        let port = |name: &str| {
            let tags = vec!["capstan-u".to_owned()];
            (name.to_owned(), Port { id: format!("{name}-id"), tags, ..Port::default() })
        };
        let desired = Desired {
            ports: vec![spec("storage", "other"), spec("api", "net")],
            network: Some("net".to_owned()),
            takes_endpoint: true,
            ..desired()
        };
        let observed = Observed {
            server: server("ACTIVE"),
            provider_id: Some("openstack://R/s".to_owned()),
            ports: [port("storage"), port("api")].into(),
            endpoint_ip: Some(FloatingIp { id: "fip".to_owned(), ..FloatingIp::default() }),
            ..Observed::default()
        };
        let mut object = OpenStackMachine::new("m1", OpenStackMachineSpec::default());
        object.metadata.uid = Some("u".to_owned());
        let tag = OwnershipTag::of(&object);
        let step = next_step(&desired, &tag, &observed);
        let expected = Step::TakeEndpoint { floating_ip: "fip".to_owned(), port: "api-id".to_owned() };
        assert_eq!(step, expected);
        let only_other = Desired { network: Some("elsewhere".to_owned()), ..desired.clone() };
        let step = next_step(&only_other, &tag, &observed);
        assert!(matches!(step, Step::TakeEndpoint { port, .. } if port == "storage-id"));
        let taken = FloatingIp { port_id: Some("api-id".to_owned()), ..FloatingIp::default() };
        let taken = Observed { endpoint_ip: Some(taken), ..observed.clone() };
        assert_eq!(next_step(&desired, &tag, &taken), Step::Nothing);
        let leaving = Desired { is_leaving: true, ..desired.clone() };
        assert_eq!(next_step(&leaving, &tag, &observed), Step::Nothing);
        let worker = Desired { takes_endpoint: false, ..desired };
        assert_eq!(next_step(&worker, &tag, &observed), Step::Nothing);
    }
}
