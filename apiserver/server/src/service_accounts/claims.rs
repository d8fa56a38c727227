//! Claims of a token. Their names are upstream's, so that programs that know Kubernetes' tokens read them.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Claims of a token of a service account.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Claims {
    /// Audiences.
    pub(super) aud: Vec<String>,
    /// End of the token, in Unix seconds.
    pub(super) exp: i64,
    /// Time of the issue, in Unix seconds.
    pub(super) iat: i64,
    /// Issuer.
    pub(super) iss: String,
    /// Id of the token.
    pub(super) jti: String,
    /// Objects whose deletion ends the token.
    #[serde(rename = "kubernetes.io")]
    pub(super) kubernetes: Objects,
    /// Time from which the token is valid, in Unix seconds.
    pub(super) nbf: i64,
    /// Name of the user.
    pub(super) sub: String,
}

/// Objects that must exist while a token is valid.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Objects {
    pub(super) namespace: String,
    #[serde(rename = "serviceaccount")]
    pub(super) service_account: ObjectId,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) machine: Option<ObjectId>,
    #[serde(rename = "machineoperation", skip_serializing_if = "Option::is_none")]
    pub(super) machine_operation: Option<ObjectId>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) secret: Option<ObjectId>,
}

/// Name and uid of an object.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct ObjectId {
    pub(super) name: String,
    pub(super) uid: String,
}

impl Claims {
    /// Returns the id of the token, as users and audit events have it.
    pub(super) fn credential(&self) -> String {
        format!("JTI={}", self.jti)
    }

    /// Returns the reason why the token is not valid for any of the audiences, or `None` for one that is. Pure. The
    /// signature is checked elsewhere.
    pub(super) fn refusal(&self, issuer: &str, audiences: &[&str], now: Timestamp) -> Option<String> {
        let now = now.as_second();
        if self.iss != issuer {
            return Some(format!("the issuer is {:?}, not {issuer:?}", self.iss));
        }
        if !self.aud.iter().any(|audience| audiences.contains(&audience.as_str())) {
            return Some(format!("the audiences are {:?}, without {audiences:?}", self.aud));
        }
        if now >= self.exp {
            return Some(format!("it ended {} s ago", now.saturating_sub(self.exp)));
        }
        if now.saturating_add(SKEW) < self.nbf {
            return Some("it is not valid yet; compare the clocks of the servers".to_owned());
        }
        let account = user_name(&self.kubernetes.namespace, &self.kubernetes.service_account.name);
        (self.sub != account).then(|| format!("the subject is {:?}, not {account:?}", self.sub))
    }
}

/// Difference of the clocks of two replicas that is accepted. Unit: seconds.
const SKEW: i64 = 10;

/// Returns the name of the user that is a service account.
pub(super) fn user_name(namespace: &str, name: &str) -> String {
    format!("system:serviceaccount:{namespace}:{name}")
}
