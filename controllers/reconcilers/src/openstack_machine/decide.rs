//! Decision on the next step of an OpenStackMachine.

pub(super) mod address_pairs;
mod endpoint;
mod failed_build;
mod tags;

use std::collections::{BTreeMap, BTreeSet};

use apiserver_types::{OpenStackMachine, ResolvedPortSpec};
use controllers_infrastructure::{AddressPair, FailedStep, FloatingIp, Port, Server, Trunk, Volume};
use controllers_runtime::{Journal, OwnershipTag};
use jiff::Timestamp;

use super::desired::VolumeWish;
use super::failed_builds::FailedBuilds;
use crate::applied_tags::TagChange;
use crate::duplicates::{Duplicate, Remedy, remedy};
use crate::lost_calls::LostCalls;
use crate::names;
use crate::resource_events::failed_deletion;

pub(super) use failed_build::is_failed_build;

/// Desired cloud resources of a machine, with ids.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Desired {
    pub name: String,
    pub ports: Vec<ResolvedPortSpec>,
    pub volumes: Vec<VolumeWish>,
    /// The machine may take the floating IP of the cluster's API.
    pub takes_endpoint: bool,
    /// The machine is a node, so it may take the floating IP from a machine whose server is dead.
    pub is_node: bool,
    /// The API server of the machine is healthy, as far as its control plane knows.
    pub is_api_healthy: bool,
    /// Address pairs of each port as the last pass applied them.
    pub applied_pairs: BTreeMap<String, Vec<AddressPair>>,
    /// The Machine is being deleted, so clients must not be sent to it any more.
    pub is_leaving: bool,
    /// Load balancer of the API, of which the machine is a member.
    pub balancer: Option<String>,
    /// Number of ports of the load balancer.
    pub balanced_ports: usize,
    /// Network of the cluster: the port on it serves the API.
    pub network: Option<String>,
    /// Name of that network: its addresses come first.
    pub network_name: String,
    pub region: String,
    /// Tags of the server, beside those that Nova does not accept.
    pub server_tags: Vec<String>,
    /// Tags of volumes, as their metadata has them; `None` without tags.
    pub volume_tags: Option<String>,
    /// Tag of everything of the machines of the cluster, if there is a cluster.
    pub cluster_tag: Option<String>,
    /// Tags of the spec that passes have applied, those of earlier specs among them.
    pub applied_tags: BTreeSet<String>,
}

impl Desired {
    /// Returns the tags of the spec, beside those that identify the owner.
    pub(super) fn own_tags(&self) -> BTreeSet<String> {
        let ports = self.ports.iter().flat_map(|port| port.tags.iter().flatten());
        let all = ports.chain(&self.server_tags);
        all.filter(|tag| !tag.starts_with(OwnershipTag::PREFIX)).cloned().collect()
    }
}

/// Observed cloud resources.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct Observed {
    pub journal: Journal,
    /// Project of the resources; `None` if it is not to be written.
    pub project: Option<String>,
    pub ports: BTreeMap<String, Port>,
    pub volumes: BTreeMap<String, Volume>,
    pub server: Option<Server>,
    /// Resources of a name and tag of which another one is adopted.
    pub duplicates: Vec<Duplicate>,
    /// Id of the server, as the object has it.
    pub known_server: Option<String>,
    pub provider_id: Option<String>,
    /// The machine is of a control plane, so that a port of it may have the floating IP of the API.
    pub of_control_plane: bool,
    /// The machine was complete once; then its server is never created again.
    pub provisioned: bool,
    /// The object may be from a backup without its journal: only the ownership tag shows which resources are the machine's.
    pub by_tag_alone: bool,
    /// Reason why a server that looks like a failed build stays: it may have worked since a backup that was restored.
    pub after_restore: Option<String>,
    /// An operation has claimed the server.
    pub in_operation: bool,
    /// The machine is complete, and its Node is healthy.
    pub at_rest: bool,
    pub endpoint_ip: Option<FloatingIp>,
    /// State of the machine that has the floating IP of the API.
    pub endpoint_holder: Holder,
    /// Subnet of the cluster's primary addresses, if the cluster names one.
    pub primary_subnet: Option<String>,
    /// Trunks by the names of their parent ports.
    pub trunks: BTreeMap<String, Trunk>,
    /// State of the machine's membership in the load balancer.
    pub membership: Membership,
    /// Builds of the server that failed.
    pub failed_builds: FailedBuilds,
    /// Create calls whose answers were lost.
    pub lost_calls: LostCalls,
    /// Time of the pass.
    pub now: Timestamp,
}

