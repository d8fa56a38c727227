//! Certificates of a cluster: the authorities, and the kubeconfig of its administrator.

use apiserver_types::{ClusterConfiguration, Condition, ConditionStatus, KubeadmControlPlane, Time};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use controllers_bootstrap::certificates::{KeyAlgorithm, PemPair, Purpose, expiry, kubeconfig, usable};
use controllers_runtime::{ControllerContext, ReconcileError};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;
use kube::config::Kubeconfig;

use super::connection;
use super::observe::Observed;
use super::replica::{Replica, initialized};
use crate::cluster_certificates::{self, SECRET_TYPE, kubeconfig_secret_name};
use crate::endpoint_hosts::host_and_port;
use crate::{CLUSTER_NAME_LABEL, ownership};

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
    /// Authority of the API servers.
    pub cluster: Option<PemPair>,
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
                let message = format!(
                    "Missing Secrets: {}. What a node may have is not made again: restore it from a backup. The \
                     certificates of an external etcd are yours to create",
                    self.missing.join(", ")
                );
                (ConditionStatus::False, "NotAvailable", message)
            }
        };
        Some(Condition::new("CertificatesAvailable", status, reason, &message, now.clone()))
    }
}

/// Returns kubeadm's settings of the whole cluster.
pub(super) fn configuration(control_plane: &KubeadmControlPlane) -> Option<&ClusterConfiguration> {
    control_plane.spec.kubeadm_config_spec.as_ref()?.cluster_configuration.as_ref()
}

/// Returns the algorithm of generated keys.
pub(super) fn algorithm(control_plane: &KubeadmControlPlane) -> KeyAlgorithm {
    configuration(control_plane).and_then(|it| it.encryption_algorithm).unwrap_or_default().into()
}

/// Makes the certificates that are missing, and the kubeconfig.
pub(super) async fn ensure(
    context: &ControllerContext,
    control_plane: &KubeadmControlPlane,
    observed: &mut Observed,
) -> Result<(), ReconcileError> {
    let cluster = observed.cluster.name_any();
    let found = match authorities(context, control_plane, observed).await {
        Ok(found) => found,
        Err(error) => {
            observed.certificates.error = Some(error.to_string());
            return Err(error);
        }
    };
    let names = found.missing.iter().map(|purpose| cluster_certificates::secret_name(&cluster, *purpose));
    observed.certificates.missing = names.collect();
    observed.certificates.examined = true;
    // What a node has is not changed by this: the control plane is still looked after, and only gets no Machine.
    observed.certificates.error = found.defect(&cluster, configuration(control_plane));
    observed.certificates.cluster = found.get(Purpose::ClusterCa).cloned();
    observed.certificates.etcd = found.get(Purpose::EtcdCa).cloned();
    if let Some(message) = without_external(control_plane, observed, &found) {
        observed.certificates.error = Some(message.clone());
        return Err(ReconcileError::waiting("InternalError", message));
    }
    let Some((host, port)) = observed.endpoint() else { return Ok(()) };
    let server = format!("https://{}", host_and_port(host, port));
    let config = match found.get(Purpose::ClusterCa).filter(|ca| !ca.key.is_empty()) {
        Some(ca) => ensure_kubeconfig(context, control_plane, &cluster, &server, ca).await,
        None => known_kubeconfig(context, observed).await,
    };
    match config {
        Ok(config) => context.workloads.follow(&connection::key(observed), &config),
        Err(ReconcileError::Waiting { message, .. }) => observed.certificates.kubeconfig = Some(message),
        Err(other) => return Err(other),
    }
    Ok(())
}

/// Returns which Secrets of an external etcd are missing before the first Machine exists. None is made without them.
fn without_external(
    control_plane: &KubeadmControlPlane,
    observed: &Observed,
    found: &cluster_certificates::Certificates,
) -> Option<String> {
    let theirs = found.missing.iter().filter(|it| it.is_external(configuration(control_plane)));
    let cluster = observed.cluster.name_any();
    let names: Vec<String> = theirs.map(|it| cluster_certificates::secret_name(&cluster, *it)).collect();
    let is_awaited = !names.is_empty() && !is_used(control_plane, observed);
    is_awaited.then(|| {
        format!(
            "Secrets of the external etcd do not exist: {}. Create them, with the keys tls.crt and tls.key",
            names.join(", ")
        )
    })
}

/// Reports whether a node may have the authorities: the cluster runs, or a Machine has its bootstrap data. The status
/// alone does not tell, because a move or a restore loses it.
fn is_used(control_plane: &KubeadmControlPlane, observed: &Observed) -> bool {
    let mut replicas = observed.replicas.iter().chain(&observed.standalone);
    initialized(control_plane) || replicas.any(Replica::has_data)
}

