//! Access to workload clusters: one connection per Cluster, which all controllers share.

mod clusters;
mod connector;
pub mod drain;
mod drive;
mod error;
pub mod etcd;
mod followed;
pub mod health;
mod limits;
mod nodes;
mod timing;

pub use clusters::{ClusterKey, Probe, WorkloadChange, WorkloadClusters};
pub use connector::{KubeconfigConnector, WorkloadConnector};
pub use error::{WorkloadError, describe, found};
pub use timing::Timing;