impl Observed {
    /// Returns true if the port of this id is one of the machine's.
    pub(super) fn has_port(&self, id: &str) -> bool {
        self.ports.values().any(|port| port.id == id)
            || self.journal.entries().iter().any(|entry| entry.id.as_deref() == Some(id))
    }
}

/// State of the machine that has the floating IP of the API.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) enum Holder {
    /// Not observed, or the floating IP was moved a moment ago, or a resource that is not ours has it.
    #[default]
    Settled,
    /// Its server does not work any more. Says why.
    Dead(String),
    /// It works, but its Machine is being deleted. Says so.
    Leaving(String),
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
    /// Still a member of a pool, while its Machine leaves the control plane.
    Leaving,
    /// Member of no pool any more, since its Machine leaves the control plane.
    Removed,
    /// A member is in ERROR.
    Broken,
    /// A member of another owner has the machine's address. Says which one.
    Taken(String),
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
    /// Add tags to a port.
    TagPort { name: String, id: String, change: TagChange },
    /// Make a port the parent of a trunk.
    CreateTrunk { name: String, port: String },
    /// Add tags to a trunk.
    TagTrunk { name: String, id: String, change: TagChange },
    /// Give a volume this metadata, with the tags of the spec.
    TagVolume { name: String, id: String, metadata: BTreeMap<String, String> },
    /// Change a port's address pairs.
    SetAddressPairs { name: String, id: String, pairs: Vec<AddressPair> },
    /// Add tags to the server.
    TagServer { id: String, change: TagChange },
    /// Create the server.
    CreateServer,
    /// Delete a server that Nova could not build, so that another one can be created.
    DeleteBroken { id: String, fault: String },
    /// Delete a volume that Cinder could not create, so that another one can be created.
    DeleteBrokenVolume { name: String, id: String, status: String },
    /// Delete a resource of which another one is adopted.
    DeleteDuplicate(Duplicate),
    /// Leave duplicates in use to the user.
    RefuseDuplicates(String),
    /// Write the server's id into the spec.
    SetProviderId(String),
    /// Associate the cluster's floating IP with an address of the machine's port. `from` says why another machine loses it.
    TakeEndpoint { floating_ip: FloatingIp, port: String, address: Option<String>, from: Option<String> },
    /// Wait.
    Wait(Waiting),
    /// Nothing is left to do.
    Nothing,
}

impl Step {
    /// Returns true if the step, made twice, creates two resources.
    pub(super) fn creates(&self) -> bool {
        matches!(
            self,
            Self::CreateVolume(_) | Self::CreatePort(_) | Self::CreateTrunk { .. } | Self::CreateServer
        )
    }

