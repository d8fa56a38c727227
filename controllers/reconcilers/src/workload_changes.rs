//! Changes in workload clusters, as a stream that triggers passes.

use controllers_workload::{WorkloadChange, WorkloadClusters};
use futures::Stream;
use tokio::sync::broadcast::error::RecvError;

/// Returns the changes from now on. `None` stands for changes that were missed, because the receiver was too slow.
pub(crate) fn stream(workloads: &WorkloadClusters) -> impl Stream<Item = Option<WorkloadChange>> + use<> {
    futures::stream::unfold(workloads.changes(), async |mut changes| match changes.recv().await {
        Ok(change) => Some((Some(change), changes)),
        Err(RecvError::Lagged(_)) => Some((None, changes)),
        Err(RecvError::Closed) => None,
    })
}
