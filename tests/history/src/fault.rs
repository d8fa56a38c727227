//! Bugs to be found: a store that has one.

use std::fmt;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use futures::{StreamExt, future};
use storage_contract::{
    Entry, EventKind, Key, KeyRange, ListOptions, Page, Revision, Store, StoreError, StoreResult, Unchanged,
    WatchItem, WatchStream,
};

/// A bug.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// Of many changes of a watch one is swallowed.
    DroppedEvent,
    /// The newest revision is one that was learned before, and changes arrive late.
    StaleRead,
    /// An update that somebody else was faster than is made all the same.
    LostUpdate,
}

impl Fault {
    const ALL: [Self; 3] = [Self::DroppedEvent, Self::StaleRead, Self::LostUpdate];
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DroppedEvent => "dropped-event",
            Self::StaleRead => "stale-read",
            Self::LostUpdate => "lost-update",
        })
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|fault| fault.to_string() == text);
        found.ok_or_else(|| format!("no fault is called {text:?}"))
    }
}

/// One change in so many is swallowed.
const SWALLOWED: u64 = 20;

/// How late changes arrive where reads are to be stale.
const LATE: Duration = Duration::from_millis(150);

/// How many of them are late at once.
const UNDERWAY: usize = 10_000;

/// How long an update takes where it is to be overtaken.
const HESITATION: Duration = Duration::from_millis(10);

/// A store with a bug.
#[derive(Debug)]
pub struct Faulty {
    store: Arc<dyn Store>,
    fault: Fault,
    learned: AtomicU64,
}

impl Faulty {
    /// The same store, with this bug.
    pub fn new(store: Arc<dyn Store>, fault: Fault) -> Self {
        Self { store, fault, learned: AtomicU64::new(0) }
    }

    /// A watch with the fault in it.
    fn spoiled(&self, stream: WatchStream) -> WatchStream {
        match self.fault {
            Fault::LostUpdate => stream,
            Fault::StaleRead => {
                let late = |item| async {
                    tokio::time::sleep(LATE).await;
                    item
                };
                Box::pin(stream.map(late).buffered(UNDERWAY))
            }
            Fault::DroppedEvent => {
                let mut count = 0;
                Box::pin(stream.filter(move |item| {
                    let update =
                        matches!(item, Ok(WatchItem::Event(event)) if event.kind == EventKind::Updated);
                    count += u64::from(update);
                    future::ready(!update || count % SWALLOWED != 0)
                }))
            }
        }
    }
}

#[async_trait]
impl Store for Faulty {
    async fn create_while(
        &self,
        key: &Key,
        value: Bytes,
        unchanged: Option<&Unchanged>,
    ) -> StoreResult<Revision> {
        self.store.create_while(key, value, unchanged).await
    }

    async fn update(&self, key: &Key, expected: Revision, value: Bytes) -> StoreResult<Revision> {
        if self.fault == Fault::LostUpdate {
            tokio::time::sleep(HESITATION).await;
        }
        match self.store.update(key, expected, value.clone()).await {
            Err(StoreError::Conflict { found, .. })
                if self.fault == Fault::LostUpdate && found > Revision::NONE =>
            {
                self.store.update(key, found, value).await
            }
            other => other,
        }
    }

    async fn delete(&self, key: &Key, expected: Revision) -> StoreResult<Revision> {
        self.store.delete(key, expected).await
    }

    async fn get(&self, key: &Key) -> StoreResult<Option<Entry>> {
        self.store.get(key).await
    }

    async fn list(&self, range: &KeyRange, options: &ListOptions) -> StoreResult<Page> {
        self.store.list(range, options).await
    }

    async fn watch(&self, range: &KeyRange, from: Revision) -> StoreResult<WatchStream> {
        Ok(self.spoiled(self.store.watch(range, from).await?))
    }

    async fn follow(&self, range: &KeyRange, from: Revision) -> StoreResult<WatchStream> {
        Ok(self.spoiled(self.store.follow(range, from).await?))
    }

    async fn compact(&self, revision: Revision) -> StoreResult<()> {
        self.store.compact(revision).await
    }

    async fn current_revision(&self) -> StoreResult<Revision> {
        let newest = self.store.current_revision().await?;
        if self.fault != Fault::StaleRead {
            return Ok(newest);
        }
        // What was the newest when somebody asked before.
        Ok(Revision::new(self.learned.swap(newest.number(), Ordering::Relaxed)))
    }

    fn reports_progress(&self) -> bool {
        self.store.reports_progress()
    }

    fn hasten_progress(&self) {
        self.store.hasten_progress();
    }
}
