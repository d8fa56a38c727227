//! Scope of the calls of one pass: the object of the pass, and its calls that are in flight.

use std::sync::Arc;

use tokio::sync::watch;
use tokio::task::futures::TaskLocalFuture;

tokio::task_local! {
    static CURRENT: CallScope;
}

/// Scope of the calls of one pass. A provider finds it with [`CallScope::current`]. Clones share their state.
#[derive(Debug, Clone)]
pub struct CallScope {
    object: Arc<str>,
    calls: watch::Sender<Calls>,
}

/// Calls of a pass that change a cloud.
#[derive(Debug, Default)]
struct Calls {
    /// Number of the calls in flight.
    open: usize,
    /// Set if the pass begins no more calls.
    is_closed: bool,
}

/// Guard of a call in flight. The call ends when it is dropped.
#[derive(Debug)]
#[must_use = "the call ends when this is dropped"]
pub struct OpenCall(watch::Sender<Calls>);

impl Drop for OpenCall {
    fn drop(&mut self) {
        self.0.send_modify(|calls| calls.open = calls.open.saturating_sub(1));
    }
}

impl CallScope {
    /// Creates the scope of a pass over the object with this uid.
    pub fn new(object: &str) -> Self {
        Self { object: Arc::from(object), calls: watch::Sender::default() }
    }

    /// Returns the scope of the pass that runs in this task; `None` outside of a pass.
    pub fn current() -> Option<Self> {
        CURRENT.try_with(Self::clone).ok()
    }

    /// Returns the uid of the object.
    pub fn object(&self) -> &str {
        &self.object
    }

    /// Runs a pass in this scope. Tasks that the pass spawns are outside of it.
    pub fn around<F: Future>(&self, pass: F) -> TaskLocalFuture<Self, F> {
        CURRENT.scope(self.clone(), pass)
    }

    /// Begins a call that changes a cloud. Returns `None` if the scope is closed: the call must not be sent.
    pub fn begin(&self) -> Option<OpenCall> {
        let may_begin = self.calls.send_if_modified(|calls| {
            if !calls.is_closed {
                calls.open = calls.open.saturating_add(1);
            }
            !calls.is_closed
        });
        may_begin.then(|| OpenCall(self.calls.clone()))
    }

    /// Closes the scope: its pass begins no more calls that change a cloud. Calls in flight go on.
    pub fn close(&self) {
        self.calls.send_modify(|calls| calls.is_closed = true);
    }

    /// Returns true if a call is in flight.
    pub fn has_open_calls(&self) -> bool {
        self.calls.borrow().open > 0
    }

    /// Waits until no call is in flight.
    pub async fn calls_ended(&self) {
        let mut calls = self.calls.subscribe();
        // The sender lives as long as this scope.
        let _ = calls.wait_for(|calls| calls.open == 0).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_closed_scope_begins_no_call_and_waits_for_those_in_flight() {
        assert!(CallScope::current().is_none(), "no pass runs");
        let scope = CallScope::new("u1");
        let of_the_pass = scope.around(async { CallScope::current() }).await.unwrap();
        assert_eq!(of_the_pass.object(), "u1");
        let call = of_the_pass.begin().unwrap();
        scope.close();
        assert!(scope.begin().is_none() && scope.has_open_calls());
        let ended = scope.calls_ended();
        tokio::pin!(ended);
        assert!(is_pending(ended.as_mut()).await);
        drop(call);
        ended.await;
        assert!(!scope.has_open_calls());
    }

    /// Returns true if a future does not complete at once.
    async fn is_pending(future: impl Future<Output = ()>) -> bool {
        tokio::time::timeout(std::time::Duration::ZERO, future).await.is_err()
    }
}
