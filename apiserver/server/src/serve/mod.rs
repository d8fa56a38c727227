//! Command `capstan serve`: wiring, start and shutdown of the server.

mod access;
mod logging;
mod service_manager;
mod signals;
mod started;
pub(crate) mod stores;
mod traces;
pub(crate) mod upkeep;

use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use apiserver_access::Authenticator;
use apiserver_http::{ApiServer, AuditLog, Check, Identity, Parts, Settings, Supervisor};
use apiserver_machinery::store::ObjectStore;
use apiserver_registry::PlannerSlot;
use controllers_runtime::ControllerSettings;
use storage_contract::Store;

use self::access::{
    authenticator, direct_authorizer, hosted_authorizer, of_objects, supervise_access, supervise_roles,
};
use self::started::Started;
use self::traces::Traces;
use crate::admission::AdmissionConfigurations;
use crate::assembly::Assembly;
use crate::audit::{Checkpoints, PolicyFile};
use crate::authentication_file::AuthenticationFile;
use crate::authorities::AuthorityKeeper;
use crate::authorization_file::AuthorizationFile;
use crate::backup::LastRestore;
use crate::certificate_signer::CertificateSigner;
use crate::certificate_uses::{CertificateUses, Recorded};
use crate::cli::ServeArguments;
use crate::config::ServerConfiguration;
use crate::controllers::{CloudParts, ControllerParts};
use crate::encryption_keys::EncryptionKeys;
use crate::host::Host;
use crate::host_own_objects::KeptInHost;
use crate::planner::{OwnPlanner, PlannedClouds};
use crate::rbac::RbacPolicy;
use crate::replicas::ReplicaRecord;
use crate::service_accounts::TokenIssuer;
use crate::tls::TlsFiles;
use crate::{compaction, config, controllers, revocations, storage_history, stored_form, version};

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
    let served = Box::pin(serve(configuration, assembly)).await;
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
        mut settings,
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
    } = started;
    let signer = CertificateSigner::new(authority_store.clone(), authorities.known(), data.clone());
    let (uses, recorded_uses) = CertificateUses::new(authority_store, &mut settings.metrics);
    let authenticator = authenticator(configuration, host.as_deref(), &supervisor).await?;
    let authenticator = Arc::new(of_objects(authenticator.with_observer(uses), &issuer, &objects));
    let authentication = AuthenticationFile::open(configuration, &authenticator, issuers, issuer.url())?;
    let audit = audit_with_policy(configuration, &settings, &supervisor)?;
    let policy = RbacPolicy::default();
    let (authorizer, authorization) =
        direct_authorizer(configuration, &policy, host.as_deref(), &objects, bootstrap_reads).await?;
    let own_checks = checks(&tls, &encryption, &store, &authentication, &authorization);
    let parts = Parts {
        objects,
        authenticator: Arc::clone(&authenticator),
        authorizer,
        hosted_authorizer: hosted_authorizer(configuration, host.as_deref()),
        identity: Identity { git_version: version::git_version(), address: address.to_string() },
        checks: [hooks.checks(&policy), admission.checks(), own_checks].concat(),
        supervisor: supervisor.clone(),
    };
    let server = Arc::new(ApiServer::with_settings(parts, settings));
    let has_controllers = assembly.controllers && configuration.controllers.enabled;
    place_planner(&planner, &server, configuration, has_controllers.then_some(&cloud), host.as_ref());
    let parts = ControllerParts {
        host: host.clone(),
        kept_in_host: KeptInHost::new(configuration, server.registry(), authorities.known()),
        queues,
        bootstrap_data,
        rate: configuration.controllers.workload_client.rate(),
        settings: controller_settings(configuration, &store)?,
        cloud,
        election_metrics,
        backups,
        upkeep: upkeep.clone(),
    };
    let running =
        has_controllers.then(|| start_controllers(&server, parts, configuration, &store, &supervisor));
    announce(configuration, address, &data, &storage, &encryption.path());
    let certificates = tls.tls();
    let address = config::advertised_address(address, &configuration.server_names);
    let replica = upkeep.start(address, server.objects(), &supervisor);
    let followers = Followers { uses: recorded_uses, authorities, signer, issuer, admission, replica };
    followers.spawn(&server, &tls, &supervisor, checkpoints.as_ref());
    supervise_roles(configuration, policy, &server, &supervisor, host.as_deref());
    supervise_access(&supervisor, authentication, authorization);
    let host = host.map(|host| (host, authenticator, Arc::clone(server.objects())));
    supervise(&supervisor, tls, encryption, store, host);
    apiserver_http::serve(server, listener, certificates, shutdown, GRACE).await;
    end(running, audit, checkpoints).await;
    upkeep.result(&supervisor)
}

