//! Explanation of a SubjectAccessReview: the answers of all authorizers, as additional fields of its status.

use std::sync::Arc;

use apiserver_access::{Answers, Attributes, Authorizer, Decision, Realm, User, Verdict};
use apiserver_machinery::reviews::Review;
use apiserver_machinery::status::{ApiError, ApiResult};
use serde_json::{Value, json};

use crate::request::Call;
use crate::state::ApiServer;

/// Query parameter that requests the explanation. Its value is an endpoint, because each has authorizers of its own. A
/// kube-apiserver ignores the parameter.
const PARAMETER: &str = "explain";

/// Kind of review that can be explained: its permission is that of looking into the permissions of others.
const KIND: &str = "SubjectAccessReview";

/// Authorizers of an endpoint, and the realm of all its users if there is only one.
pub(super) struct Endpoint {
    authorizer: Arc<dyn Authorizer>,
    realm: Option<Realm>,
}

impl Endpoint {
    /// Returns the endpoint whose answers the request wants; `None` if it wants no explanation.
    ///
    /// # Errors
    /// 400 for an unknown endpoint.
    pub(super) fn of(server: &ApiServer, call: &Call, review: &Review) -> ApiResult<Option<Self>> {
        let parts = &server.parts;
        match call.query.text(PARAMETER) {
            _ if review.kind != KIND => Ok(None),
            "" => Ok(None),
            "direct" => Ok(Some(Self { authorizer: Arc::clone(&parts.authorizer), realm: None })),
            "host" => {
                let authorizer = Arc::clone(&parts.hosted_authorizer);
                Ok(Some(Self { authorizer, realm: Some(Realm::Host) }))
            }
            other => Err(ApiError::bad_request(format!(
                "the query parameter {PARAMETER} must be \"direct\" or \"host\", not {other:?}"
            ))),
        }
    }

    /// Returns the realm of all users of the endpoint, if there is only one.
    pub(super) fn realm(&self) -> Option<&Realm> {
        self.realm.as_ref()
    }

    /// Returns the status of the review.
    pub(super) async fn explain(&self, mut attributes: Attributes) -> Value {
        if let Some(realm) = &self.realm {
            attributes.user = Arc::new(User::clone(&attributes.user).in_realm(realm.clone()));
        }
        let Answers { each, verdict } = self.authorizer.answers(&attributes).await;
        let reason = verdict.why().to_owned();
        let mut status = super::decided(verdict.decision);
        if !reason.is_empty() && status["evaluationError"].is_null() {
            status["reason"] = json!(reason);
        }
        status["realm"] = json!(attributes.user.realm.name());
        status["decidedBy"] = json!(verdict.authorizer);
        status["authorizers"] = each.iter().map(shown).collect();
        status
    }
}

fn shown(answer: &Verdict) -> Value {
    let word = match answer.decision {
        Decision::Allow => "Allowed",
        Decision::Deny(_) => "Denied",
        Decision::NoOpinion(_) => "NoOpinion",
        Decision::Error(_) => "Unavailable",
    };
    let mut shown = json!({"name": answer.authorizer, "answer": word, "reason": answer.why()});
    if let Some(age) = answer.age {
        shown["ageSeconds"] = json!(age.as_secs());
    }
    shown
}
