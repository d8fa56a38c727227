//! Who did what, and whether they might: one JSON line per stage of a request, as upstream's
//! `audit.k8s.io/v1` at level `Metadata`. Bodies are never written.

mod event;
mod file;
mod log;

pub(crate) use event::{Outcome, Record};
pub use file::AuditFile;
pub use log::AuditLog;

use crate::request::request_info::{RequestInfo, Subject};
use crate::request::routes;

/// Where a request is when an event is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stage {
    /// It has come in.
    RequestReceived,
    /// A watch has begun.
    ResponseStarted,
    /// It is over.
    ResponseComplete,
    /// The server failed over it.
    Panic,
}

impl Stage {
    /// The word on paper.
    pub const fn word(self) -> &'static str {
        match self {
            Self::RequestReceived => "RequestReceived",
            Self::ResponseStarted => "ResponseStarted",
            Self::ResponseComplete => "ResponseComplete",
            Self::Panic => "Panic",
        }
    }

    /// The stage with this word.
    pub fn parse(word: &str) -> Option<Self> {
        [Self::RequestReceived, Self::ResponseStarted, Self::ResponseComplete, Self::Panic]
            .into_iter()
            .find(|stage| stage.word() == word)
    }
}

/// Whether a request is worth a line only when it is refused: health, which is asked for all the time,
/// and what our own controllers read all the time.
pub(crate) fn is_quiet(info: &RequestInfo, internal: bool) -> bool {
    let is_health = info.subject == Subject::Path && routes::health(&info.path).is_some();
    is_health || (internal && info.is_read_only())
}
