//! Parts of several tests.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

/// Returns the result of a future that never waits.
pub(crate) fn block<T>(future: impl Future<Output = T>) -> T {
    match pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(value) => value,
        Poll::Pending => panic!("nothing here waits"),
    }
}
