//! Command `capstan serve`: wiring, start and shutdown of the server.

mod logging;
mod service_manager;
mod signals;
pub(crate) mod stores;
mod traces;
pub(crate) mod upkeep;

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use apiserver_access::{Authenticator, Authorizer, Chain};
use apiserver_http::{
    ApiServer, AuditLog, Check, DownloadEndpoint, Identity, Parts, Settings, Supervisor, TokenEndpoint,
};
use apiserver_machinery::store::ObjectStore;
use apiserver_oidc::{Issuers, KeyMetrics};
use controllers_infrastructure_openstack::CloudMetrics;
use controllers_runtime::{ControllerSettings, Queues};
use prometheus_client::registry::Registry;
use storage_contract::Store;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use self::traces::Traces;
use crate::admission::AdmissionConfigurations;
use crate::assembly::Assembly;
use crate::audit::PolicyFile;
use crate::authentication_file::AuthenticationFile;
use crate::authorities::{AuthorityKeeper, AuthorityStore, Known};
use crate::authorization_file::{AuthorizationFile, OwnAuthorizers};
use crate::backup::{BackupMetrics, BackupService, Backups, LastRestore};
use crate::bootstrap_data::BootstrapDataListener;
use crate::certificate_signer::CertificateSigner;
use crate::certificate_uses::{CertificateUses, Recorded};
use crate::cli::ServeArguments;
use crate::config::{Keystone, ServerConfiguration};
use crate::controllers::{CloudParts, ControllerParts};
use crate::election::ElectionMetrics;
use crate::encryption_keys::EncryptionKeys;
use crate::etcd_files::EtcdFiles;
use crate::host::Host;
use crate::host_copies::HostCopies;
use crate::join::{self, JoinTokens};
use crate::machines::{MachineAuthorizer, MachineObjects};
use crate::rbac::{ProjectRoles, RbacPolicy};
use crate::replicas::ReplicaRecord;
use crate::report::{self, ReportService};
use crate::service_accounts::{HostNamespaces, TokenIssuer};
use crate::start_hooks::StartHooks;
use crate::storage_maintenance::SpaceMetrics;
use crate::tls::{Sources, TlsFiles};
use crate::{
    compaction, controllers, encryption, pki, revocations, storage_history, storage_maintenance, stored_form,
    token_webhook, version,
};
use upkeep::Upkeep;

/// Default address: loopback, which no other machine reaches.
pub(crate) const LISTEN: &str = "127.0.0.1:7443";

/// Longest time for requests in flight to finish during shutdown: the longest a request may take.
const GRACE: Duration = Duration::from_secs(60);

/// Serves until a signal, or until a task fails that the process cannot do without.
///
/// # Errors
/// When the server cannot start, or when a task failed: the process then exits with an error.
pub(crate) fn run(arguments: &ServeArguments, assembly: &Assembly) -> anyhow::Result<()> {
    let configuration = ServerConfiguration::load(arguments)?;
    logging::start(&configuration)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve_traced(&configuration, assembly))
}

/// Serves, and sends the last spans at the end.
async fn serve_traced(configuration: &ServerConfiguration, assembly: &Assembly) -> anyhow::Result<()> {
    let traces = Traces::start(configuration)?;
    let served = serve(configuration, assembly).await;
    traces.stop().await;
    served
}

