//! Encoding of a response: a value to bytes, in the negotiated format.

use apiserver_machinery::protobuf;
use apiserver_machinery::status::{ApiError, ApiResult};
use bytes::Bytes;
use serde_json::{Value, json};

/// Message of a 406: the media types of responses.
pub(crate) const ACCEPTED: &str = "only the following media types are accepted: application/json, \
                                   application/yaml, application/vnd.kubernetes.protobuf";

/// Format of a response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    /// One line of JSON.
    Json,
    /// JSON for people, as upstream writes it: without a newline at the end.
    PrettyJson,
    Yaml,
    /// `runtime.Unknown`, for the few kinds that have this form.
    Protobuf,
}

impl Encoding {
    /// Returns the media type of a response.
    pub(crate) fn content_type(self) -> &'static str {
        match self {
            Self::Json | Self::PrettyJson => "application/json",
            Self::Yaml => "application/yaml",
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }

    /// Returns the media type of a stream of events.
    pub(crate) fn stream_type(self) -> &'static str {
        match self {
            Self::Protobuf => "application/vnd.kubernetes.protobuf;stream=watch",
            other => other.content_type(),
        }
    }

    /// Encodes a value.
    ///
    /// # Errors
    /// 406 for a kind without a protobuf form.
    pub(crate) fn encode(self, value: &Value) -> ApiResult<Bytes> {
        let broken = |error: &dyn std::fmt::Display| ApiError::internal(error.to_string());
        match self {
            Self::Json => {
                let mut body = serde_json::to_vec(value).map_err(|error| broken(&error))?;
                body.push(b'\n');
                Ok(body.into())
            }
            Self::PrettyJson => {
                serde_json::to_vec_pretty(value).map(Bytes::from).map_err(|error| broken(&error))
            }
            Self::Yaml => serde_saphyr::to_string(value).map(Bytes::from).map_err(|error| broken(&error)),
            Self::Protobuf => {
                let body = protobuf::encode(value).ok_or_else(|| ApiError::not_acceptable(ACCEPTED))?;
                Ok(body.into())
            }
        }
    }

    /// Encodes one event of a watch: a line, or a frame with a length prefix.
    ///
    /// # Errors
    /// As [`Self::encode`].
    pub(crate) fn event(self, kind: &str, object: &Value) -> ApiResult<Bytes> {
        match self {
            Self::Protobuf => Ok(protobuf::event(kind, &self.encode(object)?).into()),
            _ => Self::Json.encode(&json!({"type": kind, "object": object})),
        }
    }
}
