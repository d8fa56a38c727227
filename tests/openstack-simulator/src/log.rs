//! Log of calls, in which tests read the calls that the cloud received.

use std::collections::VecDeque;
use std::sync::Mutex;

use serde::Serialize;

/// Largest number of calls in the log; the oldest are removed. A soak test makes millions.
const CAPACITY: usize = 200_000;

/// One call that reached the simulator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct LoggedCall {
    /// Time of the response.
    pub time: jiff::Timestamp,
    /// Name of the caller's project, if the caller was authenticated.
    pub project: Option<String>,
    /// The HTTP method.
    pub method: String,
    /// The whole path, with the service's prefix.
    pub path: String,
    /// The query as sent.
    pub query: String,
    /// Name of the server action, such as `reboot`.
    pub action: Option<String>,
    /// Status of the response; 0 if an injected error left the call without one.
    pub status: u16,
    /// `req-<uuid>`, as in the response's `x-openstack-request-id`.
    pub request_id: String,
}

/// Calls so far.
#[derive(Debug, Default)]
pub(crate) struct Log(Mutex<VecDeque<LoggedCall>>);

impl Log {
    pub(crate) fn push(&self, call: LoggedCall) {
        let mut calls = crate::lock(&self.0);
        if calls.len() >= CAPACITY {
            calls.pop_front();
        }
        calls.push_back(call);
    }

    pub(crate) fn all(&self) -> Vec<LoggedCall> {
        crate::lock(&self.0).iter().cloned().collect()
    }

    pub(crate) fn clear(&self) {
        crate::lock(&self.0).clear();
    }
}
