//! The suite every backend passes.
//!
//! A backend's test makes a [`Harness`] and calls [`run`]. Cases share one store and keep out of
//! each other's way by their keys. A case is named by a sentence that can be false.
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

/// Longest wait for something that must come.
const PATIENCE: Duration = Duration::from_secs(30);

/// What a backend brings.
#[async_trait]
pub trait Harness: Send + Sync {
    /// The store under test.
    fn store(&self) -> Arc<dyn Store>;

    /// Cuts what lies between the store and its backend (kills a server, drops connections) and
    /// mends it again. A store without such a thing does nothing.
    async fn disturb(&self) {}

    /// Largest value the backend is set to take.
    fn largest_value(&self) -> usize;

    /// Whether idle watches report progress every few seconds. Not so on an etcd whose answers
    /// about progress are not sound.
    fn reports_progress(&self) -> bool {
        true
    }

    /// How far apart the revisions of two writes are that come one after the other.
    fn step(&self) -> u64 {
        1
    }
}

/// A case: its sentence and what it does.
pub type Case = (&'static str, fn(World) -> Pin<Box<dyn Future<Output = ()> + Send>>);

/// What a case works with.
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

/// Every case.
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
            Ok(Err(_)) => failed.push(format!("{name}: not done after {:?}", PATIENCE * 2)),
            Err(error) => failed.push(format!("{name}: {}", reason(error))),
        }
    }
    assert!(failed.is_empty(), "{} of {count} cases failed: {failed:#?}", failed.len());
}

/// What a case said when it panicked.
fn reason(error: tokio::task::JoinError) -> String {
    let Ok(said) = error.try_into_panic() else { return "cancelled".to_owned() };
    match said.downcast::<String>() {
        Ok(text) => *text,
        Err(said) => said.downcast_ref::<&str>().map_or_else(|| "panicked".to_owned(), ToString::to_string),
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

    /// The whole range at `revision`, or now.
    async fn list(&self, revision: Option<Revision>) -> Page {
        self.store().list(&self.range(), &ListOptions { limit: 0, revision }).await.unwrap()
    }

    async fn watch(&self, from: Revision) -> WatchStream {
        self.store().watch(&self.range(), from).await.unwrap()
    }

    /// The revision that the last of so many writes has that come after `start`, if nobody else writes.
    fn ahead(&self, start: Revision, writes: u64) -> Revision {
        Revision::new(start.number() + writes * self.harness.step())
    }

    /// The revision that the next write will have at least.
    async fn next_revision(&self) -> Revision {
        self.store().current_revision().await.unwrap().next()
    }
}

/// The next event of a watch, past any progress.
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

/// Waits until a watch without events says that it is at `revision` or later.
async fn progress_to(stream: &mut WatchStream, revision: Revision) {
    let told = async {
        loop {
            match stream.next().await.unwrap().unwrap() {
                WatchItem::Progress(told) if told >= revision => return,
                WatchItem::Progress(_) => {}
                WatchItem::Event(event) => panic!("{event:?}"),
            }
        }
    };
    tokio::time::timeout(PATIENCE, told).await.unwrap();
}

async fn events(stream: &mut WatchStream, count: usize) -> Vec<Event> {
    let mut found = Vec::new();
    for _ in 0..count {
        found.push(event(stream).await);
    }
    found
}

/// Makes a [`Case`] of an async function.
macro_rules! cases {
    ($($sentence:literal => $case:ident,)*) => {
        pub(super) const CASES: &[crate::suite::Case] = &[$(($sentence, |world| Box::pin($case(world))),)*];
    };
}
use cases;
