//! A watch that outlives its connections.

use std::collections::VecDeque;
use std::time::Duration;

use etcd_client::{EventType, WatchClient, WatchOptions, WatchResponse};
use futures::stream;
use storage_contract::{
    Event, EventKind, Key, KeyRange, Revision, StoreError, StoreResult, WatchItem, WatchStream,
};
use tokio::sync::watch as signal;

use crate::revision::{self, number, revision};
use crate::{entry, key};

/// Largest message. The server cuts larger ones into fragments of about its request limit, which
/// operators may have raised; this leaves room for that.
const LARGEST_MESSAGE: usize = 64 * 1024 * 1024;

/// How often progress is asked for.
const ASK_EVERY: Duration = Duration::from_secs(2);

/// First pause before connecting again, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// How long a connection may say nothing, although progress is asked for, before it is given up.
const SILENCE: Duration = Duration::from_secs(15);

struct Follow {
    client: WatchClient,
    range: KeyRange,
    /// Whether etcd is to tell what was there before each change. It reads that from its disk's pages, and sends it.
    with_previous: bool,
    position: Position,
    /// Told when progress is wanted out of turn; `None` when it must not be asked for.
    asking: Option<signal::Receiver<u64>>,
    open: Option<etcd_client::WatchStream>,
    ready: VecDeque<WatchItem>,
    pause: Duration,
    over: bool,
}

/// How far a watch is.
#[derive(Debug)]
struct Position {
    /// Everything before this has been yielded, and a new connection starts here.
    next: Revision,
    /// What of this revision has been yielded, too. A transaction of somebody else may change
    /// several keys, and the connection may break between two parts of the answer.
    told: Vec<Key>,
}

impl Position {
    /// Whether this change is new; from then on it is not.
    fn advance(&mut self, event: &Event) -> bool {
        if event.revision < self.next || (event.revision == self.next && self.told.contains(&event.key)) {
            return false;
        }
        if event.revision > self.next {
            self.next = event.revision;
            self.told.clear();
        }
        self.told.push(event.key.clone());
        true
    }

    /// Everything up to `revision` has been yielded.
    fn reach(&mut self, revision: Revision) {
        self.next = revision.next();
        self.told.clear();
    }
}

pub(crate) fn stream(
    client: WatchClient,
    range: KeyRange,
    with_previous: bool,
    from: Revision,
    asking: Option<signal::Receiver<u64>>,
) -> WatchStream {
    let client = client.max_decoding_message_size(LARGEST_MESSAGE);
    let position = Position { next: from, told: Vec::new() };
    let (open, ready) = (None, VecDeque::new());
    let pause = PAUSES.0;
    let follow = Follow { client, range, with_previous, position, asking, open, ready, pause, over: false };
    Box::pin(stream::unfold(follow, |mut follow| async move {
        let item = follow.next().await?;
        Some((item, follow))
    }))
}

impl Follow {
    async fn next(&mut self) -> Option<StoreResult<WatchItem>> {
        loop {
            if let Some(item) = self.ready.pop_front() {
                return Some(Ok(item));
            }
            if self.over {
                return None;
            }
            let received = match &mut self.open {
                None => {
                    self.connect().await;
                    continue;
                }
                Some(open) => receive(open, self.asking.as_mut()).await,
            };
            match received {
                Some(response) if response.canceled() && response.compact_revision() == 0 => {
                    tracing::warn!(reason = response.cancel_reason(), "etcd ended a watch; resuming");
                    self.reconnect().await;
                }
                Some(response) => {
                    if let Err(error) = self.take(&response) {
                        self.over = true;
                        return Some(Err(error));
                    }
                }
                None => self.reconnect().await,
            }
        }
    }

    async fn connect(&mut self) {
        let mut options = WatchOptions::new()
            .with_range(self.range.end.clone())
            // etcd reads 0 as "now"; ours means the beginning.
            .with_start_revision(number(self.position.next).max(1))
            .with_fragment()
            .with_progress_notify();
        if self.with_previous {
            options = options.with_prev_key();
        }
        match tokio::time::timeout(SILENCE, self.client.watch(self.range.start.clone(), Some(options))).await
        {
            Ok(Ok(open)) => self.open = Some(open),
            Ok(Err(error)) => {
                tracing::warn!(%error, "a watch on etcd cannot be opened; trying again");
                self.wait().await;
            }
            Err(_) => self.wait().await,
        }
    }

    async fn reconnect(&mut self) {
        self.open = None;
        self.wait().await;
    }

