//! Look for servers of releases before the record: they write without comparing it.
//!
//! The first record says that every server compares it. So it is written only if, for a while, nothing changes below the
//! prefix: an older server renews the Lease of its controllers every few seconds.

use std::time::Duration;

use etcd_client::{GetOptions, KvClient, SortOrder, SortTarget};
use storage_contract::{StoreError, StoreResult};
use tokio::time::Instant;

use super::record::NAME;
use super::settle;
use crate::calls::Calls;

/// Interval of the looks. Each reads the keys of the store, without their values.
const INTERVAL: Duration = Duration::from_secs(5);

/// Observes a store that has data but no record, for so long.
///
/// # Errors
/// `Refused`, if another program writes; `Unavailable`.
pub(super) async fn refuse(calls: &Calls, key: &[u8], time: Duration) -> StoreResult<()> {
    if settle::read(calls, key).await?.0.is_some() {
        return Ok(());
    }
    let Some(first) = newest(calls, key).await? else { return Ok(()) };
    tracing::info!(
        seconds = time.as_secs(),
        "etcd has data and no record of its stored form; looking for servers of older releases"
    );
    let end = Instant::now() + time;
    while Instant::now() < end {
        tokio::time::sleep(INTERVAL.min(time)).await;
        let written = newest(calls, key).await?;
        // Another server of this release may have looked, too, and was faster.
        if settle::read(calls, key).await?.0.is_some() {
            return Ok(());
        }
        if written.as_ref() != Some(&first) {
            return Err(refused(written));
        }
    }
    Ok(())
}

/// Key with the newest change, and its revision.
type Write = (String, i64);

/// Returns the key below the prefix that was written last, with the revision of the write.
async fn newest(calls: &Calls, key: &[u8]) -> StoreResult<Option<Write>> {
    let prefix = key.strip_suffix(NAME.as_bytes()).unwrap_or(key);
    let options = || {
        let sorted = GetOptions::new().with_sort(SortTarget::Mod, SortOrder::Descend);
        sorted.with_prefix().with_limit(1).with_keys_only()
    };
    let get = |mut kv: KvClient| async move { kv.get(prefix, Some(options())).await };
    let answer = calls.reading("look for writes of older releases", get).await?;
    let written = |found: &etcd_client::KeyValue| {
        (String::from_utf8_lossy(found.key()).into_owned(), found.mod_revision())
    };
    Ok(answer.kvs().first().map(written))
}

fn refused(written: Option<Write>) -> StoreError {
    let key = written.map_or_else(|| "a key".to_owned(), |(key, _)| key);
    let reason = format!(
        "a server of a release before the record {NAME} still writes ({key}): stop all servers of older releases, then \
         this one continues"
    );
    StoreError::Refused { operation: "begin the first incarnation", reason }
}
