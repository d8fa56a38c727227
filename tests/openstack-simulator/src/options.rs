//! How a simulator is set up.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::time::Duration;

/// Settings of one simulator. The defaults suit tests: fast, but never instant.
#[derive(Debug, Clone)]
pub struct SimulatorOptions {
    /// Where to listen. Port 0 takes any free port.
    pub listen: SocketAddr,
    /// Where to keep the whole state as JSON. Nothing is kept without it.
    pub state_file: Option<PathBuf>,
    /// How long each call takes before anything happens.
    pub latency: Duration,
    /// From the create call of a server to ACTIVE.
    pub build_time: Duration,
    /// From the reboot call of a server to ACTIVE.
    pub reboot_time: Duration,
    /// From the rebuild call of a server to ACTIVE.
    pub rebuild_time: Duration,
    /// From the start or stop call of a server to its end.
    pub power_time: Duration,
    /// From the delete call of a server to its being gone.
    pub delete_time: Duration,
    /// How long a volume is creating, and how long deleting.
    pub volume_time: Duration,
    /// How long tokens are good.
    pub token_lifetime: Duration,
}

impl Default for SimulatorOptions {
    fn default() -> Self {
        Self {
            listen: SocketAddr::from((Ipv4Addr::LOCALHOST, 0)),
            state_file: None,
            latency: Duration::ZERO,
            build_time: Duration::from_millis(300),
            reboot_time: Duration::from_secs(1),
            rebuild_time: Duration::from_millis(500),
            power_time: Duration::from_millis(300),
            delete_time: Duration::from_millis(300),
            volume_time: Duration::from_millis(200),
            token_lifetime: Duration::from_secs(4 * 60 * 60),
        }
    }
}
