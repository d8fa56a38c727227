//! Signer of certificate signing requests: an approved request gets a certificate of one of the server's own CAs.
//!
//! The request of a machine for its own next certificate is approved here, too.

mod renewal;
mod request;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::ensure;
use apiserver_access::User;
use apiserver_http::{ApiServer, InProcess};
use apiserver_types::Described;
use apiserver_types::csr_kinds::{self, GROUP};
use controllers_runtime::PolicyRule;
use futures::StreamExt;
use jiff::Timestamp;
use k8s_openapi::ByteString;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestCondition};
use kube::api::{DeleteParams, Patch, PatchParams, PostParams};
use kube::runtime::watcher::{self, Event};
use kube::runtime::{WatchStreamExt, reflector, watcher::watcher};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::authorities::{AuthorityStore, Known};
use crate::certificate_uses::Use;
use crate::machines;
use crate::recorded_time::refusal_to_sign;
use renewal::Requester;
use request::{Request, Step};

/// Identity that signs.
pub(crate) const IDENTITY: &str = "certificate-signer";

/// Permissions of that identity.
pub(crate) const RULES: &[PolicyRule] = &[
    PolicyRule {
        groups: &[GROUP],
        resources: &["certificatesigningrequests"],
        verbs: &["get", "list", "watch", "delete"],
    },
    PolicyRule { groups: &[GROUP], resources: &["certificatesigningrequests/status"], verbs: &["update"] },
    PolicyRule { groups: &[GROUP], resources: &["certificatesigningrequests/approval"], verbs: &["patch"] },
    PolicyRule { groups: &[GROUP], resources: &["signers"], verbs: &["approve", "sign"] },
    PolicyRule { groups: &[machines::GROUP], resources: &[machines::PLURAL], verbs: &["get"] },
];

/// Interval at which all requests are looked at again.
const INTERVAL: Duration = Duration::from_secs(60);

/// Signer.
#[derive(Debug)]
pub(crate) struct CertificateSigner {
    store: AuthorityStore,
    known: watch::Receiver<Known>,
    data: PathBuf,
}

impl CertificateSigner {
    pub(crate) fn new(store: AuthorityStore, known: watch::Receiver<Known>, data: PathBuf) -> Self {
        Self { store, known, data }
    }

