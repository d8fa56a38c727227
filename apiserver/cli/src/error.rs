//! Failures of commands, in the one form that all commands share.

use std::fmt;

use kube::core::Status;
use serde_json::{Value, json};

/// Reason for which a command failed, with its exit code.
#[derive(Debug)]
pub struct Failure {
    summary: String,
    details: Vec<(&'static str, String)>,
    next: Option<String>,
    code: ExitCode,
    status: Option<Box<Status>>,
    for_programs: bool,
}

/// Exit code of a command. Scripts rely on the numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExitCode {
    /// The request was refused, or it failed.
    Failed,
    /// The time of `--timeout` has passed.
    TimedOut,
    /// The server cannot be reached, or it does not accept the credentials.
    Unreachable,
    /// The user pressed Ctrl-C.
    Interrupted,
}

impl ExitCode {
    /// Returns the number.
    #[must_use]
    pub fn number(self) -> u8 {
        match self {
            Self::Failed => 1,
            Self::TimedOut => 3,
            Self::Unreachable => 6,
            Self::Interrupted => 130,
        }
    }
}

impl Failure {
    /// Creates a failure with a first line that names the object and what went wrong.
    pub(crate) fn new(code: ExitCode, summary: impl Into<String>) -> Self {
        Self {
            summary: summary.into(),
            details: Vec::new(),
            next: None,
            code,
            status: None,
            for_programs: false,
        }
    }

    /// Adds a line with a label, which has at most nine characters.
    pub(crate) fn detail(mut self, label: &'static str, text: impl Into<String>) -> Self {
        self.details.push((label, text.into()));
        self
    }

    /// Sets the command or the advice that solves the problem.
    pub(crate) fn next(mut self, text: impl Into<String>) -> Self {
        self.next = Some(text.into());
        self
    }

    /// Adds the messages of the error of a connection, and the advice if the certificate of the server is not trusted.
    pub(crate) fn connection(self, error: &dyn std::error::Error, advice: &str) -> Self {
        let cause = chain(error);
        let next = is_untrusted(&cause).then_some(advice);
        let failure = self.detail("cause", cause);
        match next {
            Some(next) => failure.next(next),
            None => failure,
        }
    }

    /// Creates the failure of a request. `name` is empty for a list, and `kind` is then a plural. `namespace` is empty for an
    /// object of the cluster.
    pub(crate) fn api(verb: &str, kind: &str, namespace: &str, name: &str, error: &kube::Error) -> Self {
        let object = match (namespace, name) {
            ("", "") => kind.to_owned(),
            ("", name) => format!("{kind} {name}"),
            (namespace, "") => format!("{kind} in namespace {namespace}"),
            (namespace, name) => format!("{kind} {namespace}/{name}"),
        };
        let kube::Error::Api(status) = error else { return Self::unreachable(verb, &object, error) };
        let server = format!("{} {}", status.code, status.message.trim());
        let failure = match status.code {
            401 => Self::new(
                ExitCode::Unreachable,
                format!("cannot {verb} {object}: the server does not accept the credentials"),
            )
            .next("use another kubeconfig, or another --context: the certificate or token may have expired"),
            403 => {
                let scope = if namespace.is_empty() { String::new() } else { format!(" -n {namespace}") };
                Self::new(ExitCode::Failed, format!("cannot {verb} {object}: no permission"))
                    .next(format!("kubectl auth can-i --list{scope}"))
            }
            404 if name.is_empty() => Self::new(
                ExitCode::Failed,
                format!("cannot {verb} {object}: the server does not serve this kind"),
            ),
            404 => Self::new(ExitCode::Failed, format!("cannot {verb} {object}: it does not exist"))
                .next(format!("kubectl get {}s --all-namespaces", kind.to_lowercase())),
            _ => Self::new(ExitCode::Failed, format!("cannot {verb} {object}: the server returned an error")),
        };
        Self { status: Some(status.clone()), ..failure.detail("server", server) }
    }

    fn unreachable(verb: &str, object: &str, error: &kube::Error) -> Self {
        let cause = chain(error);
        let check = "check the server in the kubeconfig: kubectl config view --minify";
        let (code, why, next) = if matches!(error, kube::Error::SerdeError(_)) {
            (ExitCode::Failed, "the answer cannot be decoded", check)
        } else if is_untrusted(&cause) {
            let next = "check CA and server in the kubeconfig; after a rotation of the CA, get a new one";
            (ExitCode::Unreachable, "the certificate of the server is not trusted", next)
        } else {
            (ExitCode::Unreachable, "the server cannot be reached", check)
        };
        Self::new(code, format!("cannot {verb} {object}: {why}")).detail("server", cause).next(next)
    }

    /// Returns the exit code.
    #[must_use]
    pub fn code(&self) -> ExitCode {
        self.code
    }

    /// Shows the API's Status as JSON instead of the text, if the server returned one.
    pub(crate) fn for_programs(mut self) -> Self {
        self.for_programs = true;
        self
    }

