//! Request for a certificate at the server: its creation, and the wait for the decision.

use std::time::Duration;

use k8s_openapi::ByteString;
use k8s_openapi::api::authentication::v1::SelfSubjectReview;
use k8s_openapi::api::certificates::v1::{CertificateSigningRequest, CertificateSigningRequestSpec};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::api::PostParams;
use kube::{Api, Client};
use tokio::time::Instant;

use crate::error::{ExitCode, Failure};
use crate::output;

const KIND: &str = "CertificateSigningRequest";

/// Signer of the certificates of users.
const SIGNER: &str = "kubernetes.io/kube-apiserver-client";

/// Usages of the certificate.
const USAGES: [&str; 2] = ["digital signature", "client auth"];

/// Begin of the names of requests.
const NAME: &str = "login-";

/// Part of the version of Capstan, which no other API server has.
const VERSION: &str = "+capstan-";

/// Name of the user of a request without credentials.
const ANONYMOUS: &str = "system:anonymous";

/// Group that no certificate of a request can have.
const MASTERS: &str = "system:masters";

/// Groups that the certificate does not name. The server itself adds the other two.
const LEFT_OUT: [&str; 3] = [MASTERS, "system:authenticated", "system:unauthenticated"];

/// Time between two looks at the request: a person who waits does not notice it.
const INTERVAL: Duration = Duration::from_millis(500);

/// User of the certificate.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct User {
    pub(super) name: String,
    pub(super) groups: Vec<String>,
}

/// Checks that the server is a direct endpoint. A host cluster would issue a certificate of its own, which is useless in its
/// outage.
///
/// # Errors
/// The server is another one, or does not answer.
pub(super) async fn check_server(client: &Client) -> Result<(), Failure> {
    let found = client.apiserver_version().await;
    let found = found.map_err(|error| Failure::api("read", "/version", "", "", &error))?;
    if found.git_version.contains(VERSION) {
        return Ok(());
    }
    let summary = "cannot log in by a certificate: the server is not a direct endpoint of Capstan";
    Err(Failure::new(ExitCode::Failed, summary)
        .detail("server", format!("its version is {}", found.git_version))
        .next("give the URL of the direct endpoint with --server, and its CA with --certificate-authority"))
}

/// Returns the user of the kubeconfig, as the server knows it.
///
/// # Errors
/// The server does not accept the credential, or the kubeconfig has none.
pub(super) async fn user(client: &Client) -> Result<User, Failure> {
    let reviews: Api<SelfSubjectReview> = Api::all(client.clone());
    let review = reviews.create(&PostParams::default(), &SelfSubjectReview::default()).await;
    let review = review.map_err(|error| Failure::api("create", "SelfSubjectReview", "", "", &error))?;
    let info = review.status.and_then(|status| status.user_info).unwrap_or_default();
    let name = info.username.filter(|name| !name.is_empty() && name != ANONYMOUS);
    let name = name.ok_or_else(|| {
        let summary =
            "cannot log in by a certificate: the kubeconfig has no credential that the server knows";
        Failure::new(ExitCode::Unreachable, summary).next("give another --kubeconfig, or another --context")
    })?;
    let groups = info.groups.unwrap_or_default();
    if groups.iter().any(|group| group == MASTERS) {
        output::note("The certificate will not have the group system:masters, which no request can get.\n");
    }
    let is_named = |group: &String| !group.is_empty() && !LEFT_OUT.contains(&group.as_str());
    Ok(User { name, groups: groups.into_iter().filter(is_named).collect() })
}

