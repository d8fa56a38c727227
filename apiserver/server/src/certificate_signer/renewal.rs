//! Renewal of a machine's certificate. Pure functions.
//!
//! The certificate of a machine ends after 30 days at most. A machine that has a good one gets the next one without an
//! administrator: it proves with the good one that it is the same machine.

use apiserver_access::{CREDENTIAL_ID, REALM, Realm, User};
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::certificates::v1::CertificateSigningRequest;
use x509_parser::certification_request::X509CertificationRequest;
use x509_parser::der_parser::Oid;
use x509_parser::extensions::ParsedExtension;
use x509_parser::oid_registry::{OID_X509_COMMON_NAME, OID_X509_ORGANIZATION_NAME};
use x509_parser::prelude::FromDer;

use super::request::{self, Request, Signer};
use crate::pki;

/// Longest time from a request to its approval. The server has verified the old certificate at the request, and later it
/// can be revoked. Unapproved requests of machines are older only if no server could sign.
const LATEST: SignedDuration = SignedDuration::from_hours(1);

/// Begin of the credential id of a certificate.
const CERTIFICATE: &str = "X509SHA256=";

/// Machine that has made a request with its certificate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Requester {
    pub(super) namespace: String,
    pub(super) name: String,
    /// Uid in the certificate.
    pub(super) uid: String,
}

impl Requester {
    /// Returns the machine that has made a request; `None` for another user, and for a machine with a token.
    pub(super) fn of(request: &CertificateSigningRequest) -> Option<Self> {
        let spec = &request.spec;
        let extra = |key: &str| spec.extra.as_ref()?.get(key)?.first().map(String::as_str);
        if !extra(CREDENTIAL_ID)?.starts_with(CERTIFICATE) {
            return None;
        }
        let realm = Realm::of_name(extra(REALM)?)?;
        let user = User { name: spec.username.clone()?, realm, ..User::default() };
        let (namespace, name) = user.machine()?;
        let uid = spec.uid.clone().filter(|uid| !uid.is_empty())?;
        Some(Self { namespace: namespace.to_owned(), name: name.to_owned(), uid })
    }
}

/// Returns the machine that requests its own next certificate, and nothing else. `None` leaves the decision to an
/// administrator.
pub(super) fn of(request: &CertificateSigningRequest, now: Timestamp) -> Option<Requester> {
    let status = request.status.as_ref();
    let is_decided = status.and_then(|status| status.conditions.as_ref()).is_some_and(|all| !all.is_empty());
    let created = request.metadata.creation_timestamp.as_ref()?.0;
    if is_decided || now.duration_since(created) > LATEST {
        return None;
    }
    let signer = Signer::of(&request.spec.signer_name).filter(|signer| *signer == Signer::Machine)?;
    let requester = Requester::of(request)?;
    let subject = Request::parse(request, signer).ok()?.machine?;
    let is_same = subject == (requester.namespace.clone(), requester.name.clone());
    let (_, der) = request::der(request).ok()?;
    let (_, parsed) = X509CertificationRequest::from_der(&der).ok()?;
    (is_same && names_only_the_user(&parsed, &requester.uid)).then_some(requester)
}

/// Returns true if the request has no name beside the one of the user: no second one, no uid of another Machine, and none of
/// a server. The signer ignores all of them, but a request that has them is not the plain one of a machine.
fn names_only_the_user(request: &X509CertificationRequest<'_>, uid: &str) -> bool {
    let subject = &request.certification_request_info.subject;
    let is_known = |kind: &Oid<'_>| *kind == OID_X509_COMMON_NAME || *kind == OID_X509_ORGANIZATION_NAME;
    let is_uid = |kind: &Oid<'_>| Oid::from(&pki::UID).is_ok_and(|expected| *kind == expected);
    let is_plain = subject.iter_attributes().all(|attribute| {
        let kind = attribute.attr_type();
        is_known(kind) || is_uid(kind) && attribute.as_str().is_ok_and(|found| found == uid)
    });
    let mut extensions = request.requested_extensions().into_iter().flatten();
    let is_use = |it: &ParsedExtension<'_>| {
        matches!(it, ParsedExtension::KeyUsage(_) | ParsedExtension::ExtendedKeyUsage(_))
    };
    is_plain && subject.iter_common_name().count() == 1 && extensions.all(is_use)
}

#[cfg(test)]
mod tests {
    use rcgen::{CertificateParams, CustomExtension, DistinguishedName, DnType, KeyPair};
    use serde_json::{Value, json};

