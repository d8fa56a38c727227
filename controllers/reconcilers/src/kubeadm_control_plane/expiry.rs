//! Expiry of the API servers' certificates, which rollouts and people need to know.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use apiserver_types::{KubeadmConfig, KubeadmControlPlane};
use controllers_bootstrap::certificates::expiry_of;
use controllers_workload::api_server_certificates;
use jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::act::Actor;
use super::connection;
use super::decide::Step;
use super::observe::Observed;
use super::replica::Replica;
use crate::CERTIFICATES_EXPIRY_ANNOTATION;

/// Common name of the certificate that kubeadm makes for an API server.
const COMMON_NAME: &str = "kube-apiserver";

/// Port of the API server where the KubeadmConfig names none. Kubeadm's default.
const PORT: u16 = 6443;

/// Interval of the reads: a certificate that was renewed on the node counts within a day.
const INTERVAL: Duration = Duration::from_hours(24);

/// Times of the last reads, by the uid of the KubeadmConfig. They are lost with the process.
#[derive(Debug, Default)]
pub(super) struct Reads(Mutex<HashMap<String, Instant>>);

impl Reads {
    fn is_due(&self, config: &KubeadmConfig) -> bool {
        if !config.annotations().contains_key(CERTIFICATES_EXPIRY_ANNOTATION) {
            return true;
        }
        let reads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let last = config.uid().and_then(|uid| reads.get(&uid).copied());
        last.is_none_or(|last| last.elapsed() >= INTERVAL)
    }

    fn done(&self, config: &KubeadmConfig) {
        let mut reads = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        reads.retain(|_, last| last.elapsed() < INTERVAL);
        reads.insert(config.uid().unwrap_or_default(), Instant::now());
    }
}

/// Reports whether certificates are read after a step. A rollout that is blocked or held is no obstacle: a certificate
/// that was renewed on the node ends it.
pub(super) const fn follows(step: &Step) -> bool {
    matches!(step, Step::Nothing | Step::Block(_) | Step::Hold(_))
}

/// Reads the certificates that are due, and records when they expire. What fails is read again by a later pass: a
/// control plane works without.
pub(super) async fn record(actor: &Actor<'_>, control_plane: &KubeadmControlPlane, observed: &Observed) {
    let Ok(client) = actor.context.workloads.client(&connection::key(observed)) else { return };
    let Some(ca) = &observed.certificates.cluster else { return };
    let namespace = control_plane.namespace().unwrap_or_default();
    let configs: Api<KubeadmConfig> = Api::namespaced(actor.context.client.clone(), &namespace);
    for (replica, node, config) in observed.replicas.iter().filter_map(candidate) {
        if !actor.expiry_reads.is_due(config) {
            continue;
        }
        match read(&client, node, port(config), ca.certificate.as_bytes()).await {
            Ok(expiry) => match write(&configs, config, expiry).await {
                Ok(()) => actor.expiry_reads.done(config),
                Err(error) => tracing::warn!(machine = replica.name(), %error, "expiry not recorded"),
            },
            Err(error) => tracing::warn!(machine = replica.name(), error, "expiry of certificates not read"),
        }
    }
}

/// Returns what a read needs of a Machine; `None` for one that goes or has no Node.
fn candidate(replica: &Replica) -> Option<(&Replica, &str, &KubeadmConfig)> {
    let config = replica.config.as_ref().filter(|_| !replica.is_deleting())?;
    Some((replica, replica.node()?, config))
}

/// Returns the port on which the API server of a Machine listens.
fn port(config: &KubeadmConfig) -> u16 {
    let init = config.spec.init_configuration.as_ref().and_then(|it| it.local_api_endpoint.as_ref());
    let join = config.spec.join_configuration.as_ref().and_then(|it| it.control_plane.as_ref());
    let join = join.and_then(|it| it.local_api_endpoint.as_ref());
    let port = join.or(init).and_then(|endpoint| endpoint.bind_port);
    port.and_then(|port| u16::try_from(port).ok()).filter(|port| *port != 0).unwrap_or(PORT)
}

async fn read(client: &Client, node: &str, port: u16, ca: &[u8]) -> Result<Timestamp, String> {
    let certificates = api_server_certificates(client, node, port, ca).await;
    let certificates = certificates.map_err(|error| error.to_string())?;
    let expiry = expiry_of(&certificates, COMMON_NAME).map_err(|error| error.to_string())?;
    expiry.ok_or_else(|| format!("the API server of Node {node} presents no certificate of {COMMON_NAME}"))
}

async fn write(
    configs: &Api<KubeadmConfig>,
    config: &KubeadmConfig,
    expiry: Timestamp,
) -> Result<(), kube::Error> {
    let expiry = expiry.to_string();
    if config.annotations().get(CERTIFICATES_EXPIRY_ANNOTATION) == Some(&expiry) {
        return Ok(());
    }
    let change = json!({"metadata": {
        "uid": config.uid(), "annotations": {CERTIFICATES_EXPIRY_ANNOTATION: expiry},
    }});
    configs.patch(&config.name_any(), &PatchParams::default(), &Patch::Merge(&change)).await.map(drop)
}

#[cfg(test)]
mod tests {
    use super::super::preflight::Blocked;
    use super::*;

    #[test]
    fn an_expiry_is_read_once_a_day_and_again_when_its_annotation_is_removed() {
        let reads = Reads::default();
        let mut config = KubeadmConfig::default();
        config.metadata.uid = Some("uid".to_owned());
        assert!(reads.is_due(&config));
        reads.done(&config);
        assert!(reads.is_due(&config), "without the annotation");
        config.annotations_mut().insert(CERTIFICATES_EXPIRY_ANNOTATION.to_owned(), String::new());
        assert!(!reads.is_due(&config));
        assert!(Reads::default().is_due(&config), "after a restart");
    }

    /// A Machine whose certificates were about to expire was outdated for good: nothing read the renewed ones.
    #[test]
    fn certificates_are_read_also_while_a_rollout_is_blocked() {
        let reasons = Vec::new();
        let blocked = Blocked { reasons, interval: INTERVAL, is_unhealthy: false, is_up: true };
        assert!(follows(&Step::Nothing) && follows(&Step::Block(blocked)));
        assert!(!follows(&Step::WaitForConnection(String::new())));
    }

    #[test]
    fn the_port_is_that_of_the_configuration_in_use() {
        let table = [
            (json!({}), PORT),
            (json!({"initConfiguration": {"localAPIEndpoint": {"bindPort": 443}}}), 443),
            (json!({"joinConfiguration": {"controlPlane": {"localAPIEndpoint": {"bindPort": 8443}}}}), 8443),
        ];
        for (spec, expected) in table {
            let config = KubeadmConfig::new("config", serde_json::from_value(spec).unwrap());
            assert_eq!(port(&config), expected);
        }
    }
}