async fn serve(configuration: &ServerConfiguration, assembly: &Assembly) -> anyhow::Result<()> {
    let started = Started::new(configuration, assembly).await?;
    let (listener, address) = started.listen(configuration).await?;
    let Started {
        data,
        shutdown,
        supervisor,
        store,
        storage,
        host,
        objects,
        settings,
        hooks,
        tls,
        encryption,
        authority_store,
        authorities,
        queues,
        cloud,
        upkeep,
        election_metrics,
        bootstrap_data,
        issuer,
        backups,
        issuers,
        admission,
    } = started;
    let signer = CertificateSigner::new(authority_store.clone(), authorities.known(), data.clone());
    let (uses, recorded_uses) = CertificateUses::new(authority_store);
    let authenticator = authenticator(configuration, host.as_deref(), &supervisor).await?;
    let authenticator = Arc::new(of_objects(authenticator.with_observer(uses), &issuer, &objects));
    let authentication = AuthenticationFile::open(configuration, &authenticator, issuers, issuer.url())?;
    let audit = audit_with_policy(configuration, &settings, &supervisor)?;
    let policy = RbacPolicy::default();
    let (authorizer, authorization) =
        direct_authorizer(configuration, &policy, host.as_deref(), &objects).await?;
    let parts = Parts {
        objects,
        authenticator: Arc::clone(&authenticator),
        authorizer,
        hosted_authorizer: hosted_authorizer(host.as_deref()),
        identity: Identity { git_version: version::git_version(), address: address.to_string() },
        checks: [
            hooks.checks(&policy),
            admission.checks(),
            checks(&tls, &encryption, &store, &authentication, &authorization),
        ]
        .concat(),
        supervisor: supervisor.clone(),
    };
    let server = Arc::new(ApiServer::with_settings(parts, settings));
    let parts = ControllerParts {
        host: host.clone(),
        queues,
        bootstrap_data,
        rate: configuration.controllers.workload_client.rate(),
        settings: controller_settings(configuration, &store)?,
        cloud,
        election_metrics,
        backups,
        upkeep: upkeep.clone(),
    };
    let running = (assembly.controllers && configuration.controllers.enabled)
        .then(|| start_controllers(&server, parts, configuration, &store, &supervisor));
    announce(address, &data, &storage, &encryption.path());
    let certificates = tls.tls();
    let replica = upkeep.start(address.to_string(), server.objects(), &supervisor);
    let followers = Followers { uses: recorded_uses, authorities, signer, issuer, admission, replica };
    followers.spawn(&server, &tls, &supervisor);
    supervise_roles(configuration, policy, &server, &supervisor, host.as_deref());
    supervise_access(&supervisor, authentication, authorization);
    supervise(&supervisor, tls, encryption, store, host.map(|host| (host, authenticator)));
    apiserver_http::serve(server, listener, certificates, shutdown, GRACE).await;
    // The controllers stopped at the beginning of the shutdown. This waits until they have given their lease back, too.
    if let Some(running) = running {
        let _ = running.await;
    }
    audit.iter().for_each(|audit| audit.flush());
    tracing::info!("server stopped");
    upkeep.result(&supervisor)
}

/// Returns the settings of controllers, with the record of the last restore of the store.
fn controller_settings(
    configuration: &ServerConfiguration,
    store: &Arc<dyn Store>,
) -> anyhow::Result<Arc<ControllerSettings>> {
    let settings = configuration.controllers.settings()?;
    Ok(Arc::new(ControllerSettings { restores: Some(LastRestore::of(store)), ..settings }))
}

/// Returns the readiness checks of files and of the store.
fn checks(
    tls: &TlsFiles,
    encryption: &EncryptionKeys,
    store: &Arc<dyn Store>,
    authentication: &Option<AuthenticationFile>,
    authorization: &Option<AuthorizationFile>,
) -> Vec<Check> {
    let history = storage_history::check(Arc::clone(store));
    let form = stored_form::check(Arc::clone(store));
    let own = [tls.check(), encryption.check(), encryption.kms_check(), history, form];
    let of_files = authentication.iter().map(AuthenticationFile::check);
    own.into_iter().chain(of_files).chain(authorization.iter().map(AuthorizationFile::check)).collect()
}

/// Parts that follow objects of the store, as long as the process runs.
struct Followers {
    uses: Recorded,
    authorities: AuthorityKeeper,
    signer: CertificateSigner,
    issuer: TokenIssuer,
    admission: AdmissionConfigurations,
    replica: ReplicaRecord,
}

impl Followers {
    fn spawn(self, server: &Arc<ApiServer>, tls: &TlsFiles, supervisor: &Supervisor) {
        let shutdown = || supervisor.shutdown().clone();
        let server = || Arc::clone(server);
        let Self { uses, authorities, signer, issuer, admission, replica } = self;
        let revocations = revocations::follow(server(), tls.tls(), shutdown());
        supervisor.spawn("service manager", service_manager::report(shutdown()));
        supervisor.spawn("certificate revocations", revocations);
        supervisor.spawn("uses of certificates", uses.follow(server(), shutdown()));
        supervisor.spawn("certificate authorities", authorities.follow(server(), shutdown()));
        supervisor.spawn("certificate signer", signer.follow(server(), shutdown()));
        supervisor.spawn("signing keys of service accounts", issuer.follow(shutdown()));
        supervisor.spawn("admission configurations", admission.follow(server(), shutdown()));
        supervisor.spawn("record of this replica", replica.run(shutdown()));
    }
}

