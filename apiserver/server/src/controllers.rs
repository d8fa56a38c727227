//! Controllers of this process, which run while this replica is the leader.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use apiserver_access::{Grant, LocalPolicy, User};
use apiserver_host::HostSecrets;
use apiserver_http::{ApiServer, InProcess, Supervisor};
use apiserver_machinery::resource::Resource;
use async_trait::async_trait;
use controllers_infrastructure::CloudConnector;
use controllers_infrastructure_openstack::{AllowedEndpoints, CloudMetrics, OpenStackConnector};
use controllers_reconcilers::{bootstrap_data, machine, planner};
use controllers_runtime::{
    ApiSecrets, ControllerContext, ControllerSettings, ControllerSpec, EventHolds, NoEventHolds, PolicyRule,
    Queues, Recorder, SecretSource, ServedKind, ServerLists, TermStart, is_object_name,
};
use controllers_workload::{KubeconfigConnector, RequestRate, Timing, WorkloadClusters};
use k8s_openapi::api::core::v1::{Namespace, Secret};
use kube::Client;
use kube::api::ApiResource;
use tokio::sync::oneshot;
use tokio::task::JoinSet;

use crate::admission::policy_status;
use crate::backup::Backups;
use crate::bootstrap_data::BootstrapDataListener;
use crate::election::{self, Election, ElectionMetrics, Term};
use crate::host::Host;
use crate::host_mirror::announce;
use crate::host_objects::ObjectReferences;
use crate::host_outbox::{self, HostOutbox};
use crate::host_own_objects::KeptInHost;
use crate::quotas::QuotaStatus;
use crate::serve::upkeep::Upkeep;
use crate::storage_history::HistoryNumber;
use crate::{
    admission, authorities, certificate_signer, certificate_uses, host_copies, quotas, rbac, revocations,
};

/// Parts of the server that the controllers use.
pub(crate) struct ControllerParts {
    /// Host cluster.
    pub(crate) host: Option<Arc<Host>>,
    /// Capstan's own objects in the host, if Capstan keeps them.
    pub(crate) kept_in_host: Option<KeptInHost>,
    /// Metrics of queues.
    pub(crate) queues: Queues,
    /// Listener for bootstrap data.
    pub(crate) bootstrap_data: Option<Arc<BootstrapDataListener>>,
    /// Largest rate of the requests to each workload cluster.
    pub(crate) rate: RequestRate,
    /// Settings of the operator.
    pub(crate) settings: Arc<ControllerSettings>,
    /// Connections to clouds.
    pub(crate) cloud: CloudParts,
    /// Metrics of the election.
    pub(crate) election_metrics: ElectionMetrics,
    /// Scheduled backups.
    pub(crate) backups: Option<Arc<Backups>>,
    /// Upkeep of the store.
    pub(crate) upkeep: Upkeep,
}

/// Settings and metrics of the connections to clouds.
pub(crate) struct CloudParts {
    /// Metrics of the calls.
    pub(crate) metrics: CloudMetrics,
    /// Endpoints that the credentials of users may name.
    pub(crate) allowed: AllowedEndpoints,
}

/// Runs the controllers here whenever this server is elected. `shared_store`: the history of the store, if other
/// servers can use it, too. The receiver gets a value after shutdown, when all controllers have ended and the Lease is
/// released.
pub(crate) fn start(
    server: &Arc<ApiServer>,
    parts: ControllerParts,
    shared_store: Option<HistoryNumber>,
    supervisor: &Supervisor,
) -> oneshot::Receiver<()> {
    let clients = Clients(Arc::clone(server));
    let election =
        Election::new(clients.of(election::IDENTITY), election::identity(), election::Timing::default())
            .sharing(shared_store)
            .counting_restarts(supervisor.restart_counter("controllers"))
            .with_metrics(parts.election_metrics.clone());
    let shutdown = supervisor.shutdown().clone();
    let (ended, end) = oneshot::channel();
    let elected = move |term: Term| start_controllers(&clients, &parts, &term);
    supervisor.spawn("controllers", async move {
        election.run(shutdown, elected).await;
        let _ = ended.send(());
    });
    end
}

