//! Decision about a certificate signing request. Pure functions.

use std::time::Duration;

use anyhow::{Context, bail};
use apiserver_access::MACHINES;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use rustls::pki_types::CertificateSigningRequestDer;
use rustls::pki_types::pem::PemObject;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::prelude::FromDer;

use crate::authorities::Purpose;

/// Time after which a request without a decision is removed, as upstream has it.
const PENDING: SignedDuration = SignedDuration::from_hours(24);

/// Time after which a request with a decision is removed, as upstream has it.
const DECIDED: SignedDuration = SignedDuration::from_hours(1);

/// Lifetime of a certificate of a client, unless the request names another one.
const CLIENT: Duration = Duration::from_hours(12);

/// Longest lifetime of a certificate of a client.
const LONGEST_CLIENT: Duration = Duration::from_hours(365 * 24);

/// Lifetime of a certificate of a machine, which is also the longest.
const MACHINE: Duration = Duration::from_hours(30 * 24);

/// Usages that a certificate can have. The certificate is for clients alone, whichever of them are requested.
const USAGES: [&str; 3] = ["client auth", "digital signature", "key encipherment"];

/// Group that may do everything. Only the command of the server's machine gives it.
const MASTERS: &str = "system:masters";

/// Begin of the names of machines.
const MACHINE_NAME: &str = "system:machine:";

/// Signer of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Signer {
    Client,
    Machine,
}

impl Signer {
    pub(super) fn of(name: &str) -> Option<Self> {
        match name {
            "kubernetes.io/kube-apiserver-client" => Some(Self::Client),
            "capstan.dev/machine" => Some(Self::Machine),
            _ => None,
        }
    }

    pub(super) fn purpose(self) -> Purpose {
        match self {
            Self::Client => Purpose::Client,
            Self::Machine => Purpose::Machine,
        }
    }
}

/// Next step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    Wait,
    Sign(Signer),
    Remove,
}

/// Returns the next step of a request.
pub(super) fn step(request: &CertificateSigningRequest, now: Timestamp) -> Step {
    let status = request.status.as_ref();
    let conditions = status.and_then(|status| status.conditions.as_deref()).unwrap_or_default();
    let has = |kind: &str| conditions.iter().any(|condition| condition.type_ == kind);
    let is_issued = status.and_then(|status| status.certificate.as_ref()).is_some_and(|it| !it.0.is_empty());
    if has("Approved")
        && !has("Denied")
        && !has("Failed")
        && !is_issued
        && let Some(signer) = Signer::of(&request.spec.signer_name)
    {
        return Step::Sign(signer);
    }
    let decided = conditions.iter().filter_map(|it| it.last_update_time.as_ref()).map(|time| time.0).max();
    let (since, longest) = match decided {
        Some(decided) => (Some(decided), DECIDED),
        None => (request.metadata.creation_timestamp.as_ref().map(|time| time.0), PENDING),
    };
    let is_old = since.is_some_and(|since| now.duration_since(since) > longest);
    if is_old { Step::Remove } else { Step::Wait }
}

/// Content of a request.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Request {
    pub(super) pem: String,
    pub(super) user: String,
    pub(super) groups: Vec<String>,
    /// Namespace and name of the Machine whose certificate it is.
    pub(super) machine: Option<(String, String)>,
    pub(super) lifetime: Duration,
}

impl Request {
    /// Reads a request for this signer. Its signature is verified when the certificate is signed.
    ///
    /// # Errors
    /// The reason why the signer issues no certificate.
    pub(super) fn parse(request: &CertificateSigningRequest, signer: Signer) -> anyhow::Result<Self> {
        let spec = &request.spec;
        let (pem, der) = der(request)?;
        let (_, parsed) = X509CertificationRequest::from_der(&der).context("spec.request cannot be read")?;
        let subject = &parsed.certification_request_info.subject;
        let user = subject.iter_common_name().next().and_then(|name| name.as_str().ok()).unwrap_or_default();
        if user.is_empty() {
            bail!("the subject of the request has no common name, which is the name of the user");
        }
        let groups = subject.iter_organization().map(|name| Ok(name.as_str()?.to_owned()));
        let groups: Vec<String> = groups.collect::<anyhow::Result<_>>().context("a group cannot be read")?;
        if let Some(usage) = spec.usages.iter().flatten().find(|usage| !USAGES.contains(&usage.as_str())) {
            bail!("usage {usage:?} is not possible; the signer allows {}", USAGES.join(", "));
        }
        if !spec.usages.iter().flatten().any(|usage| usage == USAGES[0]) {
            bail!("usage \"client auth\" is required");
        }
        let machine = check(user, &groups, signer)?;
        let requested = spec.expiration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        let requested = requested.map(Duration::from_secs);
        let lifetime = match signer {
            Signer::Client => requested.unwrap_or(CLIENT).min(LONGEST_CLIENT),
            Signer::Machine => requested.unwrap_or(MACHINE).min(MACHINE),
        };
        Ok(Self { pem, user: user.to_owned(), groups, machine, lifetime })
    }
}

/// Returns the text of a request, and the content of its PEM block.
pub(super) fn der(
    request: &CertificateSigningRequest,
) -> anyhow::Result<(String, CertificateSigningRequestDer<'static>)> {
    let pem = String::from_utf8(request.spec.request.0.clone()).context("spec.request is no text")?;
    let der = CertificateSigningRequestDer::from_pem_slice(pem.as_bytes());
    let der = der.map_err(|_| anyhow::anyhow!("spec.request holds no request in PEM"))?;
    Ok((pem, der))
}