    use super::*;

    const NOW: &str = "2026-11-28T12:00:00Z";

    /// Returns a request in PEM for these attributes of the subject.
    fn pem(subject: &[(DnType, &str)], change: impl FnOnce(&mut CertificateParams)) -> String {
        let mut params = CertificateParams::default();
        params.distinguished_name = DistinguishedName::new();
        for (kind, value) in subject {
            params.distinguished_name.push(kind.clone(), *value);
        }
        change(&mut params);
        params.serialize_request(&KeyPair::generate().unwrap()).unwrap().pem().unwrap()
    }

    fn plain() -> Vec<(DnType, &'static str)> {
        vec![(DnType::CommonName, "system:machine:ns:m"), (DnType::OrganizationName, "system:machines")]
    }

    /// Returns a request of the machine ns/m.
    fn request(pem: String) -> CertificateSigningRequest {
        let mut request: CertificateSigningRequest = serde_json::from_value(json!({
            "metadata": {"name": "r", "creationTimestamp": "2026-11-28T11:59:00Z"},
            "spec": {"request": "", "signerName": "capstan.dev/machine", "usages": ["client auth"],
                "username": "system:machine:ns:m", "uid": "u", "groups": ["system:machines"],
                "extra": {"capstan.dev/realm": ["machine"],
                    "authentication.kubernetes.io/credential-id": ["X509SHA256=ab"]}}}))
        .unwrap();
        request.spec.request = k8s_openapi::ByteString(pem.into_bytes());
        request
    }

    fn is_renewal(request: &CertificateSigningRequest) -> bool {
        of(request, NOW.parse().unwrap()).is_some()
    }

    #[test]
    fn a_machine_renews_its_own_certificate() {
        let expected = Requester { namespace: "ns".to_owned(), name: "m".to_owned(), uid: "u".to_owned() };
        assert_eq!(of(&request(pem(&plain(), |_| {})), NOW.parse().unwrap()), Some(expected));
        let uid = |uid| [plain(), vec![(DnType::CustomDnType(pki::UID.to_vec()), uid)]].concat();
        assert!(is_renewal(&request(pem(&uid("u"), |_| {}))), "the subject of the old certificate");
        assert!(!is_renewal(&request(pem(&uid("of another Machine"), |_| {}))));
    }

    #[test]
    fn a_request_for_more_than_the_own_name_waits_for_an_administrator() {
        let of_other =
            [(DnType::CommonName, "system:machine:ns:other"), (DnType::OrganizationName, "system:machines")];
        assert!(!is_renewal(&request(pem(&of_other, |_| {}))));
        let with_country = [plain(), vec![(DnType::CountryName, "DE")]].concat();
        assert!(!is_renewal(&request(pem(&with_country, |_| {}))));
        let names = |params: &mut CertificateParams| {
            params.subject_alt_names = vec![rcgen::SanType::DnsName("api.example.org".try_into().unwrap())];
        };
        assert!(!is_renewal(&request(pem(&plain(), names))));
        let unknown = |params: &mut CertificateParams| {
            params.custom_extensions = vec![CustomExtension::from_oid_content(&[1, 2, 3], vec![5, 0])];
        };
        assert!(!is_renewal(&request(pem(&plain(), unknown))));
    }

    #[test]
    fn only_a_machine_with_a_certificate_renews_and_only_soon_and_once() {
        let base = serde_json::to_value(request(pem(&plain(), |_| {}))).unwrap();
        let condition = json!([{"type": "Denied", "status": "True"}]);
        for (path, value) in [
            ("/spec/username", json!("system:machine:ns:other")),
            ("/spec/username", json!("alice")),
            ("/spec/uid", json!("")),
            ("/spec/extra/capstan.dev~1realm", json!(["own"])),
            ("/spec/extra/authentication.kubernetes.io~1credential-id", json!(["JTI=ab"])),
            ("/spec/signerName", json!("kubernetes.io/kube-apiserver-client")),
            ("/spec/usages", json!(["server auth"])),
            ("/metadata/creationTimestamp", json!("2026-11-28T10:59:00Z")),
            ("/status/conditions", condition),
        ] {
            let mut changed = base.clone();
            changed["status"] = json!({"conditions": Value::Null});
            *changed.pointer_mut(path).unwrap() = value.clone();
            let changed = serde_json::from_value(changed).unwrap();
            assert!(!is_renewal(&changed), "{path} {value}");
        }
    }
}
