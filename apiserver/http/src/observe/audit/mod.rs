//! Audit log: one JSON line per stage of a request, as upstream's `audit.k8s.io/v1`. A policy decides the level of each
//! request. By default, it is `Metadata`, and no bodies are written.

mod annotations;
mod body;
mod chain;
#[cfg(test)]
mod chained_log_tests;
mod event;
mod file;
mod flush;
mod log;
mod policy;
mod queue_room;
mod redaction;
mod tail;
mod writer;

pub use chain::{AuditChain, ChainKey, ChainLink, ChainedLine, CheckpointSink};
pub(crate) use event::{Outcome, Record};
pub use file::AuditFile;
pub use flush::is_flushed;
pub use log::{AuditBackend, AuditLog};
pub use policy::{Level, Policy};
pub use queue_room::{QueueRoom, RoomPart};

use crate::request::request_info::{RequestInfo, Subject};
use crate::request::routes;

/// Stage of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// The request was received.
    RequestReceived,
    /// The head of a watch was sent.
    ResponseStarted,
    /// The response was sent.
    ResponseComplete,
    /// The server panicked.
    Panic,
}

impl Stage {
    /// Returns the word for the stage in an event.
    pub const fn word(self) -> &'static str {
        match self {
            Self::RequestReceived => "RequestReceived",
            Self::ResponseStarted => "ResponseStarted",
            Self::ResponseComplete => "ResponseComplete",
            Self::Panic => "Panic",
        }
    }

    /// Returns the stage with this word.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::RequestReceived, Self::ResponseStarted, Self::ResponseComplete, Self::Panic]
            .into_iter()
            .find(|stage| stage.word() == word)
    }
}

/// Returns true for health checks, and for reads by the server's own controllers.
pub(crate) fn is_frequent(info: &RequestInfo, internal: bool) -> bool {
    let is_health = info.subject == Subject::Path && routes::health(&info.path).is_some();
    is_health || (internal && info.is_read_only())
}
