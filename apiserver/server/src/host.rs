//! Connection to the host cluster, if one is configured.

mod follow;
mod start;

use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use anyhow::Context;
use apiserver_access::{Authorizer, HostCertificates, OfRealm, Realm, TokenSource};
use apiserver_host::{
    Audiences, Cautious, FrontProxy, HostAuthorizer, HostConnection, HostHealth, HostMetrics, HostNamespaces,
    HostPin, HostSecrets, HostState, HostTokens, HostUserCertificates, MirroredAuthorizer, Prober,
    StaleAnswers,
};
use apiserver_http::KnownHost;
use apiserver_machinery::quota::QuotaSource;
use apiserver_machinery::resource::Registry as ObjectKinds;
use apiserver_machinery::store::NamespaceSource;
use apiserver_registry::{HostStatusSource, with_host_status};
use prometheus_client::registry::Registry;
use tokio::sync::watch;

use crate::config::ServerConfiguration;
use crate::host_admission::HostAdmission;
use crate::host_copies::{HostCopies, Originals, StoredSecrets};
use crate::host_mirror::Mirroring;
use crate::host_status::HostObserver;

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
}