/// Starts the controllers, if this server may run them. The receiver gets a value when they have ended.
fn start_controllers(
    server: &Arc<ApiServer>,
    parts: ControllerParts,
    configuration: &ServerConfiguration,
    store: &Arc<dyn Store>,
    supervisor: &Supervisor,
) -> tokio::sync::oneshot::Receiver<()> {
    let shared_store = configuration.storage.etcd.is_some().then(|| storage_history::number(store));
    controllers::start(server, parts, shared_store, supervisor)
}

/// Parts that are there before the port opens.
struct Started {
    data: PathBuf,
    shutdown: CancellationToken,
    supervisor: Supervisor,
    store: Arc<dyn Store>,
    /// Name of the store, for people.
    storage: String,
    host: Option<Arc<Host>>,
    objects: Arc<ObjectStore>,
    settings: Settings,
    hooks: StartHooks,
    tls: TlsFiles,
    encryption: EncryptionKeys,
    authority_store: AuthorityStore,
    authorities: AuthorityKeeper,
    queues: Queues,
    cloud: CloudParts,
    upkeep: Upkeep,
    election_metrics: ElectionMetrics,
    bootstrap_data: Option<Arc<BootstrapDataListener>>,
    issuer: TokenIssuer,
    backups: Option<Arc<Backups>>,
    issuers: Issuers,
    admission: AdmissionConfigurations,
}

impl Started {
    async fn new(configuration: &ServerConfiguration, assembly: &Assembly) -> anyhow::Result<Self> {
        let begun = Instant::now();
        let data = configuration.data_directory()?;
        pki::private_directory(&data)?;
        let encryption = encryption::load(configuration.encryption_config_file.as_deref(), &data)?;
        let encryption = EncryptionKeys::new(encryption);
        let (shutdown, force) = (CancellationToken::new(), CancellationToken::new());
        let supervisor = Supervisor::new(shutdown.clone());
        let mut metrics = Registry::default();
        let queues = Queues::registered(&mut metrics);
        let cloud = CloudParts::new(configuration, &mut metrics)?;
        let election_metrics = ElectionMetrics::registered(&mut metrics);
        let (store, storage) =
            stores::open(configuration, &data, &encryption, &mut metrics, &supervisor).await?;
        let upkeep = Upkeep::new(configuration, &store, &encryption, &mut metrics)?;
        let backups = storage_tasks(configuration, &data, &store, &encryption, &mut metrics, &supervisor);
        let copies = HostCopies::new(Arc::clone(&store), encryption.encryption());
        let issuers = Issuers::new(Arc::new(copies.clone()), KeyMetrics::registered(&mut metrics));
        let authority_store = AuthorityStore::new(Arc::clone(&store), encryption.encryption());
        let (is_embedded, kinds) = (configuration.storage.etcd.is_none(), assembly.registry());
        // Both wait for a store that does not answer, and the port must open soon.
        let (host, authorities) = tokio::join!(
            Host::connect(configuration, &mut metrics, copies, &kinds),
            AuthorityKeeper::open(authority_store.clone(), &data, is_embedded),
        );
        let host = host?.map(Arc::new);
        let known = authorities.known();
        refuse_a_lost_authority(configuration, &known.borrow())?;
        let bootstrap_data =
            BootstrapDataListener::open(configuration, &data, &known.borrow())?.map(Arc::new);
        let sources = Sources {
            configuration: configuration.clone(),
            data: data.clone(),
            listen: listen(configuration)?,
            authorities: known,
            front_proxy: host.as_deref().map(Host::proxy),
        };
        let tls = sources.open()?;
        tls.register(&mut metrics);
        let issuer = issuer(configuration, &store, &encryption)?;
        let mut settings = settings(configuration, &data, metrics, &force, &encryption)?;
        settings.issuer = Some(issuer.documents());
        settings.token_endpoint = join_endpoint(configuration, &data, &store, &encryption);
        settings.download_endpoints = downloads(configuration, &data, &store, &encryption, &authority_store)?;
        settings.audiences = vec![issuer.url().to_owned()];
        supervisor.spawn_finite("signals", signals::shut_down(shutdown.clone(), force));
        let kinds = assembly.registry_with("serviceaccounts", &issuer.action());
        let registry = Arc::new(Host::observed(host.as_deref(), kinds));
        let objects =
            stores::objects(registry, &store, &encryption.encryption(), host.as_deref(), &supervisor);
        let (names, begin) = (assembly.namespaces(), authorities.answered());
        let hooks = StartHooks::start(&objects, Arc::clone(&store), names, begin, &supervisor);
        hooks.settle(&objects, begun).await;
        let admission = AdmissionConfigurations::open(configuration, &objects, host.as_deref())?;
        settings.admission = Some(admission.control());
        Ok(Self {
            data,
            shutdown,
            supervisor,
            store,
            storage,
            host,
            objects,
            settings,
            hooks,
            tls,
            encryption,
            authority_store,
            authorities,
            queues,
            cloud,
            upkeep,
            election_metrics,
            bootstrap_data,
            issuer,
            backups,
            issuers,
            admission,
        })
    }

