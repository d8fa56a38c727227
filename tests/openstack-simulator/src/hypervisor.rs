//! Servers as their hypervisors see them: for programs that play the guests.

use std::collections::{BTreeMap, BTreeSet};
use std::io::Read;
use std::net::IpAddr;
use std::sync::Arc;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::cloud::SimulatedCloud;
use crate::neutron::ResourceKind;
use crate::nova::model::{Server, ServerTask, VmState};
use crate::object::{list, text};
use crate::octavia;
use crate::state::CloudState;

/// Largest user data after decompression, in bytes. Nova's own limit is 64 KiB before it.
const USER_DATA_LIMIT: u64 = 16 << 20;

/// Tasks after which a server has booted.
const BOOTS: [ServerTask; 4] =
    [ServerTask::Build, ServerTask::Reboot, ServerTask::Rebuild, ServerTask::PowerOn];

/// Tasks after which a server has a new disk.
const DISKS: [ServerTask; 2] = [ServerTask::Build, ServerTask::Rebuild];

/// One server of any project.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GuestServer {
    /// Id of the server.
    pub id: String,
    /// Name at present.
    pub name: String,
    /// Host name, which the metadata service reports.
    pub hostname: String,
    /// Id of its project.
    pub project: String,
    /// Status as Nova shows it, e.g. `ACTIVE` or `SHUTOFF`.
    pub status: String,
    /// True while the guest runs: not during a reboot or a rebuild.
    pub running: bool,
    /// Number of boots so far.
    pub boots: usize,
    /// Number of disks so far: one, and one more for each rebuild.
    pub disks: usize,
    /// Name of its image; `None` if it was booted from a volume.
    pub image: Option<String>,
    /// Fixed addresses of its ports.
    pub addresses: Vec<IpAddr>,
    /// Floating IPs that are associated with its ports.
    pub floating_ips: Vec<IpAddr>,
    /// Addresses of load balancers that forward to its ports: fixed ones, and their floating IPs.
    pub balanced_ips: Vec<IpAddr>,
}

/// Position in the history of the servers. The default is before the first change.
#[derive(Debug, Clone, Default)]
pub struct GuestCursor(Option<Seen>);

/// State of the cloud at the last look of a reader.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Seen {
    /// Last change of a server.
    servers: u64,
    /// Last change of a port or a floating IP.
    network: u64,
    /// Number of images, by which servers are described.
    images: usize,
    /// True if load balancers forward to servers.
    is_balanced: bool,
}

/// Changes of servers.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GuestChanges {
    /// Servers that exist and have changed, perhaps in nothing that is shown here.
    pub present: Vec<GuestServer>,
    /// Ids of servers that no longer exist.
    pub gone: Vec<String>,
}

/// Access to the servers of all projects. It is cheap to clone, and outlives the listener of its simulator.
#[derive(Debug, Clone)]
pub struct Hypervisor {
    cloud: Arc<SimulatedCloud>,
}

impl Hypervisor {
    pub(crate) fn new(cloud: Arc<SimulatedCloud>) -> Self {
        Self { cloud }
    }

    /// Returns the number of changes of the cloud so far. The call is cheap: poll it to notice changes.
    #[must_use]
    pub fn revision(&self) -> u64 {
        self.cloud.revision()
    }

    /// Returns all servers that exist.
    #[must_use]
    pub fn servers(&self) -> Vec<GuestServer> {
        self.cloud.read(|state| {
            let balanced = balanced(state);
            let servers = state.servers.values().filter(|server| server.exists());
            servers.map(|server| guest(state, server, &balanced)).collect()
        })
    }

    /// Returns the servers that have changed since the cursor, and moves the cursor to the present. The work follows the
    /// number of changes and not that of servers, except in a cloud with load balancers: there each call returns all.
    #[must_use]
    pub fn changes(&self, cursor: &mut GuestCursor) -> GuestChanges {
        self.cloud.read(|state| changes(state, cursor))
    }

    /// Returns the user data of a server, decoded from base64, and decompressed if it is in gzip format.
    #[must_use]
    pub fn user_data(&self, id: &str) -> Option<Vec<u8>> {
        let encoded = self.cloud.read(|state| state.servers.get(id)?.user_data.clone())?;
        let bytes = STANDARD.decode(encoded.trim()).ok()?;
        if !bytes.starts_with(&[0x1f, 0x8b]) {
            return Some(bytes);
        }
        let mut plain = Vec::new();
        flate2::read::MultiGzDecoder::new(bytes.as_slice())
            .take(USER_DATA_LIMIT)
            .read_to_end(&mut plain)
            .ok()?;
        Some(plain)
    }

    /// Appends text to the console log of a server. A server that does not exist is ignored.
    pub fn append_console(&self, id: &str, text: &str) {
        self.cloud.append_console(id, text);
    }

