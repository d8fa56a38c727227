//! Users of the tokens: a token is valid while its service account, and the object that it is bound to, exist.

use std::sync::Arc;

use apiserver_access::{CREDENTIAL_ID, ReviewFailed, TokenSource, User};
use apiserver_machinery::object;
use apiserver_machinery::store::{Freshness, ObjectStore};
use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;

use super::TokenIssuer;
use super::bound::KINDS;
use super::claims::{Claims, ObjectId};
use crate::recorded_time::judged_now;

/// Time for which a token is valid after the deletion of its object began, as upstream has it: what the object is
/// for may have to end in order.
const LEAVE: SignedDuration = SignedDuration::from_secs(60);

/// Source of the users.
#[derive(Debug)]
pub(super) struct ServiceAccountTokens {
    issuer: TokenIssuer,
    objects: Arc<ObjectStore>,
}

impl ServiceAccountTokens {
    pub(super) fn new(issuer: TokenIssuer, objects: Arc<ObjectStore>) -> Self {
        Self { issuer, objects }
    }

    /// Returns true if an object exists with this uid.
    async fn exists(
        &self,
        group: &str,
        plural: &str,
        namespace: &str,
        id: &ObjectId,
    ) -> Result<bool, ReviewFailed> {
        let Some(kind) = self.objects.kind_of(group, plural) else { return Ok(false) };
        // The cache may be a moment behind another replica's write.
        for freshness in [Freshness::Any, Freshness::Consistent] {
            match self.objects.get(kind, namespace, &id.name, freshness).await {
                Ok(found) => {
                    let found: Value = found.to_value().map_err(|error| ReviewFailed(error.to_string()))?;
                    if object::meta(&found, "uid") == id.uid {
                        return Ok(!is_gone(&found, Timestamp::now()));
                    }
                }
                Err(error) if error.code == 404 => {}
                Err(error) => return Err(ReviewFailed(error.message)),
            }
        }
        Ok(false)
    }

    /// Returns the reason why the objects of a token do not admit it any more.
    async fn missing(&self, claims: &Claims) -> Result<Option<&'static str>, ReviewFailed> {
        let objects = &claims.kubernetes;
        if !self.exists("", "serviceaccounts", &objects.namespace, &objects.service_account).await? {
            return Ok(Some("its service account does not exist any more"));
        }
        for kind in &KINDS {
            if let Some(id) = kind.bound(objects)
                && !self.exists(kind.group, kind.plural, &objects.namespace, &id).await?
            {
                return Ok(Some("the object that it is bound to does not exist any more"));
            }
        }
        Ok(None)
    }
}

fn is_gone(found: &Value, now: Timestamp) -> bool {
    let deleted: Option<Timestamp> = object::meta(found, "deletionTimestamp").parse().ok();
    deleted.is_some_and(|at| now.duration_since(at) > LEAVE)
}

#[async_trait]
impl TokenSource for ServiceAccountTokens {
    async fn review(&self, token: &str) -> Result<Option<User>, ReviewFailed> {
        Ok(self.verified(token, &[self.issuer.url()]).await?.map(user))
    }

    async fn review_for(
        &self,
        token: &str,
        audiences: &[String],
    ) -> Result<Option<(User, Vec<String>)>, ReviewFailed> {
        let wanted: Vec<&str> = audiences.iter().map(String::as_str).collect();
        Ok(self.verified(token, &wanted).await?.map(|claims| {
            let of = claims.aud.iter().filter(|audience| audiences.contains(audience)).cloned().collect();
            (user(claims), of)
        }))
    }
}

impl ServiceAccountTokens {
    /// Returns the claims of a token that is valid for one of the audiences.
    async fn verified(&self, token: &str, audiences: &[&str]) -> Result<Option<Claims>, ReviewFailed> {
        let claims = self.issuer.keys.verify(token).await.map_err(|error| {
            ReviewFailed(format!("the signing keys of service accounts cannot be read: {error:#}; try again"))
        })?;
        let Some(claims) = claims else { return Ok(None) };
        let refusal = claims.refusal(self.issuer.url(), audiences, judged_now());
        let refusal = match refusal {
            Some(refusal) => Some(refusal),
            None => self.missing(&claims).await?.map(str::to_owned),
        };
        if let Some(reason) = refusal {
            tracing::info!(
                user = claims.sub,
                id = claims.jti,
                reason,
                "a token of a service account is refused"
            );
            return Ok(None);
        }
        Ok(Some(claims))
    }
}

fn user(claims: Claims) -> User {
    let namespace = &claims.kubernetes.namespace;
    let groups = ["system:serviceaccounts".to_owned(), format!("system:serviceaccounts:{namespace}")];
    let credential = claims.credential();
    let mut user = User::authenticated(claims.sub, groups);
    user.uid = Some(claims.kubernetes.service_account.uid);
    user.extra.insert(CREDENTIAL_ID.to_owned(), vec![credential]);
    user
}
