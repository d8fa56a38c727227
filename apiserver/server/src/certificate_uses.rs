//! Uses of client certificates: their records in the store, and an Event at the first use of a certificate for
//! emergencies.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use anyhow::Context;
use apiserver_access::{CertificateObserver, PeerIdentity, User};
use apiserver_http::{ApiServer, InProcess};
use controllers_runtime::PolicyRule;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::PostParams;
use kube::{Api, Client};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::authorities::AuthorityStore;
use crate::pki;

/// Identity that records the Events.
pub(crate) const IDENTITY: &str = "certificate-uses";

/// Permissions of that identity.
pub(crate) const RULES: &[PolicyRule] = &[PolicyRule::EVENTS];

/// Namespace of the Events. They are about an object without a namespace.
const NAMESPACE: &str = "default";

/// Uses that wait for the task. A use that finds no room is reported again a minute later.
const MOST_WAITING: usize = 1024;

/// Length of the part of a fingerprint that names an Event.
const NAME_LENGTH: usize = 16;

/// Shortest time between two records of the same certificate. Unit: seconds.
const RECORD_INTERVAL: i64 = 3600;

/// Client certificate, as the store records it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Use {
    /// SHA-256 of the certificate in lower-case hex.
    pub(crate) fingerprint: String,
    /// CN of the issuer.
    pub(crate) issuer: String,
    /// Serial number in lower-case hex.
    pub(crate) serial: String,
    pub(crate) user: String,
    pub(crate) groups: Vec<String>,
    /// Reason of a certificate for emergencies.
    pub(crate) reason: Option<String>,
    /// Name of the command or of the request that has issued it; empty if that is unknown.
    #[serde(default)]
    pub(crate) by: String,
    /// End of the certificate. Unit: seconds since 1970.
    pub(crate) until: i64,
    /// Last use, if there was one. Unit: seconds since 1970.
    pub(crate) last_used: Option<i64>,
}

impl Use {
    fn of(certificate: &PeerIdentity, now: i64) -> Self {
        Self {
            fingerprint: certificate.fingerprint.clone(),
            issuer: certificate.issuer.clone(),
            serial: certificate.serial_number.clone(),
            user: certificate.common_name.clone(),
            groups: certificate.organizations.clone(),
            reason: certificate.break_glass_reason().map(str::to_owned),
            by: String::new(),
            until: certificate.not_after,
            last_used: Some(now),
        }
    }

    /// Returns the record of a certificate in PEM that was issued just now.
    ///
    /// # Errors
    /// The certificate cannot be read.
    pub(crate) fn issued(pem: &str, by: &str) -> anyhow::Result<Self> {
        let chain = pki::certificates(pem, "the new certificate")?;
        let identity =
            chain.first().and_then(PeerIdentity::read).context("the new certificate cannot be read")?;
        Ok(Self { by: by.to_owned(), last_used: None, ..Self::of(&identity, 0) })
    }

    fn event(&self, reason: &str, now: Timestamp) -> Event {
        let until = Timestamp::from_second(self.until).unwrap_or(now);
        let id: String = self.fingerprint.chars().take(NAME_LENGTH).collect();
        Event {
            metadata: ObjectMeta {
                name: Some(format!("break-glass.{id}")),
                namespace: Some(NAMESPACE.to_owned()),
                ..ObjectMeta::default()
            },
            involved_object: ObjectReference {
                api_version: Some("rbac.authorization.k8s.io/v1".to_owned()),
                kind: Some("Group".to_owned()),
                name: Some("system:masters".to_owned()),
                ..ObjectReference::default()
            },
            reason: Some("BreakGlass".to_owned()),
            message: Some(format!(
                "User {:?} may do everything until {until}, by a certificate of --break-glass. Reason: {reason}",
                self.user
            )),
            type_: Some("Warning".to_owned()),
            count: Some(1),
            first_timestamp: Some(Time(now)),
            last_timestamp: Some(Time(now)),
            source: Some(EventSource { component: Some(IDENTITY.to_owned()), host: None }),
            reporting_component: Some(IDENTITY.to_owned()),
            ..Event::default()
        }
    }
}

