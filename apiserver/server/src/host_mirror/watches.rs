//! Watches of the host's roles, bindings and service accounts.

use std::collections::HashMap;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt};
use k8s_openapi::api::core::v1::ServiceAccount;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::core::PartialObjectMeta;
use kube::runtime::WatchStreamExt;
use kube::runtime::reflector::{self, Store};
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Api, Client, ResourceExt};
use serde::de::DeserializeOwned;

use super::objects::Permissions;

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

/// Progress of a watch.
#[derive(Debug, Default)]
struct Progress {
    /// True once all objects have been read.
    is_read: AtomicBool,
    /// True while the watch goes on.
    is_current: AtomicBool,
}

type Changes = BoxStream<'static, ()>;

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
        self.progress.iter().take(4).all(|kind| kind.is_read.load(Ordering::Acquire))
    }

    pub(super) fn accounts_are_read(&self) -> bool {
        self.progress.iter().skip(4).all(|kind| kind.is_read.load(Ordering::Acquire))
    }

    /// Returns true while all watches go on.
    pub(super) fn are_current(&self) -> bool {
        self.progress.iter().all(|kind| kind.is_current.load(Ordering::Acquire))
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
    let (store, writer) = reflector::store();
    let events = watcher(Api::<K>::all(client.clone()), watcher::Config::default());
    (store, progressing(events.default_backoff().modify(strip).reflect(writer), progress))
}

/// Removes what gives no permission: a copy is written to the store when it changes.
fn strip(object: &mut impl ResourceExt) {
    object.meta_mut().managed_fields = None;
    object.meta_mut().resource_version = None;
    object.meta_mut().annotations = None;
}

/// Notes the progress of a watch. The result has an item after each change, and after each error.
fn progressing<K: Send + 'static>(
    events: impl Stream<Item = Result<Event<K>, watcher::Error>> + Send + 'static,
    progress: Arc<Progress>,
) -> Changes {
    let changes = events.filter_map(move |event| {
        let is_change = !matches!(event, Ok(Event::Init | Event::InitApply(_)));
        match event {
            Ok(Event::InitDone) => {
                progress.is_read.store(true, Ordering::Release);
                progress.is_current.store(true, Ordering::Release);
            }
            Ok(Event::Apply(_) | Event::Delete(_)) => progress.is_current.store(true, Ordering::Release),
            Ok(Event::Init | Event::InitApply(_)) => {}
            Err(error) => {
                progress.is_current.store(false, Ordering::Release);
                tracing::warn!(
                    %error,
                    "the permissions of the host cluster cannot be watched, and their copy gets older; apply the output \
                     of `capstan host manifests --mirror`"
                );
            }
        }
        futures::future::ready(is_change.then_some(()))
    });
    changes.boxed()
}