/// Every controller. To add one, add its line to [`controllers_reconcilers::ALL`].
fn all() -> impl Iterator<Item = &'static ControllerSpec> {
    controllers_reconcilers::ALL.iter().chain([&controllers_operations::CONTROLLER])
}

/// Returns the local policy with the permissions of every identity of this process.
pub(crate) fn local_policy() -> LocalPolicy {
    let controllers = all().map(|controller| (controller.identity, controller.rules));
    let machines = (bootstrap_data::IDENTITY, bootstrap_data::RULES);
    let plans = (planner::IDENTITY, planner::RULES);
    let own = [
        (election::IDENTITY, election::RULES),
        (rbac::IDENTITY, rbac::RULES),
        (revocations::IDENTITY, revocations::RULES),
        (admission::IDENTITY, admission::RULES),
        (authorities::IDENTITY, authorities::RULES),
        (certificate_signer::IDENTITY, certificate_signer::RULES),
        (certificate_uses::IDENTITY, certificate_uses::RULES),
        (announce::IDENTITY, announce::RULES),
        (quotas::IDENTITY, quotas::RULES),
        (policy_status::IDENTITY, policy_status::RULES),
    ];
    let identities = controllers.chain(host_outbox::IDENTITIES).chain([machines, plans]).chain(own);
    let grants = identities.flat_map(|(identity, rules)| {
        let rules = rules.iter().chain([&PolicyRule::EVENTS, &PolicyRule::USE_IDENTITIES]);
        rules.map(move |rule| Grant {
            identity,
            groups: rule.groups,
            resources: rule.resources,
            verbs: rule.verbs,
        })
    });
    LocalPolicy::new(grants)
}

/// Starts the controllers. Each has the client of its own identity, and ends with the term.
fn start_controllers(clients: &Clients, parts: &ControllerParts, term: &Term) -> JoinSet<()> {
    let outbox = parts.host.as_ref().map(|host| {
        let clients = host_outbox::IDENTITIES.map(|(identity, _)| clients.of(identity));
        HostOutbox::new(clients, host, term.permit(), parts.kept_in_host.clone())
    });
    let shared = Shared::new(clients, parts, term, outbox.as_ref());
    let term = &term.end;
    let mut running = JoinSet::new();
    for controller in all() {
        running.spawn((controller.run)(shared.context(controller.identity), term.clone()));
    }
    let (workloads, end) = (Arc::clone(&shared.workloads), term.clone());
    running.spawn(async move { workloads.run(end).await });
    let quotas = QuotaStatus::new(Arc::clone(&clients.0), clients.of(quotas::IDENTITY));
    running.spawn(quotas.run(term.clone()));
    let (kinds, client) = (Arc::clone(clients.0.registry()), clients.of(policy_status::IDENTITY));
    running.spawn(policy_status::keep(kinds, client, term.clone()));
    if let Some(listener) = &parts.bootstrap_data {
        let context = shared.context(bootstrap_data::IDENTITY);
        running.spawn(Arc::clone(listener).run(context, term.clone()));
    }
    if let Some(backups) = &parts.backups {
        running.spawn(Arc::clone(backups).run(term.clone()));
    }
    parts.upkeep.lead(Arc::clone(clients.0.registry()), term, &mut running);
    if let Some(outbox) = outbox {
        running.spawn(outbox.run(term.clone()));
    }
    if let Some(host) = &parts.host {
        running.spawn(host_copies::keep(Arc::new(host.copies()), host.originals(), term.clone()));
    }
    if let Some(secrets) = &shared.host {
        let secrets = secrets.asking_as(clients.of(host_outbox::SECRETS.0));
        let users = ObjectReferences::new(Arc::clone(clients.0.objects()));
        let end = term.clone();
        running.spawn(async move {
            let _ = end.run_until_cancelled(secrets.keep_copies(&users)).await;
        });
    }
    running
}

