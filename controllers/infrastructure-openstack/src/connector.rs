//! Connector: one session, and so one token, per credentials.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex as StdMutex, MutexGuard, PoisonError},
    time::Duration,
};

use async_trait::async_trait;
use controllers_infrastructure::{
    CallPermit, Cloud, CloudConnector, CloudError, CloudResult, Connection, Credentials, ErrorClass,
};
use tokio::{sync::Mutex, time::Instant};

use crate::{
    allowed_endpoints::AllowedEndpoints, cloud::OpenStackCloud, login::log_in, metrics::CloudMetrics,
};

/// Time after which an unused session is dropped: it belongs to a deleted cluster, or to a Secret that has
/// changed.
const IDLE: Duration = Duration::from_secs(3600);

/// Maximum of sessions; beyond it, the longest unused one is dropped. Each has a few connections.
const MOST: usize = 512;

/// Interval before a failed login is retried. Many objects wait for the same one.
const FAILURE_HOLDS: Duration = Duration::from_secs(5);

/// Interval before refused credentials are tried again, since a cloud locks a user out after too many wrong passwords.
/// Other credentials are tried at once.
const REFUSAL_HOLDS: Duration = Duration::from_mins(5);

/// Longest interval between two logins with refused credentials.
const REFUSAL_HOLDS_AT_MOST: Duration = Duration::from_mins(30);

/// Credentials with their cloud, by source.
type Accepted = HashMap<String, (Credentials, Arc<dyn Cloud>)>;

/// Connector to OpenStack clouds. By default it connects to the endpoints of [`AllowedEndpoints::default`].
#[derive(Default)]
pub struct OpenStackConnector {
    /// By the credentials themselves, so that a collision of hashes has no effect.
    slots: StdMutex<HashMap<Credentials, Slot>>,
    /// Last credentials of each source that the cloud accepted, with their cloud.
    accepted: StdMutex<Accepted>,
    allowed: Arc<AllowedEndpoints>,
    permit: Option<Arc<dyn CallPermit>>,
    metrics: CloudMetrics,
}

struct Slot {
    last_asked: Instant,
    session: Arc<SharedSession>,
}

/// Session of one user.
#[derive(Default)]
struct SharedSession {
    login: Mutex<Login>,
    /// Held by the one caller that gets a new token, while others use the old one. Contains the failures so far.
    renewal: Mutex<Option<(Instant, ErrorClass, u32)>>,
    /// Mark of the credentials, which the clouds of all tokens share.
    line: Arc<()>,
}

/// Held during a login: other callers wait for the one attempt.
#[derive(Default)]
enum Login {
    #[default]
    Untried,
    Done(Arc<OpenStackCloud>),
    /// With the number of failures in a row.
    Failed(Instant, CloudError, u32),
}

impl Login {
    fn failures(&self) -> u32 {
        if let Self::Failed(_, _, count) = self { *count } else { 0 }
    }
}

impl OpenStackConnector {
    /// Creates a connector without sessions. Each session connects to these endpoints only.
    pub fn new(allowed: AllowedEndpoints) -> Self {
        Self { allowed: Arc::new(allowed), ..Self::default() }
    }

    /// Makes every session wait for this permit before each call that changes something.
    pub fn with_permit(self, permit: Arc<dyn CallPermit>) -> Self {
        Self { permit: Some(permit), ..self }
    }

    /// Makes every session record its calls in these metrics.
    pub fn with_metrics(self, metrics: CloudMetrics) -> Self {
        Self { metrics, ..self }
    }

    async fn log_in(&self, credentials: &Credentials, line: &Arc<()>) -> CloudResult<OpenStackCloud> {
        let session = log_in(credentials, &self.allowed).await?.with_metrics(self.metrics.clone());
        let session = match &self.permit {
            Some(permit) => session.with_permit(Arc::clone(permit)),
            None => session,
        };
        Ok(OpenStackCloud::new(session, Arc::clone(line)))
    }

    fn slot(&self, credentials: &Credentials) -> Arc<SharedSession> {
        let now = Instant::now();
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.retain(|_, slot| now.duration_since(slot.last_asked) < IDLE);
        if let Some(slot) = slots.get_mut(credentials) {
            slot.last_asked = now;
            return Arc::clone(&slot.session);
        }
        if slots.len() >= MOST {
            let oldest = slots.iter().min_by_key(|(_, slot)| slot.last_asked).map(|(key, _)| key.clone());
            oldest.and_then(|key| slots.remove(&key));
        }
        let session = Arc::default();
        slots.insert(credentials.clone(), Slot { last_asked: now, session: Arc::clone(&session) });
        session
    }

    /// Logs in again before the token ends. If that fails, the old one serves to its end.
    async fn renewed(
        &self,
        session: &SharedSession,
        credentials: &Credentials,
        old: Arc<OpenStackCloud>,
    ) -> Arc<OpenStackCloud> {
        let Ok(mut failures) = session.renewal.try_lock() else { return old };
        let is_early = failures.is_some_and(|(at, class, count)| at.elapsed() < holds(class, count));
        if is_early {
            return old;
        }
        match self.log_in(credentials, &session.line).await {
            Ok(new) => {
                let cloud = Arc::new(new);
                *session.login.lock().await = Login::Done(Arc::clone(&cloud));
                *failures = None;
                cloud
            }
            Err(error) => {
                tracing::debug!(cloud = credentials.cloud_name, %error, "a token cannot be renewed yet");
                let count = failures.map_or(0, |(_, _, count)| count).saturating_add(1);
                *failures = Some((Instant::now(), error.class, count));
                old
            }
        }
    }

