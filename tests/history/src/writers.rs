//! Clients that write.

use std::sync::Arc;
use std::time::Instant;

use serde_json::{Value, json};
use tokio::sync::Mutex;
use tokio_util::sync::CancellationToken;

use crate::client;
use crate::random::Random;
use crate::record::{Content, WriteOutcome, WriteRecord};

/// Path of the objects.
pub(crate) const GADGETS: &str = "/apis/toys.example.com/v1/gadgets";

/// Number of objects: few, so that writers conflict.
const OBJECTS: u64 = 6;

/// Data that all clients of a run share.
#[derive(Clone)]
pub(crate) struct RunContext {
    pub(crate) begun: Instant,
    pub(crate) ports: [u16; 2],
    pub(crate) stop: CancellationToken,
}

impl RunContext {
    /// Returns the port of a random server.
    pub(crate) fn port(&self, random: &mut Random) -> u16 {
        random.pick(&self.ports).copied().unwrap_or_default()
    }
}

/// Returns a random object's name.
pub(crate) fn name(random: &mut Random) -> String {
    format!("g{}", random.below(OBJECTS))
}

/// Returns the content of an object, with its revision.
pub(crate) fn content(object: &Value) -> Option<(u64, Content)> {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).map(str::to_owned);
    let content = Content {
        uid: text("/metadata/uid")?,
        count: object.pointer("/spec/count")?.as_u64()?,
        token: text("/spec/token")?,
    };
    Some((text("/metadata/resourceVersion")?.parse().ok()?, content))
}

/// Returns the labels of a version, which select half of the versions.
fn labels(count: u64) -> Value {
    if count % 2 == 1 { json!({"odd": "true"}) } else { json!({}) }
}

pub(crate) fn gadget(name: &str, token: &str) -> Value {
    json!({"apiVersion": "toys.example.com/v1", "kind": "Gadget",
        "metadata": {"name": name, "labels": labels(1)}, "spec": {"count": 1, "token": token}})
}

/// Writes until the run stops.
pub(crate) async fn run(
    context: RunContext,
    mut random: Random,
    me: usize,
    records: Arc<Mutex<Vec<WriteRecord>>>,
) {
    for number in 0_u64.. {
        if context.stop.is_cancelled() {
            return;
        }
        tokio::time::sleep(random.between(5, 40)).await;
        let key = name(&mut random);
        let token = format!("w{me}-{number}");
        if let Some(outcome) = write(&context, &mut random, &key, &token).await {
            let ended = context.begun.elapsed();
            records.lock().await.push(WriteRecord { key, ended, outcome });
        }
    }
}

/// Makes one write that depends on the object's current state; `None` if it could not be read.
async fn write(context: &RunContext, random: &mut Random, key: &str, token: &str) -> Option<WriteOutcome> {
    let path = format!("{GADGETS}/{key}");
    // It reads from one server and writes to another, so that only the revision protects the update.
    let (code, found) = client::send(context.port(random), "GET", &path, None).await.ok()?;
    let port = context.port(random);
    let response = match (code, random.below(12)) {
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
    Some(outcome(response, &found))
}

fn outcome(response: anyhow::Result<(u16, Value)>, found: &Value) -> WriteOutcome {
    match response {
        Ok((200 | 201, object)) if object["kind"] == "Gadget" => match content(&object) {
            Some((revision, content)) => WriteOutcome::Stored(revision, content),
            None => WriteOutcome::Unknown,
        },
        Ok((200, _)) => {
            WriteOutcome::Deleted(found["metadata"]["uid"].as_str().unwrap_or_default().to_owned())
        }
        Ok((400..=499, _)) => WriteOutcome::Refused,
        Ok(_) | Err(_) => WriteOutcome::Unknown,
    }
}
