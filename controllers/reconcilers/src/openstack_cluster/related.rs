//! Objects that a pass over a cluster depends on. A change of them makes a settled cluster due.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use apiserver_types::{OpenStackCluster, OpenStackServer};
use kube::{Api, Client, ResourceExt};

use super::balancer::Backend;
use super::balancer::backends::backends;
use super::{cluster_name, has_load_balancer};

/// Other objects of one cluster.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct RelatedObjects {
    /// Machines that are members of its load balancer.
    backends: Vec<Backend>,
    /// Uid and revision of the OpenStackServer of its bastion.
    bastion: Option<(String, String)>,
}

/// Reads the other objects of a cluster; `None` if its passes depend on none.
pub(super) async fn find(
    client: &Client,
    object: &OpenStackCluster,
) -> Result<Option<RelatedObjects>, kube::Error> {
    let Some(cluster) = cluster_name(object) else { return Ok(None) };
    let namespace = object.namespace().unwrap_or_default();
    let (balanced, bastion) = (has_load_balancer(object), object.spec.bastion.is_some());
    if !balanced && !bastion {
        return Ok(None);
    }
    let mut related = RelatedObjects::default();
    if balanced {
        related.backends = backends(client, &namespace, &cluster).await?;
    }
    if bastion {
        let api: Api<OpenStackServer> = Api::namespaced(client.clone(), &namespace);
        let server = api.get_opt(&format!("{cluster}-bastion")).await?;
        related.bastion = server
            .map(|server| (server.uid().unwrap_or_default(), server.resource_version().unwrap_or_default()));
    }
    Ok(Some(related))
}

/// Other objects that the last pass of each cluster has read.
#[derive(Debug, Default)]
pub(super) struct ObservedRelated(Mutex<HashMap<String, RelatedObjects>>);

impl ObservedRelated {
    /// Records the other objects of a cluster. Returns true if they are not those of the last pass.
    pub(super) fn changed(&self, cluster: &str, related: RelatedObjects) -> bool {
        let mut observed = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if observed.get(cluster) == Some(&related) {
            return false;
        }
        observed.insert(cluster.to_owned(), related);
        true
    }

    /// Forgets a cluster that does not exist any more.
    pub(super) fn forget(&self, cluster: &str) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(cluster);
    }
}