    fn accepted(&self) -> MutexGuard<'_, Accepted> {
        self.accepted.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[async_trait]
impl CloudConnector for OpenStackConnector {
    async fn connect(&self, credentials: &Credentials) -> CloudResult<Arc<dyn Cloud>> {
        let session = self.slot(credentials);
        let mut login = session.login.lock().await;
        match &*login {
            Login::Done(cloud) if !cloud.is_refused() => {
                let cloud = Arc::clone(cloud);
                drop(login);
                let aging = cloud.is_aging();
                return Ok(if aging { self.renewed(&session, credentials, cloud).await } else { cloud });
            }
            Login::Failed(at, error, count) if at.elapsed() < holds(error.class, *count) => {
                return Err(error.clone());
            }
            Login::Untried | Login::Done(_) | Login::Failed(..) => {}
        }
        match self.log_in(credentials, &session.line).await {
            Ok(cloud) => {
                let cloud = Arc::new(cloud);
                *login = Login::Done(Arc::clone(&cloud));
                Ok(cloud)
            }
            Err(error) => {
                tracing::debug!(cloud = credentials.cloud_name, %error, "login failed");
                *login = Login::Failed(Instant::now(), error.clone(), login.failures().saturating_add(1));
                Err(error)
            }
        }
    }

    async fn connect_from(&self, source: &str, credentials: &Credentials) -> CloudResult<Connection> {
        let error = match self.connect(credentials).await {
            Ok(cloud) => {
                let mut accepted = self.accepted();
                accepted.retain(|_, (_, cloud)| cloud.is_usable());
                accepted.insert(source.to_owned(), (credentials.clone(), Arc::clone(&cloud)));
                return Ok(Connection { cloud, refused: None });
            }
            Err(error) => error,
        };
        // The same credentials are no others: their session has ended.
        let earlier = self.accepted().get(source).filter(|(known, _)| known != credentials).cloned();
        match earlier.filter(|(_, cloud)| cloud.is_usable()) {
            Some((_, cloud)) => Ok(Connection { cloud, refused: Some(error) }),
            None => Err(error),
        }
    }
}

/// Returns the interval before a login is tried again that has failed this many times.
fn holds(class: ErrorClass, failures: u32) -> Duration {
    if class != ErrorClass::Unauthorized {
        return FAILURE_HOLDS;
    }
    let factor = 1_u32.checked_shl(failures.saturating_sub(1)).unwrap_or(u32::MAX);
    REFUSAL_HOLDS.saturating_mul(factor).min(REFUSAL_HOLDS_AT_MOST)
}

impl std::fmt::Debug for OpenStackConnector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let sessions = self.slots.lock().unwrap_or_else(PoisonError::into_inner).len();
        f.debug_struct("OpenStackConnector").field("sessions", &sessions).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn credentials(cloud_name: String) -> Credentials {
        Credentials {
            clouds_yaml: "secret".into(),
            cloud_name,
            ca_certificate: None,
            region: None,
            identity: None,
        }
    }

    #[test]
    fn r4_5_users_of_a_shared_identity_share_no_session_with_others() {
        let connector = OpenStackConnector::default();
        let own = credentials("a".into());
        let shared = Credentials { identity: Some("shared".into()), ..own.clone() };
        let first = connector.slot(&shared);
        assert!(Arc::ptr_eq(&first, &connector.slot(&shared)));
        assert!(!Arc::ptr_eq(&first, &connector.slot(&own)));
    }

    #[tokio::test(start_paused = true)]
    async fn sessions_are_shared_bounded_and_expire() {
        let connector = OpenStackConnector::default();
        let first = connector.slot(&credentials("a".into()));
        assert!(Arc::ptr_eq(&first, &connector.slot(&credentials("a".into()))));

        tokio::time::advance(IDLE / 2).await;
        for index in 0..MOST {
            connector.slot(&credentials(index.to_string()));
        }
        assert!(!Arc::ptr_eq(&first, &connector.slot(&credentials("a".into()))), "the oldest made room");
        assert_eq!(format!("{connector:?}"), format!("OpenStackConnector {{ sessions: {MOST} }}"));

        tokio::time::advance(IDLE).await;
        connector.slot(&credentials("b".into()));
        assert_eq!(format!("{connector:?}"), "OpenStackConnector { sessions: 1 }");
    }

    #[test]
    fn r2_13_refused_credentials_are_tried_less_and_less_often() {
        let minutes = |failures| holds(ErrorClass::Unauthorized, failures).as_secs() / 60;
        assert_eq!([1, 2, 3, 4, 40].map(minutes), [5, 10, 20, 30, 30]);
        assert_eq!(holds(ErrorClass::Unreachable, 40), FAILURE_HOLDS);
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_login_is_shared_for_a_short_time() {
        let connector = OpenStackConnector::default();
        let one = connector.connect(&credentials("a".into())).await.unwrap_err();
        let two = connector.connect(&credentials("a".into())).await.unwrap_err();
        assert_eq!(one, two);
        assert!(!format!("{one:?} {connector:?}").contains("secret"));
    }
}
