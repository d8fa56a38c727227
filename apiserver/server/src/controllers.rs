//! The controllers, started in this process while it is the elected one.

use std::fmt;
use std::sync::Arc;

use apiserver_access::User;
use apiserver_host::{HostEvents, HostSecrets};
use apiserver_http::{ApiServer, InProcess};
use apiserver_machinery::resource::Resource;
use async_trait::async_trait;
use controllers_infrastructure::CloudConnector;
use controllers_infrastructure_openstack::OpenStackConnector;
use controllers_operations::{OperationContext, SystemClock};
use controllers_reconcilers::{
    CollectedKind, GarbageCollector, cluster, event_expiry, machine, namespace, openstack_cluster,
    openstack_machine,
};
use controllers_runtime::{ApiSecrets, ControllerContext, Queues, Recorder, SecretSource, ServerLists};
use k8s_openapi::api::core::v1::Secret;
use kube::Client;
use kube::api::ApiResource;
use tokio::task::{JoinHandle, JoinSet};
use tokio_util::sync::CancellationToken;

use crate::election::{self, Election, Timing};

/// Group of all our own controllers; no certificate or token can bring it.
const GROUP: &str = "system:capstan:controllers";

/// Has them run here whenever this server is elected; `alone`: nobody else can use its store. Ends after `shutdown`, when all of them have
/// ended and the Lease is given back.
pub(crate) fn start(
    server: &Arc<ApiServer>,
    host: Option<Client>,
    alone: bool,
    queues: Queues,
    shutdown: &CancellationToken,
) -> JoinHandle<()> {
    let clients = Clients(Arc::clone(server));
    let election =
        Election::new(clients.of("leader-election"), election::identity(), Timing::default()).alone(alone);
    let elected = move |term: CancellationToken| start_controllers(&clients, host.as_ref(), &queues, &term);
    tokio::spawn(election.run(shutdown.clone(), elected))
}

/// Every controller. To add one, add its line: it is given the client of its own identity, and ends
/// when `term` is cancelled.
fn start_controllers(
    clients: &Clients,
    host: Option<&Client>,
    queues: &Queues,
    term: &CancellationToken,
) -> JoinSet<()> {
    let around = Surroundings::new(clients, host, queues);
    let mut running = JoinSet::new();
    let collector = GarbageCollector::new(clients.of("garbage-collector"), clients.collected(), queues);
    running.spawn(collector.run(term.clone()));
    running.spawn(event_expiry::run(clients.of("event-expiry"), term.clone()));
    running.spawn(cluster::run(around.context("cluster-controller"), term.clone()));
    running.spawn(machine::run(around.context("machine-controller"), term.clone()));
    running.spawn(openstack_cluster::run(around.context("openstackcluster-controller"), term.clone()));
    running.spawn(openstack_machine::run(around.context("openstackmachine-controller"), term.clone()));
    running
        .spawn(controllers_operations::run(around.operations("machineoperation-controller"), term.clone()));
    match host {
        Some(host) => {
            running.spawn(HostEvents::new(clients.of("host-events"), host.clone()).run(term.clone()));
        }
        // A host empties its namespaces itself.
        None => {
            let kinds = clients.namespaced();
            let (client, queues) = (clients.of("namespace-controller"), queues.clone());
            running.spawn(namespace::run(client, kinds, queues, term.clone()));
        }
    }
    running
}

/// What controllers that work in a cloud share: sessions, server lists, copies of the host's Secrets.
struct Surroundings<'a> {
    clients: &'a Clients,
    connector: Arc<dyn CloudConnector>,
    servers: Arc<ServerLists>,
    host: Option<HostSecrets>,
    queues: Queues,
}

impl<'a> Surroundings<'a> {
    fn new(clients: &'a Clients, host: Option<&Client>, queues: &Queues) -> Self {
        // Each controller asks our own store as itself; this client is replaced by theirs.
        let own = clients.of("machine-controller");
        Self {
            clients,
            connector: Arc::new(OpenStackConnector::new()),
            servers: Arc::default(),
            queues: queues.clone(),
            host: host.map(|host| HostSecrets::new(host.clone(), own)),
        }
    }

    fn secrets(&self, client: &Client) -> Arc<dyn SecretSource> {
        match &self.host {
            Some(host) => Arc::new(Secrets(host.asking_as(client.clone()))),
            None => Arc::new(ApiSecrets(client.clone())),
        }
    }

    fn context(&self, controller: &'static str) -> ControllerContext {
        let client = self.clients.of(controller);
        ControllerContext {
            connector: Arc::clone(&self.connector),
            secrets: self.secrets(&client),
            servers: Arc::clone(&self.servers),
            events: Recorder::new(client.clone(), controller),
            queues: self.queues.clone(),
            client,
        }
    }

    fn operations(&self, controller: &'static str) -> OperationContext {
        let client = self.clients.of(controller);
        OperationContext {
            connector: Arc::clone(&self.connector),
            secrets: self.secrets(&client),
            clock: Arc::new(SystemClock),
            queues: self.queues.clone(),
            client,
        }
    }
}

/// The host's Secrets as controllers ask for them.
struct Secrets(HostSecrets);

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}

#[async_trait]
impl SecretSource for Secrets {
    async fn secret(&self, namespace: &str, name: &str) -> Result<Option<Secret>, kube::Error> {
        self.0.secret(namespace, name).await
    }
}

/// Makes clients that come in by the front door.
struct Clients(Arc<ApiServer>);

impl Clients {
    /// A client of one controller, with that controller's permissions.
    fn of(&self, controller: &str) -> Client {
        let user = User::authenticated(format!("system:capstan:{controller}"), [GROUP.to_owned()]);
        Client::new(InProcess::new(Arc::clone(&self.0), user), "default")
    }

    /// The namespaced kinds, each in its stored version.
    fn namespaced(&self) -> Vec<ApiResource> {
        let stored = self.0.registry().stored().iter();
        stored.filter(|resource| resource.namespaced).map(|resource| api_resource(resource)).collect()
    }

    /// All kinds, and in which versions they are served.
    fn collected(&self) -> Vec<CollectedKind> {
        let registry = self.0.registry();
        let versions = |kind: &Resource| {
            let all = registry.resources().iter();
            let of_kind = all.filter(|other| other.group == kind.group && other.kind == kind.kind);
            of_kind.map(|other| other.version.clone()).collect()
        };
        let kinds = registry.stored().iter().map(|kind| CollectedKind {
            resource: api_resource(kind),
            namespaced: kind.namespaced,
            versions: versions(kind),
        });
        kinds.collect()
    }
}

fn api_resource(resource: &Resource) -> ApiResource {
    ApiResource {
        group: resource.group.clone(),
        version: resource.version.clone(),
        api_version: resource.api_version(),
        kind: resource.kind.clone(),
        plural: resource.plural.clone(),
    }
}
