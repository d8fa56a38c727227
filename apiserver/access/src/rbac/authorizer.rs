//! Authorizer of the roles and bindings in our own store.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use async_trait::async_trait;

use super::snapshot::Snapshot;
use crate::answers::Answers;
use crate::authorizer::{Attributes, Authorizer, Decision, Rules};
use crate::user::User;

/// Reason while the roles have not been read. A refusal would be wrong then.
const UNREAD: &str = "roles and bindings have not been read yet; retry after a second";

/// Authorizer that decides by a snapshot of the roles and bindings. Requests read the snapshot without a lock.
#[derive(Debug, Default)]
pub struct RbacAuthorizer {
    /// `None` until the roles and bindings have been read.
    snapshot: ArcSwapOption<Snapshot>,
}

impl RbacAuthorizer {
    /// Replaces the snapshot, from the next request on.
    pub fn set(&self, snapshot: Snapshot) {
        self.snapshot.store(Some(Arc::new(snapshot)));
    }
}

#[async_trait]
impl Authorizer for RbacAuthorizer {
    async fn authorize(&self, attributes: &Attributes) -> Decision {
        self.explain(attributes).await.0
    }

    async fn explain(&self, attributes: &Attributes) -> (Decision, String) {
        // Bindings give nothing to the server's own identities: their permissions are constant.
        if attributes.user.controller_identity().is_some() {
            return (Decision::NoOpinion(String::new()), String::new());
        }
        match &*self.snapshot.load() {
            Some(snapshot) => snapshot.decide(attributes),
            None => (Decision::Error(UNREAD.to_owned()), String::new()),
        }
    }

    async fn answers(&self, attributes: &Attributes) -> Answers {
        let verdict = self.judge(attributes).await;
        if attributes.user.controller_identity().is_some() {
            return Answers::explained(verdict, "bindings give nothing to the server's own identities");
        }
        match &*self.snapshot.load() {
            Some(snapshot) => Answers::explained(verdict, snapshot.explain(attributes).1),
            None => Answers::one(verdict),
        }
    }

    fn name(&self) -> &'static str {
        "RBAC"
    }

    async fn rules(&self, user: &User, namespace: &str) -> Rules {
        if user.controller_identity().is_some() {
            return Rules::default();
        }
        match &*self.snapshot.load() {
            Some(snapshot) => Rules {
                rules: snapshot.rules(user, namespace),
                unknown: snapshot.missing_roles(user, namespace),
            },
            None => Rules { rules: Vec::new(), unknown: UNREAD.to_owned() },
        }
    }
}
