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

use crate::{Event, Key, KeyRange, Store, WatchItem, WatchStream};

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
        values::CASES,
    ]
    .concat()
}

/// Runs every case and names all that fail.
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
        if !matches!(outcome, Ok(Ok(()))) {
            failed.push(name);
        }
    }
    assert!(failed.is_empty(), "{} of {count} cases failed: {failed:#?}", failed.len());
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

    async fn put(&self, name: &str, value: &str) -> crate::Revision {
        self.store().create(&self.key(name), Bytes::from(value.to_owned())).await.unwrap()
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
