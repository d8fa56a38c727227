//! What etcd sends for the reads of a server.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};

use crate::client;
use crate::etcd::Etcd;
use crate::replica::Replica;
use crate::writers::{GADGETS, gadget};

/// How many objects there are, and how large each is. Unit of the second: bytes.
const OBJECTS: (usize, usize) = (20, 100_000);

/// What was measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost {
    /// What the server answered. Unit: bytes.
    pub answered: usize,
    /// What etcd sent meanwhile, to everybody. Unit: bytes.
    pub sent: u64,
}

/// Reads everything `reads` times, naming no revision, one after the other.
///
/// # Errors
/// When the laboratory itself does not work.
pub async fn sent_for_reads(server: &Path, reads: usize) -> anyhow::Result<Cost> {
    let etcd = Etcd::start(1).await?;
    let logs = tempfile::tempdir()?;
    let replica = Replica::start(server, &etcd.endpoints(), None, logs.path().join("log")).await?;
    let port = replica.port();
    for index in 0..OBJECTS.0 {
        let mut object = gadget(&format!("g{index}"), &"x".repeat(OBJECTS.1));
        object["spec"]["count"] = json!(index);
        let (code, answer) = client::send(port, "POST", GADGETS, Some(&object)).await?;
        anyhow::ensure!(code == 201, "{answer}");
    }
    // The server's own watch has the last of them by then.
    let (code, _) = client::send(port, "GET", GADGETS, None).await?;
    anyhow::ensure!(code == 200, "the objects cannot be listed");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = etcd.sent().await?;
    let mut answered = 0;
    for _ in 0..reads {
        for path in [GADGETS.to_owned(), format!("{GADGETS}/g0")] {
            let (code, answer) = client::send(port, "GET", &path, None).await?;
            anyhow::ensure!(code == 200, "{answer}");
            let items = answer.get("items").and_then(Value::as_array).map_or(1, Vec::len);
            anyhow::ensure!(items == 1 || items == OBJECTS.0, "{items} objects");
            answered += answer.to_string().len();
        }
    }
    let sent = etcd.sent().await?.checked_sub(before).context("etcd counts backwards")?;
    Ok(Cost { answered, sent })
}