    /// Opens the port. Returns the listener with its address.
    async fn listen(&self, configuration: &ServerConfiguration) -> anyhow::Result<(TcpListener, SocketAddr)> {
        let listen = listen(configuration)?;
        let listener = TcpListener::bind(listen).await.with_context(|| {
            format!(
                "cannot listen on {listen}: if another program has the port, give another one with --listen"
            )
        })?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    }
}

/// Spawns the task that watches the space of etcd, if the server uses one. Returns the scheduled backups, if any.
fn storage_tasks(
    configuration: &ServerConfiguration,
    data: &Path,
    store: &Arc<dyn Store>,
    encryption: &EncryptionKeys,
    metrics: &mut Registry,
    supervisor: &Supervisor,
) -> Option<Arc<Backups>> {
    if let Some(etcd) = configuration.storage.etcd.clone() {
        let files = EtcdFiles::new(etcd, configuration.force);
        let space = SpaceMetrics::registered(metrics);
        let shutdown = supervisor.shutdown().clone();
        supervisor.spawn("space of etcd", storage_maintenance::follow(files, space, shutdown));
    }
    let of_backups = configuration.backup.schedule.is_some().then(|| BackupMetrics::registered(metrics));
    of_backups.and_then(|metrics| Backups::new(configuration, data, store, encryption, metrics))
}

/// Refuses to start if the embedded store exists but the server's own CA does not: a new CA would end every kubeconfig.
fn refuse_a_lost_authority(configuration: &ServerConfiguration, known: &Known) -> anyhow::Result<()> {
    let is_used = configuration.tls.is_none() || configuration.client_ca_file.is_none();
    match &known.error {
        Some(error) if is_used && configuration.storage.etcd.is_none() => {
            bail!("the server's own CA: {error}")
        }
        _ => Ok(()),
    }
}

impl CloudParts {
    fn new(configuration: &ServerConfiguration, metrics: &mut Registry) -> anyhow::Result<Self> {
        let allowed = configuration.cloud.allowed(listen(configuration)?)?;
        Ok(Self { metrics: CloudMetrics::registered(metrics), allowed })
    }
}

fn listen(configuration: &ServerConfiguration) -> anyhow::Result<SocketAddr> {
    let text = configuration.listen.as_deref().unwrap_or(LISTEN);
    text.parse().with_context(|| format!("listen: {text:?} is not an address with a port"))
}

async fn authenticator(
    configuration: &ServerConfiguration,
    host: Option<&Host>,
    supervisor: &Supervisor,
) -> anyhow::Result<Authenticator> {
    let headers = host.map(|host| host.proxy().borrow().headers.clone()).unwrap_or_default();
    let authenticator = Authenticator::new(headers, host.map(Host::tokens).transpose()?);
    let keystone = configuration.keystone.as_ref().map(Keystone::tokens).transpose()?;
    let webhook = token_webhook::open(configuration, supervisor).await?;
    let certificates = host.and_then(Host::certificates);
    Ok(authenticator.with_keystone(keystone).with_webhook(webhook).with_host_certificates(certificates))
}

