//! Discovery: the list of the handlers of a server, and its validation.

use std::collections::BTreeSet;
use std::time::Duration;

use apiserver_types::{ExtensionConfig, ExtensionHandler, FailurePolicy, GroupVersionHook};
use controllers_runtime::is_object_name;
use serde::Deserialize;

use crate::call::{LONGEST_MESSAGE, Sending};
use crate::error::{Called, Cause, ExtensionError};
use crate::handler::{DEFAULT_TIMEOUT_SECONDS, LONGEST_TIMEOUT_SECONDS};
use crate::hooks::{or_default, requests, responses};
use crate::servers::excerpt;
use crate::{ExtensionServers, Hook, NO_SETTINGS};

/// Timeout of a discovery. Upstream's.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Longest name of a handler: that of a DNS label.
const LONGEST_NAME: usize = 63;

/// Most handlers of a server: as many as the status can hold.
const MOST_HANDLERS: usize = 512;

requests! {
    /// Request of the handlers of a server.
    DiscoveryRequest for Discovery -> DiscoveryResponse {}
}

responses! {
    /// Handlers of a server.
    DiscoveryResponse {
        /// Handlers, as the server lists them.
        handlers: Vec<DiscoveredHandler>,
    }
}

/// Handler in the answer to a discovery.
#[derive(Debug, Clone, PartialEq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct DiscoveredHandler {
    /// Name, a DNS label.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// Hook with its version.
    #[serde(deserialize_with = "or_default")]
    pub request_hook: GroupVersionHook,
    /// Timeout of a call. Unit: seconds. Range: 0 to 30. Default, also for 0: 10.
    pub timeout_seconds: Option<i32>,
    /// `Fail` or `Ignore`. Default: `Fail`.
    pub failure_policy: Option<String>,
}

/// Calls a server for the list of its handlers, and validates the list. The names of the handlers end with that of the
/// ExtensionConfig: `<handler>.<ExtensionConfig>`.
///
/// # Errors
/// The failure of the call, or everything that is wrong with the list.
pub async fn discover(
    servers: &ExtensionServers,
    config: &ExtensionConfig,
) -> Result<Vec<ExtensionHandler>, ExtensionError> {
    let name = config.metadata.name.as_deref().unwrap_or_default();
    let called = Called { config: name, handler: None, hook: Hook::Discovery };
    let client_config = &config.spec.client_config;
    let (handler, settings) = (None, &NO_SETTINGS);
    let sending = Sending { servers, called, config: client_config, handler, timeout: TIMEOUT, settings };
    let response = sending.send(&DiscoveryRequest {}).await?;
    listed(name, response.handlers).map_err(|why| called.failed(Cause::NoAnswer, why))
}

/// Returns the handlers as the status lists them.
///
/// # Errors
/// Everything that is wrong.
fn listed(config: &str, handlers: Vec<DiscoveredHandler>) -> Result<Vec<ExtensionHandler>, String> {
    if handlers.len() > MOST_HANDLERS {
        let number = handlers.len();
        return Err(format!("the server lists {number} handlers, and at most {MOST_HANDLERS} are possible"));
    }
    let mut known = BTreeSet::new();
    let mut wrong: Vec<String> = Vec::new();
    for handler in &handlers {
        if !known.insert(&handler.name) {
            wrong.push(format!("there are two handlers {:?}", handler.name));
        }
        wrong.extend(problems(handler));
    }
    if !wrong.is_empty() {
        // Names are the server's, and may be of any length.
        let wrong = excerpt(&wrong.join("; "), LONGEST_MESSAGE);
        return Err(format!("the list of handlers is not valid: {wrong}"));
    }
    Ok(handlers.into_iter().map(|handler| entry(config, handler)).collect())
}

/// Returns what is wrong with a handler.
fn problems(handler: &DiscoveredHandler) -> Vec<String> {
    let mut found = Vec::new();
    let DiscoveredHandler { name, request_hook, timeout_seconds, failure_policy } = handler;
    if !is_object_name(name) || name.contains('.') || name.len() > LONGEST_NAME {
        found.push(format!("the name of handler {name:?} is no DNS label"));
    }
    if Hook::of(&request_hook.api_version, &request_hook.hook).is_none() {
        let (version, hook) = (&request_hook.api_version, &request_hook.hook);
        found.push(format!("handler {name:?} serves the unknown hook {hook:?} of {version:?}"));
    }
    if timeout_seconds.is_some_and(|seconds| !(0..=LONGEST_TIMEOUT_SECONDS).contains(&seconds)) {
        let range = format!("between 0 and {LONGEST_TIMEOUT_SECONDS}");
        found.push(format!("timeoutSeconds of handler {name:?} is not {range}"));
    }
    if failure_policy.as_deref().is_some_and(|policy| read(policy).is_none()) {
        found.push(format!("failurePolicy of handler {name:?} is neither Ignore nor Fail"));
    }
    found
}

