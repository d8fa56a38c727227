//! Records of a run: what each client observed, with its times since the start.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Authority over the permissions of a user, and the endpoint that the user calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Realm {
    /// Capstan knows the user and its permissions: each call must succeed at any time.
    Own,
    /// The same for a user without permissions: each call must be forbidden at any time.
    Denied,
    /// The host knows the user, who calls the direct endpoint. A copy of the host's permissions decides while it is down.
    Host,
    /// The user calls through the host.
    Aggregated,
}

/// One call of a client, with all its attempts.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub(crate) user: String,
    pub(crate) realm: Realm,
    /// For example `GET` or `PUT`.
    pub(crate) method: &'static str,
    pub(crate) begun: Duration,
    pub(crate) ended: Duration,
    /// Number of attempts that ended without a response.
    pub(crate) broken: usize,
    /// Status code and message; `None` if no attempt got a response.
    pub(crate) answer: Option<(u16, String)>,
}

/// One write whose outcome is known, as the only writer of the object.
#[derive(Debug, Clone)]
pub(crate) struct Write {
    /// Name of the object.
    pub(crate) object: String,
    /// Revision that the response named.
    pub(crate) revision: u64,
}

/// One observation of a writer that contradicts its acknowledged writes.
pub(crate) type Contradiction = String;

/// One event of a watch.
#[derive(Debug, Clone)]
pub(crate) struct Seen {
    pub(crate) watcher: String,
    pub(crate) revision: u64,
}

/// Part of the history that a watcher follows after a list.
#[derive(Debug, Clone)]
pub(crate) struct Watched {
    pub(crate) watcher: String,
    /// Revision of the list.
    pub(crate) from: u64,
    /// Last revision that the watcher knew when the server had no longer the history after it. The watcher lists again then.
    pub(crate) until: Option<u64>,
    /// Objects of the list, with their revisions.
    pub(crate) listed: Vec<(String, u64)>,
}

/// One complete rollout.
#[derive(Debug, Clone)]
pub(crate) struct Rollout {
    pub(crate) begun: Duration,
    pub(crate) ended: Duration,
    /// Number of workers that were replaced.
    pub(crate) workers: usize,
}

/// All records.
#[derive(Debug, Clone, Default)]
pub(crate) struct Records {
    pub(crate) calls: Vec<Call>,
    pub(crate) writes: Vec<Write>,
    pub(crate) contradictions: Vec<Contradiction>,
    pub(crate) seen: Vec<Seen>,
    /// Revisions between which each watcher must have seen everything.
    pub(crate) watched: Vec<Watched>,
    /// Holders of the Lease, with the time at which each was first seen.
    pub(crate) holders: Vec<(Duration, String)>,
    /// Actions of the caller.
    pub(crate) marks: Vec<(Duration, String)>,
    pub(crate) rollouts: Vec<Rollout>,
}

/// Recorder that all clients share.
#[derive(Debug, Clone)]
pub(crate) struct Recorder {
    begun: Instant,
    records: Arc<Mutex<Records>>,
}

impl Recorder {
    pub(crate) fn start() -> Self {
        Self { begun: Instant::now(), records: Arc::default() }
    }

    /// Returns the time since the start.
    pub(crate) fn now(&self) -> Duration {
        self.begun.elapsed()
    }

    pub(crate) fn mark(&self, text: &str) {
        let now = self.now();
        self.lock().marks.push((now, text.to_owned()));
    }

    pub(crate) fn lock(&self) -> MutexGuard<'_, Records> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn take(&self) -> Records {
        std::mem::take(&mut self.lock())
    }
}