    async fn wait(&mut self) {
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSES.1);
    }

    fn take(&mut self, response: &WatchResponse) -> StoreResult<()> {
        if response.compact_revision() > 0 {
            let oldest = revision(response.compact_revision());
            return Err(StoreError::Compacted { requested: self.position.next, oldest });
        }
        self.pause = PAUSES.0;
        for event in response.events() {
            let event = convert(event, self.with_previous)?;
            if self.position.advance(&event) {
                self.ready.push_back(WatchItem::Event(event));
            }
        }
        match response.events().last().and_then(etcd_client::Event::kv) {
            None => self.take_progress(response),
            Some(last) if !response.0.fragment => self.complete(revision(last.mod_revision())),
            Some(_) => {}
        }
        Ok(())
    }

    /// All changes of a transaction that are in the range were told. Where the last of them was not, since it was not
    /// made or is elsewhere, nobody would know otherwise.
    fn complete(&mut self, transaction: Revision) {
        if self.position.next < transaction {
            self.position.reach(transaction);
            self.ready.push_back(WatchItem::Progress(transaction));
        }
    }

    /// An answer without events is progress. The one that opens the watch tells where etcd is,
    /// which is progress as far as nothing was asked for: etcd itself says nothing more until it
    /// reaches the start.
    fn take_progress(&mut self, response: &WatchResponse) {
        let told = revision(response.header().map_or(0, etcd_client::ResponseHeader::revision));
        if response.created() {
            if self.position.told.is_empty() {
                let before = Revision::new(self.position.next.number().saturating_sub(1));
                self.ready.push_back(WatchItem::Progress(told.min(before)));
            }
        } else if told.next() >= self.position.next {
            self.position.reach(told);
            self.ready.push_back(WatchItem::Progress(told));
        }
    }
}

/// The next answer; `None` when the connection is of no use any more.
async fn receive(
    open: &mut etcd_client::WatchStream,
    asking: Option<&mut signal::Receiver<u64>>,
) -> Option<WatchResponse> {
    let received = |answer: Result<Option<WatchResponse>, etcd_client::Error>| match answer {
        Ok(response) => response,
        Err(error) => {
            tracing::warn!(%error, "a watch on etcd broke; resuming");
            None
        }
    };
    let Some(asking) = asking else { return received(open.message().await) };
    let give_up = tokio::time::Instant::now() + SILENCE;
    loop {
        tokio::select! {
            biased;
            answer = open.message() => return received(answer),
            () = tokio::time::sleep(ASK_EVERY) => {}
            // Without the store nobody hastens any more; the next turn comes all the same.
            Ok(()) = asking.changed() => {}
        }
        if tokio::time::Instant::now() > give_up {
            return None;
        }
        open.request_progress().await.ok()?;
    }
}

fn convert(event: &etcd_client::Event, with_previous: bool) -> StoreResult<Event> {
    let found =
        event.kv().ok_or_else(|| StoreError::Corrupt { detail: "an event without a key".to_owned() })?;
    let previous = event.prev_kv().cloned().map(entry).transpose()?;
    let at = revision::modified(found);
    let (kind, value) = match event.event_type() {
        EventType::Delete => (EventKind::Deleted, None),
        EventType::Put if found.create_revision() == found.mod_revision() => {
            (EventKind::Created, Some(revision::value(found)))
        }
        EventType::Put => (EventKind::Updated, Some(revision::value(found))),
    };
    if with_previous && previous.is_none() && kind != EventKind::Created {
        return Err(StoreError::Compacted { requested: at, oldest: at.next() });
    }
    let created = match (kind, &previous) {
        (EventKind::Deleted, previous) => previous.as_ref().map_or(Revision::NONE, |entry| entry.created),
        _ => revision::created(found),
    };
    Ok(Event { kind, key: key(found.key())?, revision: at, value, created, previous })
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    fn change(revision: u64, name: &str) -> Event {
        let (kind, key, revision) = (EventKind::Created, Key::new(name).unwrap(), Revision::new(revision));
        Event { kind, key, revision, value: Some(Bytes::new()), created: revision, previous: None }
    }

    #[test]
    fn a_transaction_over_several_keys_is_told_whole_and_once_across_a_break() {
        let mut position = Position { next: Revision::new(5), told: Vec::new() };
        assert!(position.advance(&change(5, "/a")));
        assert!(position.advance(&change(7, "/a")));
        assert!(position.advance(&change(7, "/b")));
        // The connection breaks, and revision 7 is told again, with what was missing.
        assert_eq!(position.next, Revision::new(7));
        assert!(!position.advance(&change(7, "/a")));
        assert!(!position.advance(&change(7, "/b")));
        assert!(position.advance(&change(7, "/c")));
        assert!(position.advance(&change(8, "/a")));
    }

    #[test]
    fn what_progress_covers_is_not_told_again() {
        let mut position = Position { next: Revision::new(5), told: Vec::new() };
        assert!(position.advance(&change(5, "/a")));
        position.reach(Revision::new(9));
        assert_eq!(position.next, Revision::new(10));
        assert!(!position.advance(&change(9, "/b")));
        assert!(position.advance(&change(10, "/a")));
    }
}
