//! Shares that the Manila CSI driver of the workload cluster made.
//!
//! They hold data, so they stay when the cluster is deleted, and Events name them. Nodes mount a share over the network, so
//! no server shows that a share is the cluster's. Only the id that the driver writes on it does, and several workload
//! clusters may have the same one. That is enough to name a share, and not enough to delete it.

use std::sync::Arc;

use apiserver_types::OpenStackCluster;
use controllers_infrastructure::{Cloud, Share};
use controllers_runtime::ReconcileError;

use super::csi_volumes::{claim, listed};
use super::workload_notes::WorkloadNotes;

/// Metadata of the driver's shares: the id that it has for the workload cluster.
const CLUSTER: &str = "manila.csi.openstack.org/cluster";

/// Shares of a cluster that is being deleted. All of them stay.
#[derive(Debug, Default, PartialEq)]
pub(super) struct CsiShares {
    /// Id that the driver has for the workload cluster.
    cluster: String,
    shares: Vec<Share>,
}

impl CsiShares {
    /// Returns true if there are none.
    pub(super) fn is_empty(&self) -> bool {
        self.shares.is_empty()
    }

    /// Describes the shares that stay.
    pub(super) fn kept_text(&self) -> String {
        let one = |share: &Share| {
            let claim = claim(&share.metadata);
            format!("{} ({}, {} GiB{claim})", share.name, share.id, share.size_gib)
        };
        format!(
            "shares of the Manila CSI driver with cluster id {}: {}. They hold data, and another workload cluster may have \
             the same id",
            self.cluster,
            listed(&self.shares, one)
        )
    }
}

/// Returns the id that the driver has for the workload cluster. An empty one is on the shares of no cluster.
fn cluster(object: &OpenStackCluster) -> Option<String> {
    WorkloadNotes::read(object).manila_name.filter(|name| !name.is_empty())
}

/// Returns true if shares of the cluster may exist.
pub(super) fn may_exist(object: &OpenStackCluster) -> bool {
    cluster(object).is_some()
}

/// Finds the shares of a cluster that is being deleted. Without the id of the cluster it makes no call.
pub(super) async fn find(
    cloud: &Arc<dyn Cloud>,
    object: &OpenStackCluster,
) -> Result<CsiShares, ReconcileError> {
    match cluster(object) {
        Some(cluster) => Ok(own(cloud.shares().await?, cluster)),
        None => Ok(CsiShares::default()),
    }
}

/// Returns the shares with the id of the cluster. Pure.
fn own(found: Vec<Share>, cluster: String) -> CsiShares {
    // The driver may still delete some of them.
    let stays = |share: &Share| share.metadata.get(CLUSTER) == Some(&cluster) && share.status != "deleting";
    let shares = found.into_iter().filter(stays).collect();
    CsiShares { cluster, shares }
}

/// Returns shares of a cluster with these ids.
#[cfg(test)]
pub(super) fn examples(cluster: &str, ids: &[&str]) -> CsiShares {
    let share = |id: &&str| Share {
        id: (*id).to_owned(),
        name: (*id).to_owned(),
        metadata: [(CLUSTER.to_owned(), cluster.to_owned())].into(),
        size_gib: 5,
        status: "available".to_owned(),
    };
    CsiShares { cluster: cluster.to_owned(), shares: ids.iter().map(share).collect() }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use kube::ResourceExt;
    use serde_json::json;

    use super::*;

    fn share(id: &str, cluster: &str) -> Share {
        examples(cluster, &[id]).shares.remove(0)
    }

    #[test]
    fn r17_3_a_share_is_named_if_it_has_the_id_of_the_cluster_and_stays() {
        let leaving = Share { status: "deleting".to_owned(), ..share("d", "blue") };
        let foreign = Share { metadata: BTreeMap::new(), ..share("c", "blue") };
        let mut claimed = share("e", "blue");
        claimed.metadata.insert("csi.storage.k8s.io/pvc/namespace".to_owned(), "default".to_owned());
        claimed.metadata.insert("csi.storage.k8s.io/pvc/name".to_owned(), "data".to_owned());
        let all = vec![share("a", "blue"), share("b", "blue2"), foreign, leaving, claimed];
        let text = own(all, "blue".to_owned()).kept_text();
        let expected = "shares of the Manila CSI driver with cluster id blue: a (a, 5 GiB), e (e, 5 GiB, claim \
            default/data). They hold data, and another workload cluster may have the same id";
        assert_eq!(text, expected);
        assert!(own(vec![share("b", "blue2")], "blue".to_owned()).is_empty());
    }

    #[test]
    fn r17_3_without_the_id_of_the_cluster_shares_are_not_looked_for() {
        let spec = json!({"identityRef": {"name": "s", "cloudName": "c"}});
        let mut object = OpenStackCluster::new("c", serde_json::from_value(spec).unwrap());
        assert!(!may_exist(&object));
        for (notes, expected) in
            [(r#"{"csi":"blue"}"#, false), (r#"{"manila":""}"#, false), (r#"{"manila":"blue"}"#, true)]
        {
            object.annotations_mut().insert("capstan.dev/workload".to_owned(), notes.to_owned());
            assert_eq!(may_exist(&object), expected, "{notes}");
        }
    }
}