/// Returns the connections to the workload clusters, as the operator set them.
fn workloads(parts: &ControllerParts) -> WorkloadClusters {
    let ControllerSettings { connection_grace, conditions_grace, .. } = *parts.settings;
    let timing = Timing { ages: [connection_grace, conditions_grace], ..Timing::default() };
    WorkloadClusters::with_timing(Arc::new(KubeconfigConnector { rate: parts.rate }), timing)
}

/// Sessions, server lists and copies of the host's Secrets, which all controllers share.
struct Shared<'a> {
    clients: &'a Clients,
    connector: Arc<dyn CloudConnector>,
    servers: Arc<ServerLists>,
    workloads: Arc<WorkloadClusters>,
    host: Option<HostSecrets>,
    event_holds: Arc<dyn EventHolds>,
    queues: Queues,
    kinds: Arc<[ServedKind]>,
    settings: Arc<ControllerSettings>,
    term: TermStart,
}

impl<'a> Shared<'a> {
    fn new(clients: &'a Clients, parts: &ControllerParts, term: &Term, outbox: Option<&HostOutbox>) -> Self {
        // Each controller reads Capstan's own API with its own identity: its client replaces this one.
        let own = clients.of(machine::CONTROLLER.identity);
        let connector = OpenStackConnector::new(parts.cloud.allowed.clone()).with_permit(term.permit());
        let event_holds: Arc<dyn EventHolds> = match outbox {
            Some(outbox) => outbox.event_holds(),
            None => Arc::new(NoEventHolds),
        };
        Self {
            clients,
            connector: Arc::new(connector.with_metrics(parts.cloud.metrics.clone())),
            servers: Arc::default(),
            workloads: Arc::new(workloads(parts)),
            queues: parts.queues.clone(),
            host: parts.host.as_ref().map(|host| host.secrets(own)),
            event_holds,
            kinds: kinds(&clients.0),
            settings: Arc::clone(&parts.settings),
            term: term.start,
        }
    }

    fn secrets(&self, client: &Client) -> Arc<dyn SecretSource> {
        match &self.host {
            Some(host) => secrets_of_host(host.asking_as(client.clone())),
            None => Arc::new(ApiSecrets(client.clone())),
        }
    }

    fn context(&self, identity: &'static str) -> ControllerContext {
        let client = self.clients.of(identity);
        ControllerContext {
            connector: Arc::clone(&self.connector),
            secrets: self.secrets(&client),
            servers: Arc::clone(&self.servers),
            workloads: Arc::clone(&self.workloads),
            events: Recorder::new(client.clone(), identity),
            event_holds: Arc::clone(&self.event_holds),
            queues: self.queues.clone(),
            kinds: Arc::clone(&self.kinds),
            settings: Arc::clone(&self.settings),
            term: self.term,
            client,
        }
    }
}

/// Returns a reader of the host's Secrets as the source of a context.
pub(crate) fn secrets_of_host(reader: HostSecrets) -> Arc<dyn SecretSource> {
    Arc::new(Secrets(reader))
}

/// Secrets of the host and of our own store, as controllers read them.
struct Secrets(HostSecrets);

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secrets")
    }
}

#[async_trait]
impl SecretSource for Secrets {
    async fn secret(&self, namespace: &str, name: &str) -> Result<Option<Secret>, kube::Error> {
        if !is_object_name(name) {
            return Ok(None);
        }
        self.0.secret(namespace, name).await
    }

