//! Copies of one stored object, written into etcd as its server would have stored them.

use std::ops::Range;
use std::sync::Mutex;

use anyhow::{Context, ensure};
use etcd_client::{Client, GetOptions};
use futures::future::try_join_all;

use bench_kinds::SHARDS;

/// Writes copies of the object `first` of a namespace, by its name and its revision, each with a name and a uid of
/// its own.
pub(crate) async fn copies(
    etcd: &str,
    namespace: &str,
    first: (&str, i64),
    numbers: Range<usize>,
    name: fn(usize) -> String,
    in_flight: usize,
) -> anyhow::Result<()> {
    let client = Client::connect([etcd], None).await?;
    let (first, revision) = first;
    let (key, value) = find(&client, &format!("/{namespace}/{first}"), revision).await?;
    let uid =
        uid(&value).with_context(|| format!("{key} is stored in a form that cannot be copied"))?.to_owned();
    let numbers = Mutex::new(numbers);
    let next = || numbers.lock().unwrap_or_else(std::sync::PoisonError::into_inner).next();
    try_join_all((0..in_flight).map(|_| async {
        let mut client = client.kv_client();
        while let Some(number) = next() {
            let name = name(number);
            let copied = value.replace(&format!("\"{first}\""), &format!("\"{name}\""));
            let shard = |number: usize| format!("\"lab.example.com/shard\":\"{}\"", number % SHARDS);
            let copied = copied.replace(&shard(0), &shard(number));
            let tail = format!("{number:012}");
            let copied = copied.replace(&uid, &format!("{}{tail}", &uid[..uid.len() - tail.len()]));
            client.put(key.replace(first, &name), copied, None).await?;
        }
        anyhow::Ok(())
    }))
    .await?;
    Ok(())
}

/// The key with this end, and its value. Several servers may have such a key: it is the one written last, at this
/// revision or later.
async fn find(client: &Client, end: &str, revision: i64) -> anyhow::Result<(String, String)> {
    let mut client = client.kv_client();
    let options = GetOptions::new().with_prefix().with_keys_only().with_min_mod_revision(revision);
    let keys = client.get("/", Some(options)).await?;
    let keys: Vec<&str> = keys.kvs().iter().filter_map(|entry| entry.key_str().ok()).collect();
    let found: Vec<&str> = keys.into_iter().filter(|key| key.ends_with(end)).collect();
    ensure!(found.len() == 1, "one key should end with {end}, not {}", found.len());
    let key = found[0].to_owned();
    let value = client.get(key.as_str(), None).await?;
    let value = value.kvs().first().context("the object has gone")?.value_str()?.to_owned();
    Ok((key, value))
}

/// The object's uid: as long as every uid.
fn uid(value: &str) -> Option<&str> {
    let (_, rest) = value.split_once("\"uid\":\"")?;
    rest.get(..36)
}
