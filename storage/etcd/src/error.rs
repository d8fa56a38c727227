//! etcd's errors in the store's words.

use std::error::Error as _;
use std::fmt;
use std::sync::Arc;

use etcd_client::Error;
use storage_contract::{Revision, StoreError};
use tonic::{Code, ConnectError};

use crate::write::Write;

/// Codes with which etcd answers that it will not do it: nothing was written, and asking again is
/// of no use.
const REFUSED: [Code; 8] = [
    Code::InvalidArgument,
    Code::PermissionDenied,
    Code::ResourceExhausted,
    Code::FailedPrecondition,
    Code::OutOfRange,
    Code::Unauthenticated,
    Code::Unimplemented,
    Code::NotFound,
];

/// What etcd says when its database is as large as it may be.
const NO_SPACE: &str = "database space exceeded";

/// What to do then.
const MAKE_SPACE: &str =
    ": defragment etcd or raise its --quota-backend-bytes, then disarm its NOSPACE alarm";

/// The code and text of a gRPC answer.
fn status(error: &Error) -> Option<(Code, &str)> {
    match error {
        Error::GRpcStatus(status) => Some((status.code(), status.message())),
        _ => None,
    }
}

/// Whether etcd refuses a transaction for what one of its writes is, or for how many they are: by itself each may be taken.
pub(crate) fn is_of_one(error: &Error) -> bool {
    let too_much = |text: &str| {
        ["request is too large", "larger than max", "too many operations"].iter().any(|it| text.contains(it))
    };
    status(error).is_some_and(|(code, text)| code == Code::PermissionDenied || too_much(text))
}

/// Whether etcd, or its client, says that it will not do it.
fn is_refused(error: &Error) -> bool {
    match error {
        Error::GRpcStatus(status) => REFUSED.contains(&status.code()),
        Error::InvalidArgs(_) | Error::InvalidUri(_) => true,
        _ => false,
    }
}

/// Whether a read that failed so may get an answer from another member, or a moment later.
pub(crate) fn may_pass(error: &Error) -> bool {
    !is_refused(error)
}

/// Whether the request cannot have left us: no connection stood.
pub(crate) fn never_sent(error: &Error) -> bool {
    let mut cause = match error {
        Error::GRpcStatus(status) => status.source(),
        Error::TransportError(error) => error.source(),
        _ => None,
    };
    while let Some(current) = cause {
        if current.is::<ConnectError>() {
            return true;
        }
        cause = current.source();
    }
    false
}

/// The client's own error type hides what is behind it; this brings the chain of causes to light. All who wrote together
/// have the same.
#[derive(Debug)]
struct Cause(Arc<Error>);

impl Cause {
    fn error(&self) -> &(dyn std::error::Error + 'static) {
        match &*self.0 {
            Error::GRpcStatus(status) => status,
            Error::TransportError(error) => error,
            Error::IoError(error) => error,
            other => other,
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.error(), f)
    }
}

impl std::error::Error for Cause {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        self.error().source()
    }
}

/// A read failed, or something that writes no value.
pub(crate) fn read(operation: &'static str, error: Error) -> StoreError {
    match status(&error) {
        Some((Code::OutOfRange, text)) if text.contains("compacted") => {
            StoreError::Compacted { requested: Revision::NONE, oldest: Revision::NONE }
        }
        Some((Code::OutOfRange, text)) if text.contains("future revision") => {
            StoreError::Future { requested: Revision::NONE, current: Revision::NONE }
        }
        _ => StoreError::Unavailable { operation, source: Box::new(Cause(Arc::new(error))) },
    }
}

/// A write failed: certainly without effect only where etcd, or the lack of a connection, says so.
pub(crate) fn write(write: &Write, error: &Arc<Error>) -> StoreError {
    let Write { operation, key, .. } = write;
    let too_large = status(error)
        .is_some_and(|(_, text)| text.contains("request is too large") || text.contains("larger than max"));
    if is_refused(error) && too_large {
        // etcd was set to take less than we were told; it does not say how much.
        let size = write.size();
        return StoreError::TooLarge { key: key.clone(), size, limit: size.saturating_sub(1) };
    }
    let cause = Cause(Arc::clone(error));
    if is_refused(error) {
        let mut reason = status(error).map_or_else(|| cause.to_string(), |(_, text)| text.to_owned());
        if reason.contains(NO_SPACE) {
            reason.push_str(MAKE_SPACE);
        }
        return StoreError::Refused { operation, reason };
    }
    if never_sent(error) {
        return StoreError::Unavailable { operation, source: Box::new(cause) };
    }
    write.unknown(cause)
}
