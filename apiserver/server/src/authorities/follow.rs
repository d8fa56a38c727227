//! Follower of the CAs in the store: the TLS settings, files of the data directory and a ConfigMap have what it finds.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use apiserver_access::User;
use apiserver_http::{ApiServer, InProcess};
use controllers_runtime::PolicyRule;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use super::stored::is_temporary;
use super::{Authorities, AuthorityStore, Purpose};
use crate::pki;

/// Identity that publishes the certificates of the CAs.
pub(crate) const IDENTITY: &str = "certificate-authorities";

/// Permissions of that identity.
pub(crate) const RULES: &[PolicyRule] =
    &[PolicyRule { groups: &[""], resources: &["configmaps"], verbs: &["get", "create", "update"] }];

/// Namespace and name of the ConfigMap with the certificates.
const PUBLISHED: (&str, &str) = ("capstan-system", "capstan-ca");

/// Interval at which the store is read again.
const POLL_INTERVAL: Duration = Duration::from_secs(30);

/// The same after a failure: the server may have no CA yet.
const RETRY_INTERVAL: Duration = Duration::from_millis(250);

/// Pause before the store is read again at the start.
const PAUSE: Duration = Duration::from_millis(50);

/// Longest wait for the store at the start. The port opens without it.
const PATIENCE: Duration = Duration::from_secs(2);

/// CAs, as far as they are known.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Known {
    /// CAs as they were read last; `None` if the store has not answered yet.
    pub(crate) authorities: Option<Arc<Authorities>>,
    /// Error of the newest read.
    pub(crate) error: Option<String>,
    /// Set once the store has answered, whatever it has.
    pub(crate) has_answered: bool,
}

/// Follower of the CAs.
#[derive(Debug)]
pub(crate) struct AuthorityKeeper {
    store: AuthorityStore,
    data: PathBuf,
    /// True if the store is a file of this machine, too. Then the key of clients' certificates may be one.
    exports_key: bool,
    known: watch::Sender<Known>,
}

impl AuthorityKeeper {
    /// Creates a follower, and reads the store as far as it answers in time.
    pub(crate) async fn open(store: AuthorityStore, data: &Path, exports_key: bool) -> Self {
        let keeper = Self { store, data: data.to_owned(), exports_key, known: watch::Sender::default() };
        let reading = async {
            loop {
                keeper.refresh().await;
                if keeper.known.borrow().has_answered {
                    return;
                }
                tokio::time::sleep(PAUSE).await;
            }
        };
        let _ = tokio::time::timeout(PATIENCE, reading).await;
        if keeper.known.borrow().authorities.is_none() {
            let why = keeper.known.borrow().error.clone().unwrap_or_else(|| "no answer in time".to_owned());
            tracing::warn!(
                why,
                "the CAs in the store are not read yet; those of the data directory are used"
            );
        }
        keeper
    }

    /// Returns a receiver of the CAs.
    pub(crate) fn known(&self) -> watch::Receiver<Known> {
        self.known.subscribe()
    }

    /// Waits until the store has answered. Before that nothing may be written to it: an empty store gets its CAs first. An etcd
    /// is not even open before it has them. An embedded store is, and a KMS plug-in may be silent when the server starts.
    pub(crate) fn answered(&self) -> impl Future<Output = ()> + Send + use<> {
        let mut known = self.known.subscribe();
        async move {
            // The follower lives as long as the server.
            let _ = known.wait_for(|known| known.has_answered).await;
        }
    }

    /// Reads the store. A CA that cannot be read changes nothing but the error.
    pub(super) async fn refresh(&self) {
        let found = self.read().await;
        let known = match found {
            Ok(found) => Known { authorities: Some(Arc::new(found)), error: None, has_answered: true },
            Err(error) => {
                let last = self.known.borrow().clone();
                let has_answered = last.has_answered || !is_temporary(&error);
                Known { error: Some(format!("{error:#}")), has_answered, ..last }
            }
        };
        if let Some(authorities) = known.authorities.as_ref().filter(|_| known.error.is_none()) {
            self.export(authorities);
        }
        self.known.send_if_modified(|last| {
            let is_new = *last != known;
            *last = known;
            is_new
        });
    }

    async fn read(&self) -> anyhow::Result<Authorities> {
        if let Some(found) = self.store.load().await? {
            self.store.reseal().await?;
            return Ok(found);
        }
        self.store.begin(&self.data).await?;
        self.store.load().await?.context("the store has no CA")
    }

    /// Writes the files by which commands trust the server and, beside an embedded store, sign certificates of clients.
    /// They may be on a volume that cannot be written.
    fn export(&self, authorities: &Authorities) {
        let pki = self.data.join("pki");
        let mut files = vec![("ca.crt", authorities.bundle(Purpose::Serving))];
        if self.exports_key && !authorities.signs_clients_by(&self.data) {
            match authorities.signing(Purpose::Client) {
                Ok(signing) => {
                    files.push(("client-ca.key", signing.key.clone()));
                    files.push(("client-ca.crt", signing.certificate.clone()));
                }
                Err(error) => tracing::error!("{error:#}"),
            }
        }
        for (name, text) in files {
            let path = pki.join(name);
            if std::fs::read_to_string(&path).is_ok_and(|found| found == text) {
                continue;
            }
            if let Err(error) = pki::private_directory(&pki).and_then(|()| pki::write_private(&path, &text)) {
                tracing::warn!("a file of the CAs is not current: {error:#}");
            }
        }
    }

    /// Follows the store until `shutdown`, and publishes the certificates.
    pub(crate) async fn follow(self, server: Arc<ApiServer>, shutdown: CancellationToken) {
        let client = Client::new(InProcess::new(server, User::controller(IDENTITY)), PUBLISHED.0);
        let mut published = None;
        loop {
            self.refresh().await;
            let authorities = self.known.borrow().authorities.clone();
            if let Some(authorities) = authorities.filter(|found| published.as_ref() != Some(found)) {
                match publish(&client, &authorities).await {
                    Ok(()) => published = Some(authorities),
                    Err(error) => {
                        tracing::debug!(%error, "the certificates of the CAs are not published yet")
                    }
                }
            }
            let is_well = self.known.borrow().error.is_none();
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(if is_well { POLL_INTERVAL } else { RETRY_INTERVAL }) => {}
            }
        }
    }
}

/// Writes the certificates to the ConfigMap, unless it has them.
async fn publish(client: &Client, authorities: &Authorities) -> Result<(), kube::Error> {
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), PUBLISHED.0);
    let bundle = |name: &str, purpose| (name.to_owned(), authorities.bundle(purpose));
    let data = BTreeMap::from([
        bundle("ca.crt", Purpose::Serving),
        bundle("client-ca.crt", Purpose::Client),
        bundle("machine-ca.crt", Purpose::Machine),
    ]);
    match api.get_opt(PUBLISHED.1).await? {
        Some(found) if found.data.as_ref() == Some(&data) => Ok(()),
        Some(found) => {
            let new = ConfigMap { data: Some(data), ..found };
            api.replace(PUBLISHED.1, &PostParams::default(), &new).await.map(|_| ())
        }
        None => {
            let metadata = ObjectMeta { name: Some(PUBLISHED.1.to_owned()), ..ObjectMeta::default() };
            let new = ConfigMap { metadata, data: Some(data), ..ConfigMap::default() };
            api.create(&PostParams::default(), &new).await.map(|_| ())
        }
    }
}
