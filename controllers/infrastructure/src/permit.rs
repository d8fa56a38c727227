//! Permission of the process to change a cloud.

use std::fmt::Debug;

use async_trait::async_trait;

/// Permission of this process to change a cloud. A provider waits for it directly before it sends a call that changes
/// something. Another process may have taken over between the decision and the call.
#[async_trait]
pub trait CallPermit: Debug + Send + Sync + 'static {
    /// Returns when the process may change the cloud now. If it no longer may, the future does not complete. Its
    /// controller has ended by then, and drops it: the call is not sent, and nothing is reported.
    async fn granted(&self);

    /// Returns false if the grant has become too old for a request that is only now written: a connection was opened before,
    /// or a token was renewed. The provider then sends nothing, and waits for [`granted`](Self::granted) again. By default
    /// true.
    fn is_fresh(&self) -> bool {
        true
    }

    /// Counts a call that is about to be sent. Returns false if the process begins no more calls: then the call must not
    /// be sent, and is not counted. By default true.
    fn begin(&self) -> bool {
        true
    }

    /// Ends a call that was counted. `has_ended` is false if the call was given up before its end, so that the cloud may
    /// still work on it. By default nothing happens.
    fn end(&self, has_ended: bool) {
        let _ = has_ended;
    }

    /// Returns the number of the term of the leader; `None`, the default, if terms have no numbers.
    fn epoch(&self) -> Option<u64> {
        None
    }
}

/// Permit of a process that is the only one.
#[derive(Debug, Clone, Copy, Default)]
pub struct AlwaysPermitted;

#[async_trait]
impl CallPermit for AlwaysPermitted {
    async fn granted(&self) {}
}
