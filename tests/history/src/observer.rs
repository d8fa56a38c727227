//! What etcd itself tells, read past everything that is tested: the one who misses nothing, because
//! nothing is compacted that it has not seen.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use anyhow::Context;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use tokio_util::sync::CancellationToken;

use crate::client::Stream;
use crate::record::{Content, Selection, Told, Watcher};

/// Where the servers keep the objects, and the first key after them.
const KEYS: (&str, &str) = ("/capstan/toys.example.com/gadgets/", "/capstan/toys.example.com/gadgets0");

/// Revisions of the servers' for each of etcd's: the last change of a transaction has etcd's times so many, and each
/// before it one less.
pub(crate) const EACH: u64 = 100;

/// What a value ends with, followed by two digits, that so many changes of its transaction come after.
const MARK: &[u8] = b"\n//then:";

/// Pause before another member is asked.
const PAUSE: Duration = Duration::from_millis(50);

/// How far it has seen.
pub(crate) type Progress = Arc<AtomicU64>;

/// Watches until it has seen `last`.
pub(crate) async fn run(ports: Vec<u16>, seen: Progress, last: tokio::sync::watch::Receiver<u64>) -> Watcher {
    let told = vec![Told::State(0, std::collections::BTreeMap::new())];
    let mut watcher = Watcher { name: "etcd itself".to_owned(), selection: Selection::All, told };
    let over = CancellationToken::new();
    for port in ports.iter().cycle() {
        // A member that is down, or not in the majority, is as good as any to ask in vain.
        let _ = follow(*port, &seen, &last, &mut watcher, &over).await;
        if over.is_cancelled() {
            break;
        }
        tokio::time::sleep(PAUSE).await;
    }
    watcher
}

async fn follow(
    port: u16,
    seen: &Progress,
    last: &tokio::sync::watch::Receiver<u64>,
    watcher: &mut Watcher,
    over: &CancellationToken,
) -> anyhow::Result<()> {
    let start = (seen.load(Ordering::Relaxed) + 1).div_ceil(EACH);
    let create = json!({"key": STANDARD.encode(KEYS.0), "range_end": STANDARD.encode(KEYS.1),
        "prev_kv": true, "start_revision": start.to_string()});
    let mut stream = Stream::ask(port, "POST", "/v3/watch", Some(&json!({"create_request": create}))).await?;
    let mut end = last.clone();
    loop {
        let answer = tokio::select! {
            answer = stream.next() => answer.context("the stream ended")?,
            Ok(_) = end.wait_for(|last| *last > 0 && seen.load(Ordering::Relaxed) >= *last) => {
                over.cancel();
                return Ok(());
            }
        };
        let result = answer.get("result").context("an error")?;
        for event in result.get("events").and_then(Value::as_array).into_iter().flatten() {
            let (revision, told) = told(event).context("an event without a name")?;
            if revision > seen.load(Ordering::Relaxed) {
                watcher.told.push(told);
                seen.store(revision, Ordering::Relaxed);
            }
        }
        let last = *last.borrow();
        if last > 0 && seen.load(Ordering::Relaxed) >= last {
            over.cancel();
            return Ok(());
        }
    }
}

fn told(event: &Value) -> Option<(u64, Told)> {
    let text = |path: &str| event.pointer(path).and_then(Value::as_str);
    let transaction: u64 = text("/kv/mod_revision")?.parse().ok()?;
    let key = String::from_utf8(STANDARD.decode(text("/kv/key")?).ok()?).ok()?;
    let name = key.strip_prefix(KEYS.0)?.to_owned();
    Some(if text("/type") == Some("DELETE") {
        let revision = transaction * EACH;
        (revision, Told::Gone(revision, name, content(text("/prev_kv/value")?)?.1))
    } else {
        let (others, content) = content(text("/kv/value")?)?;
        let revision = transaction * EACH - others;
        (revision, Told::Put(revision, name, content))
    })
}

/// What a value is, and how many changes of its transaction come after it.
fn content(value: &str) -> Option<(u64, Content)> {
    let kept = STANDARD.decode(value).ok()?;
    let (object, others) =
        match kept.len().checked_sub(MARK.len() + 2).and_then(|end| kept.split_at_checked(end)) {
            Some((object, mark)) if mark.starts_with(MARK) => {
                (object, std::str::from_utf8(&mark[MARK.len()..]).ok()?.parse().ok()?)
            }
            _ => (kept.as_slice(), 0),
        };
    let object: Value = serde_json::from_slice(object).ok()?;
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).map(str::to_owned);
    let content = Content {
        uid: text("/metadata/uid")?,
        count: object.pointer("/spec/count")?.as_u64()?,
        token: text("/spec/token")?,
    };
    Some((others, content))
}
