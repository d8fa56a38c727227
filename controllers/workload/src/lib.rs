//! Access to workload clusters: one connection per Cluster, which all controllers share.

mod clusters;
mod connector;
mod error;

pub use clusters::{ClusterKey, Probe, WorkloadChange, WorkloadClusters};
pub use connector::{KubeconfigConnector, WorkloadConnector};
pub use error::WorkloadError;
