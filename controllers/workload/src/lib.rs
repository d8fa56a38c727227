//! Access to workload clusters: one connection per Cluster, which all controllers share.

mod api_server_certificate;
mod authority;
mod clusters;
mod connector;
pub mod drain;
mod drive;
mod error;
pub mod etcd;
mod followed;
mod forward;
pub mod health;
mod limits;
mod nodes;
mod request_rate;
mod timing;

pub use api_server_certificate::api_server_certificates;
pub use clusters::{ClusterKey, Probe, WorkloadChange, WorkloadClusters};
pub use connector::{KubeconfigConnector, WorkloadConnector};
pub use error::{WorkloadError, describe, found};
pub use request_rate::RequestRate;
pub use timing::Timing;
