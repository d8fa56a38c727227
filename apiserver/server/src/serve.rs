//! `capstan serve`: wiring, start and stop.

use std::io::IsTerminal;
use std::net::SocketAddr;
use std::path::Path;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use apiserver_access::{Authenticator, Authorizer, Chain};
use apiserver_http::{ApiServer, Identity, Parts, Settings, Supervisor};
use apiserver_machinery::encryption::Encryption;
use apiserver_machinery::store::{NamespaceSource, ObjectStore, OwnNamespaces};
use controllers_runtime::Queues;
use prometheus_client::registry::Registry;
use storage_contract::Store;
use storage_embedded::EmbeddedStore;
use storage_etcd::EtcdConfiguration;
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::assembly::Assembly;
use crate::cli::ServeArguments;
use crate::config::{Etcd, ServerConfiguration};
use crate::host::Host;
use crate::pki;
use crate::start_hooks::StartHooks;
use crate::storage::Storage;
use crate::tls::Sources;
use crate::{compaction, controllers, encryption, version};

/// Where it serves when nothing is said: loopback, for nobody else to reach.
pub(crate) const LISTEN: &str = "127.0.0.1:7443";

/// How long requests in flight may take to finish at the end: the longest a request may take.
const GRACE: Duration = Duration::from_secs(60);

/// Of whom nothing below a warning is logged, whatever level is asked for: the SDK prints every request with its
/// headers, and the calls are logged by the provider. Its parts' names begin with this.
const SILENCED: &str = "openstack_sdk";

/// Serves until told to stop.
pub(crate) fn run(arguments: &ServeArguments, assembly: &Assembly) -> anyhow::Result<()> {
    let configuration = ServerConfiguration::load(arguments)?;
    start_logging(&configuration)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(&configuration, assembly))
}

fn start_logging(configuration: &ServerConfiguration) -> anyhow::Result<()> {
    let level = configuration.logging.level.as_deref().unwrap_or("info");
    let filter = Targets::from_str(level)
        .with_context(|| format!("logging.level: {level:?} is not a level or filter"))?
        .with_target(SILENCED, LevelFilter::WARN);
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(colours);
    let log = tracing_subscriber::registry().with(filter);
    match configuration.logging.format.as_deref() {
        Some("json") => log.with(lines.json()).init(),
        _ => log.with(lines).init(),
    }
    Ok(())
}

async fn serve(configuration: &ServerConfiguration, assembly: &Assembly) -> anyhow::Result<()> {
    let begun = Instant::now();
    let data = configuration.data_directory()?;
    pki::private_directory(&data)?;
    let listen: SocketAddr =
        configuration.listen.as_deref().unwrap_or(LISTEN).parse().with_context(|| {
            format!(
                "listen: {:?} is not an address with a port",
                configuration.listen.as_deref().unwrap_or_default()
            )
        })?;
    let encryption = encryption::load(configuration.encryption_config_file.as_deref(), &data)?;
    let (shutdown, force) = (CancellationToken::new(), CancellationToken::new());
    let supervisor = Supervisor::new(shutdown.clone());
    let mut metrics = Registry::default();
    let queues = Queues::registered(&mut metrics);
    let (store, storage) = open_store(configuration, &data, &mut metrics, &shutdown)?;
    let host = Host::connect(configuration).await?;
    let (configured, front_proxy) = (configuration.clone(), host.as_ref().map(Host::proxy));
    let sources = Sources { configuration: configured, data: data.clone(), listen, front_proxy };
    let followed = sources.open()?;
    let tls = followed.tls();
    let settings = settings(configuration, &data, metrics, &force)?;
    let audit = settings.audit.clone();
    let stopper = tokio::spawn(stop_on_signal(shutdown.clone(), force));
    let registry = Arc::new(assembly.registry());
    let objects = open_objects(registry, &store, &encryption.encryption, host.as_ref())?;
    let hooks = StartHooks::start(&objects, assembly.namespaces(), &shutdown);
    hooks.settle(&objects, begun).await;
    let listener = TcpListener::bind(listen).await.with_context(|| {
        format!("{listen} cannot be served on; if another program has the port, give another with --listen")
    })?;
    let address = listener.local_addr()?;
    let headers = host.as_ref().map(|host| host.proxy().borrow().headers.clone()).unwrap_or_default();
    let authenticator = Arc::new(Authenticator::new(headers, host.as_ref().map(Host::tokens)));
    let mut hosted: Vec<Arc<dyn Authorizer>> = vec![Arc::new(controllers::local_policy())];
    hosted.extend(host.as_ref().map(Host::authorizer));
    let parts = Parts {
        objects: Arc::clone(&objects),
        authenticator: Arc::clone(&authenticator),
        authorizer: Arc::new(Chain(vec![Arc::new(controllers::local_policy())])),
        hosted_authorizer: Arc::new(Chain(hosted)),
        identity: Identity { git_version: version::git_version(), address: address.to_string() },
        checks: hooks.checks(),
        supervisor,
    };
    let server = Arc::new(ApiServer::with_settings(parts, settings));
    let encryption_file = encryption.path.display().to_string();
    tokio::spawn(followed.follow(shutdown.clone()));
    tokio::spawn(encryption.follow(shutdown.clone()));
    let alone = configuration.storage.etcd.is_none();
    let controllers = (assembly.controllers && configuration.controllers.enabled)
        .then(|| controllers::start(&server, host.as_ref().map(Host::client), alone, queues, &shutdown));
    if let Some(host) = host {
        tokio::spawn(host.follow(authenticator));
    }
    tokio::spawn(compaction::run(store, shutdown.clone()));
    tracing::info!(
        address = %format!("https://{address}"),
        data = %data.display(),
        storage,
        ca = %data.join("pki/ca.crt").display(),
        encryption = encryption_file,
        "serving; make a kubeconfig with: capstan kubeconfig --data-dir {} --server https://{address}",
        data.display()
    );
    apiserver_http::serve(server, listener, tls, shutdown, GRACE).await;
    // They have stopped long since; this sees that the lease is given back, too.
    if let Some(controllers) = controllers {
        let _ = controllers.await;
    }
    stopper.abort();
    if let Some(audit) = audit {
        audit.flush();
    }
    tracing::info!("stopped");
    Ok(())
}

