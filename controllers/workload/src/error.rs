//! Error of an access to a workload cluster.

use std::error::Error;

use controllers_infrastructure::without_present_time;
use kube::core::Status;

/// Error of an access to a workload cluster. Each message names what went wrong, without the Cluster's name, which the
/// caller knows.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WorkloadError {
    /// There is no connection now. A change is announced when there is one.
    #[error("not connected to the workload cluster: {0}")]
    NotConnected(String),
    /// The kubeconfig cannot be used.
    #[error("the kubeconfig of the workload cluster cannot be used: {0}")]
    Kubeconfig(String),
    /// A call of the workload API failed.
    #[error("a request to the workload cluster failed: {0}")]
    Request(String),
    /// A call of etcd failed.
    #[error("a request to the etcd of the workload cluster failed: {0}")]
    Etcd(String),
    /// A MachineDrainRule cannot be evaluated.
    #[error("a MachineDrainRule cannot be evaluated: {0}")]
    Rule(String),
}

impl From<kube::Error> for WorkloadError {
    fn from(error: kube::Error) -> Self {
        Self::Request(describe(&error))
    }
}

/// Longest part of an answer that a message quotes: enough for a sentence.
const QUOTED: usize = 200;

/// Remedy for an answer that no API server gives.
pub(crate) const NO_API_SERVER: &str =
    "; look whether the endpoint leads to the API server, and whether a proxy in between has lost it";

/// Returns the cause of a failed request in the words of the other side, and what to do about it.
pub fn describe(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if looks_like_html(&status.message) => {
            format!(
                "the server answered with HTML instead of JSON (HTTP status {}){NO_API_SERVER}",
                status.code
            )
        }
        kube::Error::Api(status) => {
            let (message, code) = (shortened(&status.message), status.code);
            format!("{message} (HTTP status {code}){}", remedy(code))
        }
        kube::Error::SerdeError(error) => {
            format!("the server's answer is not the expected JSON: {error}{NO_API_SERVER}")
        }
        kube::Error::Auth(error) => format!("the credentials cannot be used: {error}"),
        other => with_advice(without_present_time(chain(other))),
    }
}

/// Returns what to do about an error of the API server. Requests that may succeed later are repeated.
fn remedy(code: u16) -> &'static str {
    match code {
        401 => "; the kubeconfig needs credentials that the API server accepts",
        403 => "; give the user of the kubeconfig the permissions of cluster-admin",
        409 | 429 => "; the request is repeated",
        500..=599 => "; the request is repeated, look at the logs of the API server and of etcd if it stays",
        _ => "",
    }
}