fn read(policy: &str) -> Option<FailurePolicy> {
    match policy {
        "Ignore" => Some(FailurePolicy::Ignore),
        "Fail" => Some(FailurePolicy::Fail),
        _ => None,
    }
}

fn entry(config: &str, handler: DiscoveredHandler) -> ExtensionHandler {
    let seconds = handler.timeout_seconds.filter(|seconds| *seconds > 0);
    ExtensionHandler {
        name: format!("{}.{config}", handler.name),
        request_hook: handler.request_hook,
        failure_policy: Some(handler.failure_policy.as_deref().and_then(read).unwrap_or_default()),
        timeout_seconds: Some(seconds.unwrap_or(DEFAULT_TIMEOUT_SECONDS)),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[allow(clippy::needless_pass_by_value, reason = "a test reads better with a literal")]
    fn handler(name: &str, other: Value) -> Value {
        let hook = json!({"apiVersion": crate::API_VERSION, "hook": "UpdateMachine"});
        let mut handler = json!({"name": name, "requestHook": hook});
        for (key, value) in other.as_object().unwrap() {
            handler[key] = value.clone();
        }
        handler
    }

    #[allow(clippy::needless_pass_by_value, reason = "a test reads better with a literal")]
    fn of(handlers: Value) -> Result<Vec<ExtensionHandler>, String> {
        let answer = json!({"status": "Success", "handlers": handlers});
        let answer: DiscoveryResponse = serde_json::from_value(answer).unwrap();
        listed("ext", answer.handlers)
    }

    #[test]
    fn a_handler_gets_upstreams_defaults_and_the_name_of_its_config() {
        let found = of(json!([
            handler("a", json!({})),
            handler("b", json!({"timeoutSeconds": 30, "failurePolicy": "Ignore"})),
            handler("c", json!({"timeoutSeconds": 0, "failurePolicy": null})),
        ]))
        .unwrap();
        let shown = |it: &ExtensionHandler| (it.name.clone(), it.timeout_seconds, it.failure_policy);
        let (fail, ignore) = (Some(FailurePolicy::Fail), Some(FailurePolicy::Ignore));
        let expected = [("a.ext", 10, fail), ("b.ext", 30, ignore), ("c.ext", 10, fail)];
        let expected = expected.map(|(name, seconds, policy)| (name.to_owned(), Some(seconds), policy));
        assert_eq!(found.iter().map(shown).collect::<Vec<_>>(), expected);
        assert_eq!(of(Value::Null), Ok(Vec::new()));
    }

    #[test]
    fn everything_that_is_wrong_with_a_list_is_named() {
        let (long, none) = ("a".repeat(64), json!({}));
        let other = json!({"requestHook": {"apiVersion": "v1", "hook": "UpdateMachine"}});
        for (handlers, expected) in [
            (json!([handler("a", none.clone()), handler("a", none.clone())]), "two handlers \"a\""),
            (json!([handler("A", none.clone())]), "handler \"A\" is no DNS label"),
            (json!([handler("a.b", none.clone())]), "handler \"a.b\" is no DNS label"),
            (json!([handler(&long, none.clone())]), "is no DNS label"),
            (json!([handler("a", json!({"timeoutSeconds": 31}))]), "not between 0 and 30"),
            (json!([handler("a", json!({"timeoutSeconds": -1}))]), "not between 0 and 30"),
            (json!([handler("a", json!({"failurePolicy": "Later"}))]), "neither Ignore nor Fail"),
            (json!([{"name": "a"}]), "unknown hook"),
            (json!([handler("a", other)]), "unknown hook"),
        ] {
            let error = of(handlers).unwrap_err();
            assert!(error.contains(expected), "{error}");
        }
        let two = of(json!([handler("A", json!({"timeoutSeconds": 31}))])).unwrap_err();
        assert!(two.contains("DNS label; timeoutSeconds"), "{two}");
        let numbered = |index: usize| handler(&format!("h{index}"), none.clone());
        let many: Vec<Value> = (0..=MOST_HANDLERS).map(numbered).collect();
        assert!(of(json!(many)).unwrap_err().contains("lists 513 handlers"));
    }
}