fn settings(
    configuration: &ServerConfiguration,
    data: &Path,
    metrics: Registry,
    force: &CancellationToken,
) -> anyhow::Result<Settings> {
    Ok(Settings {
        reads_at_once: configuration.limits.reads_at_once,
        writes_at_once: configuration.limits.writes_at_once,
        audit: configuration.audit.open(data)?,
        goaway_chance: configuration.limits.goaway_chance,
        shutdown_delay: configuration.shutdown_delay()?,
        watch_grace: configuration.watch_grace()?,
        force: force.clone(),
        metrics,
    })
}

fn open_objects(
    registry: Arc<apiserver_machinery::resource::Registry>,
    store: &Arc<dyn Store>,
    encryption: &Arc<Encryption>,
    host: Option<&Host>,
) -> anyhow::Result<Arc<ObjectStore>> {
    let namespaces: Arc<dyn NamespaceSource> = match host {
        Some(host) => host.namespaces(),
        None => Arc::new(OwnNamespaces),
    };
    Ok(Arc::new(ObjectStore::open(
        registry,
        Arc::clone(store),
        Arc::clone(encryption),
        namespaces,
        // Reads go on while requests in flight finish.
        CancellationToken::new(),
    )))
}

/// The store, and what it is called. A file is opened now or never; an etcd may come later.
fn open_store(
    configuration: &ServerConfiguration,
    data: &Path,
    metrics: &mut Registry,
    shutdown: &CancellationToken,
) -> anyhow::Result<(Arc<dyn Store>, String)> {
    let storage = Storage::new(metrics);
    let name = match &configuration.storage.etcd {
        None => {
            let path = data.join("store.redb");
            storage.open(Arc::new(EmbeddedStore::open(&path)?));
            path.display().to_string()
        }
        Some(etcd) => {
            let connecting = Arc::clone(&storage).connect(etcd_configuration(etcd)?, shutdown.clone());
            tokio::spawn(connecting);
            etcd.endpoints.join(",")
        }
    };
    Ok((storage, name))
}

fn etcd_configuration(etcd: &Etcd) -> anyhow::Result<EtcdConfiguration> {
    let text = |path: &Option<std::path::PathBuf>| path.as_deref().map(pki::read).transpose();
    let (certificate, key) = (text(&etcd.cert_file)?, text(&etcd.key_file)?);
    if certificate.is_some() != key.is_some() {
        bail!("storage.etcd: certFile and keyFile go together");
    }
    let identity = certificate.zip(key);
    Ok(EtcdConfiguration {
        endpoints: etcd.endpoints.clone(),
        ca: text(&etcd.ca_file)?,
        identity,
        ..Default::default()
    })
}

/// Begins to stop at the first SIGTERM or SIGINT. SIGINT is somebody at a terminal, and nobody waits for
/// them to be replaced; nor does whoever sends a second signal want to wait.
async fn stop_on_signal(shutdown: CancellationToken, force: CancellationToken) {
    use tokio::signal::unix::{SignalKind, signal};
    let (Ok(mut terminate), Ok(mut interrupt)) =
        (signal(SignalKind::terminate()), signal(SignalKind::interrupt()))
    else {
        tracing::error!("signals cannot be received; the server will not stop in an orderly way");
        return;
    };
    let interrupted = tokio::select! {
        _ = terminate.recv() => false,
        _ = interrupt.recv() => true,
    };
    tracing::info!("stopping: requests in flight are finished first");
    shutdown.cancel();
    if !interrupted {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    }
    force.cancel();
}
