//! etcd's errors in the store's words.

use std::error::Error as _;

use etcd_client::Error;
use storage_contract::{Key, Revision, StoreError};
use tonic::{Code, ConnectError};

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

/// The code and text of a gRPC answer.
fn status(error: &Error) -> Option<(Code, &str)> {
    match error {
        Error::GRpcStatus(status) => Some((status.code(), status.message())),
        _ => None,
    }
}

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

/// The client's own error type hides what is behind it; this brings the chain of causes to light.
fn cause(error: Error) -> Box<dyn std::error::Error + Send + Sync> {
    match error {
        Error::GRpcStatus(status) => Box::new(status),
        Error::TransportError(error) => Box::new(error),
        Error::IoError(error) => Box::new(error),
        other => Box::new(other),
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
        _ => StoreError::Unavailable { operation, source: cause(error) },
    }
}

/// A write of `size` bytes failed: certainly without effect only where etcd, or the lack of a
/// connection, says so.
pub(crate) fn write(operation: &'static str, key: &Key, size: usize, error: Error) -> StoreError {
    let too_large = status(&error)
        .is_some_and(|(_, text)| text.contains("request is too large") || text.contains("larger than max"));
    if is_refused(&error) && too_large {
        // etcd was set to take less than we were told; it does not say how much.
        return StoreError::TooLarge { key: key.clone(), size, limit: size.saturating_sub(1) };
    }
    if is_refused(&error) || never_sent(&error) {
        return StoreError::Unavailable { operation, source: cause(error) };
    }
    StoreError::Unknown { operation, key: key.clone(), source: cause(error) }
}
