//! Watch on etcd that reconnects and resumes.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use etcd_client::{EventType, WatchClient, WatchOptions, WatchResponse};
use futures::stream;
use storage_contract::{
    Event, EventKind, Key, KeyRange, Revision, StoreError, StoreResult, WatchItem, WatchStream,
};
use tokio::sync::watch as signal;

use crate::history::{History, Incarnation};
use crate::revision::{self, Numbering};
use crate::{entry, key};

/// Largest message. etcd cuts larger ones into fragments of about its request limit, which operators may have raised;
/// this leaves room for that.
const LARGEST_MESSAGE: usize = 64 * 1024 * 1024;

/// Interval of the progress requests.
const PROGRESS_INTERVAL: Duration = Duration::from_secs(2);

/// First pause before a reconnect, and the longest.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(5));

/// Longest silence of a connection, although progress is requested, before it is closed.
const SILENCE: Duration = Duration::from_secs(15);

/// Connection and position of one watch.
struct ResumingWatch {
    client: WatchClient,
    history: Arc<History>,
    /// Incarnation of the store with which the watch ends.
    incarnation: Arc<Incarnation>,
    range: KeyRange,
    /// True if etcd is to send the entry before each change. It reads that from its disk's pages.
    with_previous: bool,
    position: Position,
    /// Signals extra progress requests; `None` when progress must not be requested.
    hastened: Option<signal::Receiver<u64>>,
    open: Option<etcd_client::WatchStream>,
    ready: VecDeque<WatchItem>,
    pause: Duration,
    over: bool,
}

/// Position of a watch.
#[derive(Debug)]
struct Position {
    /// Everything before this has been yielded, and a new connection starts here.
    next: Revision,
    /// Keys of this revision that have been yielded, too. A transaction of another client may change several keys,
    /// and the connection may break between two parts of the answer.
    yielded: Vec<Key>,
}

impl Position {
    /// Returns true if this change is new, and records it.
    fn advance(&mut self, event: &Event) -> bool {
        if event.revision < self.next || (event.revision == self.next && self.yielded.contains(&event.key)) {
            return false;
        }
        if event.revision > self.next {
            self.next = event.revision;
            self.yielded.clear();
        }
        self.yielded.push(event.key.clone());
        true
    }

    /// Records that everything up to `revision` has been yielded.
    fn reach(&mut self, revision: Revision) {
        self.next = revision.next();
        self.yielded.clear();
    }
}

/// Watches a range. The stream ends with the incarnation of the store.
///
/// # Errors
/// `Compacted` if `from` belongs to an earlier incarnation; `Rewound`.
pub(crate) fn stream(
    client: WatchClient,
    history: Arc<History>,
    range: KeyRange,
    with_previous: bool,
    from: Revision,
    hastened: Option<signal::Receiver<u64>>,
) -> StoreResult<WatchStream> {
    let incarnation = history.begin()?.incarnation;
    incarnation.numbering.check(from)?;
    let watch = ResumingWatch {
        client: client.max_decoding_message_size(LARGEST_MESSAGE),
        history,
        incarnation,
        range,
        with_previous,
        position: Position { next: from, yielded: Vec::new() },
        hastened,
        open: None,
        ready: VecDeque::new(),
        pause: PAUSES.0,
        over: false,
    };
    Ok(Box::pin(stream::unfold(watch, |mut watch| async move {
        if watch.over {
            return None;
        }
        let (history, incarnation) = (Arc::clone(&watch.history), Arc::clone(&watch.incarnation));
        let item = tokio::select! {
            biased;
            ended = history.ended(&incarnation) => {
                watch.over = true;
                Some(Err(ended))
            }
            item = watch.next() => item,
        };
        item.map(|item| (item, watch))
    })))
}

