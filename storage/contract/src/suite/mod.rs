//! Conformance suite of the storage backends.
//!
//! A backend's test implements [`Harness`] and calls [`run`]. Cases share one store and use separate keys. A case is
//! named by a sentence that can be false.

#![allow(
    clippy::disallowed_methods,
    reason = "a program for tests and measurements awaits its tasks, or ends with them"
)]
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::missing_panics_doc,
    reason = "this is test code that backends link into their tests: a failed expectation panics"
)]

mod compaction;
mod compare;
mod crud;
mod paging;
mod races;
mod recreate;
mod resume;
mod values;
mod watch;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;

use crate::{Event, Key, KeyRange, ListOptions, Page, Revision, Store, WatchItem, WatchStream};

/// Longest wait for an expected result.
const PATIENCE: Duration = Duration::from_secs(30);

/// Test harness of a backend.
#[async_trait]
pub trait Harness: Send + Sync {
    /// Returns the store under test.
    fn store(&self) -> Arc<dyn Store>;

    /// Interrupts the connection between the store and its backend (kills a server, drops connections) and restores
    /// it. A store without a connection does nothing.
    async fn disturb(&self) {}

    /// Returns the largest value that the backend is configured to accept.
    fn largest_value(&self) -> usize;

    /// Reports whether idle watches report progress every few seconds. It is false for an etcd whose progress reports
    /// are not sound.
    fn reports_progress(&self) -> bool {
        true
    }

    /// Returns the difference between the revisions of two successive writes.
    fn step(&self) -> u64 {
        1
    }
}

/// Case: its sentence and its function.
pub type Case = (&'static str, fn(World) -> Pin<Box<dyn Future<Output = ()> + Send>>);

/// Environment of one case.
#[derive(Clone)]
pub struct World {
    harness: Arc<dyn Harness>,
    prefix: String,
}

impl std::fmt::Debug for World {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("World").field("prefix", &self.prefix).finish_non_exhaustive()
    }
}

/// Returns every case.
pub fn all_cases() -> Vec<Case> {
    [
        crud::CASES,
        compare::CASES,
        races::CASES,
        paging::CASES,
        watch::CASES,
        resume::CASES,
        compaction::CASES,
        recreate::CASES,
        values::CASES,
    ]
    .concat()
}

/// Runs every case and names all that fail, each with its reason.
///
/// # Panics
/// When any case fails.
pub async fn run(harness: Arc<dyn Harness>) {
    let mut failed = Vec::new();
    let all = all_cases();
    let count = all.len();
    for (index, (name, case)) in all.into_iter().enumerate() {
        let world = World { harness: Arc::clone(&harness), prefix: format!("/suite/case-{index}/") };
        let outcome = tokio::spawn(tokio::time::timeout(PATIENCE * 2, case(world))).await;
        match outcome {
            Ok(Ok(())) => {}
            Ok(Err(_)) => failed.push(format!("{name}: timed out after {:?}", PATIENCE * 2)),
            Err(error) => failed.push(format!("{name}: {}", reason(error))),
        }
    }
    assert!(failed.is_empty(), "{} of {count} cases failed: {failed:#?}", failed.len());
}

/// Returns the panic message of a case.
fn reason(error: tokio::task::JoinError) -> String {
    let Ok(payload) = error.try_into_panic() else { return "cancelled".to_owned() };
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => {
            payload.downcast_ref::<&str>().map_or_else(|| "panicked".to_owned(), ToString::to_string)
        }
    }
}

impl World {
    fn store(&self) -> Arc<dyn Store> {
        self.harness.store()
    }

    fn key(&self, name: &str) -> Key {
        Key::new(format!("{}{name}", self.prefix)).unwrap()
    }

    fn range(&self) -> KeyRange {
        KeyRange::prefix(&self.prefix)
    }

    /// Creates `name`.
    async fn put(&self, name: &str, value: &str) -> Revision {
        self.store().create(&self.key(name), Bytes::from(value.to_owned())).await.unwrap()
    }

    /// Updates `name`, which is at `expected`.
    async fn replace(&self, name: &str, expected: Revision, value: &str) -> Revision {
        self.store().update(&self.key(name), expected, Bytes::from(value.to_owned())).await.unwrap()
    }

    /// Deletes `name`, which is at `expected`.
    async fn remove(&self, name: &str, expected: Revision) -> Revision {
        self.store().delete(&self.key(name), expected).await.unwrap()
    }

    /// Lists the whole range at `revision`, or now.
    async fn list(&self, revision: Option<Revision>) -> Page {
        self.store().list(&self.range(), &ListOptions { limit: 0, revision }).await.unwrap()
    }

    async fn watch(&self, from: Revision) -> WatchStream {
        self.store().watch(&self.range(), from).await.unwrap()
    }

    /// Returns the revision of the last of so many writes after `start`, if no other client writes.
    fn ahead(&self, start: Revision, writes: u64) -> Revision {
        Revision::new(start.number() + writes * self.harness.step())
    }

    /// Returns the lowest revision that the next write can have.
    async fn next_revision(&self) -> Revision {
        self.store().current_revision().await.unwrap().next()
    }
}

/// Returns the next event of a watch, past any progress.
async fn event(stream: &mut WatchStream) -> Event {
    let next = async {
        loop {
            match stream.next().await.unwrap().unwrap() {
                WatchItem::Event(event) => return event,
                WatchItem::Progress(_) => {}
            }
        }
    };
    tokio::time::timeout(PATIENCE, next).await.unwrap()
}

/// Waits until a watch without events reports progress to `revision` or later.
async fn progress_to(stream: &mut WatchStream, revision: Revision) {
    let reached = async {
        loop {
            match stream.next().await.unwrap().unwrap() {
                WatchItem::Progress(found) if found >= revision => return,
                WatchItem::Progress(_) => {}
                WatchItem::Event(event) => panic!("{event:?}"),
            }
        }
    };
    tokio::time::timeout(PATIENCE, reached).await.unwrap();
}

async fn events(stream: &mut WatchStream, count: usize) -> Vec<Event> {
    let mut found = Vec::new();
    for _ in 0..count {
        found.push(event(stream).await);
    }
    found
}

/// Creates a [`Case`] from an async function.
macro_rules! cases {
    ($($sentence:literal => $case:ident,)*) => {
        pub(super) const CASES: &[crate::suite::Case] = &[$(($sentence, |world| Box::pin($case(world))),)*];
    };
}
use cases;