/// Checks the user and the groups. Returns the namespace and the name of the machine, if the signer is that of machines.
fn check(user: &str, groups: &[String], signer: Signer) -> anyhow::Result<Option<(String, String)>> {
    if groups.iter().any(|group| group == MASTERS) {
        bail!("group {MASTERS} is not possible; use `capstan kubeconfig --break-glass` in an emergency");
    }
    if signer != Signer::Machine {
        return Ok(None);
    }
    let name = user.strip_prefix(MACHINE_NAME).and_then(|rest| rest.split_once(':'));
    match name.filter(|(namespace, name)| !namespace.is_empty() && !name.is_empty() && groups == [MACHINES]) {
        Some((namespace, name)) => Ok(Some((namespace.to_owned(), name.to_owned()))),
        None => bail!("the subject must be CN={MACHINE_NAME}NAMESPACE:NAME, O={MACHINES}"),
    }
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, DnType, KeyPair};
    use serde_json::{Value, json};

    use super::*;

    fn request(user: &str, group: &str, spec: &Value) -> CertificateSigningRequest {
        let mut params = CertificateParams::default();
        params.distinguished_name = rcgen::DistinguishedName::new();
        params.distinguished_name.push(DnType::CommonName, user);
        params.distinguished_name.push(DnType::OrganizationName, group);
        let pem = params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap();
        let mut request = CertificateSigningRequest::default();
        request.spec.request = k8s_openapi::ByteString(pem.into_bytes());
        request.spec.usages = Some(vec!["client auth".to_owned()]);
        if let Some(usages) = spec.get("usages") {
            request.spec.usages = serde_json::from_value(usages.clone()).unwrap();
        }
        request.spec.expiration_seconds =
            spec["seconds"].as_i64().map(|seconds| i32::try_from(seconds).unwrap());
        request
    }

    #[test]
    fn a_signer_refuses_what_it_does_not_issue() {
        let parse = |user: &str, group: &str, spec: Value, signer| {
            Request::parse(&request(user, group, &spec), signer).map_err(|error| error.to_string())
        };
        let found = parse("alice", "dev", json!({}), Signer::Client).unwrap();
        assert_eq!((found.user.as_str(), found.groups.as_slice()), ("alice", &["dev".to_owned()][..]));
        assert_eq!(found.lifetime, CLIENT);
        let long = json!({"seconds": 2_000_000_000});
        assert_eq!(parse("alice", "dev", long.clone(), Signer::Client).unwrap().lifetime, LONGEST_CLIENT);
        let machine = parse("system:machine:ns:m", MACHINES, long, Signer::Machine).unwrap();
        assert_eq!(machine.lifetime, MACHINE);
        assert_eq!(machine.machine, Some(("ns".to_owned(), "m".to_owned())));
        for (user, group, spec, signer, expected) in [
            ("alice", MASTERS, json!({}), Signer::Client, "--break-glass"),
            ("", "dev", json!({}), Signer::Client, "no common name"),
            (
                "alice",
                "dev",
                json!({"usages": ["server auth", "client auth"]}),
                Signer::Client,
                "\"server auth\"",
            ),
            ("alice", "dev", json!({"usages": ["digital signature"]}), Signer::Client, "is required"),
            ("alice", MACHINES, json!({}), Signer::Machine, "CN=system:machine:"),
            ("system:machine:ns:m", "dev", json!({}), Signer::Machine, "O=system:machines"),
        ] {
            let error = parse(user, group, spec, signer).unwrap_err();
            assert!(error.contains(expected), "{user} {group}: {error}");
        }
    }

    #[test]
    fn an_approved_request_is_signed_once_and_old_ones_are_removed() {
        let now: Timestamp = "2026-11-28T12:00:00Z".parse().unwrap();
        let of = |signer: &str, created: &str, conditions: Value, certificate: &str| {
            let request: CertificateSigningRequest = serde_json::from_value(json!({
                "metadata": {"name": "r", "creationTimestamp": created},
                "spec": {"request": "", "signerName": signer, "usages": []},
                "status": {"conditions": conditions, "certificate": certificate}}))
            .unwrap();
            step(&request, now)
        };
        let decided = |kind: &str, at: &str| json!([{"type": kind, "status": "True", "lastUpdateTime": at}]);
        let (client, new, old) =
            ("kubernetes.io/kube-apiserver-client", "2026-11-28T11:30:00Z", "2026-11-27T11:00:00Z");
        assert_eq!(of(client, new, json!([]), ""), Step::Wait);
        assert_eq!(of(client, old, json!([]), ""), Step::Remove);
        assert_eq!(of(client, old, decided("Approved", old), ""), Step::Sign(Signer::Client));
        assert_eq!(of("capstan.dev/machine", new, decided("Approved", new), ""), Step::Sign(Signer::Machine));
        assert_eq!(of("example.com/other", new, decided("Approved", new), ""), Step::Wait);
        assert_eq!(of(client, old, decided("Approved", new), "AA=="), Step::Wait);
        assert_eq!(of(client, old, decided("Approved", old), "AA=="), Step::Remove);
        assert_eq!(of(client, new, decided("Denied", new), ""), Step::Wait);
        assert_eq!(of(client, old, decided("Failed", old), ""), Step::Remove);
    }
}