    /// Returns the console log of a server, as far as [`Self::append_console`] wrote it.
    #[must_use]
    pub fn console(&self, id: &str) -> Option<String> {
        self.cloud.read(|state| Some(state.servers.get(id)?.console.clone()))
    }
}

fn changes(state: &CloudState, cursor: &mut GuestCursor) -> GuestChanges {
    let balanced = balanced(state);
    let now = Seen {
        servers: state.servers.changes.last(),
        network: state.network.changes.last(),
        images: state.images.len(),
        is_balanced: !balanced.is_empty(),
    };
    let seen = cursor.0.replace(now.clone());
    let is_whole =
        seen.as_ref().is_none_or(|seen| seen.images != now.images || seen.is_balanced || now.is_balanced);
    let (servers, network) = seen.map_or((0, 0), |seen| (seen.servers, seen.network));
    let find = |id: &str| state.servers.get(id).filter(|server| server.exists());
    let changed = || state.servers.changes.since(servers);
    let present: Vec<&Server> = if is_whole {
        state.servers.values().filter(|server| server.exists()).collect()
    } else {
        let ids: BTreeSet<&str> = changed().chain(devices(state, network)).collect();
        ids.into_iter().filter_map(find).collect()
    };
    GuestChanges {
        present: present.into_iter().map(|server| guest(state, server, &balanced)).collect(),
        gone: changed().filter(|id| find(id).is_none()).map(str::to_owned).collect(),
    }
}

/// Returns the devices of the ports that have changed, or whose floating IPs have, after a change of the network.
fn devices(state: &CloudState, since: u64) -> impl Iterator<Item = &str> {
    let device = move |id| state.find(ResourceKind::Port, id).map_or(id, |port| text(port, "device_id"));
    state.network.changes.since(since).map(device)
}

/// Addresses that lead to one server.
#[derive(Debug, Default)]
struct ServerAddresses {
    fixed: Vec<IpAddr>,
    floating: Vec<IpAddr>,
    balanced: Vec<IpAddr>,
}

/// Returns the addresses of a server. `balanced` has those of the load balancers in front of each address.
fn addresses(state: &CloudState, id: &str, balanced: &Balanced) -> ServerAddresses {
    let mut found = ServerAddresses::default();
    for port in state.with(ResourceKind::Port, "device_id", id) {
        for address in list(port, "fixed_ips").iter().filter_map(|fixed| fixed.get("ip_address")?.as_str()) {
            found.fixed.extend(address.parse::<IpAddr>().ok());
            let target = (text(port, "network_id").to_owned(), address.to_owned());
            found.balanced.extend(balanced.get(&target).into_iter().flatten());
        }
        found.floating.extend(floating(state, text(port, "id")));
    }
    found
}

/// Returns the floating IPs of a port.
fn floating(state: &CloudState, port: &str) -> Vec<IpAddr> {
    let of_port = state.with(ResourceKind::FloatingIp, "port_id", port).into_iter();
    of_port.filter_map(|address| text(address, "floating_ip_address").parse().ok()).collect()
}

/// Addresses of the load balancers in front of each address.
type Balanced = BTreeMap<octavia::Target, Vec<IpAddr>>;

fn balanced(state: &CloudState) -> Balanced {
    let mut found = Balanced::new();
    for (target, balancers) in octavia::forwarding(state) {
        let addresses = found.entry(target).or_default();
        for balancer in balancers {
            addresses.extend(text(balancer, "vip_address").parse::<IpAddr>().ok());
            addresses.extend(floating(state, text(balancer, "vip_port_id")));
        }
    }
    found
}

fn guest(state: &CloudState, server: &Server, balanced: &Balanced) -> GuestServer {
    let image = server.image.as_deref().and_then(|id| {
        let image = state.images.iter().find(|image| text(image, "id") == id)?;
        Some(text(image, "name").to_owned())
    });
    let own = addresses(state, &server.id, balanced);
    GuestServer {
        id: server.id.clone(),
        name: server.name.clone(),
        hostname: server.hostname.clone(),
        project: server.project_id.clone(),
        status: server.status().to_owned(),
        running: is_running(server),
        boots: server.completed(&BOOTS),
        disks: server.completed(&DISKS),
        image,
        addresses: own.fixed,
        floating_ips: own.floating,
        balanced_ips: own.balanced,
    }
}

fn is_running(server: &Server) -> bool {
    let stopped = [ServerTask::Reboot, ServerTask::HardReboot, ServerTask::Rebuild];
    let on = match server.vm_state {
        VmState::Active => true,
        VmState::Error => server.launched.is_some(),
        VmState::Building | VmState::Stopped | VmState::SoftDeleted | VmState::Deleted => false,
    };
    on && !server.task().is_some_and(|task| stopped.contains(&task))
}
