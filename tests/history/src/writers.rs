//! Those who write.

use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::client;
use crate::random::Random;
use crate::record::{Content, Outcome, Write};

/// Where the objects are.
pub(crate) const GADGETS: &str = "/apis/toys.example.com/v1/gadgets";

/// How many there are: few, so that writers meet.
const OBJECTS: u64 = 6;

/// What all who take part share.
#[derive(Clone)]
pub(crate) struct Scene {
    pub(crate) begun: Instant,
    pub(crate) ports: [u16; 2],
    pub(crate) stop: CancellationToken,
}

impl Scene {
    /// One of the servers.
    pub(crate) fn port(&self, random: &mut Random) -> u16 {
        random.pick(&self.ports).copied().unwrap_or_default()
    }
}

/// The name of one of the objects.
pub(crate) fn name(random: &mut Random) -> String {
    format!("g{}", random.below(OBJECTS))
}

/// What an object says of itself, with its revision.
pub(crate) fn content(object: &Value) -> Option<(u64, Content)> {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).map(str::to_owned);
    let content = Content {
        uid: text("/metadata/uid")?,
        count: object.pointer("/spec/count")?.as_u64()?,
        token: text("/spec/token")?,
    };
    Some((text("/metadata/resourceVersion")?.parse().ok()?, content))
}

/// Its labels, by which half of its versions are selected.
fn labels(count: u64) -> Value {
    if count % 2 == 1 { json!({"odd": "true"}) } else { json!({}) }
}

pub(crate) fn gadget(name: &str, token: &str) -> Value {
    json!({"apiVersion": "toys.example.com/v1", "kind": "Gadget",
        "metadata": {"name": name, "labels": labels(1)}, "spec": {"count": 1, "token": token}})
}

/// Writes until told to stop.
pub(crate) async fn run(scene: Scene, mut random: Random, me: usize, records: Arc<Mutex<Vec<Write>>>) {
    for number in 0_u64.. {
        if scene.stop.is_cancelled() {
            return;
        }
        tokio::time::sleep(random.between(5, 40)).await;
        let key = name(&mut random);
        let token = format!("w{me}-{number}");
        if let Some(outcome) = write(&scene, &mut random, &key, &token).await {
            let ended = scene.begun.elapsed();
            records.lock().await.push(Write { key, ended, outcome });
        }
    }
}

/// One write of an object as it is found; `None` when it could not be read.
async fn write(scene: &Scene, random: &mut Random, key: &str, token: &str) -> Option<Outcome> {
    let path = format!("{GADGETS}/{key}");
    // Read here and written there, so that nothing helps but the revision.
    let (code, found) = client::send(scene.port(random), "GET", &path, None).await.ok()?;
    let port = scene.port(random);
    let sent = match (code, random.below(12)) {
        (404, _) => client::send(port, "POST", GADGETS, Some(&gadget(key, token))).await,
        (200, 0) => {
            let preconditions = json!({"uid": found["metadata"]["uid"]});
            let options = json!({"kind": "DeleteOptions", "preconditions": preconditions});
            client::send(port, "DELETE", &path, Some(&options)).await
        }
        (200, _) => {
            let (_, old) = content(&found)?;
            let mut next = found.clone();
            next["spec"] = json!({"count": old.count + 1, "token": token});
            next["metadata"]["labels"] = labels(old.count + 1);
            client::send(port, "PUT", &path, Some(&next)).await
        }
        _ => return None,
    };
    Some(outcome(sent, &found))
}

fn outcome(sent: anyhow::Result<(u16, Value)>, found: &Value) -> Outcome {
    match sent {
        Ok((200 | 201, object)) if object["kind"] == "Gadget" => match content(&object) {
            Some((revision, content)) => Outcome::Stored(revision, content),
            None => Outcome::Unknown,
        },
        Ok((200, _)) => Outcome::Deleted(found["metadata"]["uid"].as_str().unwrap_or_default().to_owned()),
        Ok((400..=499, _)) => Outcome::Refused,
        Ok(_) | Err(_) => Outcome::Unknown,
    }
}
