//! Servers as their hypervisors see them: for programs that play the guests.

use std::collections::BTreeMap;
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
            let addresses = addresses(state);
            let servers = state.servers.values().filter(|server| server.exists());
            servers.map(|server| guest(state, server, &addresses)).collect()
        })
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

/// Addresses that lead to one server.
#[derive(Debug, Default)]
struct ServerAddresses {
    fixed: Vec<IpAddr>,
    floating: Vec<IpAddr>,
    balanced: Vec<IpAddr>,
}

/// Returns the addresses of all servers, by server id.
fn addresses(state: &CloudState) -> BTreeMap<String, ServerAddresses> {
    let mut floating: BTreeMap<&str, Vec<IpAddr>> = BTreeMap::new();
    for address in state.table(ResourceKind::FloatingIp) {
        if let Ok(parsed) = text(address, "floating_ip_address").parse() {
            floating.entry(text(address, "port_id")).or_default().push(parsed);
        }
    }
    let balanced = balanced(state, &floating);
    let mut found: BTreeMap<String, ServerAddresses> = BTreeMap::new();
    for port in state.table(ResourceKind::Port).filter(|port| !text(port, "device_id").is_empty()) {
        let server = found.entry(text(port, "device_id").to_owned()).or_default();
        for address in list(port, "fixed_ips").iter().filter_map(|fixed| fixed.get("ip_address")?.as_str()) {
            server.fixed.extend(address.parse::<IpAddr>().ok());
            let target = (text(port, "network_id").to_owned(), address.to_owned());
            server.balanced.extend(balanced.get(&target).into_iter().flatten());
        }
        server.floating.extend(floating.get(text(port, "id")).into_iter().flatten());
    }
    found
}

/// Returns the addresses of the load balancers in front of each address. `floating` has the floating IPs by port.
fn balanced(
    state: &CloudState,
    floating: &BTreeMap<&str, Vec<IpAddr>>,
) -> BTreeMap<octavia::Target, Vec<IpAddr>> {
    let mut found: BTreeMap<octavia::Target, Vec<IpAddr>> = BTreeMap::new();
    for (target, balancers) in octavia::forwarding(state) {
        let addresses = found.entry(target).or_default();
        for balancer in balancers {
            addresses.extend(text(balancer, "vip_address").parse::<IpAddr>().ok());
            addresses.extend(floating.get(text(balancer, "vip_port_id")).into_iter().flatten());
        }
    }
    found
}

fn guest(state: &CloudState, server: &Server, addresses: &BTreeMap<String, ServerAddresses>) -> GuestServer {
    let image = server.image.as_deref().and_then(|id| {
        let image = state.images.iter().find(|image| text(image, "id") == id)?;
        Some(text(image, "name").to_owned())
    });
    let own = addresses.get(&server.id);
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
        addresses: own.map(|own| own.fixed.clone()).unwrap_or_default(),
        floating_ips: own.map(|own| own.floating.clone()).unwrap_or_default(),
        balanced_ips: own.map(|own| own.balanced.clone()).unwrap_or_default(),
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
