//! The record of calls: what a test asks when it wants to know what was really done to the cloud.

use std::collections::VecDeque;
use std::sync::Mutex;

use serde::Serialize;

/// The oldest calls go when there are more than this: a soak test makes millions.
const CAPACITY: usize = 200_000;

/// One call that reached the simulator.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Call {
    /// When it was answered.
    pub time: jiff::Timestamp,
    /// The name of the caller's project, if the caller was known.
    pub project: Option<String>,
    /// The HTTP method.
    pub method: String,
    /// The whole path, with the service's prefix.
    pub path: String,
    /// The query as sent.
    pub query: String,
    /// The name of the server action, such as `reboot`.
    pub action: Option<String>,
    /// The status of the answer; 0 if a fault left the call without one.
    pub status: u16,
    /// `req-<uuid>`, as in the answer's `x-openstack-request-id`.
    pub request_id: String,
}

/// The calls so far.
#[derive(Debug, Default)]
pub(crate) struct Log(Mutex<VecDeque<Call>>);

impl Log {
    pub(crate) fn push(&self, call: Call) {
        let mut calls = crate::lock(&self.0);
        if calls.len() >= CAPACITY {
            calls.pop_front();
        }
        calls.push_back(call);
    }

    pub(crate) fn all(&self) -> Vec<Call> {
        crate::lock(&self.0).iter().cloned().collect()
    }

    pub(crate) fn clear(&self) {
        crate::lock(&self.0).clear();
    }
}
