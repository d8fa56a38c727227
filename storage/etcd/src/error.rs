//! Conversion of etcd's errors into the store's.

use std::error::Error as _;
use std::fmt;
use std::sync::Arc;

use etcd_client::Error;
use storage_contract::{Revision, StoreError};
use tonic::{Code, ConnectError};

use crate::write::Write;

/// Codes with which etcd refuses a request: nothing was written, and a retry is of no use.
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

/// Text of etcd's error when its database has reached its quota.
pub(crate) const NO_SPACE: &str = "database space exceeded";

/// Remedy for a full database.
const MAKE_SPACE: &str = ": run `capstan storage recover-space`; or defragment etcd or raise its --quota-backend-bytes, \
                          and then disarm its NOSPACE alarm";

/// Returns the code and text of a gRPC error.
fn status(error: &Error) -> Option<(Code, &str)> {
    match error {
        Error::GRpcStatus(status) => Some((status.code(), status.message())),
        _ => None,
    }
}

/// Returns true if etcd refuses a transaction for one of its writes, or for their number: each by itself may be
/// accepted.
pub(crate) fn is_of_one_write(error: &Error) -> bool {
    let too_much = |text: &str| {
        ["request is too large", "larger than max", "too many operations"].iter().any(|it| text.contains(it))
    };
    status(error).is_some_and(|(code, text)| code == Code::PermissionDenied || too_much(text))
}

/// Returns true if etcd or its client refuses the request.
fn is_refused(error: &Error) -> bool {
    match error {
        Error::GRpcStatus(status) => REFUSED.contains(&status.code()),
        Error::InvalidArgs(_) | Error::InvalidUri(_) => true,
        _ => false,
    }
}

/// Returns true if a read with this error may succeed on another member, or a moment later.
pub(crate) fn may_pass(error: &Error) -> bool {
    !is_refused(error)
}

/// Returns true if the request cannot have left the client: there was no connection.
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

/// Cause of a store error, with the first cause behind it. The client's own error type hides its sources, and those between
/// repeat each other. All writes of a batch share it.
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
        match &*self.0 {
            // The text of the type also has its source, in the notation of the program.
            Error::GRpcStatus(status) if !status.message().is_empty() => f.write_str(status.message()),
            _ => fmt::Display::fmt(self.error(), f),
        }
    }
}

impl std::error::Error for Cause {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        let mut first = self.error().source()?;
        while let Some(cause) = first.source() {
            first = cause;
        }
        let text = self.to_string();
        Some(first).filter(|first| !text.contains(&first.to_string()))
    }
}

/// Converts the error of a read, or of another call that writes no value.
pub(crate) fn read(operation: &'static str, error: Error) -> StoreError {
    match status(&error) {
        Some((Code::OutOfRange, text)) if text.contains("compacted") => {
            StoreError::Compacted { requested: Revision::NONE, oldest: Revision::NONE }
        }
        Some((Code::OutOfRange, text)) if text.contains("future revision") => {
            StoreError::Future { requested: Revision::NONE, current: Revision::NONE }
        }
        // A user of etcd may have a role for the store's keys alone.
        Some((Code::PermissionDenied, text)) if operation == "compact" => {
            StoreError::Refused { operation, reason: text.to_owned() }
        }
        _ => StoreError::Unavailable { operation, source: Box::new(Cause(Arc::new(error))) },
    }
}

/// Converts the error of a change of the cluster. etcd refuses some changes for a moment with a code of its own.
pub(crate) fn change(operation: &'static str, error: Error) -> StoreError {
    if !is_refused(&error) {
        return read(operation, error);
    }
    let reason = status(&error).map_or_else(|| error.to_string(), |(_, text)| text.to_owned());
    StoreError::Refused { operation, reason }
}

/// Converts the error of a write: it is certainly without effect only where etcd, or the lack of a connection, shows
/// it.
pub(crate) fn write(write: &Write, error: &Arc<Error>) -> StoreError {
    let Write { operation, key, .. } = write;
    let too_large = status(error)
        .is_some_and(|(_, text)| text.contains("request is too large") || text.contains("larger than max"));
    if is_refused(error) && too_large {
        // etcd is configured to accept less than this server assumes; it does not report its limit.
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

#[cfg(test)]
mod tests {
    use std::io;

    use tonic::Status;

    use super::*;

    #[test]
    fn the_cause_has_the_message_and_the_first_cause_once() {
        let of = |message: &str, cause: &str| {
            let mut status = Status::unavailable(message);
            status.set_source(Arc::new(io::Error::other(io::Error::other(cause.to_owned()))));
            let cause = Cause(Arc::new(Error::GRpcStatus(status)));
            let source = cause.source().map(ToString::to_string);
            (cause.to_string(), source)
        };
        let (message, source) = of("tcp connect error", "Connection refused");
        assert_eq!((message.as_str(), source.as_deref()), ("tcp connect error", Some("Connection refused")));
        let (message, source) = of("invalid peer certificate: BadSignature", "BadSignature");
        assert_eq!((message.as_str(), source), ("invalid peer certificate: BadSignature", None));
    }
}