/// Creates a request in PEM, for a certificate with this lifetime. Returns its name.
///
/// # Errors
/// The server refuses it, or the user has no permission.
pub(super) async fn create(client: &Client, request: String, lifetime: Duration) -> Result<String, Failure> {
    let requests: Api<CertificateSigningRequest> = Api::all(client.clone());
    let spec = CertificateSigningRequestSpec {
        request: ByteString(request.into_bytes()),
        signer_name: SIGNER.to_owned(),
        expiration_seconds: i32::try_from(lifetime.as_secs()).ok(),
        usages: Some(USAGES.map(str::to_owned).to_vec()),
        ..CertificateSigningRequestSpec::default()
    };
    let metadata = ObjectMeta { generate_name: Some(NAME.to_owned()), ..ObjectMeta::default() };
    let new = CertificateSigningRequest { metadata, spec, status: None };
    let created = requests.create(&PostParams::default(), &new).await;
    let created = created.map_err(|error| failure("create", "", &error))?;
    Ok(created.metadata.name.unwrap_or_default())
}

/// Waits until the server has issued the certificate, and returns it. A server that does not answer for a moment ends
/// nothing.
///
/// # Errors
/// The request was denied, cannot be signed or is gone, or there is no decision in time.
pub(super) async fn issued(client: &Client, name: &str, longest: Duration) -> Result<Vec<u8>, Failure> {
    let requests: Api<CertificateSigningRequest> = Api::all(client.clone());
    let end = Instant::now().checked_add(longest);
    loop {
        let last = match requests.get(name).await {
            Ok(request) => match decision(name, &request)? {
                Some(certificate) => return Ok(certificate),
                None => None,
            },
            Err(error) => Some(failure("read", name, &error)),
        };
        let is_late = end.is_some_and(|end| Instant::now() >= end);
        match last {
            Some(failure) if is_late || !failure.is_transient() => return Err(failure),
            None if is_late => return Err(late(name, longest)),
            _ => tokio::time::sleep(INTERVAL).await,
        }
    }
}

/// Returns the certificate of a request, or `None` while the request waits.
///
/// # Errors
/// The request was denied, or cannot be signed.
fn decision(name: &str, request: &CertificateSigningRequest) -> Result<Option<Vec<u8>>, Failure> {
    let Some(status) = &request.status else { return Ok(None) };
    let mut conditions = status.conditions.iter().flatten();
    if let Some(refusal) = conditions.find(|it| ["Denied", "Failed"].contains(&it.type_.as_str())) {
        let verdict = if refusal.type_ == "Denied" { "was denied" } else { "could not be signed" };
        let words = [&refusal.reason, &refusal.message].map(|text| text.as_deref().unwrap_or_default());
        let summary = format!("cannot log in by a certificate: {KIND} {name} {verdict}");
        return Err(Failure::new(ExitCode::Failed, summary)
            .detail("server", words.join(" ").trim().to_owned())
            .next(format!("kubectl describe certificatesigningrequest {name}")));
    }
    let certificate = status.certificate.as_ref().filter(|ByteString(bytes)| !bytes.is_empty());
    Ok(certificate.map(|ByteString(bytes)| bytes.clone()))
}

/// Returns the failure of a call.
fn failure(verb: &str, name: &str, error: &kube::Error) -> Failure {
    let failure = Failure::api(verb, KIND, "", name, error);
    match error {
        kube::Error::Api(status) if status.code == 403 => failure.next(
            "bind a ClusterRole of the direct endpoint with the verbs create and get on \
             certificatesigningrequests of certificates.k8s.io to the user",
        ),
        _ => failure,
    }
}

