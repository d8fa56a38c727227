//! Messages of the hooks, in upstream's form on the wire.
//!
//! Requests have neither version, kind nor settings: the client adds them. Objects in them are those of v1beta2.

mod in_place;
mod lifecycle;
mod topology;
mod upgrade_plan;

use std::time::Duration;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Deserializer, Serialize};

use crate::Hook;

pub use in_place::*;
pub use lifecycle::*;
pub use topology::*;
pub use upgrade_plan::*;

/// Status of an answer that agrees.
pub(crate) const SUCCESS: &str = "Success";

/// Status of an answer that refuses.
pub(crate) const FAILURE: &str = "Failure";

/// Request of a hook.
pub trait HookRequest: Serialize + Send + Sync {
    /// Hook of the request.
    const HOOK: Hook;

    /// Answer to the request.
    type Response: HookResponse;
}

/// Answer to a request. The default is that of a server which is ignored.
pub trait HookResponse: DeserializeOwned + Default + Clone + Send + Sync {
    /// Returns `Success`, `Failure`, or what else the server has answered.
    fn status(&self) -> &str;

    /// Returns the server's own words.
    fn message(&self) -> &str;
}

/// Answer that can be joined with those of other servers to the same request.
pub trait JoinedResponse: HookResponse {
    /// Joins the answers of all servers, which all agree: the messages, and the shortest interval.
    fn join(responses: Vec<Self>) -> Self;
}

/// Defines requests of hooks, with the hook and the answer.
macro_rules! requests {
    ($(
        $(#[$doc:meta])*
        $name:ident for $hook:ident -> $response:ty {
            $($(#[$field_doc:meta])* $field:ident: $type:ty,)*
        }
    )*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Default, serde::Serialize)]
        #[serde(rename_all = "camelCase")]
        pub struct $name {
            $($(#[$field_doc])* pub $field: $type,)*
        }

        impl $crate::HookRequest for $name {
            const HOOK: $crate::Hook = $crate::Hook::$hook;
            type Response = $response;
        }
    )*};
}

/// Defines answers: status and message, and other fields. Unset fields have their defaults.
macro_rules! responses {
    ($(
        $(#[$doc:meta])*
        $name:ident {
            $($(#[$field_doc:meta])* $field:ident: $type:ty,)*
        }
    )*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Default, serde::Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        pub struct $name {
            /// Outcome: `Success`, or `Failure`, which callers get as an error.
            #[serde(deserialize_with = "crate::hooks::or_default")]
            pub(crate) status: String,
            /// Message of the server, for people. Empty: it has none.
            #[serde(deserialize_with = "crate::hooks::or_default")]
            pub message: String,
            $(
                $(#[$field_doc])*
                #[serde(deserialize_with = "crate::hooks::or_default")]
                pub $field: $type,
            )*
        }

        impl $crate::HookResponse for $name {
            fn status(&self) -> &str {
                &self.status
            }

            fn message(&self) -> &str {
                &self.message
            }
        }
    )*};
}

pub(crate) use {requests, responses};

/// Reads a field that servers in Go may send as null.
pub(crate) fn or_default<'de, D, T>(from: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Deserialize<'de> + Default,
{
    Ok(Option::<T>::deserialize(from)?.unwrap_or_default())
}

responses! {
    /// Answer to a hook that holds nothing up.
    PlainResponse {}

    /// Answer to a hook that can hold something up.
    RetryResponse {
        /// Interval after which the server is to be called again, before the step that it holds up. Unit: seconds. 0: it
        /// holds nothing up.
        retry_after_seconds: i32,
    }
}

impl RetryResponse {
    /// Returns the interval before the next call; `None` if the server holds nothing up.
    pub fn retry_after(&self) -> Option<Duration> {
        let seconds = u64::try_from(self.retry_after_seconds).ok().filter(|seconds| *seconds > 0)?;
        Some(Duration::from_secs(seconds))
    }
}

impl JoinedResponse for PlainResponse {
    fn join(responses: Vec<Self>) -> Self {
        Self { status: SUCCESS.to_owned(), message: joined(responses.iter().map(|it| it.message.as_str())) }
    }
}

impl JoinedResponse for RetryResponse {
    fn join(responses: Vec<Self>) -> Self {
        let intervals = responses.iter().map(|it| it.retry_after_seconds).filter(|seconds| *seconds > 0);
        Self {
            status: SUCCESS.to_owned(),
            message: joined(responses.iter().map(|it| it.message.as_str())),
            retry_after_seconds: intervals.min().unwrap_or_default(),
        }
    }
}

/// Joins messages as upstream does.
fn joined<'a>(messages: impl Iterator<Item = &'a str>) -> String {
    messages.filter(|message| !message.is_empty()).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn retry(message: &str, seconds: i32) -> RetryResponse {
        let answer = json!({"status": "Success", "message": message, "retryAfterSeconds": seconds});
        serde_json::from_value(answer).unwrap()
    }

    #[test]
    fn the_shortest_interval_above_0_wins() {
        let seconds = |answers: &[i32]| {
            let answers = answers.iter().map(|seconds| retry("", *seconds)).collect();
            RetryResponse::join(answers).retry_after().map(|interval| interval.as_secs())
        };
        assert_eq!(seconds(&[]), None);
        assert_eq!(seconds(&[0, 0]), None);
        assert_eq!(seconds(&[0, 30, 10]), Some(10));
        assert_eq!(seconds(&[-5, 7]), Some(7), "an interval below 0 is none");
    }

    #[test]
    fn the_messages_of_all_servers_are_joined() {
        let joined = RetryResponse::join(vec![retry("a", 0), retry("", 0), retry("b", 1)]);
        assert_eq!((joined.message.as_str(), joined.status()), ("a, b", SUCCESS));
        let plain: PlainResponse = serde_json::from_value(json!({"status": "Success"})).unwrap();
        assert_eq!(PlainResponse::join(vec![plain]).message(), "");
    }

    #[test]
    fn absent_and_null_fields_of_an_answer_have_their_defaults() {
        let kind = "BeforeClusterCreateResponse";
        let answer = json!({"apiVersion": crate::API_VERSION, "kind": kind, "message": null});
        let answer: RetryResponse = serde_json::from_value(answer).unwrap();
        assert_eq!(answer, RetryResponse::default());
        assert_eq!((answer.status(), answer.retry_after()), ("", None));
    }
}
