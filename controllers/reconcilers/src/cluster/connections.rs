//! End of the connections to workload clusters whose Cluster is gone without a pass. Another client has removed its
//! finalizer, for example to move the Cluster to another installation.

use std::time::Duration;

use apiserver_types::Cluster;
use controllers_workload::{ClusterKey, WorkloadClusters};
use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Api, Client};

/// Interval of the search, by which a connection outlives its Cluster at most.
const PERIOD: Duration = Duration::from_mins(1);

/// Ends connections without a Cluster, again and again. Never returns.
///
/// Cancel safety: may be dropped at any moment.
pub(super) async fn end_without_cluster(
    client: &Client,
    workloads: &WorkloadClusters,
    known: &Store<Cluster>,
) {
    loop {
        tokio::time::sleep(PERIOD).await;
        let is_known = |key: &ClusterKey| known.get(&reference(key)).is_some();
        let unknown = workloads.followed().into_iter().filter(|key| !is_known(key)).collect();
        end(client, workloads, unknown).await;
    }
}

fn reference(key: &ClusterKey) -> ObjectRef<Cluster> {
    ObjectRef::new(&key.name).within(&key.namespace)
}

/// Ends the connections to those of these clusters whose Cluster does not exist. The watch may be late, so only the
/// answer of the API counts.
async fn end(client: &Client, workloads: &WorkloadClusters, unknown: Vec<ClusterKey>) {
    for key in unknown {
        let api: Api<Cluster> = Api::namespaced(client.clone(), &key.namespace);
        if matches!(api.get_opt(&key.name).await, Ok(None)) {
            workloads.forget(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::api_in_memory::FakeApi;

    #[tokio::test]
    async fn a_connection_ends_with_its_cluster_whatever_the_watch_says() {
        const CLUSTERS: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/clusters";
        let api = FakeApi::default();
        for name in ["here", "gone", "silent"] {
            api.put(&format!("{CLUSTERS}/{name}"), json!({"spec": {}}));
        }
        let context = api.context("cluster-controller");
        let key = |name: &str| ClusterKey { namespace: "ns".to_owned(), name: name.to_owned() };
        let all = || ["here", "gone", "silent"].map(key).to_vec();
        for key in all() {
            context.workloads.follow(&key, b"kubeconfig");
        }
        let followed = || {
            let mut found = context.workloads.followed();
            found.sort();
            found
        };
        end(&context.client, &context.workloads, all()).await;
        assert_eq!(followed(), [key("gone"), key("here"), key("silent")]);
        api.remove(&format!("{CLUSTERS}/gone"));
        api.remove(&format!("{CLUSTERS}/silent"));
        let silent = format!("{CLUSTERS}/silent");
        api.silence(Some(&silent));
        end(&context.client, &context.workloads, all()).await;
        assert_eq!(followed(), [key("here"), key("silent")], "an error says nothing");
    }
}
