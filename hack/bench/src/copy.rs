//! Writer of copies of one stored object into etcd, in the format in which the server stored it.

use std::ops::Range;
use std::sync::Mutex;

use anyhow::Context;
use bytes::Bytes;
use etcd_client::{Client, GetOptions, SortOrder, SortTarget};
use futures::future::try_join_all;
use storage_etcd::compression::{compress, expand};

use bench_kinds::SHARDS;

/// Number of recently written keys to search: the object is among them, because servers write few other keys.
const LATEST: i64 = 100;

/// Writes copies of the object `first` of a namespace, which was just written. Each copy has a name and a uid
/// of its own.
pub(crate) async fn copies(
    etcd: &str,
    namespace: &str,
    first: &str,
    numbers: Range<usize>,
    name: fn(usize) -> String,
    in_flight: usize,
) -> anyhow::Result<()> {
    let client = Client::connect([etcd], None).await?;
    let (key, stored) = find(&client, &format!("/{namespace}/{first}")).await?;
    let value = String::from_utf8(expand(&stored)?.into_owned())?;
    let is_compressed = stored != value;
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
            let copied = Bytes::from(copied);
            let copied = if is_compressed { compress(copied) } else { copied };
            client.put(key.replace(first, &name), copied, None).await?;
        }
        anyhow::Ok(())
    }))
    .await?;
    Ok(())
}

/// Finds the key with this suffix, and its value. If several servers have such a key, the last written one is
/// returned.
async fn find(client: &Client, end: &str) -> anyhow::Result<(String, Bytes)> {
    let mut client = client.kv_client();
    let latest = GetOptions::new().with_prefix().with_keys_only().with_limit(LATEST);
    let latest = latest.with_sort(SortTarget::Mod, SortOrder::Descend);
    let keys = client.get("/", Some(latest)).await?;
    let found = keys.kvs().iter().find(|entry| entry.key().ends_with(end.as_bytes()));
    let key = found.with_context(|| format!("no key ends with {end}"))?.key_str()?.to_owned();
    let value = client.get(key.as_str(), None).await?;
    let value = value.kvs().first().context("the object was deleted")?.value().to_vec();
    Ok((key, Bytes::from(value)))
}

/// Returns the object's uid, which has the length of every uid.
fn uid(value: &str) -> Option<&str> {
    let (_, rest) = value.split_once("\"uid\":\"")?;
    rest.get(..36)
}
