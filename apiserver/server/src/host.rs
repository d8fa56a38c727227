//! Connection to the host cluster, if one is configured.

use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use anyhow::Context;
use apiserver_access::{Authenticator, Authorizer, HostCertificates, OfRealm, Realm, TokenSource};
use apiserver_host::{
    Audiences, Cautious, FrontProxy, HostAuthorizer, HostConnection, HostHealth, HostMetrics, HostNamespaces,
    HostPin, HostSecrets, HostState, HostTokens, HostUserCertificates, MirroredAuthorizer, Prober,
    StaleAnswers,
};
use apiserver_http::KnownHost;
use apiserver_machinery::quota::QuotaSource;
use apiserver_machinery::resource::Registry as ObjectKinds;
use apiserver_machinery::store::{NamespaceSource, ObjectStore};
use apiserver_registry::{HostStatusSource, with_host_status};
use futures::StreamExt;
use prometheus_client::registry::Registry;
use tokio::sync::watch;

use crate::config::ServerConfiguration;
use crate::host_admission::HostAdmission;
use crate::host_copies::{HostCopies, Originals, StoredSecrets};
use crate::host_mirror::Mirroring;
use crate::host_status::HostObserver;
use crate::pki;

/// Longest wait for the host at the start. The direct endpoint does not need the host.
const PATIENCE: Duration = Duration::from_secs(2);

/// The same, if the front proxy is known from a copy.
const SHORT_PATIENCE: Duration = Duration::from_millis(500);

/// Pause before the copies are read again, if the store did not answer.
const PAUSE: Duration = Duration::from_millis(50);

/// Connection to the host cluster, with the configuration of its front proxy.
pub(crate) struct Host {
    connection: HostConnection,
    prober: Prober,
    pin: HostPin,
    namespaces: HostNamespaces,
    proxy: watch::Sender<FrontProxy>,
    copies: HostCopies,
    is_restored: AtomicBool,
    audiences: Audiences,
    trusts_masters: bool,
    reviews_unknown: bool,
    accepts_certificates: bool,
    /// Source of the host's decisions. The cache of them is one for both endpoints.
    authorizer: Arc<HostAuthorizer>,
    /// Mirror of the host's permissions, if the configuration wants one.
    mirror: Option<Mirroring>,
    /// Time for which old answers of the host allow reads; `None` if they do not.
    stale_answers: Option<Duration>,
    /// Admission configurations of the host, if the configuration lets them apply.
    admission: Option<HostAdmission>,
    observer: HostObserver,
}

/// The host as the watches of its users see it.
#[derive(Debug)]
struct NamesUsers(HostHealth);

impl KnownHost for NamesUsers {
    fn is_known(&self) -> bool {
        self.0.state() != HostState::Other
    }
}

/// Reads the front proxy of the host. If it cannot be read, no client is a front proxy until it can: a host that starts
/// may refuse everybody, and the direct endpoint does not need the host.
async fn front_proxy(client: &kube::Client) -> Result<FrontProxy, String> {
    let found = apiserver_host::front_proxy(client).await;
    let found = found.map_err(|error| format!("{:#}", anyhow::Error::new(error)))?;
    match pki::certificates(&found.ca, "the host's front-proxy CA") {
        Ok(_) => Ok(found),
        Err(error) => Err(format!("{error:#}")),
    }
}

