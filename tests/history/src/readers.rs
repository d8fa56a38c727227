//! Those who read, naming no revision.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::Value;
use tokio::sync::Mutex;

use crate::client;
use crate::random::Random;
use crate::record::{Content, Read, Seen};
use crate::writers::{GADGETS, Scene, content, name};

/// Reads until told to stop.
pub(crate) async fn run(scene: Scene, mut random: Random, me: usize, records: Arc<Mutex<Vec<Read>>>) {
    while !scene.stop.is_cancelled() {
        tokio::time::sleep(random.between(5, 40)).await;
        let server = usize::try_from(random.below(2)).unwrap_or_default();
        let port = scene.ports.get(server).copied().unwrap_or_default();
        let begun = scene.begun.elapsed();
        let seen = if random.below(3) == 0 {
            list(port).await.map(|(at, items)| Seen::All(at, items))
        } else {
            one(port, &mut random).await
        };
        let Some(seen) = seen else { continue };
        let reader = format!("reader {me} of server {server}");
        let read = Read { reader, begun, ended: scene.begun.elapsed(), seen };
        records.lock().await.push(read);
    }
}

async fn one(port: u16, random: &mut Random) -> Option<Seen> {
    let key = name(random);
    let (code, object) = client::send(port, "GET", &format!("{GADGETS}/{key}"), None).await.ok()?;
    match code {
        200 => Some(Seen::One(key, Some(content(&object)?))),
        404 => Some(Seen::One(key, None)),
        _ => None,
    }
}

/// A consistent list, if there is an answer.
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