    async fn aged_secret(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Option<(Secret, Duration)>, kube::Error> {
        if !is_object_name(name) {
            return Ok(None);
        }
        self.0.aged_secret(namespace, name).await
    }

    async fn namespace(&self, name: &str) -> Result<Option<Namespace>, kube::Error> {
        self.0.namespace(name).await
    }

    fn is_uncertain(&self, namespace: &str) -> bool {
        self.0.is_uncertain(namespace)
    }

    async fn create(&self, secret: &Secret) -> Result<Secret, kube::Error> {
        self.0.create(secret).await
    }

    async fn replace(&self, secret: &Secret) -> Result<Secret, kube::Error> {
        self.0.replace(secret).await
    }
}

/// Clients of this process's own API.
struct Clients(Arc<ApiServer>);

impl Clients {
    /// A client of one identity, with its permissions.
    fn of(&self, identity: &str) -> Client {
        Client::new(InProcess::new(Arc::clone(&self.0), User::controller(identity)), "default")
    }
}

/// Returns all kinds of a server, and in which versions they are served.
pub(crate) fn kinds(server: &ApiServer) -> Arc<[ServedKind]> {
    let registry = server.registry();
    let versions = |kind: &Resource| {
        let all = registry.resources().iter();
        let of_kind = all.filter(|other| other.group == kind.group && other.kind == kind.kind);
        of_kind.map(|other| other.version.clone()).collect()
    };
    // No controller changes or collects the objects that the server defines.
    let stored = registry.stored().iter().filter(|kind| !kind.strategy.is_read_only());
    let kinds = stored.map(|kind| ServedKind {
        resource: api_resource(kind),
        namespaced: kind.namespaced,
        versions: versions(kind),
    });
    kinds.collect()
}

/// Returns the names of a kind, as clients of the API need them.
pub(crate) fn api_resource(resource: &Resource) -> ApiResource {
    ApiResource {
        group: resource.group.clone(),
        version: resource.version.clone(),
        api_version: resource.api_version(),
        kind: resource.kind.clone(),
        plural: resource.plural.clone(),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use apiserver_access::{Attributes, Authorizer, Decision};

    use super::*;

    fn identities<'a>(controllers: impl Iterator<Item = &'a ControllerSpec>) -> BTreeSet<&'a str> {
        controllers.map(|controller| controller.identity).collect()
    }

    #[test]
    fn every_controller_has_an_identity_of_its_own() {
        let writers = host_outbox::IDENTITIES.map(|(identity, _)| identity);
        let own = [
            election::IDENTITY,
            bootstrap_data::IDENTITY,
            planner::IDENTITY,
            rbac::IDENTITY,
            revocations::IDENTITY,
            admission::IDENTITY,
            policy_status::IDENTITY,
        ];
        let unique: BTreeSet<&str> = identities(all()).into_iter().chain(writers).chain(own).collect();
        let expected = all().count() + writers.len() + own.len();
        assert_eq!(unique.len(), expected, "two have the same identity: {unique:?}");
    }

    #[tokio::test]
    async fn the_local_policy_allows_what_the_controllers_declare_and_nothing_else() {
        let policy = local_policy();
        let allows = async |user: User, group: &str, resource: &str, verb: &str| {
            let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
            let attributes = Attributes {
                user: Arc::new(user),
                group: group.to_owned(),
                resource: resource.to_owned(),
                subresource: subresource.to_owned(),
                verb: verb.to_owned(),
                ..Attributes::default()
            };
            policy.authorize(&attributes).await == Decision::Allow
        };
        for controller in all() {
            let identity = controller.identity;
            let user = || User::controller(identity);
            assert!(!controller.rules.is_empty(), "{identity} has no rules");
            for rule in controller.rules.iter().chain([&PolicyRule::EVENTS, &PolicyRule::USE_IDENTITIES]) {
                let (group, resource, verb) = (rule.groups[0], rule.resources[0], rule.verbs[0]);
                assert!(allows(user(), group, resource, verb).await, "{identity}: {rule:?}");
                let stranger = User::authenticated(identity, []);
                assert!(!allows(stranger, group, resource, verb).await, "{identity} by name: {rule:?}");
            }
            let impersonates = allows(user(), "", "users", "impersonate").await;
            assert!(!impersonates, "{identity} may do what it does not declare");
            let escalates = allows(user(), "rbac.authorization.k8s.io", "clusterroles", "escalate").await;
            // It joins rules that it does not have itself.
            assert_eq!(escalates, identity == "clusterrole-aggregation-controller", "{identity}");
        }
        assert!(!allows(User::controller("nothing"), "", "events", "create").await);
    }
}
