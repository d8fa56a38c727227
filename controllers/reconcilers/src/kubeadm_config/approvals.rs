//! Approvals of requests with one token: the keys that have a certificate, or may still get one.

use std::collections::BTreeMap;

use controllers_bootstrap::attestation;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::json;

use super::attested::{condition, failed, has};
use super::stop::Failure;

/// Condition of a request that gets no certificate. Signers set it, and leave requests that have it.
const FAILED: &str = "Failed";

/// Time after an approval in which a signer makes the certificate. One that works needs less than a second.
const SIGNING: SignedDuration = SignedDuration::from_secs(10);

/// Approved requests with one token.
#[derive(Debug, Default)]
pub(super) struct Approvals(Vec<CertificateSigningRequest>);

impl Approvals {
    /// Takes the approved ones of these requests. One whose signer has failed gives no certificate to a key.
    pub(super) fn of(requests: Vec<CertificateSigningRequest>) -> Self {
        let counts = |it: &CertificateSigningRequest| has(it, "Approved") && !has(it, FAILED);
        Self(requests.into_iter().filter(counts).collect())
    }

    /// Adds a request that was approved now.
    pub(super) fn add(&mut self, request: CertificateSigningRequest) {
        self.0.push(request);
    }

    /// Returns true if a request with this public key was approved.
    pub(super) fn have_key(&self, key: &[u8]) -> bool {
        self.0.iter().filter_map(key_of).any(|known| known == key)
    }

    /// Returns the time at which the newest of the keys was first approved. Repetitions do not count: everyone with the token
    /// can read a request and send it again.
    pub(super) fn newest(&self) -> Option<Timestamp> {
        let mut first: BTreeMap<Option<Vec<u8>>, Timestamp> = BTreeMap::new();
        for request in &self.0 {
            let Some(at) = approved_at(request) else { continue };
            let known = first.entry(key_of(request)).or_insert(at);
            *known = at.min(*known);
        }
        first.into_values().max()
    }

    /// Withdraws approvals for which the signer has made no certificate in time, if this request is newer: its kubelet waits
    /// for the newest one. No client has used such a certificate, and none is made any more, so only one key gets one. Returns
    /// what was withdrawn.
    ///
    /// # Errors
    /// The workload cluster does not answer, or refuses the change.
    pub(super) async fn withdraw_for(
        &mut self,
        client: &Client,
        newer: &CertificateSigningRequest,
    ) -> Result<Vec<String>, Failure> {
        let (mut kept, mut withdrawn) = (Vec::new(), Vec::new());
        for request in std::mem::take(&mut self.0) {
            let is_first = newer.metadata.creation_timestamp <= request.metadata.creation_timestamp;
            if is_first || !is_unsigned(&request) || !withdraw(client, &request, newer).await? {
                kept.push(request);
                continue;
            }
            let (name, newer, seconds) = (request.name_any(), newer.name_any(), SIGNING.as_secs());
            withdrawn.push(format!(
                "CertificateSigningRequest {name}: its approval was withdrawn, because it had no certificate after \
                 {seconds} s, and {newer} is newer"
            ));
        }
        self.0 = kept;
        Ok(withdrawn)
    }
}

/// Returns the public key of a request; `None` if the request cannot be read.
fn key_of(request: &CertificateSigningRequest) -> Option<Vec<u8>> {
    attestation::kubelet_request(&request.spec.request.0).ok().map(|it| it.key)
}

/// Returns the time at which a request was approved. Without a time in its condition, the last one that there is.
fn approved_at(request: &CertificateSigningRequest) -> Option<Timestamp> {
    let conditions = request.status.as_ref().and_then(|status| status.conditions.as_deref());
    let approved = conditions.unwrap_or_default().iter().find(|it| it.type_ == "Approved")?;
    Some(approved.last_update_time.as_ref().map_or(Timestamp::MAX, |time| time.0))
}

/// Returns true if the signer has made no certificate in time.
fn is_unsigned(request: &CertificateSigningRequest) -> bool {
    let certificate = request.status.as_ref().and_then(|status| status.certificate.as_ref());
    let is_due = approved_at(request).is_some_and(|at| Timestamp::now().duration_since(at) >= SIGNING);
    certificate.is_none_or(|certificate| certificate.0.is_empty()) && is_due
}

/// Withdraws an approval. Returns false if the signer was faster. The revision of the request decides: its own write fails
/// if this one is first.
async fn withdraw(
    client: &Client,
    request: &CertificateSigningRequest,
    newer: &CertificateSigningRequest,
) -> Result<bool, Failure> {
    let api: Api<CertificateSigningRequest> = Api::all(client.clone());
    let known = request.status.as_ref().and_then(|status| status.conditions.clone());
    let mut conditions = known.unwrap_or_default();
    let message =
        format!("it had no certificate in time, and {} of the same machine is newer", newer.name_any());
    conditions.push(condition(FAILED, &message));
    let change = json!({"metadata": {"resourceVersion": request.resource_version()},
        "status": {"conditions": conditions}});
    let written =
        api.patch_status(&request.name_any(), &PatchParams::default(), &Patch::Merge(&change)).await;
    match written {
        Ok(_) => Ok(true),
        // A request that is gone may have had its certificate before.
        Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => Ok(false),
        Err(error) => Err(failed(&error)),
    }
}