/// Returns the endpoint by which nodes join, if `capstan init` or `capstan join` has made this one.
fn join_endpoint(
    configuration: &ServerConfiguration,
    data: &Path,
    store: &Arc<dyn Store>,
    encryption: &EncryptionKeys,
) -> Option<Arc<dyn TokenEndpoint>> {
    let tokens = JoinTokens::new(Arc::clone(store), encryption.encryption());
    let etcd = configuration.storage.etcd.clone().map(|etcd| EtcdFiles::new(etcd, configuration.force));
    join::open(data, tokens, etcd)
}

/// Returns the issuer of the tokens of service accounts.
fn issuer(
    configuration: &ServerConfiguration,
    store: &Arc<dyn Store>,
    encryption: &EncryptionKeys,
) -> anyhow::Result<TokenIssuer> {
    let settings = &configuration.service_accounts;
    let listen = configuration.listen.as_deref().unwrap_or(LISTEN);
    let url = settings.issuer(&configuration.server_names, listen);
    Ok(TokenIssuer::new(Arc::clone(store), encryption.encryption(), &url, settings.longest()?))
}

/// Returns the endpoints whose response is a file.
fn downloads(
    configuration: &ServerConfiguration,
    data: &Path,
    store: &Arc<dyn Store>,
    encryption: &EncryptionKeys,
    authorities: &AuthorityStore,
) -> anyhow::Result<Vec<Arc<dyn DownloadEndpoint>>> {
    let source = report::Source::new(configuration, Arc::clone(store), authorities.clone())?;
    let backups = BackupService::shared(configuration, data, store, encryption);
    Ok(vec![backups, Arc::new(ReportService::new(source))])
}

/// Authorizer of requests on the direct endpoint, with the file that configures it, if there is one. Without a file, our
/// own policy is first, then the roles in the store. The host decides last, and only about its own users.
async fn direct_authorizer(
    configuration: &ServerConfiguration,
    policy: &RbacPolicy,
    host: Option<&Host>,
    objects: &Arc<ObjectStore>,
) -> anyhow::Result<(Arc<dyn Authorizer>, Option<AuthorizationFile>)> {
    let mut system: Vec<Arc<dyn Authorizer>> = Vec::new();
    if host.is_some() {
        system.push(Arc::new(HostNamespaces));
    }
    system.push(Arc::new(controllers::local_policy()));
    system.push(Arc::new(MachineAuthorizer::new(Arc::clone(objects))));
    let own = OwnAuthorizers {
        system: Arc::new(Chain(system)),
        rbac: policy.authorizer(),
        host: host.map(Host::authorizer_of_its_users),
    };
    let (chain, file): (Arc<dyn Authorizer>, _) = match &configuration.authorization_config_file {
        None => (Arc::new(own.chain()), None),
        Some(path) => {
            let file = AuthorizationFile::open(path.clone(), own).await?;
            (Arc::new(file.authorizer()), Some(file))
        }
    };
    Ok((host.map_or_else(|| Arc::clone(&chain), |host| host.cautious(Arc::clone(&chain))), file))
}

/// Spawns the tasks that follow the roles, the bindings and the namespaces of Keystone's projects, and announce where the
/// host cluster denies what its roles allow.
fn supervise_roles(
    configuration: &ServerConfiguration,
    policy: RbacPolicy,
    server: &Arc<ApiServer>,
    supervisor: &Supervisor,
    host: Option<&Host>,
) {
    let keystone = configuration.keystone.as_ref();
    let projects = keystone.map_or_else(ProjectRoles::none, |it| ProjectRoles::new(it.project_roles.clone()));
    let namespaces = host.map(Host::known_namespaces);
    let roles = policy.follow(Arc::clone(server), projects, namespaces, supervisor.shutdown().clone());
    supervisor.spawn("roles", roles);
    if let Some(mirror) = host.and_then(Host::mirror) {
        let announced = mirror.announce(Arc::clone(server), supervisor.shutdown().clone());
        supervisor.spawn("disagreements of the host cluster", announced);
    }
}

