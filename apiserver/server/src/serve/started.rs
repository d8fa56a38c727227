//! Start of the server: all parts that are there before the port opens.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, bail};
use apiserver_http::{AuditLog, DownloadEndpoint, Settings, Supervisor, TokenEndpoint};
use apiserver_machinery::resource::Registry as ObjectKinds;
use apiserver_machinery::store::ObjectStore;
use apiserver_oidc::{Issuers, KeyMetrics};
use apiserver_registry::{Advice, PlannerSlot, with_advice, with_planner};
use controllers_infrastructure_openstack::CloudMetrics;
use controllers_runtime::Queues;
use prometheus_client::registry::Registry;
use storage_contract::Store;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::upkeep::Upkeep;
use super::{LISTEN, signals, stores};
use crate::admission::{AdmissionConfigurations, AdmissionMetrics};
use crate::assembly::Assembly;
use crate::audit::{self, Checkpoints};
use crate::authorities::{AuthorityKeeper, AuthorityStore, Known};
use crate::backup::{BackupMetrics, BackupService, Backups, check_key_file};
use crate::bootstrap_data::BootstrapDataListener;
use crate::config::ServerConfiguration;
use crate::controllers::CloudParts;
use crate::election::ElectionMetrics;
use crate::encryption_keys::EncryptionKeys;
use crate::etcd_files::EtcdFiles;
use crate::host::Host;
use crate::host_copies::HostCopies;
use crate::join::{self, JoinTokens};
use crate::machines::BootstrapReads;
use crate::report::{self, ReportService};
use crate::service_accounts::TokenIssuer;
use crate::start_hooks::StartHooks;
use crate::storage_maintenance::SpaceMetrics;
use crate::tls::{Sources, TlsFiles};
use crate::{config, encryption, pki, storage_maintenance};

/// Parts that are there before the port opens.
pub(super) struct Started {
    pub(super) data: PathBuf,
    pub(super) shutdown: CancellationToken,
    pub(super) supervisor: Supervisor,
    pub(super) store: Arc<dyn Store>,
    /// Name of the store, for people.
    pub(super) storage: String,
    pub(super) host: Option<Arc<Host>>,
    pub(super) objects: Arc<ObjectStore>,
    pub(super) settings: Settings,
    pub(super) hooks: StartHooks,
    pub(super) tls: TlsFiles,
    pub(super) encryption: EncryptionKeys,
    pub(super) authority_store: AuthorityStore,
    pub(super) authorities: AuthorityKeeper,
    pub(super) queues: Queues,
    pub(super) cloud: CloudParts,
    pub(super) upkeep: Upkeep,
    pub(super) election_metrics: ElectionMetrics,
    pub(super) bootstrap_reads: BootstrapReads,
    pub(super) bootstrap_data: Option<Arc<BootstrapDataListener>>,
    pub(super) issuer: TokenIssuer,
    pub(super) backups: Option<Arc<Backups>>,
    pub(super) issuers: Issuers,
    pub(super) admission: AdmissionConfigurations,
    pub(super) planner: PlannerSlot,
    /// Keeper of the checkpoints of the audit log, if its lines have links.
    pub(super) checkpoints: Option<Checkpoints>,
}

/// Returns the advice of the page of a reason.
fn advice(reason: &str) -> Option<Advice> {
    apiserver_cli::advice(reason).map(|[unblock, next_try]| Advice { unblock, next_try })
}