/// Observer of the uses.
#[derive(Debug)]
pub(crate) struct CertificateUses(mpsc::Sender<Use>);

/// Uses that are to be recorded.
#[derive(Debug)]
pub(crate) struct Recorded {
    uses: mpsc::Receiver<Use>,
    store: AuthorityStore,
    /// Time of the last use of a certificate for emergencies. Unit: seconds since 1970; 0 before the first.
    last_emergency: Gauge,
}

impl CertificateUses {
    /// Creates an observer, and the other end of it, with its metric in a registry.
    pub(crate) fn new(store: AuthorityStore, metrics: &mut Registry) -> (Arc<Self>, Recorded) {
        let (sender, uses) = mpsc::channel(MOST_WAITING);
        let last_emergency = Gauge::default();
        metrics.register(
            "capstan_break_glass_last_use_timestamp_seconds",
            "Time of the last use of a certificate of --break-glass at this server since the start of the process",
            last_emergency.clone(),
        );
        (Arc::new(Self(sender)), Recorded { uses, store, last_emergency })
    }
}

impl CertificateObserver for CertificateUses {
    fn used(&self, certificate: &PeerIdentity) {
        let _ = self.0.try_send(Use::of(certificate, Timestamp::now().as_second()));
    }
}

impl Recorded {
    /// Records the uses until `shutdown`: each certificate once an hour, and an Event for each one for emergencies. What
    /// fails is done again at the next report.
    pub(crate) async fn follow(mut self, server: Arc<ApiServer>, shutdown: CancellationToken) {
        let client = Client::new(InProcess::new(server, User::controller(IDENTITY)), NAMESPACE);
        let api: Api<Event> = Api::namespaced(client, NAMESPACE);
        let (mut announced, mut recorded) = (HashSet::new(), HashMap::new());
        let mut cleaned = 0;
        while let Some(Some(used)) = shutdown.run_until_cancelled(self.uses.recv()).await {
            let now = used.last_used.unwrap_or_default();
            if used.reason.is_some() {
                self.last_emergency.set(now);
            }
            if let Some(reason) = used.reason.as_deref().filter(|_| !announced.contains(&used.fingerprint))
                && announce(&api, &used, reason).await
            {
                announced.insert(used.fingerprint.clone());
            }
            let is_due =
                |last: Option<&i64>| last.is_none_or(|last| now.saturating_sub(*last) >= RECORD_INTERVAL);
            if !is_due(recorded.get(&used.fingerprint)) {
                continue;
            }
            match record(&self.store, &used).await {
                Ok(()) => {
                    recorded.insert(used.fingerprint, now);
                }
                Err(error) => tracing::debug!("the use of a certificate is not recorded yet: {error:#}"),
            }
            if now.saturating_sub(cleaned) >= RECORD_INTERVAL && clean(&self.store, now).await.is_ok() {
                recorded.retain(|_, last| !is_due(Some(last)));
                cleaned = now;
            }
        }
    }
}

/// Writes the use to the record of a certificate, which may say who has issued it.
pub(crate) async fn record(store: &AuthorityStore, used: &Use) -> anyhow::Result<()> {
    let by = store.recorded(&used.fingerprint).await?.map(|known| known.by).unwrap_or_default();
    store.record(&Use { by, ..used.clone() }).await
}

/// Removes the records of certificates that have ended.
pub(crate) async fn clean(store: &AuthorityStore, now: i64) -> anyhow::Result<()> {
    for ended in store.uses().await?.into_iter().filter(|used| used.until < now) {
        store.forget(&ended.fingerprint).await?;
    }
    Ok(())
}

/// Records the Event. Its name follows from the certificate, so other replicas and later processes record no second one.
async fn announce(api: &Api<Event>, used: &Use, reason: &str) -> bool {
    match api.create(&PostParams::default(), &used.event(reason, Timestamp::now())).await {
        Ok(_) => {
            let user = &used.user;
            tracing::warn!(user, reason, "a certificate for emergencies is used: its user may do everything");
            true
        }
        Err(kube::Error::Api(status)) if status.code == 409 => true,
        Err(error) => {
            tracing::warn!(%error, user = used.user, "the use of a certificate for emergencies has no Event yet");
            false
        }
    }
}
