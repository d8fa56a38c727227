//! Host cluster as a source of configurations: those that apply, and what a write needs to know about the host.

mod cluster;
mod division;
mod parameters;

pub use cluster::{HostCluster, HostContact, HostService};
pub use division::HostConfigurations;
pub use parameters::HostParameters;
pub(crate) use parameters::is_config_map;
