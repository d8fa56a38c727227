//! etcd's errors in the store's words.

use etcd_client::Error;
use storage_contract::{Key, Revision, StoreError};

/// gRPC codes, by number: the client re-exports no names for them.
mod code {
    pub(super) const INVALID_ARGUMENT: i32 = 3;
    pub(super) const PERMISSION_DENIED: i32 = 7;
    pub(super) const RESOURCE_EXHAUSTED: i32 = 8;
    pub(super) const FAILED_PRECONDITION: i32 = 9;
    pub(super) const OUT_OF_RANGE: i32 = 11;
    pub(super) const UNAUTHENTICATED: i32 = 16;
}

/// The code and text of a gRPC answer.
fn status(error: &Error) -> Option<(i32, &str)> {
    match error {
        Error::GRpcStatus(status) => Some((i32::from(status.code()), status.message())),
        _ => None,
    }
}

/// A read failed, or something that writes no value.
pub(crate) fn read(operation: &'static str, error: Error) -> StoreError {
    match status(&error) {
        Some((code::OUT_OF_RANGE, text)) if text.contains("compacted") => {
            StoreError::Compacted { requested: Revision::NONE, oldest: Revision::NONE }
        }
        Some((code::OUT_OF_RANGE, _)) => {
            StoreError::Future { requested: Revision::NONE, current: Revision::NONE }
        }
        _ => StoreError::Unavailable { operation, source: Box::new(error) },
    }
}

/// A write failed: certainly without effect only where etcd, or the lack of a connection, says so.
pub(crate) fn write(operation: &'static str, key: &Key, error: Error) -> StoreError {
    let refused = [
        code::INVALID_ARGUMENT,
        code::PERMISSION_DENIED,
        code::RESOURCE_EXHAUSTED,
        code::FAILED_PRECONDITION,
        code::UNAUTHENTICATED,
    ];
    match status(&error) {
        Some((code, text)) if refused.contains(&code) && text.contains("too large") => {
            StoreError::TooLarge { key: key.clone(), size: 0, limit: crate::LARGEST_VALUE }
        }
        Some((code, _)) if refused.contains(&code) => {
            StoreError::Unavailable { operation, source: Box::new(error) }
        }
        _ if never_connected(&error) => StoreError::Unavailable { operation, source: Box::new(error) },
        _ => StoreError::Unknown { operation, key: key.clone(), source: Box::new(error) },
    }
}

/// Whether the request cannot have left us: the connection was refused.
fn never_connected(error: &Error) -> bool {
    let mut cause: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(current) = cause {
        let io = current.downcast_ref::<std::io::Error>();
        if io.is_some_and(|io| io.kind() == std::io::ErrorKind::ConnectionRefused) {
            return true;
        }
        cause = current.source();
    }
    false
}