impl ResumingWatch {
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
                Some(open) => receive(open, self.hastened.as_mut()).await,
            };
            match received {
                Some(response) if response.canceled() && response.compact_revision() == 0 => {
                    tracing::warn!(reason = response.cancel_reason(), "etcd ended a watch; resuming it");
                    self.reconnect().await;
                }
                Some(response) => {
                    if response.created() {
                        self.verify().await;
                    }
                    if let Err(error) = self.take(&response) {
                        self.over = true;
                        return Some(Err(error));
                    }
                    self.note_strays(&response).await;
                }
                None => self.reconnect().await,
            }
        }
    }

    async fn connect(&mut self) {
        let mut options = WatchOptions::new()
            .with_range(self.range.end.clone())
            // etcd reads 0 as "now"; the store's 0 means the beginning.
            .with_start_revision(self.numbering().number(self.position.next).max(1))
            .with_fragment()
            .with_progress_notify();
        if self.with_previous {
            options = options.with_prev_key();
        }
        match tokio::time::timeout(SILENCE, self.client.watch(self.range.start.clone(), Some(options))).await
        {
            Ok(Ok(open)) => self.open = Some(open),
            Ok(Err(error)) => {
                tracing::warn!(%error, "etcd watch cannot be opened; retrying");
                self.wait().await;
            }
            Err(_) => self.wait().await,
        }
    }

    async fn reconnect(&mut self) {
        self.open = None;
        self.wait().await;
    }

    /// Waits until etcd has answered, over this connection or another one, in the incarnation of the watch.
    ///
    /// An etcd whose data were replaced while there was no connection may let the watch wait for a revision that its
    /// history does not have yet, or send changes of the next incarnation. This read ends the watch then. A replacement
    /// after this breaks the connection.
    async fn verify(&mut self) {
        while self.history.newest().await.is_err() {
            self.wait().await;
        }
    }

    fn numbering(&self) -> Numbering {
        self.incarnation.numbering
    }

    async fn wait(&mut self) {
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSES.1);
    }

    fn take(&mut self, response: &WatchResponse) -> StoreResult<()> {
        self.history.watched(&self.incarnation, response.0.header.as_ref())?;
        let numbering = self.numbering();
        if response.compact_revision() > 0 {
            let oldest = numbering.revision(response.compact_revision());
            return Err(StoreError::Compacted { requested: self.position.next, oldest });
        }
        self.pause = PAUSES.0;
        for event in response.events() {
            let event = convert(event, self.with_previous, numbering)?;
            if self.position.advance(&event) {
                self.ready.push_back(WatchItem::Event(event));
            }
        }
        match response.events().last().and_then(etcd_client::Event::kv) {
            None => self.take_progress(response),
            Some(last) if !response.0.fragment => self.complete(numbering.revision(last.mod_revision())),
            Some(_) => {}
        }
        Ok(())
    }

    /// Notes values in a form that no server on the record writes. Before that it reads the record: another server may have
    /// changed the stored form a moment ago, and this one has made no call since.
    async fn note_strays(&self, response: &WatchResponse) {
        let put = |event: &&etcd_client::Event| event.event_type() == EventType::Put;
        let values = || response.events().iter().filter(put).filter_map(etcd_client::Event::kv);
        if values().any(|found| self.history.is_stray(found)) {
            // Without an answer, the values count.
            let _ = self.history.newest().await;
            values().for_each(|found| self.history.note_form(found));
        }
    }

    /// Reports progress after all changes of a transaction in the range. Where its last change was not made or lies
    /// outside the range, the reader would not know otherwise.
    fn complete(&mut self, transaction: Revision) {
        if self.position.next < transaction {
            self.position.reach(transaction);
            self.ready.push_back(WatchItem::Progress(transaction));
        }
    }

    /// Takes an answer without events as progress. The one that opens the watch reports etcd's position, which is
    /// progress up to the start of the watch: etcd itself sends nothing more until it reaches the start.
    fn take_progress(&mut self, response: &WatchResponse) {
        let reported =
            self.numbering().revision(response.header().map_or(0, etcd_client::ResponseHeader::revision));
        if response.created() {
            if self.position.yielded.is_empty() {
                let before = Revision::new(self.position.next.number().saturating_sub(1));
                self.ready.push_back(WatchItem::Progress(reported.min(before)));
            }
        } else if reported.next() >= self.position.next {
            self.position.reach(reported);
            self.ready.push_back(WatchItem::Progress(reported));
        }
    }
}

/// Returns the next answer; `None` when the connection is of no use any more.
async fn receive(
    open: &mut etcd_client::WatchStream,
    hastened: Option<&mut signal::Receiver<u64>>,
) -> Option<WatchResponse> {
    let received = |answer: Result<Option<WatchResponse>, etcd_client::Error>| match answer {
        Ok(response) => response,
        Err(error) => {
            tracing::warn!(%error, "etcd watch failed; resuming it");
            None
        }
    };
    let Some(hastened) = hastened else { return received(open.message().await) };
    let give_up = tokio::time::Instant::now() + SILENCE;
    loop {
        tokio::select! {
            biased;
            answer = open.message() => return received(answer),
            () = tokio::time::sleep(PROGRESS_INTERVAL) => {}
            // Without the store no extra request comes; the next regular one comes all the same.
            Ok(()) = hastened.changed() => {}
        }
        if tokio::time::Instant::now() > give_up {
            return None;
        }
        open.request_progress().await.ok()?;
    }
}

fn convert(event: &etcd_client::Event, with_previous: bool, numbering: Numbering) -> StoreResult<Event> {
    let found =
        event.kv().ok_or_else(|| StoreError::Corrupt { detail: "an event without a key".to_owned() })?;
    let previous = event.prev_kv().cloned().map(|found| entry(found, numbering)).transpose()?;
    let at = numbering.modified(found);
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
        _ => numbering.created(found),
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
    fn a_transaction_of_several_keys_is_reported_completely_and_once_after_a_reconnect() {
        let mut position = Position { next: Revision::new(5), yielded: Vec::new() };
        assert!(position.advance(&change(5, "/a")));
        assert!(position.advance(&change(7, "/a")));
        assert!(position.advance(&change(7, "/b")));
        // The connection breaks, and revision 7 is reported again, with the missing change.
        assert_eq!(position.next, Revision::new(7));
        assert!(!position.advance(&change(7, "/a")));
        assert!(!position.advance(&change(7, "/b")));
        assert!(position.advance(&change(7, "/c")));
        assert!(position.advance(&change(8, "/a")));
    }

    #[test]
    fn changes_covered_by_progress_are_not_reported_again() {
        let mut position = Position { next: Revision::new(5), yielded: Vec::new() };
        assert!(position.advance(&change(5, "/a")));
        position.reach(Revision::new(9));
        assert_eq!(position.next, Revision::new(10));
        assert!(!position.advance(&change(9, "/b")));
        assert!(position.advance(&change(10, "/a")));
    }
}
