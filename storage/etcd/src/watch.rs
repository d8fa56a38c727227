//! A watch that outlives its connections.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;
use etcd_client::{EventType, WatchClient, WatchOptions, WatchResponse};
use futures::stream;
use storage_contract::{
    Event, EventKind, KeyRange, Revision, StoreError, StoreResult, WatchItem, WatchStream,
};

use crate::{entry, key, number, revision};

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
    /// Everything before this has been yielded.
    from: Revision,
    sound_progress: bool,
    open: Option<etcd_client::WatchStream>,
    ready: VecDeque<WatchItem>,
    pause: Duration,
    over: bool,
}

pub(crate) fn stream(
    client: WatchClient,
    range: KeyRange,
    from: Revision,
    sound_progress: bool,
) -> WatchStream {
    let client = client.max_decoding_message_size(LARGEST_MESSAGE);
    let (open, ready) = (None, VecDeque::new());
    let follow = Follow { client, range, from, sound_progress, open, ready, pause: PAUSES.0, over: false };
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
                Some(open) => receive(open, self.sound_progress).await,
            };
            match received {
                Some(response) => {
                    if let Err(error) = self.take(&response) {
                        self.over = true;
                        return Some(Err(error));
                    }
                }
                None => {
                    self.open = None;
                    self.wait().await;
                }
            }
        }
    }

    async fn connect(&mut self) {
        let options = WatchOptions::new()
            .with_range(self.range.end.clone())
            // etcd reads 0 as "now"; ours means the beginning.
            .with_start_revision(number(self.from).max(1))
            .with_prev_key()
            .with_fragment()
            .with_progress_notify();
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

    async fn wait(&mut self) {
        tokio::time::sleep(self.pause).await;
        self.pause = (self.pause * 2).min(PAUSES.1);
    }

    fn take(&mut self, response: &WatchResponse) -> StoreResult<()> {
        if response.compact_revision() > 0 {
            let oldest = revision(response.compact_revision());
            return Err(StoreError::Compacted { requested: self.from, oldest });
        }
        if response.canceled() {
            tracing::warn!(reason = response.cancel_reason(), "etcd ended a watch; resuming");
            self.open = None;
            return Ok(());
        }
        self.pause = PAUSES.0;
        for event in response.events() {
            let event = convert(event)?;
            // A resumed watch may be told again what it has seen.
            if event.revision >= self.from {
                self.ready.push_back(WatchItem::Event(event));
            }
        }
        match self.ready.back() {
            Some(WatchItem::Event(last)) => self.from = last.revision.next(),
            _ => self.take_progress(response),
        }
        Ok(())
    }

    /// An answer without events is progress. The one that opens the watch tells where etcd is,
    /// which is progress as far as nothing was asked for: etcd itself says nothing more until it
    /// reaches the start.
    fn take_progress(&mut self, response: &WatchResponse) {
        let told = revision(response.header().map_or(0, etcd_client::ResponseHeader::revision));
        if response.created() {
            let before = Revision::new(self.from.number().saturating_sub(1));
            self.ready.push_back(WatchItem::Progress(told.min(before)));
        } else if told.next() >= self.from {
            self.from = told.next();
            self.ready.push_back(WatchItem::Progress(told));
        }
    }
}

/// The next answer; `None` when the connection is of no use any more.
async fn receive(open: &mut etcd_client::WatchStream, ask: bool) -> Option<WatchResponse> {
    let give_up = tokio::time::Instant::now() + SILENCE;
    loop {
        match tokio::time::timeout(ASK_EVERY, open.message()).await {
            Ok(Ok(Some(response))) => return Some(response),
            Ok(Ok(None)) => return None,
            Ok(Err(error)) => {
                tracing::warn!(%error, "a watch on etcd broke; resuming");
                return None;
            }
            Err(_) if ask && tokio::time::Instant::now() > give_up => return None,
            Err(_) if ask => {
                open.request_progress().await.ok()?;
            }
            Err(_) => {}
        }
    }
}

fn convert(event: &etcd_client::Event) -> StoreResult<Event> {
    let found =
        event.kv().ok_or_else(|| StoreError::Corrupt { detail: "an event without a key".to_owned() })?;
    let previous = event.prev_kv().cloned().map(entry).transpose()?;
    let (kind, value) = match event.event_type() {
        EventType::Delete => (EventKind::Deleted, None),
        EventType::Put if found.create_revision() == found.mod_revision() => {
            (EventKind::Created, Some(Bytes::copy_from_slice(found.value())))
        }
        EventType::Put => (EventKind::Updated, Some(Bytes::copy_from_slice(found.value()))),
    };
    Ok(Event { kind, key: key(found.key())?, revision: revision(found.mod_revision()), value, previous })
}
