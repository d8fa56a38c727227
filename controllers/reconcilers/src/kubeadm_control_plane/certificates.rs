//! Certificates of a cluster: the authorities, and the kubeconfig of its administrator.

use apiserver_types::{Condition, ConditionStatus, KubeadmControlPlane, Time};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use controllers_bootstrap::certificates::{PemPair, expiry, kubeconfig};
use controllers_runtime::{ControllerContext, ReconcileError};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::config::Kubeconfig;

use super::observe::Observed;
use super::replica::initialized;
use super::{ca_secrets, connection};
use crate::ownership;

/// Remaining validity at which the client certificate is replaced: half of its year. Upstream's.
const RENEWAL: SignedDuration = SignedDuration::from_hours(24 * 365 / 2);

/// Key of the kubeconfig in its Secret.
const KUBECONFIG_KEY: &str = "value";

/// State of the certificates.
#[derive(Debug, Default)]
pub(super) struct Certificates {
    /// The Secrets were read in this pass.
    pub examined: bool,
    /// Names of Secrets that do not exist.
    pub missing: Vec<String>,
    /// Error of the read.
    pub error: Option<String>,
    /// Reason for which there is no kubeconfig.
    pub kubeconfig: Option<String>,
    /// Authority of etcd.
    pub etcd: Option<PemPair>,
}

impl Certificates {
    pub(super) fn is_available(&self) -> bool {
        self.examined && self.missing.is_empty() && self.error.is_none()
    }

    /// Returns the condition; `None` if the Secrets were not read.
    pub(super) fn condition(&self, now: &Time) -> Option<Condition> {
        let (status, reason, message) = match (&self.error, self.examined) {
            (Some(error), _) => (ConditionStatus::Unknown, "InternalError", error.clone()),
            (None, false) => return None,
            (None, true) if self.missing.is_empty() => (ConditionStatus::True, "Available", String::new()),
            (None, true) => {
                let message = format!("Missing Secrets: {}", self.missing.join(", "));
                (ConditionStatus::False, "NotAvailable", message)
            }
        };
        Some(Condition::new("CertificatesAvailable", status, reason, &message, now.clone()))
    }
}

/// Makes the certificates that are missing, and the kubeconfig.
pub(super) async fn ensure(
    context: &ControllerContext,
    control_plane: &KubeadmControlPlane,
    observed: &mut Observed,
) -> Result<(), ReconcileError> {
    let cluster = observed.cluster.name_any();
    // A cluster that runs has its authorities in use: another one would lock out all its Nodes.
    let may_generate = !initialized(control_plane);
    let found = match ca_secrets::ensure(context, control_plane, &cluster, may_generate).await {
        Ok(found) => found,
        Err(error) => {
            observed.certificates.error = Some(error.to_string());
            return Err(error);
        }
    };
    observed.certificates.examined = true;
    observed.certificates.missing = found.missing;
    observed.certificates.etcd = found.pairs.get(ca_secrets::ETCD).cloned();
    let Some((host, port)) = observed.endpoint() else { return Ok(()) };
    let Some(ca) = found.pairs.get(ca_secrets::CLUSTER).filter(|ca| !ca.key.is_empty()) else {
        let reason = format!("Secret {cluster}-{} does not exist or has no tls.key", ca_secrets::CLUSTER);
        observed.certificates.kubeconfig = Some(reason);
        return Ok(());
    };
    let server = format!("https://{}", authority(host, port));
    let key = connection::key(observed);
    let config = ensure_kubeconfig(context, control_plane, &cluster, &server, ca).await?;
    context.workloads.follow(&key, &config);
    Ok(())
}

