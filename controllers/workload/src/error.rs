//! Error of an access to a workload cluster.

/// Error of an access to a workload cluster. Each message names what went wrong, without the Cluster's name, which the
/// caller knows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorkloadError {
    /// There is no connection now. A change is announced when there is one.
    #[error("not connected to the workload cluster: {0}")]
    NotConnected(String),
    /// The kubeconfig cannot be used.
    #[error("the kubeconfig of the workload cluster cannot be used: {0}")]
    Kubeconfig(String),
}
