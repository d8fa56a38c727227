//! Clients that read without a revision.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::Mutex;

use crate::client;
use crate::random::Random;
use crate::record::{Content, ReadRecord, ReadResult};
use crate::writers::{GADGETS, RunContext, content, name};

/// Reads until the run stops.
pub(crate) async fn run(
    context: RunContext,
    mut random: Random,
    me: usize,
    records: Arc<Mutex<Vec<ReadRecord>>>,
) {
    while !context.stop.is_cancelled() {
        tokio::time::sleep(random.between(5, 40)).await;
        let server = usize::try_from(random.below(2)).unwrap_or_default();
        let port = context.ports.get(server).copied().unwrap_or_default();
        let begun = context.begun.elapsed();
        let result = if random.below(3) == 0 {
            list(port).await.map(|(at, items)| ReadResult::All(at, items))
        } else {
            one(port, &mut random).await
        };
        let Some(result) = result else { continue };
        let reader = format!("reader {me} of server {server}");
        let read = ReadRecord { reader, begun, ended: context.begun.elapsed(), result };
        records.lock().await.push(read);
    }
}

async fn one(port: u16, random: &mut Random) -> Option<ReadResult> {
    let key = name(random);
    let (code, object) = client::send(port, "GET", &format!("{GADGETS}/{key}"), None).await.ok()?;
    match code {
        200 => Some(ReadResult::One(key, Some(content(&object)?))),
        404 => Some(ReadResult::One(key, None)),
        _ => None,
    }
}

/// Reads a consistent list, if there is a response.
pub(crate) async fn list(port: u16) -> Option<(u64, BTreeMap<String, (u64, Content)>)> {
    let (code, list) = client::send(port, "GET", GADGETS, None).await.ok()?;
    let revision = list.pointer("/metadata/resourceVersion").and_then(Value::as_str)?.parse().ok()?;
    let items = list.get("items").filter(|_| code == 200)?.as_array()?;
    let named = items.iter().map(|item| {
        let name = item.pointer("/metadata/name").and_then(Value::as_str)?;
        Some((name.to_owned(), content(item)?))
    });
    Some((revision, named.collect::<Option<_>>()?))
}