impl Started {
    pub(super) async fn new(
        configuration: &ServerConfiguration,
        assembly: &Assembly,
    ) -> anyhow::Result<Self> {
        let begun = Instant::now();
        let data = configuration.data_directory()?;
        let encryption = encryption_keys(configuration, &data)?;
        let (shutdown, force) = (CancellationToken::new(), CancellationToken::new());
        let supervisor = Supervisor::new(shutdown.clone());
        let mut metrics = Registry::default();
        let queues = Queues::registered(&mut metrics).with_weights(configuration.controllers.weights()?);
        let cloud = CloudParts::new(configuration, &mut metrics)?;
        let election_metrics = ElectionMetrics::registered(&mut metrics);
        let bootstrap_reads = BootstrapReads::registered(&mut metrics);
        let of_admission = AdmissionMetrics::registered(&mut metrics);
        let (store, storage) =
            stores::open(configuration, &data, &encryption, &mut metrics, &supervisor).await?;
        let upkeep = Upkeep::new(configuration, &store, &encryption, &mut metrics)?;
        let backups = storage_tasks(configuration, &data, &store, &encryption, &mut metrics, &supervisor)?;
        let copies = HostCopies::new(Arc::clone(&store), encryption.encryption());
        let issuers = Issuers::new(Arc::new(copies.clone()), KeyMetrics::registered(&mut metrics));
        let authority_store = AuthorityStore::new(Arc::clone(&store), encryption.encryption());
        let (is_embedded, kinds) = (configuration.storage.etcd.is_none(), assembly.registry());
        // Both wait for a store that does not answer, and the port must open soon.
        let (host, authorities) = tokio::join!(
            connect(&upkeep, configuration, &mut metrics, copies, &kinds),
            AuthorityKeeper::open(authority_store.clone(), &data, is_embedded),
        );
        let host = host?.map(Arc::new);
        let known = authorities.known();
        refuse_a_lost_authority(configuration, &known.borrow())?;
        let bootstrap_data =
            BootstrapDataListener::open(configuration, &data, &known.borrow())?.map(Arc::new);
        let tls = tls(configuration, &data, known, host.as_deref(), &mut metrics)?;
        let issuer = issuer(configuration, &store, &encryption)?;
        let (audit, checkpoints) = audit::open(configuration, &data, &store).await?;
        let mut settings = settings(configuration, audit, metrics, &force, &encryption, &issuer)?;
        settings.host = host.as_deref().map(Host::known);
        settings.token_endpoint = join_endpoint(configuration, &data, &store, &encryption);
        settings.download_endpoints = downloads(configuration, &data, &store, &encryption, &authority_store)?;
        supervisor.spawn_finite("signals", signals::shut_down(shutdown.clone(), force));
        let kinds = assembly.registry_with("serviceaccounts", &issuer.action());
        let planner = PlannerSlot::default();
        let registry = with_planner(&Host::observed(host.as_deref(), kinds), &planner);
        let registry = Arc::new(with_advice(&registry, advice));
        let objects =
            stores::objects(registry, &store, &encryption.encryption(), host.as_deref(), &supervisor);
        let (names, begin) = (assembly.namespaces(), authorities.answered());
        let hooks = StartHooks::start(&objects, Arc::clone(&store), names, begin, &supervisor);
        hooks.settle(&objects, begun).await;
        let admission =
            AdmissionConfigurations::open(configuration, &objects, host.as_deref(), of_admission)?;
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
            bootstrap_reads,
            bootstrap_data,
            issuer,
            backups,
            issuers,
            admission,
            planner,
            checkpoints,
        })
    }

    /// Opens the port. Returns the listener with its address.
    pub(super) async fn listen(
        &self,
        configuration: &ServerConfiguration,
    ) -> anyhow::Result<(TcpListener, SocketAddr)> {
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

/// Connects to the host cluster, if there is one. The clock is compared before: the ages of the copies depend on it.
async fn connect(
    upkeep: &Upkeep,
    configuration: &ServerConfiguration,
    metrics: &mut Registry,
    copies: HostCopies,
    kinds: &ObjectKinds,
) -> anyhow::Result<Option<Host>> {
    upkeep.begin().await;
    Box::pin(Host::connect(configuration, metrics, copies, kinds)).await
}

/// Opens the TLS settings, with their metrics in a registry.
fn tls(
    configuration: &ServerConfiguration,
    data: &Path,
    authorities: watch::Receiver<Known>,
    host: Option<&Host>,
    metrics: &mut Registry,
) -> anyhow::Result<TlsFiles> {
    let sources = Sources {
        configuration: configuration.clone(),
        data: data.to_owned(),
        listen: listen(configuration)?,
        authorities,
        front_proxy: host.map(Host::proxy),
    };
    let tls = sources.open()?;
    tls.register(metrics);
    Ok(tls)
}

/// Creates the data directory if there is none, and returns the encryption keys in it.
fn encryption_keys(configuration: &ServerConfiguration, data: &Path) -> anyhow::Result<EncryptionKeys> {
    pki::private_directory(data)?;
    let file = encryption::load(configuration.encryption_config_file.as_deref(), data)?;
    Ok(EncryptionKeys::new(file))
}

/// Spawns the task that watches the space of etcd, if the server uses one. Returns the scheduled backups, if any.
///
/// # Errors
/// A backup key that cannot be used.
fn storage_tasks(
    configuration: &ServerConfiguration,
    data: &Path,
    store: &Arc<dyn Store>,
    encryption: &EncryptionKeys,
    metrics: &mut Registry,
    supervisor: &Supervisor,
) -> anyhow::Result<Option<Arc<Backups>>> {
    check_key_file(&configuration.backup)?;
    if let Some(etcd) = configuration.storage.etcd.clone() {
        let files = EtcdFiles::new(etcd, configuration.force);
        let space = SpaceMetrics::registered(metrics);
        let shutdown = supervisor.shutdown().clone();
        supervisor.spawn("space of etcd", storage_maintenance::follow(files, space, shutdown));
    }
    let of_backups = configuration.backup.schedule.is_some().then(|| BackupMetrics::registered(metrics));
    Ok(of_backups.and_then(|metrics| Backups::new(configuration, data, store, encryption, metrics)))
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
    config::listen_address(text)
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

fn settings(
    configuration: &ServerConfiguration,
    audit: Option<AuditLog>,
    metrics: Registry,
    force: &CancellationToken,
    encryption: &EncryptionKeys,
    issuer: &TokenIssuer,
) -> anyhow::Result<Settings> {
    Ok(Settings {
        reads_at_once: configuration.limits.reads_at_once,
        writes_at_once: configuration.limits.writes_at_once,
        has_host: configuration.host.is_some(),
        audit,
        goaway_chance: configuration.limits.goaway_chance,
        requires_use: configuration.identities.require_use,
        requires_secret_read: configuration.identities.require_secret_read,
        system_masters: configuration.system_masters,
        shutdown_delay: configuration.shutdown_delay()?,
        watch_grace: configuration.watch_grace()?,
        force: force.clone(),
        check_reasons: vec![encryption.check_reason()],
        issuer: Some(issuer.documents()),
        audiences: vec![issuer.url().to_owned()],
        metrics,
        ..Settings::default()
    })
}