/// Adds the identities that are objects of the store: service accounts and Machines.
fn of_objects(
    authenticator: Authenticator,
    issuer: &TokenIssuer,
    objects: &Arc<ObjectStore>,
) -> Authenticator {
    let machines = Arc::new(MachineObjects::new(Arc::clone(objects)));
    authenticator.with_issuer(issuer.as_issuer(Arc::clone(objects))).with_machines(machines)
}

/// Authorizer of requests through the host cluster: our own policy first, then the host's answer.
fn hosted_authorizer(host: Option<&Host>) -> Arc<dyn Authorizer> {
    let mut chain: Vec<Arc<dyn Authorizer>> = vec![Arc::new(controllers::local_policy())];
    chain.extend(host.map(Host::authorizer));
    Arc::new(Chain(chain))
}

/// Spawns the tasks that run as long as the process.
fn supervise(
    supervisor: &Supervisor,
    tls: TlsFiles,
    encryption: EncryptionKeys,
    store: Arc<dyn Store>,
    host: Option<(Arc<Host>, Arc<Authenticator>)>,
) {
    let shutdown = supervisor.shutdown();
    supervisor.spawn("certificate files", tls.follow(shutdown.clone()));
    supervisor.spawn("encryption file", encryption.follow(Arc::clone(&store), shutdown.clone()));
    supervisor.spawn("compaction", compaction::run(store, shutdown.clone()));
    if let Some((host, authenticator)) = host {
        // The last answers of the host stay in force while it is made anew.
        let follow = move || Arc::clone(&host).follow(Arc::clone(&authenticator));
        supervisor.spawn_restarting("host cluster", follow);
    }
}

/// Spawns the tasks that follow the authentication file and the authorization file, if there are any, and fetch the keys
/// of issuers.
fn supervise_access(
    supervisor: &Supervisor,
    authentication: Option<AuthenticationFile>,
    authorization: Option<AuthorizationFile>,
) {
    let shutdown = supervisor.shutdown();
    if let Some(file) = authentication {
        supervisor.spawn("keys of issuers", file.issuers().follow(shutdown.clone()));
        supervisor.spawn("authentication file", file.follow(shutdown.clone()));
    }
    if let Some(file) = authorization {
        supervisor.spawn("authorization file", file.follow(shutdown.clone()));
    }
}

/// Returns the audit log. If there is a policy, applies it and spawns the task that follows its file.
fn audit_with_policy(
    configuration: &ServerConfiguration,
    settings: &Settings,
    supervisor: &Supervisor,
) -> anyhow::Result<Option<AuditLog>> {
    let log = settings.audit.clone();
    if let (Some(path), Some(log)) = (&configuration.audit.policy_file, &log) {
        let file = PolicyFile::open(path, log)?;
        supervisor.spawn("audit policy", file.follow(supervisor.shutdown().clone()));
    }
    Ok(log)
}

fn announce(address: SocketAddr, data: &Path, storage: &str, encryption: &str) {
    tracing::info!(
        address = %format!("https://{address}"),
        data = %data.display(),
        storage,
        ca = %data.join("pki/ca.crt").display(),
        encryption,
        "serving; make a kubeconfig with: capstan kubeconfig --data-dir {} --server https://{address}",
        data.display()
    );
}

fn settings(
    configuration: &ServerConfiguration,
    data: &Path,
    metrics: Registry,
    force: &CancellationToken,
    encryption: &EncryptionKeys,
) -> anyhow::Result<Settings> {
    Ok(Settings {
        reads_at_once: configuration.limits.reads_at_once,
        writes_at_once: configuration.limits.writes_at_once,
        has_host: configuration.host.is_some(),
        audit: configuration.audit.open(data)?,
        goaway_chance: configuration.limits.goaway_chance,
        requires_use: configuration.identities.require_use,
        requires_secret_read: configuration.identities.require_secret_read,
        shutdown_delay: configuration.shutdown_delay()?,
        watch_grace: configuration.watch_grace()?,
        force: force.clone(),
        check_reasons: vec![encryption.check_reason()],
        metrics,
        ..Settings::default()
    })
}
