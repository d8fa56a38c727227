//! Settings of the host cluster.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, anyhow, bail};
use apiserver_access::Network;
use serde::Deserialize;

use super::host_mirror::{HostAdmission, MirrorSettings, Permissions};
use crate::cli;

/// Longest time for which an old answer of the host allows a read. It is not known whether the user has lost the permission
/// since.
const LONGEST_STALE: Duration = Duration::from_hours(1);

/// Connection to a host cluster.
#[derive(Debug, Clone, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(crate) struct Host {
    /// Kubeconfig with the user of Capstan in the host.
    pub(crate) kubeconfig: PathBuf,
    /// Namespace of the Service through which the host reaches Capstan. Default: `capstan-system`.
    #[serde(default = "default_service_namespace")]
    pub(crate) service_namespace: String,
    /// Name of that Service. Default: `capstan`.
    #[serde(default = "default_service_name")]
    pub(crate) service_name: String,
    /// True if tokens of the host can have the group `system:masters` on the direct endpoint. Default: false.
    #[serde(default)]
    pub(crate) trust_masters: bool,
    /// Audiences of the tokens that are for Capstan. Default: `[capstan]`.
    #[serde(default = "default_audiences")]
    pub(crate) audiences: Vec<String>,
    /// True if Capstan accepts tokens for the host's own API, too. Default: true.
    #[serde(default = "default_accept_host_audience")]
    pub(crate) accept_host_audience: bool,
    /// True if the host reviews tokens of issuers that are neither the host nor configured, and tokens that are no JWT.
    /// Default: false.
    #[serde(default)]
    pub(crate) review_unknown_tokens: bool,
    /// True if client certificates of the host's users identify them on the direct endpoint. Default: false.
    #[serde(default)]
    pub(crate) client_certificates: bool,
    /// Networks that the host's front proxy connects from, such as `192.0.2.0/24`. Default: any.
    #[serde(default)]
    pub(crate) proxy_networks: Option<Vec<String>>,
    /// Uid of the namespace `kube-system` of a new host cluster, which replaces the known one. With `@` and a version of
    /// the front proxy's ConfigMap behind it, accepts the known host cluster after a restore of an older backup.
    /// Default: none.
    #[serde(default)]
    pub(crate) accept_new_identity: Option<String>,
    /// Source of the permissions of the host's users while the host does not answer. Default: none.
    #[serde(default)]
    pub(crate) permissions: Permissions,
    /// Use of the host's webhooks, admission policies and quotas. Default: `ignore`.
    #[serde(default)]
    pub(crate) admission: HostAdmission,
    /// Settings of the mirror of the permissions.
    #[serde(default)]
    pub(crate) mirror: MirrorSettings,
    /// Time for which reads that the host has allowed stay allowed after it has stopped to answer, e.g. `15m`. At most 1h.
    /// Default: none, and such requests get 503.
    #[serde(default)]
    pub(crate) stale_answers: Option<String>,
    /// True if Capstan keeps the CA bundles of its APIServices in the host during a rotation of the serving CA. Default:
    /// false.
    #[serde(default, rename = "writeCABundle")]
    pub(crate) write_ca_bundle: bool,
    /// True if Capstan keeps the metadata in its CRD objects in the host as this release has it. Default: false.
    #[serde(default, rename = "writeCRDs")]
    pub(crate) write_crds: bool,
}

fn default_audiences() -> Vec<String> {
    vec!["capstan".to_owned()]
}

fn default_accept_host_audience() -> bool {
    true
}

fn default_service_namespace() -> String {
    "capstan-system".to_owned()
}

fn default_service_name() -> String {
    "capstan".to_owned()
}

impl Host {
    /// Returns the settings of a host with this kubeconfig, and defaults for all else.
    pub(crate) fn new(kubeconfig: &Path) -> Self {
        Self {
            kubeconfig: kubeconfig.to_owned(),
            service_namespace: default_service_namespace(),
            service_name: default_service_name(),
            trust_masters: false,
            audiences: default_audiences(),
            accept_host_audience: default_accept_host_audience(),
            review_unknown_tokens: false,
            client_certificates: false,
            proxy_networks: None,
            accept_new_identity: None,
            permissions: Permissions::default(),
            admission: HostAdmission::default(),
            mirror: MirrorSettings::default(),
            stale_answers: None,
            write_ca_bundle: false,
            write_crds: false,
        }
    }

    /// Returns true if the permissions of the host are mirrored.
    pub(crate) fn is_mirrored(&self) -> bool {
        self.permissions == Permissions::Mirror
    }

    /// Returns true if the admission configurations of the host apply.
    pub(crate) fn mirrors_admission(&self) -> bool {
        self.admission == HostAdmission::Mirror
    }