/// Returns host and port of a URL. An IPv6 address gets brackets.
fn authority(host: &str, port: i32) -> String {
    if host.contains(':') && !host.starts_with('[') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

/// Makes or renews the Secret with the kubeconfig. Returns the kubeconfig.
async fn ensure_kubeconfig(
    context: &ControllerContext,
    control_plane: &KubeadmControlPlane,
    cluster: &str,
    server: &str,
    ca: &PemPair,
) -> Result<Vec<u8>, ReconcileError> {
    let namespace = control_plane.namespace().unwrap_or_default();
    let name = format!("{cluster}-kubeconfig");
    let make = || {
        let algorithm = ca_secrets::algorithm(control_plane);
        kubeconfig(cluster, server, ca, algorithm, Timestamp::now()).map_err(|error| {
            ReconcileError::waiting("KubeconfigGenerationFailed", format!("generate Secret {name}: {error}"))
        })
    };
    let Some(secret) = context.secrets.secret(&namespace, &name).await? else {
        let text = make()?;
        let secret = ca_secrets::secret(control_plane, cluster, &name, [(KUBECONFIG_KEY, text.clone())]);
        context.secrets.create(&secret).await?;
        return Ok(text.into_bytes());
    };
    let current = value(&secret);
    if secret.type_.as_deref() != Some(ca_secrets::SECRET_TYPE)
        || is_current(&current, server, ca, Timestamp::now())
    {
        ca_secrets::take_over(context.secrets.as_ref(), control_plane, secret).await?;
        return Ok(current);
    }
    let text = make()?;
    context.secrets.replace(&renewed(control_plane, secret, &text)).await?;
    Ok(text.into_bytes())
}

fn value(secret: &Secret) -> Vec<u8> {
    let value = secret.data.as_ref().and_then(|data| data.get(KUBECONFIG_KEY));
    value.map(|value| value.0.clone()).unwrap_or_default()
}

fn renewed(control_plane: &KubeadmControlPlane, mut secret: Secret, text: &str) -> Secret {
    let value = ByteString(text.as_bytes().to_vec());
    secret.data.get_or_insert_default().insert(KUBECONFIG_KEY.to_owned(), value);
    let owner = ownership::reference(control_plane, true);
    let mut owners = secret.owner_references().to_vec();
    owners.retain(|it| it.uid != owner.uid && it.controller != Some(true));
    owners.push(owner);
    secret.metadata.owner_references = Some(owners);
    secret
}

/// Reports whether a kubeconfig names the server and the authority, and lasts for half a year or more.
fn is_current(config: &[u8], server: &str, ca: &PemPair, now: Timestamp) -> bool {
    inspect(config).is_some_and(|(known, authority, until)| {
        known == server && authority.trim() == ca.certificate.trim() && until.duration_since(now) >= RENEWAL
    })
}

/// Returns server, authority and end of validity of a kubeconfig's current context; `None` if it cannot be read.
fn inspect(config: &[u8]) -> Option<(String, String, Timestamp)> {
    let config = Kubeconfig::from_yaml(std::str::from_utf8(config).ok()?).ok()?;
    let current = config.current_context?;
    let context = config.contexts.into_iter().find(|it| it.name == current)?.context?;
    let cluster = config.clusters.into_iter().find(|it| it.name == context.cluster)?.cluster?;
    let user = config.auth_infos.into_iter().find(|it| Some(&it.name) == context.user.as_ref())?.auth_info?;
    let decoded = |text: String| STANDARD.decode(text).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let authority = decoded(cluster.certificate_authority_data?)?;
    let until = expiry(&decoded(user.client_certificate_data?)?).ok()?;
    Some((cluster.server?, authority, until))
}

/// Makes the control plane the controller of the Secrets of a cluster whose Machines it adopts.
pub(super) async fn take_over(
    context: &ControllerContext,
    control_plane: &KubeadmControlPlane,
    observed: &Observed,
) -> Result<(), ReconcileError> {
    ca_secrets::ensure(context, control_plane, &observed.cluster.name_any(), false).await.map(drop)
}

#[cfg(test)]
mod tests {
    use controllers_bootstrap::certificates::{KeyAlgorithm, certificate_authority};

    use super::*;

    #[test]
    fn a_kubeconfig_is_replaced_for_another_server_or_authority_and_after_half_a_year() {
        let now = Timestamp::now();
        let day = |days: i64| now.checked_add(SignedDuration::from_hours(24 * days)).unwrap();
        let make = || certificate_authority(KeyAlgorithm::EcdsaP256, None, now).unwrap();
        let (ca, other) = (make(), make());
        let server = "https://10.0.0.1:6443";
        let config = kubeconfig("c", server, &ca, KeyAlgorithm::EcdsaP256, now).unwrap();
        let table = [
            (config.as_str(), server, &ca, day(0), true),
            (&config, server, &ca, day(182), true),
            (&config, server, &ca, day(183), false),
            (&config, "https://10.0.0.2:6443", &ca, day(0), false),
            (&config, server, &other, day(0), false),
            ("no kubeconfig", server, &ca, day(0), false),
        ];
        for (config, server, ca, now, expected) in table {
            assert_eq!(is_current(config.as_bytes(), server, ca, now), expected, "{server} {now}");
        }
        assert_eq!(authority("fd00::1", 6443), "[fd00::1]:6443");
    }
}