/// Returns `None` if the API server says that an object does not exist. A load balancer's own page with status 404 is an
/// error: `get_opt` of the client library takes it for the same.
///
/// # Errors
/// The request failed in another way.
pub fn found<T>(result: Result<T, kube::Error>) -> Result<Option<T>, WorkloadError> {
    match result {
        Ok(found) => Ok(Some(found)),
        Err(kube::Error::Api(status)) if says_not_found(&status) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Says whether it is the API server that does not know an object.
pub(crate) fn says_not_found(status: &Status) -> bool {
    status.reason == "NotFound"
}

/// Says whether the server refused the credentials.
pub(crate) fn is_unauthorized(error: &kube::Error) -> bool {
    matches!(error, kube::Error::Api(status) if status.code == 401)
}

/// Says whether an answer is a page for a browser.
pub(crate) fn looks_like_html(text: &str) -> bool {
    let start = text.trim_start().get(..15).unwrap_or_else(|| text.trim_start()).to_ascii_lowercase();
    start.starts_with("<!doctype html") || start.starts_with("<html") || start.starts_with("<head")
}

/// Returns the first characters of a text.
pub(crate) fn shortened(text: &str) -> String {
    let text = text.trim();
    match text.char_indices().nth(QUOTED) {
        Some((end, _)) => format!("{}…", text.get(..end).unwrap_or(text)),
        None => text.to_owned(),
    }
}

/// Returns the causes from the outermost to the innermost. Texts that repeat their cause are left out.
fn chain(error: &dyn Error) -> String {
    let mut causes: Vec<String> = Vec::new();
    let mut next = Some(error);
    while let Some(error) = next {
        let text = error.to_string();
        causes.retain(|outer| !outer.contains(&text) || outer == "client error (Connect)");
        if causes.last() != Some(&text) {
            causes.push(text);
        }
        next = error.source();
    }
    causes.retain(|cause| cause != "client error (Connect)" && cause != "client error (SendRequest)");
    causes.join(": ")
}

/// Parts of errors of a connection, with the name that users know from other clients, and what to do.
const ADVICE: [(&str, &str); 8] = [
    ("UnknownIssuer", " (x509: certificate signed by an authority that the kubeconfig does not contain)"),
    // Another authority of the same name, as kubeadm gives it to all.
    ("BadSignature", " (x509: certificate signed by an authority that the kubeconfig does not contain)"),
    (
        "certificate not valid for name",
        " (x509: the certificate of the server is for another name or address); look whether the endpoint leads to this \
         cluster, and whether the certSANs of its API server have it",
    ),
    (
        "certificate expired",
        " (x509: the certificate of the server has expired; renew it with kubeadm certs renew apiserver)",
    ),
    (
        "certificate not valid yet",
        " (x509: the certificate of the server is not valid yet); compare the clocks of Capstan and of the control plane",
    ),
    (
        "Connection refused",
        "; look whether the API server runs, and whether the endpoint and the load balancer lead to it",
    ),
    ("reset by peer", "; the request is repeated, look at the way to the API server if it stays"),
    ("connection closed", "; the request is repeated, look at the way to the API server if it stays"),
];

/// Adds the remedy to an error of a connection.
fn with_advice(text: String) -> String {
    let found = ADVICE.iter().find(|(part, _)| text.contains(part));
    found.map(|(_, advice)| format!("{text}{advice}")).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn api(code: u16, message: &str) -> kube::Error {
        kube::Error::Api(Status::failure(message, "Reason").with_code(code).boxed())
    }

    #[test]
    fn a_message_says_what_the_other_side_said() {
        let io = std::io::Error::other("invalid peer certificate: UnknownIssuer");
        let cases = [
            (
                api(403, "nodes is forbidden"),
                "nodes is forbidden (HTTP status 403); give the user of the kubeconfig the permissions of cluster-admin",
            ),
            (
                api(502, "<html><body>Bad Gateway</body></html>"),
                "the server answered with HTML instead of JSON (HTTP status 502); look whether the endpoint leads to \
                 the API server, and whether a proxy in between has lost it",
            ),
            (
                kube::Error::Service(Box::new(io)),
                "invalid peer certificate: UnknownIssuer (x509: certificate signed by an authority that the \
                 kubeconfig does not contain)",
            ),
        ];
        for (error, expected) in cases {
            assert_eq!(describe(&error), expected);
        }
    }

    #[test]
    fn an_error_about_a_certificate_is_the_same_at_each_attempt() {
        use std::time::Duration;

        use rustls::CertificateError;
        use rustls::pki_types::UnixTime;

        let at = |seconds: u64| UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        let text = |error: CertificateError| {
            describe(&kube::Error::Service(Box::new(rustls::Error::InvalidCertificate(error))))
        };
        let expired = |time| text(CertificateError::ExpiredContext { time: at(time), not_after: at(86_400) });
        let early =
            |time| text(CertificateError::NotValidYetContext { time: at(time), not_before: at(86_400) });
        let expected =
            "invalid peer certificate: certificate expired: not valid after 1970-01-02T00:00:00Z (x509: ";
        assert!(expired(90_000).starts_with(expected), "{}", expired(90_000));
        assert_eq!(expired(90_000), expired(100_000));
        let expected = "certificate not valid yet: not valid before 1970-01-02T00:00:00Z (x509: ";
        assert!(early(10).contains(expected), "{}", early(10));
        assert_eq!(early(10), early(20));
    }

    #[test]
    fn a_certificate_for_another_name_is_explained() {
        let io = std::io::Error::other(
            "invalid peer certificate: certificate not valid for name \"10.0.0.1\"; certificate is only valid for a",
        );
        let text = describe(&kube::Error::Service(Box::new(io)));
        assert!(text.contains("certSANs"), "{text}");
    }

    #[test]
    fn a_long_answer_is_shortened_at_a_character() {
        let text = shortened(&"ä".repeat(300));
        assert_eq!(text.chars().count(), QUOTED + 1);
    }
}
