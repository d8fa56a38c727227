//! Uses of client certificates. The first use of a certificate for emergencies becomes an Event.

use std::collections::HashSet;
use std::sync::Arc;

use apiserver_access::{CertificateObserver, PeerIdentity, User};
use apiserver_http::{ApiServer, InProcess};
use controllers_runtime::PolicyRule;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Event, EventSource, ObjectReference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time};
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Identity that records the Events.
pub(crate) const IDENTITY: &str = "certificate-uses";

/// Permissions of that identity.
pub(crate) const RULES: &[PolicyRule] = &[PolicyRule::EVENTS];

/// Namespace of the Events. They are about an object without a namespace.
const NAMESPACE: &str = "default";

/// Uses that wait for the task. A use that finds no room is reported again a minute later.
const MOST_WAITING: usize = 256;

/// Length of the part of a fingerprint that names an Event.
const NAME_LENGTH: usize = 16;

/// Use of a certificate for emergencies.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Emergency {
    fingerprint: String,
    user: String,
    reason: String,
    /// End of the certificate. Unit: seconds since 1970.
    until: i64,
}

/// Observer of the uses.
#[derive(Debug)]
pub(crate) struct CertificateUses(mpsc::Sender<Emergency>);

/// Uses that are to be recorded.
#[derive(Debug)]
pub(crate) struct Recorded(mpsc::Receiver<Emergency>);

impl CertificateUses {
    /// Creates an observer, and the other end of it.
    pub(crate) fn new() -> (Arc<Self>, Recorded) {
        let (sender, receiver) = mpsc::channel(MOST_WAITING);
        (Arc::new(Self(sender)), Recorded(receiver))
    }
}

impl CertificateObserver for CertificateUses {
    fn used(&self, certificate: &PeerIdentity) {
        let Some(reason) = certificate.break_glass_reason() else { return };
        let emergency = Emergency {
            fingerprint: certificate.fingerprint.clone(),
            user: certificate.common_name.clone(),
            reason: reason.to_owned(),
            until: certificate.not_after,
        };
        let _ = self.0.try_send(emergency);
    }
}

impl Recorded {
    /// Records an Event for each certificate, until `shutdown`. The name of the Event follows from the certificate, so
    /// other replicas and later processes record no second one.
    pub(crate) async fn follow(mut self, server: Arc<ApiServer>, shutdown: CancellationToken) {
        let client = Client::new(InProcess::new(server, User::controller(IDENTITY)), NAMESPACE);
        let api: Api<Event> = Api::namespaced(client, NAMESPACE);
        let mut known = HashSet::new();
        while let Some(Some(used)) = shutdown.run_until_cancelled(self.0.recv()).await {
            if known.contains(&used.fingerprint) {
                continue;
            }
            match api.create(&PostParams::default(), &used.event(Timestamp::now())).await {
                Ok(_) => tracing::warn!(
                    user = used.user,
                    reason = used.reason,
                    "a certificate for emergencies is used: its user may do everything"
                ),
                Err(kube::Error::Api(status)) if status.code == 409 => {}
                Err(error) => {
                    // The next report comes a minute later.
                    tracing::warn!(%error, user = used.user, "the use of a certificate is not recorded yet");
                    continue;
                }
            }
            known.insert(used.fingerprint);
        }
    }
}

impl Emergency {
    fn event(&self, now: Timestamp) -> Event {
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
                "User {:?} may do everything until {until}, by a certificate of --break-glass. Reason: {}",
                self.user, self.reason
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
