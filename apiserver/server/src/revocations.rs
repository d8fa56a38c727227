//! Revocations of client certificates, as their objects in the store say.

use std::sync::Arc;

use apiserver_access::{Revocation, User};
use apiserver_http::{ApiServer, InProcess, ReloadableTls};
use apiserver_types::{CertificateRevocation, Described};
use controllers_runtime::PolicyRule;
use futures::StreamExt;
use jiff::Timestamp;
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, reflector, watcher::watcher};
use kube::{Api, Client};
use tokio_util::sync::CancellationToken;

/// Identity that reads the revocations.
pub(crate) const IDENTITY: &str = "certificate-revocations";

/// Permissions of that identity.
pub(crate) const RULES: &[PolicyRule] = &[PolicyRule {
    groups: &["capstan.dev"],
    resources: &["certificaterevocations"],
    verbs: PolicyRule::READ,
}];

/// Applies the revocations and each change of them, until `shutdown`. While they cannot be read, the last ones apply.
pub(crate) async fn follow(server: Arc<ApiServer>, tls: Arc<ReloadableTls>, shutdown: CancellationToken) {
    let kind = CertificateRevocation::DESCRIPTOR;
    let is_served =
        server.registry().stored().iter().any(|it| it.group == kind.group && it.kind == kind.kind);
    if !is_served {
        return shutdown.cancelled().await;
    }
    let client = Client::new(InProcess::new(server, User::controller(IDENTITY)), "default");
    let api: Api<CertificateRevocation> = Api::all(client);
    let (store, writer) = reflector::store();
    let changes = watcher(api, watcher::Config::default()).default_backoff().reflect(writer);
    let mut changes = std::pin::pin!(changes);
    while let Some(Some(change)) = shutdown.run_until_cancelled(changes.next()).await {
        match change {
            Ok(Event::Apply(_) | Event::Delete(_) | Event::InitDone) => {
                let all = store.state();
                tls.revoke(all.iter().filter_map(|object| revocation(object)).collect());
            }
            Ok(Event::Init | Event::InitApply(_)) => {}
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