/// Reports whether there is a Secret with bootstrap data that no status names yet. It has the authorities already, and the
/// next pass over the KubeadmConfig may name it.
async fn has_unnamed_data(context: &ControllerContext, observed: &Observed) -> Result<bool, ReconcileError> {
    let replicas = observed.replicas.iter().chain(&observed.standalone);
    for config in replicas.filter_map(|it| it.config.as_ref()) {
        let (namespace, name) = (config.namespace().unwrap_or_default(), config.name_any());
        if context.secrets.secret(&namespace, &name).await?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Reads the authorities. Missing ones are made before a node may have them; later the Nodes would be locked out.
async fn authorities(
    context: &ControllerContext,
    control_plane: &KubeadmControlPlane,
    observed: &Observed,
) -> Result<cluster_certificates::Certificates, ReconcileError> {
    let (cluster, configuration) = (&observed.cluster, configuration(control_plane));
    let owner = ownership::reference(control_plane, true);
    let mut found = cluster_certificates::lookup(context, cluster, configuration).await?;
    let is_due = found.missing.iter().any(|it| !it.is_external(configuration));
    if is_due && !is_used(control_plane, observed) && !has_unnamed_data(context, observed).await? {
        let owner = owner.clone();
        found = cluster_certificates::generate_missing(context, cluster, owner, configuration).await?;
    }
    cluster_certificates::take_control(context, &found, &owner).await?;
    Ok(found)
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
    let name = kubeconfig_secret_name(cluster);
    let make = || {
        kubeconfig(cluster, server, ca, algorithm(control_plane), Timestamp::now()).map_err(|error| {
            ReconcileError::waiting("KubeconfigGenerationFailed", format!("generate Secret {name}: {error}"))
        })
    };
    let Some(secret) = context.secrets.secret(&namespace, &name).await? else {
        let text = make()?;
        context.secrets.create(&kubeconfig_secret(control_plane, cluster, &text)).await?;
        return Ok(text.into_bytes());
    };
    let current = value(&secret);
    let is_users = secret.type_.as_deref() != Some(SECRET_TYPE);
    // An authority that signs nothing makes no better kubeconfig.
    let is_final = usable(ca, true, Timestamp::now()).is_err() && !current.is_empty();
    if is_users || is_final || is_current(&current, server, ca, Timestamp::now()) {
        let owner = ownership::reference(control_plane, true);
        if let Some(secret) = cluster_certificates::controlled(&secret, &owner) {
            context.secrets.replace(&secret).await?;
        }
        return Ok(current);
    }
    let text = make()?;
    context.secrets.replace(&renewed(control_plane, secret, &text)).await?;
    Ok(text.into_bytes())
}

/// Returns the kubeconfig that was made before the authority was lost. Machines that exist are looked after with it. The
/// first Machine needs the authority.
async fn known_kubeconfig(
    context: &ControllerContext,
    observed: &Observed,
) -> Result<Vec<u8>, ReconcileError> {
    let cluster = observed.cluster.name_any();
    if !observed.replicas.is_empty() {
        let namespace = observed.cluster.namespace().unwrap_or_default();
        let secret = context.secrets.secret(&namespace, &kubeconfig_secret_name(&cluster)).await?;
        if let Some(config) = secret.as_ref().map(value).filter(|config| !config.is_empty()) {
            return Ok(config);
        }
    }
    let name = cluster_certificates::secret_name(&cluster, Purpose::ClusterCa);
    let message = format!("Secret {name} does not exist or has no tls.key");
    Err(ReconcileError::waiting("KubeconfigGenerationFailed", message))
}

fn kubeconfig_secret(control_plane: &KubeadmControlPlane, cluster: &str, text: &str) -> Secret {
    let metadata = ObjectMeta {
        name: Some(kubeconfig_secret_name(cluster)),
        namespace: control_plane.namespace(),
        labels: Some([(CLUSTER_NAME_LABEL.to_owned(), cluster.to_owned())].into()),
        ..ObjectMeta::default()
    };
    let secret = Secret { metadata, type_: Some(SECRET_TYPE.to_owned()), ..Secret::default() };
    renewed(control_plane, secret, text)
}

fn value(secret: &Secret) -> Vec<u8> {
    let value = secret.data.as_ref().and_then(|data| data.get(KUBECONFIG_KEY));
    value.map(|value| value.0.clone()).unwrap_or_default()
}

/// Returns a Secret with this kubeconfig, which the control plane controls.
fn renewed(control_plane: &KubeadmControlPlane, mut secret: Secret, text: &str) -> Secret {
    let value = ByteString(text.as_bytes().to_vec());
    secret.data.get_or_insert_default().insert(KUBECONFIG_KEY.to_owned(), value);
    let owner = ownership::reference(control_plane, true);
    cluster_certificates::controlled(&secret, &owner).unwrap_or(secret)
}

/// Reports whether a kubeconfig names the server and the authority, and lasts for half a year or more.
fn is_current(config: &[u8], server: &str, ca: &PemPair, now: Timestamp) -> bool {
    inspect(config).is_some_and(|(known, authority, until)| {
        known == server && authority.trim() == ca.certificate.trim() && until.duration_since(now) >= RENEWAL
    })
}

/// Returns the authority of a kubeconfig for this server whose client certificate is due for renewal; `None` for another
/// server, a later end, or a text that cannot be read.
pub(crate) fn authority_of_old_kubeconfig(config: &[u8], server: &str, now: Timestamp) -> Option<String> {
    let (known, authority, until) = inspect(config)?;
    (known == server && until.duration_since(now) < RENEWAL).then_some(authority)
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
    let found =
        cluster_certificates::lookup(context, &observed.cluster, configuration(control_plane)).await?;
    let owner = ownership::reference(control_plane, true);
    cluster_certificates::take_control(context, &found, &owner).await
}

#[cfg(test)]
#[path = "certificates_tests.rs"]
mod tests;

#[cfg(test)]
#[path = "kubeconfig_tests.rs"]
mod kubeconfig_tests;
