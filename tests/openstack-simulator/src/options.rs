//! Options of a simulator.

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Settings of one simulator. The defaults suit tests: short durations, but never zero.
#[derive(Debug, Clone)]
pub struct SimulatorOptions {
    /// Address to listen on. Port 0 takes any free port.
    pub listen: SocketAddr,
    /// File for the whole state, as JSON. Without it the state is not saved.
    pub state_file: Option<PathBuf>,
    /// Duration of each call before its effect.
    pub latency: Duration,
    /// Time from the create call of a server to ACTIVE.
    pub build_time: Duration,
    /// Time from the reboot call of a server to ACTIVE.
    pub reboot_time: Duration,
    /// Time from the call of a soft reboot to ACTIVE, if another: a guest that does not react makes it long.
    pub soft_reboot_time: Option<Duration>,
    /// Time from the rebuild call of a server to ACTIVE.
    pub rebuild_time: Duration,
    /// Time from the start or stop call of a server to its end.
    pub power_time: Duration,
    /// Time from the delete call of a server until it is gone.
    pub delete_time: Duration,
    /// Duration of the creation of a volume, and of its deletion.
    pub volume_time: Duration,
    /// Duration of every change of a load balancer or of its parts.
    pub load_balancer_time: Duration,
    /// Durations of the changes of one provider, which precede `load_balancer_time`.
    pub load_balancer_times: BTreeMap<String, Duration>,
    /// Newest minor version of Octavia's API. An older one has fewer attributes and calls.
    pub load_balancer_minor: u32,
    /// Nova attaches volumes of other availability zones than that of the server.
    pub cross_zone_attachment: bool,
    /// Cinder lets users filter volumes by metadata. Otherwise it ignores the filter.
    pub volume_metadata_filter: bool,
    /// The cloud has Manila.
    pub shared_file_systems: bool,
    /// Neutron has the extension `port-trusted-vif`.
    pub trusted_ports: bool,
    /// Logins in a row with a wrong password after which Keystone locks the user. Without it, it locks none.
    pub lockout_attempts: Option<u32>,
    /// Lifetime of tokens.
    pub token_lifetime: Duration,
    /// URL of a Swift that the catalog names, before the id of the project, e.g. `http://127.0.0.1:8080/v1/AUTH_`. The
    /// simulator has none of its own.
    pub object_store: Option<String>,
    /// IPv4 range of the external network, at least a /28. A new state takes it; a loaded one keeps its own.
    /// A range of loopback addresses lets a test listen on floating IPs.
    pub external_cidr: String,
}

impl Default for SimulatorOptions {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            state_file: None,
            latency: Duration::ZERO,
            build_time: Duration::from_millis(300),
            reboot_time: Duration::from_secs(1),
            soft_reboot_time: None,
            rebuild_time: Duration::from_millis(500),
            power_time: Duration::from_millis(300),
            delete_time: Duration::from_millis(300),
            volume_time: Duration::from_millis(200),
            load_balancer_time: Duration::from_millis(200),
            load_balancer_times: BTreeMap::new(),
            // That of the Zed release.
            load_balancer_minor: 26,
            cross_zone_attachment: true,
            volume_metadata_filter: true,
            shared_file_systems: true,
            trusted_ports: false,
            lockout_attempts: None,
            token_lifetime: Duration::from_secs(4 * 60 * 60),
            object_store: None,
            external_cidr: "172.24.0.0/20".to_owned(),
        }
    }
}