    /// Returns true if the same request may succeed in a moment: a server restarts, or sheds load.
    pub(crate) fn is_transient(&self) -> bool {
        match &self.status {
            Some(status) => status.code == 429 || status.code >= 500,
            None => self.code == ExitCode::Unreachable,
        }
    }
}

/// Reports whether the messages of an error say that a server has a certificate that the client does not trust: of another
/// CA, of another name, or one that has expired.
fn is_untrusted(messages: &str) -> bool {
    messages.contains("invalid peer certificate")
}

/// Returns the messages of an error and its sources, without repetitions.
pub(crate) fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        let message = error.to_string();
        if !text.contains(&message) {
            text.push_str(": ");
            text.push_str(&message);
        }
        source = error.source();
    }
    text
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let status = self.status.as_ref().filter(|_| self.for_programs);
        if let Some(Value::Object(fields)) = status.and_then(|status| serde_json::to_value(status).ok()) {
            // The client library leaves out the fields that tell the kind.
            let mut status = json!({"apiVersion": "v1", "kind": "Status"});
            if let Value::Object(all) = &mut status {
                all.extend(fields);
            }
            return write!(f, "{status}");
        }
        // Who presses Ctrl-C sees no error.
        let prefix = if self.code == ExitCode::Interrupted { "" } else { "error: " };
        write!(f, "{prefix}{}", self.summary)?;
        for (label, text) in &self.details {
            write!(f, "\n  {label:<9} {text}")?;
        }
        if let Some(next) = &self.next {
            write!(f, "\nnext: {next}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Failure {}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(code: u16, message: &str) -> kube::Error {
        kube::Error::Api(Box::new(Status { code, message: message.to_owned(), ..Status::default() }))
    }

    #[test]
    fn a_failed_request_names_the_object_the_answer_and_the_next_command() {
        let failure = Failure::api("read", "Cluster", "team", "prod", &answer(404, "not found"));
        assert_eq!(
            failure.to_string(),
            "error: cannot read Cluster team/prod: it does not exist\n  server    404 not found\nnext: kubectl get clusters --all-namespaces"
        );
    }

    #[test]
    fn a_server_with_an_unknown_certificate_is_no_server_that_does_not_answer() {
        for (cause, expected) in [
            ("invalid peer certificate: UnknownIssuer", "the certificate of the server is not trusted"),
            ("Connection refused", "the server cannot be reached"),
        ] {
            let error = kube::Error::Service(cause.into());
            let failure = Failure::api("read", "Cluster", "team", "prod", &error);
            assert!(failure.to_string().contains(&format!("team/prod: {expected}")), "{failure}");
            assert_eq!(failure.code().number(), 6, "{cause}");
            let failure = Failure::new(ExitCode::Unreachable, "no login");
            let text = failure.connection(&std::io::Error::other(cause), "give the CA").to_string();
            assert_eq!(text.ends_with("next: give the CA"), cause.contains("certificate"), "{text}");
        }
    }

    #[test]
    fn an_object_of_the_cluster_has_no_namespace() {
        for (name, expected) in
            [("r", "cannot read Request r: no permission"), ("", "cannot read Request: no")]
        {
            let failure = Failure::api("read", "Request", "", name, &answer(403, "no")).to_string();
            assert!(failure.contains(expected) && failure.ends_with("can-i --list"), "{failure}");
        }
    }

    #[test]
    fn programs_get_the_status_that_the_server_returned() {
        let failure = Failure::api("read", "Cluster", "team", "prod", &answer(404, "not found"));
        let status: Value = serde_json::from_str(&failure.for_programs().to_string()).unwrap();
        assert_eq!((&status["kind"], &status["message"]), (&"Status".into(), &"not found".into()));
        let failure = Failure::api("read", "Cluster", "team", "prod", &kube::Error::TlsRequired);
        assert!(failure.for_programs().to_string().starts_with("error: cannot read Cluster team/prod"));
    }

    #[test]
    fn only_an_absent_server_and_overload_are_transient() {
        for (code, expected) in [(401, false), (403, false), (404, false), (429, true), (503, true)] {
            let failure = Failure::api("read", "Cluster", "team", "prod", &answer(code, "no"));
            assert_eq!(failure.is_transient(), expected, "{code}");
        }
        assert!(Failure::api("read", "Cluster", "team", "prod", &kube::Error::TlsRequired).is_transient());
    }

    #[test]
    fn the_exit_code_tells_a_refusal_from_missing_credentials() {
        for (code, expected) in [(401, 6), (403, 1), (404, 1), (500, 1)] {
            let failure = Failure::api("list", "machines", "team", "", &answer(code, "no"));
            assert_eq!(failure.code().number(), expected, "{code}");
        }
        let failure = Failure::api("list", "machines", "team", "", &kube::Error::TlsRequired);
        assert_eq!(failure.code().number(), 6);
    }
}
