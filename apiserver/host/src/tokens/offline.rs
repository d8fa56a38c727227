//! Verification of tokens of the host's service accounts while the host does not answer.
//!
//! The signature, the issuer, the audience and the times are in the token. That the service account still exists is known
//! from the mirror. That a pod still exists is not known: the user gets an attribute that says so.

use apiserver_access::{CLOCK, CREDENTIAL_ID, ReviewFailed, UNVERIFIED, User};
use apiserver_oidc::KeyRefusal;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::keys::{BOUND, HostKeys, Known};
use crate::audiences::Audiences;
use crate::health::HostState;
use crate::jwt;
use crate::mirror::{Account, HostMirror};

/// Longest life of a token: a stolen one must end, although no administrator can revoke it. Unit: seconds.
const LONGEST_LIFE: i64 = 24 * 3600;

/// Verifier of tokens without the host.
#[derive(Debug)]
pub(super) struct OfflineTokens {
    pub(super) keys: HostKeys,
    pub(super) mirror: HostMirror,
}

/// Claims of a token of a service account.
#[derive(Debug, Deserialize)]
struct Claims {
    sub: String,
    exp: i64,
    iat: i64,
    jti: Option<String>,
    #[serde(rename = "kubernetes.io")]
    kubernetes: Objects,
}

#[derive(Debug, Deserialize)]
struct Objects {
    namespace: String,
    #[serde(rename = "serviceaccount")]
    service_account: ObjectId,
    /// Time after which a client should have a new token. The token may live for a year after it.
    warnafter: Option<i64>,
    /// Objects that the token is bound to.
    #[serde(flatten)]
    bound: Map<String, Value>,
}

#[derive(Debug, Deserialize)]
struct ObjectId {
    name: String,
    uid: String,
}

/// Result of the verification, beside a user.
#[derive(Debug, PartialEq, Eq)]
enum Unverified {
    /// The token is not valid.
    Refused(String),
    /// The token may be valid.
    Undecided(String),
}

impl OfflineTokens {
    /// Returns the issuer that the host had when its keys were read.
    pub(super) fn issuer(&self) -> Option<String> {
        self.keys.known().map(|known| known.kept.issuer)
    }

    /// Returns true if a token names the host as its issuer. Any other one only the host can verify.
    pub(super) fn has_issued(&self, token: &str) -> bool {
        let named = jwt::claims(token);
        let named = named.as_ref().and_then(|claims| claims.get("iss")).and_then(Value::as_str);
        self.keys.known().is_some_and(|known| named == Some(known.kept.issuer.as_str()))
    }

    /// Returns the user of a token, or `None` if the token is not valid.
    ///
    /// # Errors
    /// [`ReviewFailed`] if only the host could decide.
    pub(super) async fn review(
        &self,
        token: &str,
        audiences: &Audiences,
        state: HostState,
    ) -> Result<Option<User>, ReviewFailed> {
        if state == HostState::Other {
            return Ok(None);
        }
        match self.user(token, audiences).await {
            Ok(user) => Ok(Some(user)),
            Err(Unverified::Refused(reason)) => {
                tracing::info!(
                    reason,
                    "a token of the host cluster is refused while the host does not answer"
                );
                Ok(None)
            }
            Err(Unverified::Undecided(reason)) => Err(ReviewFailed(format!(
                "the host cluster does not answer, and this token cannot be verified without it: {reason}. Try again \
                 later, or use a client certificate of this endpoint (`capstan kubeconfig` makes one)"
            ))),
        }
    }

    async fn user(&self, token: &str, audiences: &Audiences) -> Result<User, Unverified> {
        let claims = match verified(&self.known()?, token, audiences) {
            Err(KeyRefusal::UnknownKey) => {
                self.keys.read_for_unknown_key().await;
                verified(&self.known()?, token, audiences)
            }
            other => other,
        };
        let claims = claims.map_err(|refusal| match refusal {
            KeyRefusal::UnknownKey => Unverified::Undecided("its key is not known".to_owned()),
            KeyRefusal::Invalid(reason) => Unverified::Refused(reason),
        })?;
        let claims = Claims::deserialize(Value::Object(claims))
            .map_err(|error| Unverified::Refused(format!("it is none of a service account: {error}")))?;
        claims.check(i64::try_from(CLOCK.time().as_secs()).unwrap_or(i64::MAX))?;
        self.check_account(&claims.kubernetes)?;
        Ok(claims.user())
    }

    fn known(&self) -> Result<Known, Unverified> {
        let known = self.keys.known();
        let known =
            known.ok_or_else(|| Unverified::Undecided("the host's keys were never read".to_owned()))?;
        if known.age() > BOUND {
            let hours = known.age().as_secs() / 3600;
            return Err(Unverified::Undecided(format!("the host's keys were read {hours} h ago")));
        }
        Ok(known)
    }

    fn check_account(&self, objects: &Objects) -> Result<(), Unverified> {
        let ObjectId { name, uid } = &objects.service_account;
        let undecided = |text: &str| Err(Unverified::Undecided(text.to_owned()));
        match self.mirror.account(&objects.namespace, name) {
            Account::Uid(known) if known == *uid => Ok(()),
            // The account, or its successor, may be newer than the copy.
            Account::Uid(_) => undecided("its service account has another uid in the copy of the host"),
            Account::Missing => undecided("its service account is not in the copy of the host"),
            Account::Unread => undecided("the service accounts of the host are not known"),
        }
    }
}

/// Returns the claims of a token whose signature, issuer, audience and times are good.
fn verified(known: &Known, token: &str, audiences: &Audiences) -> Result<Map<String, Value>, KeyRefusal> {
    let mut accepted = audiences.own.clone();
    if audiences.accepts_host {
        // Without other settings of the host, its API has the name of the issuer.
        accepted.push(known.kept.issuer.clone());
    }
    known.keys.verify(token, &known.kept.issuer, &accepted, now())
}

impl Claims {
    fn check(&self, now: i64) -> Result<(), Unverified> {
        let refused = |text: &str| Err(Unverified::Refused(text.to_owned()));
        let objects = &self.kubernetes;
        let account = format!("system:serviceaccount:{}:{}", objects.namespace, objects.service_account.name);
        if self.sub != account {
            return refused("its subject is not its service account");
        }
        let end = objects.warnafter.unwrap_or(self.exp).min(self.exp);
        if now >= end {
            return refused("its time to be renewed is over");
        }
        if end.saturating_sub(self.iat) > LONGEST_LIFE {
            return refused("it lives for more than 24 hours");
        }
        Ok(())
    }

    fn user(self) -> User {
        let Objects { namespace, service_account, bound, .. } = self.kubernetes;
        let groups = ["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
        let mut user = User::authenticated(self.sub, groups);
        user.uid = Some(service_account.uid);
        if let Some(id) = self.jti {
            user.extra.insert(CREDENTIAL_ID.to_owned(), vec![format!("JTI={id}")]);
        }
        if !bound.is_empty() {
            user.extra.insert(UNVERIFIED.to_owned(), bound.into_iter().map(|(kind, _)| kind).collect());
        }
        user
    }
}

fn now() -> f64 {
    CLOCK.time().as_secs_f64()
}
