//! Report about an installation: its replicas, its stored form, its CAs and its client certificates. Commands read it from
//! the store, or from the running server if only that one can open the store.

mod service;

use std::sync::Arc;

use anyhow::{Context, bail};
use serde::{Deserialize, Serialize};
use storage_contract::Store;

pub(crate) use self::service::ReportService;
use crate::authorities::{AuthorityState, AuthorityStore};
use crate::backup::{Setup, is_in_use};
use crate::certificate_uses::Use;
use crate::local_server::LocalServer;
use crate::replicas::{self, Replica};
use crate::{key_rotation, rewrite};

/// User of a command that queries the running server. Its certificate is made for the moment, with the CA of the node.
const USER: &str = "capstan-command";

/// Group of that user: the binding `cluster-admin` lets it do everything.
const ADMINS: &str = "capstan:admins";

/// Report, as JSON on the wire. Servers of later releases may add fields.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Report {
    /// Replicas that have a record in the store, also dead ones.
    pub(crate) replicas: Vec<Replica>,
    /// Stored form of the store.
    pub(crate) form: FormReport,
    /// Command whose rewrite of all values has not ended.
    pub(crate) rewrite: Option<String>,
    /// The CAs; empty before the first start of a server.
    pub(crate) authorities: Vec<AuthorityState>,
    /// Client certificates that were issued or used.
    pub(crate) certificates: Vec<Use>,
}

/// Stored form of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct FormReport {
    /// True if replicas agree on a form. The embedded store has one form for each release.
    pub(crate) is_agreed: bool,
    /// Form that servers write.
    pub(crate) committed: u64,
    /// Oldest form that a value may have.
    pub(crate) least: u64,
    /// Form to which a downgrade has begun.
    pub(crate) to: Option<u64>,
    /// Time for which all replicas run a release before its form is committed. Unit: seconds.
    pub(crate) delay: u64,
}

/// Source of a report: a store with its CAs, and settings of the server.
#[derive(Debug, Clone)]
pub(crate) struct Source {
    store: Arc<dyn Store>,
    authorities: AuthorityStore,
    is_agreed: bool,
    delay: u64,
}

impl Source {
    /// Creates a source for the store of a server with this configuration.
    ///
    /// # Errors
    /// A delay in the configuration that is no duration.
    pub(crate) fn new(
        configuration: &crate::config::ServerConfiguration,
        store: Arc<dyn Store>,
        authorities: AuthorityStore,
    ) -> anyhow::Result<Self> {
        let delay = configuration.form_delay()?.as_secs();
        Ok(Self { store, authorities, is_agreed: configuration.storage.etcd.is_some(), delay })
    }

    /// Reads the store.
    ///
    /// # Errors
    /// The store does not answer, or a value in it cannot be opened.
    pub(crate) async fn read(&self) -> anyhow::Result<Report> {
        let store = self.store.as_ref();
        let rewrite = rewrite::load(store).await?.map(|stored| stored.job);
        let form = store.form();
        Ok(Report {
            replicas: replicas::all(store).await?,
            form: FormReport {
                is_agreed: self.is_agreed,
                committed: form.committed,
                least: form.least,
                to: form.to,
                delay: self.delay,
            },
            rewrite: rewrite.filter(|job| job.ended.is_none()).map(|job| job.reason.command().to_owned()),
            authorities: self.authorities.states().await?,
            certificates: self.authorities.uses().await?,
        })
    }
}

/// Returns the report about an installation. With an embedded store that a server has open, that server makes it.
///
/// # Errors
/// A store that cannot be read; a running server that does not answer or refuses.
pub(crate) async fn report(setup: &Setup) -> anyhow::Result<Report> {
    let store: Arc<dyn Store> = match setup.open().await {
        Ok(store) => store.into(),
        Err(error) if is_in_use(&error) => return from_server(setup).await,
        Err(error) => return Err(error),
    };
    let (path, encryption) = setup.encryption()?;
    let encryption = encryption.with_context(|| format!("{}: there is no encryption key", path.display()))?;
    // A value that an old key seals would need that key for ever.
    key_rotation::apply(store.as_ref(), &encryption).await?;
    let authorities = AuthorityStore::new(Arc::clone(&store), encryption);
    Source::new(&setup.configuration, store, authorities)?.read().await
}

/// Requests the report from the server of this machine.
async fn from_server(setup: &Setup) -> anyhow::Result<Report> {
    let server = LocalServer::new(&setup.configuration, &setup.data, USER, ADMINS)?;
    let url = server.url().to_owned();
    let unreachable = || {
        format!(
            "a server has the embedded store open, and {url} does not answer. Give the server's configuration with --config, \
             with its address in `listen`, or stop the server"
        )
    };
    let (code, text) = server.post(service::PATH).await.with_context(unreachable)?;
    match code {
        200 => serde_json::from_str(&text).with_context(|| format!("{url}: its report cannot be read")),
        404 => bail!("{url}: the server is of a release without reports. Stop it, and run the command again"),
        403 => bail!(
            "{url}: the group {ADMINS} may not post to {}. Restore the binding `cluster-admin`, or stop the server and run \
             the command again",
            service::PATH
        ),
        code => bail!("{url} answers {code}: {}", text.trim()),
    }
}