    /// Signs approved requests, and removes old ones, until `shutdown`. All replicas do it: the store accepts one
    /// certificate.
    pub(crate) async fn follow(self, server: Arc<ApiServer>, shutdown: CancellationToken) {
        let kind = csr_kinds::CertificateSigningRequest::DESCRIPTOR;
        let is_served =
            server.registry().stored().iter().any(|it| it.group == kind.group && it.kind == kind.kind);
        if !is_served {
            return shutdown.cancelled().await;
        }
        let client = Client::new(InProcess::new(server, User::controller(IDENTITY)), "default");
        let api: Api<CertificateSigningRequest> = Api::all(client);
        let (requests, writer) = reflector::store();
        let changes = watcher(api.clone(), watcher::Config::default()).default_backoff().reflect(writer);
        let mut changes = std::pin::pin!(changes);
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return,
                () = tokio::time::sleep(INTERVAL) => {}
                change = changes.next() => match change {
                    Some(Ok(Event::Apply(_) | Event::InitDone)) => {}
                    Some(Ok(Event::Init | Event::InitApply(_) | Event::Delete(_))) => continue,
                    Some(Err(error)) => {
                        tracing::debug!(%error, "certificate signing requests cannot be read; retrying");
                        continue;
                    }
                    None => return,
                },
            }
            for request in requests.state() {
                self.serve(&api, &request).await;
            }
        }
    }

    async fn serve(&self, api: &Api<CertificateSigningRequest>, request: &CertificateSigningRequest) {
        let name = request.name_any();
        let now = Timestamp::now();
        let done = match request::step(request, now) {
            Step::Wait => match renewal::of(request, now) {
                Some(machine) => renew(api, request, &machine).await,
                None => return,
            },
            Step::Remove => api.delete(&name, &DeleteParams::default()).await.map(|_| ()),
            Step::Sign(signer) => match self.issue(api, request, signer).await {
                Ok(Some(certificate)) => self.finish(api, request, &certificate).await,
                Ok(None) => return,
                Err(error) => fail(api, request, &format!("{error:#}")).await,
            },
        };
        match done {
            // Another replica was faster.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => {}
            Err(error) => tracing::warn!(%error, name, "a certificate signing request waits"),
            Ok(()) => {}
        }
    }

    /// Returns the certificate; `None` while the CAs are unknown, or the clock is known to be behind. Another replica may sign.
    async fn issue(
        &self,
        api: &Api<CertificateSigningRequest>,
        request: &CertificateSigningRequest,
        signer: request::Signer,
    ) -> anyhow::Result<Option<String>> {
        if refusal_to_sign().is_some() {
            return Ok(None);
        }
        let Some(authorities) = self.known.borrow().authorities.clone() else { return Ok(None) };
        let parsed = Request::parse(request, signer)?;
        let authority = authorities.signer(signer.purpose(), &self.data)?;
        let Request { pem, user, groups, machine, lifetime } = parsed;
        let uid = match machine {
            Some((namespace, name)) => {
                let uid = machines::uid(api.clone().into_client(), &namespace, &name).await?;
                // The Machine may have been made anew after the request.
                let earlier = Requester::of(request)
                    .filter(|it| (&it.namespace, &it.name) == (&namespace, &name) && it.uid != uid);
                ensure!(
                    earlier.is_none(),
                    "Machine {namespace}/{name} is another one than that of the request"
                );
                Some(uid)
            }
            None => None,
        };
        authority.client_of_request(&pem, &user, &groups, uid.as_deref(), lifetime).map(Some)
    }

    async fn finish(
        &self,
        api: &Api<CertificateSigningRequest>,
        request: &CertificateSigningRequest,
        certificate: &str,
    ) -> Result<(), kube::Error> {
        let mut new = request.clone();
        new.status.get_or_insert_default().certificate = Some(ByteString(certificate.as_bytes().to_vec()));
        let name = request.name_any();
        api.replace_status(&name, &PostParams::default(), &new).await?;
        let requester = request.spec.username.as_deref().unwrap_or_default();
        tracing::info!(name, requester, "a certificate is issued");
        let recorded = async {
            let issued =
                Use::issued(certificate, &format!("CertificateSigningRequest {name} of {requester}"))?;
            self.store.record(&issued).await
        };
        if let Err(error) = recorded.await {
            tracing::warn!(name, "the certificate is not in the list of certificates: {error:#}");
        }
        Ok(())
    }
}

/// Approves the renewal of a machine's certificate, if its Machine stays.
async fn renew(
    api: &Api<CertificateSigningRequest>,
    request: &CertificateSigningRequest,
    machine: &Requester,
) -> Result<(), kube::Error> {
    let Requester { namespace, name, uid } = machine;
    match machines::stays(api.clone().into_client(), namespace, name, uid).await {
        Ok(true) => {}
        Ok(false) => return Ok(()),
        Err(error) => {
            tracing::warn!(namespace, name, "the renewal of a machine's certificate waits: {error:#}");
            return Ok(());
        }
    }
    let condition = json!({"type": "Approved", "status": "True", "reason": "AutoApproved",
        "message": "The machine has requested its next certificate with a good one."});
    // Without the version of the request, the patch would replace the decision of another user.
    let patch = json!({"metadata": {"resourceVersion": request.resource_version()},
        "status": {"conditions": [condition]}});
    let patch = Patch::Merge(&patch);
    api.patch_approval(&request.name_any(), &PatchParams::default(), &patch).await.map(|_| ())
}

/// Sets the condition `Failed`.
async fn fail(
    api: &Api<CertificateSigningRequest>,
    request: &CertificateSigningRequest,
    why: &str,
) -> Result<(), kube::Error> {
    let mut new = request.clone();
    let condition = CertificateSigningRequestCondition {
        type_: "Failed".to_owned(),
        status: "True".to_owned(),
        reason: Some("SigningFailed".to_owned()),
        message: Some(why.to_owned()),
        ..CertificateSigningRequestCondition::default()
    };
    new.status.get_or_insert_default().conditions.get_or_insert_default().push(condition);
    api.replace_status(&request.name_any(), &PostParams::default(), &new).await.map(|_| ())
}
