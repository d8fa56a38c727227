//! Policy of the authorizer, as the roles and bindings in the store say.

use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use apiserver_access::User;
use apiserver_access::rbac::{Binding, Policy, RbacAuthorizer, Snapshot};
use apiserver_host::HostNamespaces;
use apiserver_http::{ApiServer, InProcess};
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use k8s_openapi::api::core::v1::Namespace;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, Role, RoleBinding};
use kube::runtime::reflector;
use kube::runtime::reflector::Store;
use kube::{Api, Client, ResourceExt};
use serde::de::DeserializeOwned;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::read_changes::read_changes;

use super::{IDENTITY, ProjectRoles, policy};

/// Shortest time between two snapshots. A script that creates thousands of bindings would otherwise occupy a core with
/// snapshots. A change must count within a second.
const PAUSE: Duration = Duration::from_millis(100);

/// The authorizer's policy. Clones share it.
#[derive(Debug, Clone, Default)]
pub(crate) struct RbacPolicy {
    authorizer: Arc<RbacAuthorizer>,
    is_read: Arc<AtomicBool>,
}

impl RbacPolicy {
    /// Returns the authorizer that decides by this policy.
    pub(crate) fn authorizer(&self) -> Arc<RbacAuthorizer> {
        Arc::clone(&self.authorizer)
    }

    /// Returns true once the roles and bindings have been read.
    pub(crate) fn is_read(&self) -> bool {
        self.is_read.load(Ordering::Acquire)
    }

    /// Applies the roles and bindings and each change of them, until `shutdown`. While they cannot be read, the last
    /// ones apply.
    /// The namespaces of a host cluster count beside the server's own ones.
    pub(crate) async fn follow(
        self,
        server: Arc<ApiServer>,
        projects: ProjectRoles,
        host: Option<HostNamespaces>,
        shutdown: CancellationToken,
    ) {
        let client = Client::new(InProcess::new(server, User::controller(IDENTITY)), "default");
        let (objects, mut changes) = Objects::watch(&client, projects, host);
        let mut last: Option<Instant> = None;
        while let Some(Some(())) = shutdown.run_until_cancelled(changes.next()).await {
            if !objects.are_read() {
                continue;
            }
            if let Some(last) = last {
                let pause = tokio::time::sleep_until(last + PAUSE);
                if shutdown.run_until_cancelled(pause).await.is_none() {
                    return;
                }
            }
            // Changes during the pause are in the snapshot, too.
            while let Some(Some(())) = futures::FutureExt::now_or_never(changes.next()) {}
            self.authorizer.set(Snapshot::new(objects.policy()));
            self.is_read.store(true, Ordering::Release);
            last = Some(Instant::now());
        }
    }
}

/// The stored objects, as the watches have read them.
struct Objects {
    cluster_roles: Store<ClusterRole>,
    roles: Store<Role>,
    cluster_bindings: Store<ClusterRoleBinding>,
    bindings: Store<RoleBinding>,
    namespaces: Store<Namespace>,
    /// Namespaces of the host cluster, if there is one.
    host: Option<HostNamespaces>,
    projects: ProjectRoles,
    /// For each kind: true once its objects have been read.
    read: [Arc<AtomicBool>; 5],
}

impl Objects {
    /// Starts to watch all kinds. Each item of the stream is a change.
    fn watch(
        client: &Client,
        projects: ProjectRoles,
        host: Option<HostNamespaces>,
    ) -> (Self, BoxStream<'static, ()>) {
        let read: [Arc<AtomicBool>; 5] = Default::default();
        let [first, second, third, fourth, fifth] = read.each_ref().map(Arc::clone);
        let (cluster_roles, one) = watch(client, first);
        let (roles, two) = watch(client, second);
        let (cluster_bindings, three) = watch(client, third);
        let (bindings, four) = watch(client, fourth);
        let (namespaces, five) = watch(client, fifth);
        let of_host = host.as_ref().map_or_else(|| stream::pending().boxed(), changes_of_host);
        let objects =
            Self { cluster_roles, roles, cluster_bindings, bindings, namespaces, host, projects, read };
        (objects, stream::select_all([one, two, three, four, five, of_host]).boxed())
    }

    fn are_read(&self) -> bool {
        self.read.iter().all(|read| read.load(Ordering::Acquire))
    }

    fn policy(&self) -> Policy {
        let cluster_roles = self.cluster_roles.state();
        let roles = self.roles.state();
        let cluster_bindings = self.cluster_bindings.state();
        let bindings = self.bindings.state();
        let of_cluster = cluster_roles.iter().map(|role| policy::role(&**role, role.rules.as_ref()));
        let local = roles.iter().map(|role| policy::role(&**role, role.rules.as_ref()));
        let everywhere =
            cluster_bindings.iter().map(|it| policy::binding(&**it, &it.role_ref, it.subjects.as_ref()));
        let in_one = bindings.iter().map(|it| policy::binding(&**it, &it.role_ref, it.subjects.as_ref()));
        let bindings = everywhere.chain(in_one).chain(self.of_projects());
        Policy { roles: of_cluster.chain(local).collect(), bindings: bindings.collect() }
    }

    /// Returns the bindings of Keystone's projects in their namespaces.
    fn of_projects(&self) -> Vec<Binding> {
        let own = self.namespaces.state();
        let own = own.iter().map(|it| self.projects.bindings(&it.name_any(), it.metadata.labels.as_ref()));
        let host = self.host.as_ref().map(HostNamespaces::snapshot).unwrap_or_default();
        let host = host.into_iter().map(|(name, object)| {
            let labels = object.pointer("/metadata/labels").cloned().unwrap_or_default();
            self.projects.bindings(&name, serde_json::from_value(labels).ok().as_ref())
        });
        own.chain(host).flatten().collect()
    }
}

/// Returns the changes of the host's namespaces, the present ones first.
fn changes_of_host(host: &HostNamespaces) -> BoxStream<'static, ()> {
    let changes = host.changes();
    stream::unfold((changes, true), |(mut changes, is_first)| async move {
        if !is_first {
            changes.changed().await.ok()?;
        }
        changes.borrow_and_update();
        Some(((), (changes, false)))
    })
    .boxed()
}

/// Watches one kind. `read` is set once its objects have been read.
fn watch<K>(client: &Client, read: Arc<AtomicBool>) -> (Store<K>, BoxStream<'static, ()>)
where
    K: kube::Resource + Clone + DeserializeOwned + Debug + Send + Sync + 'static,
    K::DynamicType: Default + Eq + Hash + Clone + Send + Sync,
{
    let (store, writer) = reflector::store();
    let changes = read_changes(Api::all(client.clone()), writer, read, "roles and bindings");
    (store, changes)
}
