//! Watches of the host's roles, bindings and service accounts.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

use futures::StreamExt;
use futures::stream;
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::core::PartialObjectMeta;
use kube::runtime::reflector::Store;
use kube::runtime::reflector::store::Writer;
use kube::runtime::watcher;
use kube::{Api, Client, ResourceExt};
use serde::de::DeserializeOwned;

use super::objects::Permissions;
use crate::host_watch::{self, Changes, Progress, Watched};

/// All of them are watched for the same purpose.
const PERMISSIONS: Watched = Watched { what: "permissions", may_be_unknown: false, flag: "--mirror" };

/// Watches of all kinds.
pub(super) struct Watches {
    cluster_roles: Store<ClusterRole>,
    roles: Store<Role>,
    cluster_bindings: Store<ClusterRoleBinding>,
    bindings: Store<RoleBinding>,
    accounts: Store<PartialObjectMeta<ServiceAccount>>,
    /// Progress by kind. The last one is that of the service accounts.
    progress: [Arc<Progress>; 5],
}

impl Watches {
    /// Starts the watches. The streams have an item after each change: the first of permissions, the second of accounts.
    pub(super) fn start(client: &Client) -> (Self, Changes, Changes) {
        let progress: [Arc<Progress>; 5] = Default::default();
        let [first, second, third, fourth, fifth] = progress.each_ref().map(Arc::clone);
        let (cluster_roles, one) = watch(client, first);
        let (roles, two) = watch(client, second);
        let (cluster_bindings, three) = watch(client, third);
        let (bindings, four) = watch(client, fourth);
        // Of the service accounts, only the metadata are read.
        let (accounts, of_accounts) = watch(client, fifth);
        let watches = Self { cluster_roles, roles, cluster_bindings, bindings, accounts, progress };
        (watches, stream::select_all([one, two, three, four]).boxed(), of_accounts)
    }

    pub(super) fn permissions_are_read(&self) -> bool {
        self.progress.iter().take(4).all(|kind| kind.is_read())
    }

    pub(super) fn accounts_are_read(&self) -> bool {
        self.progress.iter().skip(4).all(|kind| kind.is_read())
    }

    /// Returns true while all watches go on.
    pub(super) fn are_current(&self) -> bool {
        self.progress.iter().all(|kind| kind.is_current())
    }

    pub(super) fn permissions(&self) -> Permissions {
        Permissions {
            cluster_roles: self.cluster_roles.state(),
            roles: self.roles.state(),
            cluster_bindings: self.cluster_bindings.state(),
            bindings: self.bindings.state(),
        }
    }

    /// Returns the uids of the service accounts by `namespace/name`. One that is being deleted is none any more.
    pub(super) fn accounts(&self) -> HashMap<String, String> {
        let accounts = self.accounts.state();
        let present = accounts.iter().filter(|account| account.metadata.deletion_timestamp.is_none());
        let named = present.filter_map(|account| {
            Some((format!("{}/{}", account.namespace()?, account.name_any()), account.uid()?))
        });
        named.collect()
    }
}

fn watch<K>(client: &Client, progress: Arc<Progress>) -> (Store<K>, Changes)
where
    K: kube::Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    K::DynamicType: Default + Eq + Hash + Clone + Send + Sync,
{
    let (api, writer) = (Api::all(client.clone()), Writer::default());
    host_watch::objects(api, watcher::Config::default(), writer, PERMISSIONS, progress)
}
