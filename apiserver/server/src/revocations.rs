//! Revocations of client certificates, as their objects in the store say.

use std::sync::Arc;
use std::time::{Duration, Instant};

use apiserver_access::{Revocation, Revocations, User};
use apiserver_http::{ApiServer, Check, InProcess, ReloadableTls};
use apiserver_types::{CertificateRevocation, Described};
use controllers_runtime::PolicyRule;
use futures::StreamExt;
use jiff::Timestamp;
use kube::runtime::utils::Backoff;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, reflector, watcher::watcher};
use kube::{Api, Client};
use storage_contract::Outage;
use tokio_util::sync::CancellationToken;

/// Identity that reads the revocations.
pub(crate) const IDENTITY: &str = "certificate-revocations";

/// Permissions of that identity.
pub(crate) const RULES: &[PolicyRule] = &[PolicyRule {
    groups: &["capstan.dev"],
    resources: &["certificaterevocations"],
    verbs: PolicyRule::READ,
}];

/// Pause after a request that failed. A revocation must count within a second, also right after an outage of the store.
const PAUSE: Duration = Duration::from_millis(250);

/// Time after the start in which a failure is no reason for a warning: the server loads its objects.
const EARLY: Duration = Duration::from_secs(5);

/// Backoff of which each pause is [`PAUSE`]: the requests stay in the process.
#[derive(Debug)]
struct ConstantBackoff;

impl Iterator for ConstantBackoff {
    type Item = Duration;

    fn next(&mut self) -> Option<Duration> {
        Some(PAUSE)
    }
}

impl Backoff for ConstantBackoff {
    fn reset(&mut self) {}
}

/// Returns the readiness check `certificate-revocations`. It fails until the revocations have been read: requests with
/// client certificates get 503 before.
pub(crate) fn check(tls: Arc<ReloadableTls>) -> Check {
    Check { name: "certificate-revocations", is_well: Arc::new(move || tls.has_revocations()) }
}

/// Applies the revocations and each change of them, until `shutdown`. While they cannot be read, the last ones apply.
pub(crate) async fn follow(server: Arc<ApiServer>, tls: Arc<ReloadableTls>, shutdown: CancellationToken) {
    let kind = CertificateRevocation::DESCRIPTOR;
    let is_served =
        server.registry().stored().iter().any(|it| it.group == kind.group && it.kind == kind.kind);
    if !is_served {
        tls.revoke(Revocations::default());
        return shutdown.cancelled().await;
    }
    let client = Client::new(InProcess::new(server, User::controller(IDENTITY)), "default");
    let api: Api<CertificateRevocation> = Api::all(client);
    let (store, writer) = reflector::store();
    let changes = watcher(api, watcher::Config::default()).backoff(ConstantBackoff).reflect(writer);
    let mut changes = std::pin::pin!(changes);
    let (started, mut outage) = (Instant::now(), Outage::default());
    while let Some(Some(change)) = shutdown.run_until_cancelled(changes.next()).await {
        match change {
            Ok(Event::Apply(_) | Event::Delete(_) | Event::InitDone) => {
                let all = store.state();
                tls.revoke(all.iter().filter_map(|object| revocation(object)).collect());
            }
            Ok(Event::Init | Event::InitApply(_)) => {}
            Err(error) if !tls.has_revocations() && started.elapsed() >= EARLY && outage.should_log() => {
                tracing::warn!(%error, "certificate revocations cannot be read; client certificates get 503 until then");
            }
            Err(error) => tracing::debug!(%error, "certificate revocations cannot be read; retrying"),
        }
    }
}

/// Returns the selection of an object; `None` if it selects nothing, which validation refuses.
fn revocation(object: &CertificateRevocation) -> Option<Revocation> {
    let spec = &object.spec;
    let created = object.metadata.creation_timestamp.as_ref().map(|time| time.0);
    let issued_before = spec.issued_before.as_ref().and_then(|time| time.0.parse().ok()).or(created);
    // Without a time, which the server always sets, all certificates of the user or the group are refused.
    let issued_before = issued_before.map_or(i64::MAX, Timestamp::as_second);
    if let Some(fingerprint) = &spec.fingerprint {
        return Some(Revocation::Fingerprint(fingerprint.clone()));
    }
    if let Some((issuer, number)) = spec.issuer.as_ref().zip(spec.serial_number.as_ref()) {
        return Some(Revocation::Serial { issuer: issuer.clone(), number: number.clone() });
    }
    if let Some(name) = &spec.user {
        return Some(Revocation::User { name: name.clone(), issued_before });
    }
    let name = spec.group.clone()?;
    Some(Revocation::Group { name, issued_before })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_pause_after_a_failure_never_grows() {
        let pauses: Vec<Duration> = ConstantBackoff.take(20).collect();
        assert!(pauses.len() == 20 && pauses.iter().all(|pause| *pause <= Duration::from_millis(500)));
    }
}