    /// Returns the reasons of the conditions and Events if the step fails.
    pub(super) fn failure(&self) -> Option<FailedStep> {
        let (condition, event) = match self {
            Self::CreateVolume(_) => ("InstanceCreateFailed", "FailedCreateVolume"),
            Self::DeleteBrokenVolume { .. } => ("InstanceCreateFailed", "FailedDeleteVolume"),
            Self::CreatePort(_) => ("PortCreateFailed", "FailedCreatePort"),
            Self::CreateTrunk { .. } => ("PortCreateFailed", "FailedCreateTrunk"),
            Self::SetAddressPairs { .. } => ("PortCreateFailed", "FailedUpdatePort"),
            Self::CreateServer => ("InstanceCreateFailed", "FailedCreateServer"),
            // The server could not be built, or it cannot be deleted to build another one.
            Self::DeleteBroken { .. } => ("InstanceCreateFailed", "FailedCreateServer"),
            Self::TakeEndpoint { .. } => ("FloatingIPError", "FailedAssociateFloatingIP"),
            Self::DeleteDuplicate(it) => return Some(failed_deletion(it.kind)),
            _ => return None,
        };
        Some(FailedStep::new(condition, event))
    }

    /// Describes the attempt in the cloud for errors, with the name of the resource.
    pub(super) fn attempt(&self, server: &str) -> Option<String> {
        Some(match self {
            Self::CreateVolume(wish) => format!("create volume {:?}", wish.name),
            Self::CreatePort(spec) => format!("create port {:?}", spec.name),
            Self::TagPort { name, .. } => format!("tag port {name:?}"),
            Self::CreateTrunk { name, .. } => format!("create trunk {name:?}"),
            Self::TagTrunk { name, .. } => format!("tag trunk {name:?}"),
            Self::TagVolume { name, .. } => format!("tag volume {name:?}"),
            Self::SetAddressPairs { name, .. } => format!("change the address pairs of port {name:?}"),
            Self::TagServer { .. } => format!("tag server {server:?}"),
            Self::CreateServer => format!("create server {server:?}"),
            Self::DeleteBroken { .. } => format!("build server {server:?}"),
            Self::DeleteBrokenVolume { name, .. } => format!("create volume {name:?}"),
            Self::TakeEndpoint { floating_ip, .. } => {
                format!("associate floating IP {} with server {server:?}", floating_ip.address)
            }
            Self::DeleteDuplicate(it) => format!("delete {} {}", it.kind, it.id),
            Self::RefuseDuplicates(_)
            | Self::Journal(_)
            | Self::SetProviderId(_)
            | Self::Wait(_)
            | Self::Nothing => return None,
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
    /// The server is in ERROR, and stays for this reason: it may have worked since the backup.
    Restored(String),
}

/// Cinder's status of a volume that may be attached.
const AVAILABLE: &str = "available";

/// Decides on the next step. Pure and total.
pub(super) fn next_step(desired: &Desired, tag: &OwnershipTag, observed: &Observed) -> Step {
    match remedy(&observed.duplicates) {
        Some(Remedy::Delete(duplicate)) => return Step::DeleteDuplicate(duplicate),
        Some(Remedy::Refuse(message)) => return Step::RefuseDuplicates(message),
        None => {}
    }
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
/// already applied this generation of the spec and the tags of the cluster. Pure.
pub(super) fn needs_parts(object: &OpenStackMachine, desired: &Desired, observed: &Observed) -> bool {
    let generation = object.metadata.generation;
    let ready = object.condition("InstanceReady");
    let applied = ready.is_some_and(|it| it.holds() && it.observed_generation == generation);
    let applied = applied && desired.own_tags() == desired.applied_tags;
    let settled = observed.provisioned && (applied || observed.in_operation);
    observed.server.is_none() || !settled
}

/// Returns the journal's entries of all resources that are to be created.
fn intended(desired: &Desired) -> Vec<(&'static str, String)> {
    let volumes = desired.volumes.iter().map(|volume| (names::VOLUME, volume.name.clone()));
    let ports = desired.ports.iter().map(|port| (names::PORT, port.name.clone()));
    let trunks = desired.ports.iter().filter(|port| port.trunk == Some(true));
    let trunks = trunks.map(|port| (names::TRUNK, port.name.clone()));
    volumes.chain(ports).chain(trunks).chain([(names::SERVER, desired.name.clone())]).collect()
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
    // The size of a volume in the spec is immutable, so it is a leftover of an earlier machine of this mark.
    let other = desired.volumes.iter().find_map(|wish| {
        let volume = observed.volumes.get(&wish.name)?;
        (volume.status == AVAILABLE && volume.size_gib != wish.size_gib).then_some((wish, volume))
    });
    if let Some((wish, volume)) = other {
        let status = format!("{AVAILABLE} with {} GiB instead of {}", volume.size_gib, wish.size_gib);
        let (name, id) = (wish.name.clone(), volume.id.clone());
        return Some(Step::DeleteBrokenVolume { name, id, status });
    }
    let unready = observed.volumes.values().find(|volume| volume.status != AVAILABLE)?;
    Some(Step::Wait(Waiting::Volume { name: unready.name.clone(), status: unready.status.clone() }))
}

fn ports(desired: &Desired, tag: &OwnershipTag, observed: &Observed) -> Option<Step> {
    desired.ports.iter().find_map(|spec| {
        let Some(port) = observed.ports.get(&spec.name) else { return Some(Step::CreatePort(spec.clone())) };
        port_step(desired, spec, tag, port).or_else(|| trunk_step(desired, spec, tag, observed, port))
    })
}

fn trunk_step(
    desired: &Desired,
    spec: &ResolvedPortSpec,
    tag: &OwnershipTag,
    observed: &Observed,
    port: &Port,
) -> Option<Step> {
    if spec.trunk != Some(true) {
        return None;
    }
    let Some(trunk) = observed.trunks.get(&spec.name) else {
        return Some(Step::CreateTrunk { name: spec.name.clone(), port: port.id.clone() });
    };
    tags::trunk(desired, spec, tag, trunk)
}

fn port_step(desired: &Desired, spec: &ResolvedPortSpec, tag: &OwnershipTag, port: &Port) -> Option<Step> {
    if let Some(step) = tags::port(desired, spec, tag, port) {
        return Some(step);
    }
    let applied = desired.applied_pairs.get(&spec.name).map(Vec::as_slice).unwrap_or_default();
    let pairs = address_pairs::merged(&address_pairs::wanted(spec), applied, &port.allowed_address_pairs)?;
    Some(Step::SetAddressPairs { name: spec.name.clone(), id: port.id.clone(), pairs })
}

fn with_server(desired: &Desired, tag: &OwnershipTag, observed: &Observed, server: &Server) -> Step {
    if server.task_state.as_deref() == Some("deleting") {
        return Step::Wait(Waiting::Server { status: format!("{} and being deleted", server.status) });
    }
    if !observed.provisioned && !observed.in_operation {
        match server.status.as_str() {
            "ACTIVE" => {}
            "ERROR" => return failed_build::step(tag, observed, server),
            status => return Step::Wait(Waiting::Server { status: status.to_owned() }),
        }
    }
    let provider_id = format!("openstack://{}/{}", desired.region, server.id);
    // An operation that creates another server writes its id itself.
    if !observed.in_operation && observed.provider_id.is_none() {
        return Step::SetProviderId(provider_id);
    }
    let changed =
        desired.ports.iter().find_map(|spec| port_step(desired, spec, tag, observed.ports.get(&spec.name)?));
    let trunk = || {
        desired
            .ports
            .iter()
            .find_map(|spec| tags::trunk(desired, spec, tag, observed.trunks.get(&spec.name)?))
    };
    let volume = || observed.volumes.values().find_map(|volume| tags::volume(desired, volume));
    if let Some(step) = changed.or_else(trunk).or_else(volume).or_else(|| tags::server(desired, tag, server))
    {
        return step;
    }
    if desired.balancer.is_some() && !observed.provisioned && observed.membership != Membership::Complete {
        return Step::Wait(Waiting::Member);
    }
    endpoint::step(desired, observed, server)
}

#[cfg(test)]
mod tests;