    /// Returns the time for which old answers of the host allow reads; `None` if they do not.
    ///
    /// # Errors
    /// A text that is no duration, or a duration that is too long.
    pub(crate) fn stale_answers(&self) -> anyhow::Result<Option<Duration>> {
        let Some(text) = &self.stale_answers else { return Ok(None) };
        let found = cli::duration_or_none(text).map_err(|error| anyhow!("host.staleAnswers: {error}"))?;
        if found > LONGEST_STALE {
            bail!("host.staleAnswers: must be at most 1h: for longer, set host.permissions: mirror");
        }
        Ok(Some(found).filter(|found| !found.is_zero()))
    }

    /// Returns the networks that the front proxy connects from. Empty: any.
    ///
    /// # Errors
    /// A text that is no network.
    pub(crate) fn proxy_networks(&self) -> anyhow::Result<Vec<Network>> {
        let given = self.proxy_networks.iter().flatten().enumerate();
        let parsed = given.map(|(index, text)| {
            text.parse::<Network>().with_context(|| format!("host.proxyNetworks[{index}]: {text:?}"))
        });
        parsed.collect()
    }

    pub(crate) fn check(&self) -> anyhow::Result<()> {
        if self.audiences.is_empty() || self.audiences.iter().any(String::is_empty) {
            bail!("host.audiences: must name at least one audience, and no empty one");
        }
        if self.proxy_networks.as_ref().is_some_and(Vec::is_empty) {
            bail!("host.proxyNetworks: must name at least one network; remove the field to allow any");
        }
        self.proxy_networks()?;
        let accepted = self.accept_new_identity.as_deref().and_then(|text| text.split_once('@'));
        if accepted.is_some_and(|(uid, version)| uid.is_empty() || version.parse::<u64>().is_err()) {
            bail!("host.acceptNewIdentity: must be a uid, or UID@VERSION with a version that is a number");
        }
        if self.stale_answers()?.is_some() && self.is_mirrored() {
            bail!("host.staleAnswers: has no effect with host.permissions: mirror, which decides instead");
        }
        self.mirror.check()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Host {
        serde_saphyr::from_str(text).unwrap()
    }

    #[test]
    fn a_file_with_a_kubeconfig_alone_has_the_defaults() {
        let (read, new) = (read("kubeconfig: a"), Host::new(Path::new("a")));
        assert_eq!(format!("{read:?}"), format!("{new:?}"));
        assert!(
            !new.trust_masters
                && !new.review_unknown_tokens
                && new.accept_host_audience
                && new.check().is_ok()
        );
    }

    #[test]
    fn tm_03_networks_of_the_front_proxy_are_cidrs() {
        let of = |networks: &str| read(&format!("{{kubeconfig: a, proxyNetworks: {networks}}}"));
        let good = of("[192.0.2.0/24, '2001:db8::/32']");
        assert!(good.check().is_ok());
        assert_eq!(good.proxy_networks().unwrap().len(), 2);
        for bad in ["[]", "[192.0.2.1]", "[192.0.2.0/24, here]"] {
            let error = of(bad).check().unwrap_err().to_string();
            assert!(error.starts_with("host.proxyNetworks"), "{bad}: {error}");
        }
    }

    #[test]
    fn ho_03_the_version_of_an_accepted_host_is_a_number() {
        for (accepted, is_good) in
            [("u1", true), ("u1@100", true), ("u1@", false), ("u1@x", false), ("'@100'", false)]
        {
            let host = read(&format!("{{kubeconfig: a, acceptNewIdentity: {accepted}}}"));
            assert_eq!(host.check().is_ok(), is_good, "{accepted}");
        }
    }

    #[test]
    fn iz_23_old_answers_count_for_an_hour_at_most_and_only_without_a_mirror() {
        let found = |settings: &str| {
            let host = read(&format!("{{kubeconfig: a, {settings}}}"));
            host.check().and_then(|()| host.stale_answers()).map_err(|error| error.to_string())
        };
        assert_eq!(found("trustMasters: false"), Ok(None));
        assert_eq!(found("staleAnswers: 15m"), Ok(Some(Duration::from_mins(15))));
        assert_eq!(found("staleAnswers: 1h"), Ok(Some(LONGEST_STALE)));
        assert_eq!(found("staleAnswers: 0s"), Ok(None));
        for bad in ["staleAnswers: 61m", "staleAnswers: soon", "staleAnswers: 15m, permissions: mirror"] {
            let error = found(bad).unwrap_err();
            assert!(error.starts_with("host.staleAnswers: "), "{bad}: {error}");
        }
    }

    #[test]
    fn an_audience_has_a_name() {
        for (audiences, is_good) in [("[a, b]", true), ("[]", false), ("[a, '']", false)] {
            let host = read(&format!("{{kubeconfig: a, audiences: {audiences}}}"));
            assert_eq!(host.check().is_ok(), is_good, "{audiences}");
        }
    }
}
