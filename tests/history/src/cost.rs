//! Measurement of the bytes that etcd sends for the reads of a server.

use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use serde_json::{Value, json};

use crate::client;
use crate::etcd::EtcdCluster;
use crate::replica::Replica;
use crate::writers::{GADGETS, gadget};

/// Number of objects, and the size of each one in bytes.
const OBJECTS: (usize, usize) = (20, 100_000);

/// Result of the measurement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReadCost {
    /// Bytes of the server's responses.
    pub response_bytes: usize,
    /// Bytes that etcd sent to all clients at the same time.
    pub etcd_bytes: u64,
}

/// Lists all objects and reads one object, `reads` times, one after the other and without a revision.
///
/// # Errors
/// Returns an error if the test environment does not work.
pub async fn sent_for_reads(server: &Path, reads: usize) -> anyhow::Result<ReadCost> {
    let etcd = EtcdCluster::start(1).await?;
    let logs = tempfile::tempdir()?;
    let replica = Replica::start(server, &etcd.endpoints(), None, logs.path().join("log")).await?;
    let port = replica.port();
    for index in 0..OBJECTS.0 {
        let mut object = gadget(&format!("g{index}"), &"x".repeat(OBJECTS.1));
        object["spec"]["count"] = json!(index);
        let (code, response) = client::send(port, "POST", GADGETS, Some(&object)).await?;
        anyhow::ensure!(code == 201, "{response}");
    }
    // By then the server's own watch has received the last object.
    let (code, _) = client::send(port, "GET", GADGETS, None).await?;
    anyhow::ensure!(code == 200, "the objects cannot be listed");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let before = etcd.sent_bytes().await?;
    let mut response_bytes = 0;
    for _ in 0..reads {
        for path in [GADGETS.to_owned(), format!("{GADGETS}/g0")] {
            let (code, response) = client::send(port, "GET", &path, None).await?;
            anyhow::ensure!(code == 200, "{response}");
            let items = response.get("items").and_then(Value::as_array).map_or(1, Vec::len);
            anyhow::ensure!(items == 1 || items == OBJECTS.0, "{items} objects");
            response_bytes += response.to_string().len();
        }
    }
    let etcd_bytes = etcd.sent_bytes().await?.checked_sub(before).context("etcd counts backwards")?;
    Ok(ReadCost { response_bytes, etcd_bytes })
}