/// Reads copies, until the store answers.
async fn patiently<T, F: Future<Output = anyhow::Result<T>>>(read: impl Fn() -> F) -> T {
    loop {
        match read().await {
            Ok(read) => return read,
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

impl Host {
    /// Connects to the configured host; `None` when there is none. `kinds` are those that are served here.
    pub(crate) async fn connect(
        configuration: &ServerConfiguration,
        metrics: &mut Registry,
        copies: HostCopies,
        kinds: &ObjectKinds,
    ) -> anyhow::Result<Option<Self>> {
        let Some(host) = &configuration.host else { return Ok(None) };
        let connection = HostConnection::open(&host.kubeconfig, HostMetrics::registered(metrics)).await?;
        let namespaces = HostNamespaces::new(connection.client()).with_health(connection.health());
        let pin = HostPin::new(host.accept_new_identity.as_deref());
        let copies = copies.accepting(pin.accepted());
        let authorizer = HostAuthorizer::new(connection.client()).with_health(connection.health());
        let authorizer = Arc::new(authorizer);
        let mirror = host
            .is_mirrored()
            .then(|| Mirroring::new(&connection, Arc::clone(&authorizer), copies.clone(), &host.mirror));
        let admission = host.mirrors_admission().then(|| HostAdmission::new(&connection, kinds.clone()));
        let proxy = watch::Sender::new(FrontProxy::unknown());
        let observer = HostObserver::new(
            connection.clone(),
            pin.clone(),
            namespaces.clone(),
            proxy.subscribe(),
            (mirror.clone(), admission.clone()),
        );
        let host = Self {
            prober: Prober::new(&connection, namespaces.clone(), pin.clone()),
            connection,
            pin,
            namespaces,
            proxy,
            copies,
            is_restored: AtomicBool::new(false),
            audiences: Audiences { own: host.audiences.clone(), accepts_host: host.accept_host_audience },
            trusts_masters: host.trust_masters,
            reviews_unknown: host.review_unknown_tokens,
            accepts_certificates: host.client_certificates,
            authorizer,
            mirror,
            stale_answers: host.stale_answers()?,
            admission,
            observer,
        };
        host.begin().await;
        Ok(Some(host))
    }

    /// Reads the copies of an earlier process, and then the host itself, as far as both answer in time.
    async fn begin(&self) {
        let restored = tokio::time::timeout(PATIENCE, self.restore()).await;
        if let Ok(Some(proxy)) = restored {
            self.proxy.send_replace(proxy);
        }
        let is_known = !self.proxy.borrow().ca.is_empty();
        let patience = if is_known { SHORT_PATIENCE } else { PATIENCE };
        let client = self.connection.client();
        let asking = async {
            self.prober.pass().await;
            front_proxy(&client).await
        };
        let why = match tokio::time::timeout(patience, asking).await {
            Ok(Ok(proxy)) => {
                self.proxy.send_replace(proxy);
                return;
            }
            Ok(Err(why)) => why,
            Err(_) => "no answer in time".to_owned(),
        };
        if is_known {
            tracing::warn!(why, "the host cluster does not answer; the copies of its data are used");
        } else {
            tracing::warn!(
                why,
                "the front proxy of the host cluster is unknown; the direct endpoint is served, and requests through the host get 401 until it is known"
            );
        }
    }

    /// Applies the copies of an earlier process, once the store answers. Returns the front proxy, if a copy of it is
    /// usable.
    async fn restore(&self) -> Option<FrontProxy> {
        let restored = patiently(|| self.copies.restore()).await;
        if restored.is_replaced {
            tracing::warn!(
                pinned = restored.uid,
                accepted = self.pin.accepted(),
                "host.acceptNewIdentity names another host cluster than the known one; the copies of the known one are not used"
            );
        }
        if let Some(mirror) = &self.mirror {
            mirror.restore(patiently(|| self.copies.restore_mirror()).await);
        }
        if let Some(admission) = &self.admission {
            patiently(|| self.copies.restore_admission())
                .await
                .into_iter()
                .for_each(|restored| admission.restore(restored));
        }
        self.is_restored.store(true, Ordering::Release);
        if let Some(uid) = restored.uid {
            self.pin.restore(uid);
        }
        if let Some(version) = restored.version {
            self.pin.restore_version(version);
        }
        if let Some(contact) = restored.contact {
            self.connection.health().restore_contact(contact);
        }
        self.namespaces.restore(restored.namespaces);
        restored.proxy.filter(|proxy| {
            let usable = pki::valid_certificates(&proxy.ca, "the copy of the host's front-proxy CA");
            usable.inspect_err(|error| tracing::warn!("{error:#}; it is not used")).is_ok()
        })
    }

    /// Applies the copies if the store did not answer at the start. What the host has said since stays.
    async fn restore_later(&self, authenticator: &Authenticator) {
        if self.is_restored.load(Ordering::Acquire) {
            return;
        }
        if let Some(proxy) = self.restore().await
            && self.proxy.borrow().ca.is_empty()
        {
            self.apply(proxy, authenticator);
        }
    }

    fn apply(&self, proxy: FrontProxy, authenticator: &Authenticator) {
        // They are believed with the new CA, which follows.
        authenticator.remove_headers(proxy.headers.clone());
        self.proxy.send_replace(proxy);
    }

    /// Returns the copies of the host's data.
    pub(crate) fn copies(&self) -> HostCopies {
        self.copies.clone()
    }

    /// Returns the data of which the leader keeps copies.
    pub(crate) fn originals(&self) -> Originals {
        Originals {
            health: self.connection.health(),
            namespaces: self.namespaces.clone(),
            proxy: self.proxy(),
            pin: self.pin.clone(),
            mirror: self.mirror.clone(),
            admission: self.admission.clone(),
        }
    }

    /// Returns a reader of the host's Secrets, whose copies are in the store.
    pub(crate) fn secrets(&self, own: kube::Client) -> HostSecrets {
        let copies = StoredSecrets::new(self.copies.clone());
        HostSecrets::with_copies(self.namespaces.clone(), own, Arc::new(copies))
    }

    /// Returns a reader of the host's Secrets that neither keeps copies nor reads those of others: for a look at the
    /// present state.
    pub(crate) fn secrets_without_copies(&self, own: kube::Client) -> HostSecrets {
        HostSecrets::new(self.connection.client(), self.connection.health(), own)
    }

    /// Returns the registry with the state of the host as an object, if there is a host.
    pub(crate) fn observed(host: Option<&Self>, kinds: ObjectKinds) -> ObjectKinds {
        let Some(host) = host else { return kinds };
        let source: Arc<dyn HostStatusSource> = Arc::new(host.observer.clone());
        with_host_status(&kinds, &source)
    }

    /// Returns a receiver of the front-proxy configuration.
    pub(crate) fn proxy(&self) -> watch::Receiver<FrontProxy> {
        self.proxy.subscribe()
    }

    /// Returns the connection to the host cluster, with the user of Capstan there.
    pub(crate) fn connection(&self) -> HostConnection {
        self.connection.clone()
    }

    /// Returns an authorizer that sends SubjectAccessReviews to the host.
    pub(crate) fn authorizer(&self) -> Arc<dyn Authorizer> {
        let host = Arc::clone(&self.authorizer);
        match &self.mirror {
            Some(mirror) => Arc::new(MirroredAuthorizer::comparing(host, mirror.mirror())),
            None => host,
        }
    }

    /// Returns an authorizer that asks the host about its own users, and has no opinion about others. While the host does
    /// not answer, the mirror decides, or old answers do, if the configuration wants one of them.
    pub(crate) fn authorizer_of_its_users(&self) -> Arc<dyn Authorizer> {
        let host = Arc::clone(&self.authorizer);
        let authorizer: Arc<dyn Authorizer> = match (&self.mirror, self.stale_answers) {
            (Some(mirror), _) => Arc::new(MirroredAuthorizer::deciding(host, mirror.mirror())),
            (None, Some(longest)) => Arc::new(StaleAnswers::new(host, self.connection.health(), longest)),
            (None, None) => host,
        };
        Arc::new(OfRealm { realm: Realm::Host, authorizer })
    }

    /// Returns the mirror of the host's permissions, if there is one.
    pub(crate) fn mirror(&self) -> Option<&Mirroring> {
        self.mirror.as_ref()
    }

    /// Returns the admission configurations of the host, if they apply.
    pub(crate) fn admission(&self) -> Option<HostAdmission> {
        self.admission.clone()
    }

    /// Returns the source of the host's quotas, if they apply.
    pub(crate) fn quotas(&self) -> Option<Arc<dyn QuotaSource>> {
        let source: Arc<dyn QuotaSource> = Arc::new(self.admission()?);
        Some(source)
    }

    /// Returns the authorizer of the direct endpoint. It refuses credentials to tokens that the host has not verified.
    pub(crate) fn cautious(&self, authorizer: Arc<dyn Authorizer>) -> Arc<dyn Authorizer> {
        if self.mirror.is_some() { Arc::new(Cautious(authorizer)) } else { authorizer }
    }

    /// Returns the source that verifies tokens of the host.
    pub(crate) fn tokens(&self) -> anyhow::Result<Arc<dyn TokenSource>> {
        let tokens = HostTokens::new(self.connection.client(), self.audiences.clone(), self.trusts_masters);
        let tokens = tokens.context("cannot create a key for the cache of tokens")?;
        let tokens = tokens.reviewing_unknown(self.reviews_unknown).with_health(self.connection.health());
        Ok(Arc::new(match &self.mirror {
            Some(mirror) => tokens.with_mirror(mirror.keys(), mirror.mirror()),
            None => tokens,
        }))
    }

    /// Returns the trust in the client certificates of the host's users, if they are accepted.
    pub(crate) fn certificates(&self) -> Option<Arc<dyn HostCertificates>> {
        let trust = HostUserCertificates::new(self.connection.health(), self.trusts_masters);
        let trust: Arc<dyn HostCertificates> = Arc::new(trust);
        self.accepts_certificates.then_some(trust)
    }

    /// Returns the host as the watches of its users see it.
    pub(crate) fn known(&self) -> Arc<dyn KnownHost> {
        Arc::new(NamesUsers(self.connection.health()))
    }

    /// Returns the namespaces of the host, with their labels.
    pub(crate) fn known_namespaces(&self) -> HostNamespaces {
        self.namespaces.clone()
    }

    /// Returns the source of the host's namespaces.
    pub(crate) fn namespaces(&self) -> Arc<dyn NamespaceSource> {
        Arc::new(self.namespaces.clone())
    }

    /// Follows the kubeconfig, and the health, the namespaces and the front proxy of the host cluster. Compares the
    /// namespaces with those of the objects. Never returns.
    pub(crate) async fn follow(
        self: Arc<Self>,
        authenticator: Arc<Authenticator>,
        objects: Arc<ObjectStore>,
    ) {
        let health = self.connection.health();
        tokio::join!(
            self.connection.follow(),
            self.prober.run(),
            self.restore_later(&authenticator),
            self.namespaces.clone().follow(self.connection.watching()),
            health.while_reachable(|| self.follow_proxy(&authenticator)),
            self.follow_mirror(),
            self.follow_admission(),
            self.observer.follow(),
            self.observer.gone().follow(&health, &self.namespaces, &objects),
        );
    }

    /// Follows the permissions of the host, if they are mirrored.
    async fn follow_mirror(&self) {
        if let Some(mirror) = &self.mirror {
            mirror.follow().await;
        }
    }

    /// Follows the admission configurations of the host, if they apply.
    async fn follow_admission(&self) {
        if let Some(admission) = &self.admission {
            admission.follow().await;
        }
    }

    /// Follows the front-proxy configuration, until the host is cut off. If it does not respond, or returns an invalid CA,
    /// the last configuration stays in force.
    async fn follow_proxy(&self, authenticator: &Authenticator) {
        let mut configurations = pin!(apiserver_host::front_proxies(self.connection.watching()));
        while let Some(found) = configurations.next().await {
            let found = match found {
                Ok(found) if found == *self.proxy.borrow() => continue,
                Ok(found) => found,
                Err(error) => {
                    let error = anyhow::Error::new(error);
                    tracing::warn!(
                        "cannot read the host's front-proxy configuration; the last one stays in force: {error:#}"
                    );
                    continue;
                }
            };
            if let Err(error) = pki::certificates(&found.ca, "the host's new front-proxy CA") {
                tracing::error!("{error:#}; the last one stays in force");
                continue;
            }
            tracing::info!("the host's front proxy changed; all requests are verified against its new CA");
            self.apply(found, authenticator);
        }
    }
}