/// Puts the planner of this server in its place. `cloud`: parts of the clouds that plans may read; `None` in a process
/// without controllers.
fn place_planner(
    slot: &PlannerSlot,
    server: &Arc<ApiServer>,
    configuration: &ServerConfiguration,
    cloud: Option<&CloudParts>,
    host: Option<&Arc<Host>>,
) {
    let rate = configuration.controllers.workload_client.rate();
    let clouds = cloud.map(|parts| PlannedClouds::new(parts, host.cloned(), rate));
    // Nothing else fills the place.
    let _ = slot.set(Arc::new(OwnPlanner::new(server, clouds)));
}

/// Waits for the controllers and writes the last lines of the audit log. The controllers stopped at the beginning of the
/// shutdown, but give their lease back, too.
async fn end(
    running: Option<tokio::sync::oneshot::Receiver<()>>,
    audit: Option<AuditLog>,
    checkpoints: Option<Checkpoints>,
) {
    if let Some(running) = running {
        let _ = running.await;
    }
    audit.iter().for_each(AuditLog::flush);
    if let Some(checkpoints) = checkpoints {
        checkpoints.finish().await;
    }
    tracing::info!("server stopped");
}

/// Returns the settings of controllers, with the record of the last restore of the store.
fn controller_settings(
    configuration: &ServerConfiguration,
    store: &Arc<dyn Store>,
) -> anyhow::Result<Arc<ControllerSettings>> {
    let settings = configuration.controllers.settings()?;
    Ok(Arc::new(ControllerSettings { restores: Some(LastRestore::of(store)), ..settings }))
}

/// Returns the readiness checks of files, of the store and of the revocations in it.
fn checks(
    tls: &TlsFiles,
    encryption: &EncryptionKeys,
    store: &Arc<dyn Store>,
    authentication: &Option<AuthenticationFile>,
    authorization: &Option<AuthorizationFile>,
) -> Vec<Check> {
    let history = storage_history::check(Arc::clone(store));
    let form = stored_form::check(Arc::clone(store));
    let certificates = revocations::check(tls.tls());
    let own = [tls.check(), encryption.check(), encryption.kms_check(), history, form, certificates];
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
    fn spawn(
        self,
        server: &Arc<ApiServer>,
        tls: &TlsFiles,
        supervisor: &Supervisor,
        checkpoints: Option<&Checkpoints>,
    ) {
        let shutdown = || supervisor.shutdown().clone();
        let server = || Arc::clone(server);
        let Self { uses, authorities, signer, issuer, admission, replica } = self;
        let revocations = revocations::follow(server(), tls.tls(), tls.revocation_metrics(), shutdown());
        supervisor.spawn("service manager", service_manager::report(shutdown()));
        supervisor.spawn("certificate revocations", revocations);
        supervisor.spawn("uses of certificates", uses.follow(server(), shutdown()));
        if let Some(checkpoints) = checkpoints {
            let following = checkpoints.clone().follow(authorities.answered(), shutdown());
            supervisor.spawn("checkpoints of the audit log", following);
        }
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

/// Spawns the tasks that run as long as the process.
fn supervise(
    supervisor: &Supervisor,
    tls: TlsFiles,
    encryption: EncryptionKeys,
    store: Arc<dyn Store>,
    host: Option<(Arc<Host>, Arc<Authenticator>, Arc<ObjectStore>)>,
) {
    let shutdown = supervisor.shutdown();
    supervisor.spawn("certificate files", tls.follow(shutdown.clone()));
    supervisor.spawn("encryption file", encryption.follow(Arc::clone(&store), shutdown.clone()));
    supervisor.spawn("compaction", compaction::run(store, shutdown.clone()));
    if let Some((host, authenticator, objects)) = host {
        // The last answers of the host stay in force while it is made anew.
        let follow = move || Arc::clone(&host).follow(Arc::clone(&authenticator), Arc::clone(&objects));
        supervisor.spawn_restarting("host cluster", follow);
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

/// Logs the address and the files of the server, and the command with which its first user continues.
fn announce(
    configuration: &ServerConfiguration,
    address: SocketAddr,
    data: &Path,
    storage: &str,
    encryption: &str,
) {
    tracing::info!(
        address = %format!("https://{address}"),
        data = %data.display(),
        storage,
        ca = %data.join("pki/ca.crt").display(),
        encryption,
        "serving; make a kubeconfig with: capstan kubeconfig --data-dir {} --server {}",
        data.display(),
        config::local_url(address),
    );
    let ServerConfiguration { server_names, tls, host, .. } = configuration;
    if address.ip().is_unspecified() && server_names.is_empty() && tls.is_none() && host.is_none() {
        tracing::warn!(
            "serverNames is empty, so the serving certificate is valid for clients on this machine alone. Add the names and \
             addresses that other clients use"
        );
    }
}
