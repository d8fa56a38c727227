//! Changes in workload clusters, as a stream that triggers passes.

use std::fmt::Debug;

use controllers_workload::{ClusterKey, WorkloadChange, WorkloadClusters};
use futures::Stream;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Resource, ResourceExt};
use tokio::sync::broadcast::error::RecvError;

use crate::CLUSTER_NAME_LABEL;

/// Returns the changes from now on. `None` stands for changes that were missed, because the receiver was too slow.
pub(crate) fn stream(workloads: &WorkloadClusters) -> impl Stream<Item = Option<WorkloadChange>> + use<> {
    futures::stream::unfold(workloads.changes(), async |mut changes| match changes.recv().await {
        Ok(change) => Some((Some(change), changes)),
        Err(RecvError::Lagged(_)) => Some((None, changes)),
        Err(RecvError::Closed) => None,
    })
}

/// Returns the objects with the label of a Cluster; without a Cluster, all.
pub(crate) fn labelled<K>(store: &Store<K>, cluster: Option<&ClusterKey>) -> Vec<ObjectRef<K>>
where
    K: Resource<DynamicType = ()> + Clone + Debug + 'static,
{
    let concerns = |object: &K| {
        cluster.is_none_or(|key| {
            let label = object.labels().get(CLUSTER_NAME_LABEL);
            object.meta().namespace.as_ref() == Some(&key.namespace) && label == Some(&key.name)
        })
    };
    store.state_filter(concerns).iter().map(|object| ObjectRef::from_obj(&**object)).collect()
}
