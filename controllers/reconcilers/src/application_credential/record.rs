//! Record of the application credentials of a Cluster, in a Secret beside it. It is written before each call to Keystone.

use std::fmt;

use apiserver_types::OpenStackCluster;
use aws_lc_rs::rand::{SecureRandom, SystemRandom};
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use controllers_runtime::OwnershipTag;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::settings::Settings;

/// Bytes of a secret: as many as a key of 256 bit has.
const SECRET_LENGTH: usize = 32;

/// Credentials of a Cluster, by their use.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Record {
    /// Credential that will be the current one, once Keystone has it and a login with it has succeeded.
    pub next: Option<Held>,
    /// Credential that the workload cluster has, or gets.
    pub current: Option<Held>,
    /// Credentials that must be revoked.
    pub old: Vec<Held>,
}

/// One credential. Its secret is ours, so a lost response of Keystone loses nothing.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Held {
    pub name: String,
    pub secret: String,
    /// Id in Keystone, once it is known.
    #[serde(default)]
    pub id: Option<String>,
    /// Id of the user to whom it belongs, once it is known.
    #[serde(default)]
    pub user: Option<String>,
    pub made_at: Timestamp,
    pub expires_at: Timestamp,
    /// Fingerprint of the credentials with which it was made.
    pub source: String,
    /// Names of its roles; empty for all roles of the user.
    #[serde(default)]
    pub roles: Vec<String>,
}

impl fmt::Debug for Held {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Held").field("name", &self.name).field("id", &self.id).finish_non_exhaustive()
    }
}

impl Held {
    /// Creates a credential with a random secret. Keystone does not have it yet.
    ///
    /// # Errors
    /// The machine has no random numbers.
    pub(super) fn new(
        cluster: &OpenStackCluster,
        source: &str,
        now: Timestamp,
        settings: &Settings,
    ) -> Result<Self, String> {
        let random = |length: usize| {
            let mut bytes = vec![0; length];
            let filled = SystemRandom::new().fill(&mut bytes);
            filled.map(|()| URL_SAFE_NO_PAD.encode(&bytes)).map_err(|_| "no random numbers".to_owned())
        };
        let end = now.checked_add(settings.life).map_err(|error| error.to_string())?;
        // Keystone has whole seconds.
        let expires_at = Timestamp::from_second(end.as_second()).map_err(|error| error.to_string())?;
        let name = format!("{}{}", prefix(cluster), now.as_second());
        let secret = random(SECRET_LENGTH)?;
        let (source, roles) = (source.to_owned(), settings.roles.clone());
        Ok(Self { name, secret, id: None, user: None, made_at: now, expires_at, source, roles })
    }

    /// Returns when the next credential is due: after half of the life.
    pub(super) fn rotation(&self) -> Timestamp {
        let half = self.expires_at.duration_since(self.made_at).checked_div(2).unwrap_or_default();
        self.made_at.checked_add(half).unwrap_or(self.expires_at)
    }
}

/// Returns the beginning of the names of a cluster's credentials. Names are unique per user in Keystone, and the id in it
/// is unique among all clusters.
pub(super) fn prefix(cluster: &OpenStackCluster) -> String {
    format!("{}{}-", OwnershipTag::PREFIX, OwnershipTag::id(cluster))
}

#[cfg(test)]
mod tests {
    use apiserver_types::OpenStackClusterSpec;
    use jiff::SignedDuration;
    use serde_json::json;

    use super::*;

    #[test]
    fn a_credential_has_a_name_of_its_cluster_a_secret_and_an_end() {
        let mut cluster = OpenStackCluster::new("c", OpenStackClusterSpec::default());
        cluster.metadata.uid = Some("u".to_owned());
        let now: Timestamp = "2026-11-21T06:00:00.5Z".parse().unwrap();
        let settings =
            Settings { life: SignedDuration::from_hours(48), roles: vec!["load-balancer_member".to_owned()] };
        let of = || Held::new(&cluster, "s", now, &settings).unwrap();
        let (one, two) = (of(), of());
        assert!(one.name.starts_with("capstan-u-") && one.name == two.name);
        assert_ne!(one.secret, two.secret);
        assert_eq!(one.secret.len(), 43);
        assert_eq!(one.expires_at.to_string(), "2026-11-23T06:00:00Z");
        assert_eq!(one.rotation().as_second(), now.as_second() + 24 * 3600);
        let shown = format!("{one:?}");
        assert!(!shown.contains(&one.secret), "{shown}");
        assert_eq!(one.roles, settings.roles);
        let mut stored = serde_json::to_value(&one).unwrap();
        assert_eq!(serde_json::from_value::<Held>(stored.clone()).unwrap(), one);
        assert_eq!(stored.as_object_mut().unwrap().remove("roles"), Some(json!(["load-balancer_member"])));
        let former = serde_json::from_value::<Held>(stored).unwrap();
        assert_eq!(former, Held { roles: Vec::new(), ..one }, "a record of an earlier release");
    }
}
