//! Protocol between kubectl and its plug-ins for credentials.

use serde::Deserialize;
use serde_json::json;

use super::{ClientCertificate, Token};
use crate::error::{ExitCode, Failure};

/// Group of the protocol.
const GROUP: &str = "client.authentication.k8s.io";

/// Versions of the protocol. They have the same fields. The first is the default.
const VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// Version of the protocol that kubectl requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Version(&'static str);

/// Credential in an answer.
pub(super) enum Credential {
    Token(Token),
    Certificate(ClientCertificate),
}

/// Answer to kubectl.
pub(super) struct ExecCredential {
    pub(super) version: Version,
    pub(super) credential: Credential,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Info {
    api_version: String,
}

/// Reads the version from the variable `KUBERNETES_EXEC_INFO`. Without it, a person runs the command.
pub(super) fn requested_version(info: Option<&str>) -> Result<Version, Failure> {
    let Some(info) = info else { return Ok(Version(VERSIONS[0])) };
    let found: Result<Info, _> = serde_json::from_str(info);
    let requested = found.map(|info| info.api_version).unwrap_or_default();
    let version = requested.strip_prefix(GROUP).and_then(|version| version.strip_prefix('/'));
    let known = VERSIONS.into_iter().find(|known| Some(*known) == version);
    known.map(Version).ok_or_else(|| {
        let summary = format!("KUBERNETES_EXEC_INFO: apiVersion {requested:?} is not supported");
        let next = format!("set apiVersion {GROUP}/v1 in users[].user.exec of the kubeconfig");
        Failure::new(ExitCode::Failed, summary).next(next)
    })
}

/// Returns the URL of the server for which kubectl requests a credential, or an empty text.
pub(super) fn server_of(info: Option<&str>) -> String {
    let found: Option<serde_json::Value> = info.and_then(|info| serde_json::from_str(info).ok());
    let server = found.as_ref().and_then(|info| info.pointer("/spec/cluster/server")?.as_str());
    server.unwrap_or_default().to_owned()
}

impl ExecCredential {
    /// Returns the JSON that kubectl reads.
    pub(super) fn text(&self) -> String {
        let Self { version: Version(version), credential } = self;
        let (mut status, end) = match credential {
            Credential::Token(token) => (json!({"token": token.secret}), token.renew_at),
            Credential::Certificate(it) => {
                let status = json!({"clientCertificateData": it.certificate, "clientKeyData": it.key});
                (status, Some(it.renew_at))
            }
        };
        if let Some(end) = end {
            status["expirationTimestamp"] = json!(end.to_string());
        }
        let object =
            json!({"apiVersion": format!("{GROUP}/{version}"), "kind": "ExecCredential", "status": status});
        format!("{object}\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_has_the_version_that_kubectl_requests() {
        let info = |version: &str| {
            format!(
                r#"{{"apiVersion": "{version}", "kind": "ExecCredential", "spec": {{"interactive": false}}}}"#
            )
        };
        assert_eq!(requested_version(None).unwrap(), Version("v1"));
        for version in VERSIONS {
            let found = requested_version(Some(&info(&format!("{GROUP}/{version}")))).unwrap();
            assert_eq!(found, Version(version));
        }
        for bad in [info("client.authentication.k8s.io/v1alpha1"), info("v1"), "{".to_owned()] {
            let failure = requested_version(Some(&bad)).unwrap_err().to_string();
            assert!(failure.contains("KUBERNETES_EXEC_INFO: apiVersion "), "{failure}");
        }
    }

    #[test]
    fn the_answer_is_json_with_token_and_end() {
        let end = "2030-01-01T00:00:00Z".parse().unwrap();
        let token = Token { secret: "gAAAAAB".to_owned(), renew_at: Some(end) };
        let expected = json!({"token": "gAAAAAB", "expirationTimestamp": "2030-01-01T00:00:00Z"});
        assert_eq!(answer(Credential::Token(token)), expected);
    }

    #[test]
    fn a_certificate_has_its_key_and_no_token() {
        let renew_at = "2030-01-01T00:00:00Z".parse().unwrap();
        let held = ClientCertificate { certificate: "C".to_owned(), key: "K".to_owned(), renew_at };
        let expected = json!({"clientCertificateData": "C", "clientKeyData": "K",
            "expirationTimestamp": "2030-01-01T00:00:00Z"});
        assert_eq!(answer(Credential::Certificate(held)), expected);
    }

    /// Returns the status of the answer, after a check of the rest.
    fn answer(credential: Credential) -> serde_json::Value {
        let text = ExecCredential { version: Version("v1"), credential }.text();
        let found: serde_json::Value = serde_json::from_str(&text).unwrap();
        assert_eq!(found["apiVersion"], "client.authentication.k8s.io/v1");
        assert_eq!(found["kind"], "ExecCredential");
        found["status"].clone()
    }
}
