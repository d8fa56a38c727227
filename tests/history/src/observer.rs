//! Observer: watches etcd directly, without the code under test. It misses no change, because only history
//! that it has received is compacted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::client::Stream;
use crate::record::{Content, Delivery, Selection, Watcher};

/// Prefix of the objects' keys in etcd, and the first key after them.
const KEYS: (&str, &str) = ("/capstan/toys.example.com/gadgets/", "/capstan/toys.example.com/gadgets0");

/// Number of the servers' revisions per etcd revision. The last change of a transaction has the etcd revision
/// times this number, and each change before it one less.
pub(crate) const REVISIONS_PER_TRANSACTION: u64 = 100;

/// Suffix of a value, followed by two digits: the number of later changes in the same transaction.
const SUFFIX: &[u8] = b"\n//then:";

/// Pause before the next member is tried.
const RETRY_INTERVAL: Duration = Duration::from_millis(50);

/// Newest revision that the observer has received.
pub(crate) type Progress = Arc<AtomicU64>;

/// Watches until it has received `last`.
pub(crate) async fn run(
    ports: Vec<u16>,
    progress: Progress,
    last: tokio::sync::watch::Receiver<u64>,
) -> Watcher {
    let deliveries = vec![Delivery::State(0, std::collections::BTreeMap::new())];
    let mut watcher = Watcher { name: "etcd itself".to_owned(), selection: Selection::All, deliveries };
    let is_over = CancellationToken::new();
    for port in ports.iter().cycle() {
        // A member that is down, or not part of the majority, fails; the next one is tried.
        let _ = follow(*port, &progress, &last, &mut watcher, &is_over).await;
        if is_over.is_cancelled() {
            break;
        }
        tokio::time::sleep(RETRY_INTERVAL).await;
    }
    watcher
}

async fn follow(
    port: u16,
    progress: &Progress,
    last: &tokio::sync::watch::Receiver<u64>,
    watcher: &mut Watcher,
    is_over: &CancellationToken,
) -> anyhow::Result<()> {
    let start = (progress.load(Ordering::Relaxed) + 1).div_ceil(REVISIONS_PER_TRANSACTION);
    let create = json!({"key": STANDARD.encode(KEYS.0), "range_end": STANDARD.encode(KEYS.1),
        "prev_kv": true, "start_revision": start.to_string()});
    let mut stream =
        Stream::send(port, "POST", "/v3/watch", Some(&json!({"create_request": create}))).await?;
    let mut end = last.clone();
    loop {
        let event_batch = tokio::select! {
            event_batch = stream.next() => event_batch.context("the stream ended")?,
            Ok(_) = end.wait_for(|last| *last > 0 && progress.load(Ordering::Relaxed) >= *last) => {
                is_over.cancel();
                return Ok(());
            }
        };
        let result = event_batch.get("result").context("an error")?;
        for event in result.get("events").and_then(Value::as_array).into_iter().flatten() {
            let (revision, delivery) = delivery(event).context("an event without a name")?;
            if revision > progress.load(Ordering::Relaxed) {
                watcher.deliveries.push(delivery);
                progress.store(revision, Ordering::Relaxed);
            }
        }
        let last = *last.borrow();
        if last > 0 && progress.load(Ordering::Relaxed) >= last {
            is_over.cancel();
            return Ok(());
        }
    }
}

fn delivery(event: &Value) -> Option<(u64, Delivery)> {
    let text = |path: &str| event.pointer(path).and_then(Value::as_str);
    let transaction: u64 = text("/kv/mod_revision")?.parse().ok()?;
    let key = String::from_utf8(STANDARD.decode(text("/kv/key")?).ok()?).ok()?;
    let name = key.strip_prefix(KEYS.0)?.to_owned();
    Some(if text("/type") == Some("DELETE") {
        let revision = transaction * REVISIONS_PER_TRANSACTION;
        (revision, Delivery::Gone(revision, name, content(text("/prev_kv/value")?)?.1))
    } else {
        let (later, content) = content(text("/kv/value")?)?;
        let revision = transaction * REVISIONS_PER_TRANSACTION - later;
        (revision, Delivery::Put(revision, name, content))
    })
}

/// Returns the content of a value, and the number of later changes in its transaction.
fn content(value: &str) -> Option<(u64, Content)> {
    let value = STANDARD.decode(value).ok()?;
    let (object, later) =
        match value.len().checked_sub(SUFFIX.len() + 2).and_then(|end| value.split_at_checked(end)) {
            Some((object, suffix)) if suffix.starts_with(SUFFIX) => {
                (object, std::str::from_utf8(&suffix[SUFFIX.len()..]).ok()?.parse().ok()?)
            }
            _ => (value.as_slice(), 0),
        };
    let object: Value = serde_json::from_slice(object).ok()?;
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).map(str::to_owned);
    let content = Content {
        uid: text("/metadata/uid")?,
        count: object.pointer("/spec/count")?.as_u64()?,
        token: text("/spec/token")?,
    };
    Some((later, content))
}
