//! Call of one handler, or of a discovery.

use std::collections::BTreeMap;
use std::time::Duration;

use apiserver_types::ClientConfig;
use serde::Serialize;

use crate::error::{Called, Cause, ExtensionError};
use crate::hooks::{FAILURE, SUCCESS};
use crate::servers::{LONGEST_EXCERPT, NoAnswer, excerpt};
use crate::{API_VERSION, ExtensionServers, HookRequest, HookResponse, target};

/// Longest message of a server in an error. People read it in a condition. Unit: characters.
pub(crate) const LONGEST_MESSAGE: usize = 1000;

/// Message on the wire.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Message<'a, R> {
    api_version: &'static str,
    kind: String,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    settings: &'a BTreeMap<String, String>,
    #[serde(flatten)]
    request: &'a R,
}

/// Call of one handler.
pub(crate) struct Sending<'a> {
    pub servers: &'a ExtensionServers,
    pub called: Called<'a>,
    pub config: &'a ClientConfig,
    /// Name of the handler in the server's discovery; `None` for a discovery.
    pub handler: Option<&'a str>,
    pub timeout: Duration,
    /// Settings of the ExtensionConfig and of the call together.
    pub settings: &'a BTreeMap<String, String>,
}

impl Sending<'_> {
    /// Sends a request. Returns the answer of a server that agrees.
    ///
    /// # Errors
    /// The failure of the call, or the refusal.
    pub(crate) async fn send<R: HookRequest>(&self, request: &R) -> Result<R::Response, ExtensionError> {
        let failed = |cause: Cause, why: String| self.called.failed(cause, why);
        let message = Message {
            api_version: API_VERSION,
            kind: R::HOOK.request_kind(),
            settings: self.settings,
            request,
        };
        let url = target::url(self.config, R::HOOK, self.handler, self.timeout);
        let url = url.map_err(|why| failed(Cause::Misconfigured, why))?;
        let message = serde_json::to_vec(&message);
        let message =
            message.map_err(|error| failed(Cause::Misconfigured, format!("no request: {error}")))?;
        let answer = self.servers.post(self.config, url, self.timeout, message).await;
        let answer = answer.map_err(|error| match error {
            NoAnswer::Misconfigured(why) => failed(Cause::Misconfigured, why),
            NoAnswer::Failed(why) => failed(Cause::NoAnswer, why),
        })?;
        let answer: R::Response = serde_json::from_slice(&answer).map_err(|error| {
            let error = excerpt(&error.to_string(), LONGEST_EXCERPT);
            failed(Cause::NoAnswer, format!("the answer is none to the hook: {error}"))
        })?;
        let words = excerpt(answer.message(), LONGEST_MESSAGE);
        match answer.status() {
            SUCCESS => Ok(answer),
            FAILURE if words.is_empty() => {
                Err(failed(Cause::Refused, "the server refused without a message".to_owned()))
            }
            FAILURE => Err(failed(Cause::Refused, format!("the server refused: {words}"))),
            other => {
                let other = excerpt(other, LONGEST_EXCERPT);
                Err(failed(Cause::Refused, format!("the server answered with status {other:?}: {words}")))
            }
        }
    }
}

/// Joins the settings of an ExtensionConfig with those of a call, which win.
pub(crate) fn merged(
    config: Option<&BTreeMap<String, String>>,
    call: &BTreeMap<String, String>,
) -> BTreeMap<String, String> {
    let mut settings = config.cloned().unwrap_or_default();
    settings.extend(call.iter().map(|(key, value)| (key.clone(), value.clone())));
    settings
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{BeforeClusterCreateRequest, DiscoverVariablesRequest};

    fn settings(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn the_settings_of_a_call_win_over_those_of_the_config() {
        let config = settings(&[("a", "config"), ("b", "config")]);
        let both = merged(Some(&config), &settings(&[("b", "call"), ("c", "call")]));
        assert_eq!(both, settings(&[("a", "config"), ("b", "call"), ("c", "call")]));
        assert_eq!(merged(None, &settings(&[])), settings(&[]));
    }

    #[test]
    fn a_message_has_version_kind_and_settings_beside_the_fields_of_the_request() {
        let message = |settings: &BTreeMap<String, String>| {
            let kind = "BeforeClusterCreateRequest".to_owned();
            let request = &BeforeClusterCreateRequest::default();
            serde_json::to_value(Message { api_version: API_VERSION, kind, settings, request }).unwrap()
        };
        let sent = message(&settings(&[("a", "b")]));
        assert_eq!(sent["apiVersion"], "hooks.runtime.cluster.x-k8s.io/v1alpha1");
        assert_eq!(sent["kind"], "BeforeClusterCreateRequest");
        assert_eq!(sent["settings"], json!({"a": "b"}));
        assert_eq!(sent["cluster"]["kind"], "Cluster");
        assert!(message(&settings(&[])).get("settings").is_none());
        let request = &DiscoverVariablesRequest {};
        let none = settings(&[]);
        let empty = Message { api_version: "v", kind: "K".to_owned(), settings: &none, request };
        assert_eq!(serde_json::to_value(empty).unwrap(), json!({"apiVersion": "v", "kind": "K"}));
    }
}
