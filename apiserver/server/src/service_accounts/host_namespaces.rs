//! Service accounts of a server with a host cluster: only those of one namespace are Capstan's own.

use apiserver_access::{Answers, Attributes, Authorizer, Decision, Rules, User, Verdict};
use async_trait::async_trait;

use super::SYSTEM_NAMESPACE;

/// Verbs that make a service account, or a token of one.
const MAKING: [&str; 3] = ["create", "patch", "update"];

/// Authorizer that refuses service accounts in the namespaces of the host cluster. There they would have the names of
/// the host's, which are other identities.
#[derive(Debug, Clone, Copy)]
pub(crate) struct HostNamespaces;

#[async_trait]
impl Authorizer for HostNamespaces {
    async fn judge(&self, attributes: &Attributes) -> Verdict {
        let is_account = attributes.group.is_empty() && attributes.resource == "serviceaccounts";
        let makes = is_account && MAKING.contains(&attributes.verb.as_str());
        if makes && attributes.namespace != SYSTEM_NAMESPACE {
            let why = format!(
                "the host cluster has the service accounts of this namespace, and its tokens are accepted here; \
                 only namespace {SYSTEM_NAMESPACE} has service accounts of Capstan"
            );
            return Verdict::of(Decision::Deny(why), self.name());
        }
        Verdict::of(Decision::NoOpinion(String::new()), self.name())
    }

    async fn answers(&self, attributes: &Attributes) -> Answers {
        let why = "it refuses service accounts in the namespaces of the host cluster, and nothing else";
        Answers::one(self.judge(attributes).await).or_because(why)
    }

    fn name(&self) -> &'static str {
        "ServiceAccounts"
    }

    async fn rules(&self, _user: &User, _namespace: &str) -> Rules {
        Rules::default()
    }
}
