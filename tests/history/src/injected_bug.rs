//! Injected bugs: a store that has one, to prove that the checker finds it.

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

/// Bug that a server can have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum InjectedBug {
    /// A watch loses one of many changes.
    DroppedEvent,
    /// The current revision is an older one, and changes arrive late.
    StaleRead,
    /// An update is applied although another client changed the object first.
    LostUpdate,
}

impl InjectedBug {
    const ALL: [Self; 3] = [Self::DroppedEvent, Self::StaleRead, Self::LostUpdate];
}

impl fmt::Display for InjectedBug {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::DroppedEvent => "dropped-event",
            Self::StaleRead => "stale-read",
            Self::LostUpdate => "lost-update",
        })
    }
}

impl FromStr for InjectedBug {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|bug| bug.to_string() == text);
        found.ok_or_else(|| format!("there is no bug {text:?}"))
    }
}

/// Number of changes of which one is lost.
const EVENTS_PER_LOSS: u64 = 20;

/// Delay of the changes if reads are to be stale.
const EVENT_DELAY: Duration = Duration::from_millis(150);

/// Number of changes that can be delayed at the same time.
const DELAYED_EVENTS: usize = 10_000;

/// Delay of an update, so that another one can overtake it.
const UPDATE_DELAY: Duration = Duration::from_millis(10);

/// Store with a bug.
#[derive(Debug)]
pub struct BuggyStore {
    store: Arc<dyn Store>,
    bug: InjectedBug,
    learned: AtomicU64,
}

impl BuggyStore {
    /// Wraps a store with this bug.
    pub fn new(store: Arc<dyn Store>, bug: InjectedBug) -> Self {
        Self { store, bug, learned: AtomicU64::new(0) }
    }

    /// Applies the bug to a watch.
    fn with_bug(&self, stream: WatchStream) -> WatchStream {
        match self.bug {
            InjectedBug::LostUpdate => stream,
            InjectedBug::StaleRead => {
                let late = |item| async {
                    tokio::time::sleep(EVENT_DELAY).await;
                    item
                };
                Box::pin(stream.map(late).buffered(DELAYED_EVENTS))
            }
            InjectedBug::DroppedEvent => {
                let mut count = 0;
                Box::pin(stream.filter(move |item| {
                    let update =
                        matches!(item, Ok(WatchItem::Event(event)) if event.kind == EventKind::Updated);
                    count += u64::from(update);
                    future::ready(!update || count % EVENTS_PER_LOSS != 0)
                }))
            }
        }
    }
}

#[async_trait]
impl Store for BuggyStore {
    async fn create_while(
        &self,
        key: &Key,
        value: Bytes,
        unchanged: Option<&Unchanged>,
    ) -> StoreResult<Revision> {
        self.store.create_while(key, value, unchanged).await
    }

    async fn update(&self, key: &Key, expected: Revision, value: Bytes) -> StoreResult<Revision> {
        if self.bug == InjectedBug::LostUpdate {
            tokio::time::sleep(UPDATE_DELAY).await;
        }
        match self.store.update(key, expected, value.clone()).await {
            Err(StoreError::Conflict { found, .. })
                if self.bug == InjectedBug::LostUpdate && found > Revision::NONE =>
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
        Ok(self.with_bug(self.store.watch(range, from).await?))
    }

    async fn follow(&self, range: &KeyRange, from: Revision) -> StoreResult<WatchStream> {
        Ok(self.with_bug(self.store.follow(range, from).await?))
    }

    async fn compact(&self, revision: Revision) -> StoreResult<()> {
        self.store.compact(revision).await
    }

    async fn current_revision(&self) -> StoreResult<Revision> {
        let newest = self.store.current_revision().await?;
        if self.bug != InjectedBug::StaleRead {
            return Ok(newest);
        }
        // Returns the revision that was the newest one at the previous call.
        Ok(Revision::new(self.learned.swap(newest.number(), Ordering::Relaxed)))
    }

    fn reports_progress(&self) -> bool {
        self.store.reports_progress()
    }

    fn hasten_progress(&self) {
        self.store.hasten_progress();
    }
}