fn late(name: &str, longest: Duration) -> Failure {
    let within = crate::commands::duration::text(longest);
    let summary = format!("cannot log in by a certificate: {KIND} {name} has no certificate after {within}");
    Failure::new(ExitCode::TimedOut, summary)
        .next("run the command again, and let an administrator approve the new request within --timeout")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fake_api::{FakeApi, block_on};

    const PATH: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";
    const REVIEWS: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

    fn request(status: &Value) -> Value {
        json!({"metadata": {"name": "login-a"}, "spec": {"request": "", "signerName": SIGNER}, "status": status})
    }

    /// Waits for the decision about a request of which the server answers this.
    fn outcome(code: u16, body: Value) -> Result<Vec<u8>, Failure> {
        let api = FakeApi::default().answer(&format!("{PATH}/login-a"), code, body);
        block_on(async { issued(&api.client(), "login-a", Duration::ZERO).await })
    }

    #[test]
    fn the_certificate_is_that_of_the_request() {
        let approved = json!([{"type": "Approved", "status": "True"}]);
        let found = outcome(200, request(&json!({"conditions": approved, "certificate": "UEVN"})));
        assert_eq!(found.unwrap(), b"PEM");
    }

    #[test]
    fn a_request_without_a_certificate_says_why_and_what_to_do() {
        let condition =
            |kind: &str| json!({"type": kind, "status": "True", "reason": "R", "message": "no group"});
        let of = |kinds: &[&str]| {
            let conditions: Vec<Value> = kinds.iter().map(|kind| condition(kind)).collect();
            request(&json!({"conditions": conditions}))
        };
        let status = |code: u16| json!({"kind": "Status", "code": code, "reason": "R", "message": "no"});
        for (code, body, exit, expected) in [
            (200, of(&["Denied"]), 1, "login-a was denied\n  server    R no group\nnext: kubectl describe"),
            (200, of(&["Approved", "Failed"]), 1, "login-a could not be signed\n  server    R no group"),
            (200, of(&["Approved"]), 3, "has no certificate after 0"),
            (200, request(&json!({"certificate": ""})), 3, "--timeout"),
            (404, status(404), 1, "cannot read CertificateSigningRequest login-a: it does not exist"),
            (403, status(403), 1, "next: bind a ClusterRole"),
            (503, status(503), 1, "server    503 no"),
        ] {
            let failure = outcome(code, body).unwrap_err();
            assert_eq!(failure.code().number(), exit, "{failure}");
            assert!(failure.to_string().contains(expected), "{failure}");
        }
    }

    #[test]
    fn a_request_is_created_for_the_signer_of_users() {
        let api = FakeApi::default().answer(PATH, 201, request(&json!({})));
        let created = block_on(async {
            create(&api.client(), "PEM".to_owned(), Duration::from_hours(12)).await.unwrap()
        });
        assert_eq!((created.as_str(), api.received()), ("login-a", vec![PATH.to_owned()]));
    }

    fn user_of(info: &Value) -> Result<User, Failure> {
        let api = FakeApi::default().answer(REVIEWS, 201, json!({"status": {"userInfo": info}}));
        block_on(async { user(&api.client()).await })
    }

    #[test]
    fn the_certificate_has_the_name_of_the_user_and_the_groups_that_a_request_can_get() {
        let groups = ["dev", "system:masters", "system:authenticated", "", "system:serviceaccounts"];
        let found = user_of(&json!({"username": "oidc:alice", "groups": groups})).unwrap();
        let groups = ["dev", "system:serviceaccounts"].map(str::to_owned).to_vec();
        assert_eq!(found, User { name: "oidc:alice".to_owned(), groups });
        for name in ["", "system:anonymous"] {
            let failure = user_of(&json!({"username": name})).unwrap_err();
            assert!(failure.to_string().contains("no credential"), "{failure}");
        }
    }

    #[test]
    fn only_a_direct_endpoint_gets_a_request() {
        for (version, is_direct) in [("v1.36.0+capstan-0.1.0", true), ("v1.36.0", false)] {
            let fields =
                ["major", "minor", "gitCommit", "gitTreeState", "buildDate", "goVersion", "compiler"];
            let mut body = json!({"gitVersion": version, "platform": ""});
            fields.iter().for_each(|field| body[field] = json!(""));
            let api = FakeApi::default().answer("/version", 200, body);
            let checked = block_on(async { check_server(&api.client()).await });
            assert_eq!(checked.is_ok(), is_direct, "{version}");
            assert!(checked.err().is_none_or(|failure| failure.to_string().contains("--server")));
        }
    }
}
