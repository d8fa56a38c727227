//! Errors of calls.

use controllers_runtime::ReconcileError;

use crate::Hook;

/// Cause of a failed call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// No ExtensionConfig lists the handler, or it lists it for another hook.
    NotRegistered,
    /// The namespace of the object is none of those that the ExtensionConfig selects.
    NotSelected,
    /// The ExtensionConfig cannot be used: its address, its CA certificates or its selector.
    Misconfigured,
    /// The server did not answer, or not in the form of the protocol. Only this cause can be ignored.
    NoAnswer,
    /// The server answered that it refuses, or with a status that does not exist.
    Refused,
}

/// Error of a call. Its text names the handler, its ExtensionConfig and the hook, has the server's own words, and says what
/// to do.
#[derive(Debug, thiserror::Error)]
pub enum ExtensionError {
    /// The call failed.
    #[error("{target}, hook {hook}: {}. {remedy}", message.trim_end_matches('.'))]
    Call {
        /// Cause of the failure.
        cause: Cause,
        /// Handler and ExtensionConfig. For people.
        target: String,
        /// Hook of the call.
        hook: Hook,
        /// Description of the failure. For people. At most a kilobyte of it is the server's.
        message: String,
        /// Action for people.
        remedy: String,
    },
    /// The API failed.
    #[error(transparent)]
    Api(#[from] kube::Error),
}

impl ExtensionError {
    /// Returns the cause; `None` if the API failed.
    pub fn cause(&self) -> Option<Cause> {
        match self {
            Self::Call { cause, .. } => Some(*cause),
            Self::Api(_) => None,
        }
    }

    /// Returns the error of a pass that waits for the server, with this reason for a condition.
    pub fn waiting(self, reason: &'static str) -> ReconcileError {
        match self {
            Self::Api(error) => ReconcileError::Api(error),
            call @ Self::Call { .. } => ReconcileError::waiting(reason, call.to_string()),
        }
    }
}

/// Handler that is called, for the texts of errors.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Called<'a> {
    /// Name of the ExtensionConfig.
    pub config: &'a str,
    /// Full name of the handler; `None` for a discovery.
    pub handler: Option<&'a str>,
    pub hook: Hook,
}

impl Called<'_> {
    /// Returns the error of a call.
    pub(crate) fn failed(&self, cause: Cause, message: impl Into<String>) -> ExtensionError {
        let config = self.config;
        let target = match self.handler {
            Some(handler) => format!("extension handler {handler} of ExtensionConfig {config}"),
            None => format!("ExtensionConfig {config}"),
        };
        let remedy = match cause {
            Cause::NotRegistered => format!("Look at the condition Discovered of ExtensionConfig {config}"),
            Cause::NotSelected => format!("Change spec.namespaceSelector of ExtensionConfig {config}"),
            Cause::Misconfigured => format!("Correct ExtensionConfig {config}"),
            Cause::NoAnswer => {
                format!("Repair the extension server, or change or delete ExtensionConfig {config}")
            }
            Cause::Refused => "Do what the extension server says, or look at its logs".to_owned(),
        };
        ExtensionError::Call { cause, target, hook: self.hook, message: message.into(), remedy }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_handler_config_hook_the_servers_words_and_the_remedy() {
        let called = Called { config: "ext", handler: Some("gate.ext"), hook: Hook::BeforeClusterCreate };
        let error = called.failed(Cause::Refused, "the server refused: no quota.");
        assert_eq!(
            error.to_string(),
            "extension handler gate.ext of ExtensionConfig ext, hook BeforeClusterCreate: the server \
             refused: no quota. Do what the extension server says, or look at its logs"
        );
        assert_eq!(error.cause(), Some(Cause::Refused));
        let waiting = error.waiting("TopologyReconcileFailed");
        assert_eq!(waiting.reason(), "TopologyReconcileFailed");
        assert!(waiting.to_string().contains("no quota"), "{waiting}");
    }
}
