//! Kills a process that writes under load, at moments drawn from a seed, and looks at what is left:
//! every acknowledged write, and no half one.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by panicking")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use storage_contract::{Key, KeyRange, ListOptions, Revision, Store, WatchItem};
use storage_embedded::EmbeddedStore;

/// Set in the child: the store it writes to.
const CHILD: &str = "CAPSTAN_KILL_TEST_STORE";

/// Enough to hit commits at different points, few enough to take seconds.
const ROUNDS: u64 = 25;

/// A value whose bytes all follow from its first: a half-written one does not.
fn value(seed: u64) -> Bytes {
    let body = (0..500).map(|index: u64| (seed.wrapping_mul(31).wrapping_add(index) % 251).to_le_bytes()[0]);
    seed.to_le_bytes().into_iter().chain(body).collect()
}

fn is_whole(found: &Bytes) -> bool {
    let seed = found.get(..8).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
    seed.is_some_and(|seed| value(seed) == *found)
}

/// Writes until it is killed, and says on standard output what was acknowledged.
async fn write_for_ever(path: &Path) {
    let store = Arc::new(EmbeddedStore::open(path).unwrap());
    let writers = (0..8).map(|writer| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            for count in 0_u64.. {
                let key = Key::new(format!("/kill/w{writer}-{}", count % 7)).unwrap();
                let seed = count * 8 + writer;
                let written = match store.get(&key).await.unwrap() {
                    None => store.create(&key, value(seed)).await,
                    Some(entry) if count % 5 == 4 => store.delete(&key, entry.modified).await,
                    Some(entry) => store.update(&key, entry.modified, value(seed)).await,
                };
                let revision = written.unwrap();
                // One write to the pipe a line: a killed writer leaves no half line that parses.
                use std::io::Write;
                let line = format!("ack {key} {revision}\n");
                std::io::stdout().write_all(line.as_bytes()).unwrap();
            }
        })
    });
    futures::future::join_all(writers).await;
}

fn kill_after(path: &Path, pause: Duration) -> BTreeMap<String, u64> {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_killed_process_loses_nothing_it_acknowledged", "--nocapture"])
        .env(CHILD, path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let output = child.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        let mut acknowledged = BTreeMap::new();
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            let mut words = line.split(' ').skip_while(|word| !word.ends_with("ack")).skip(1);
            if let (Some(key), Some(Ok(revision))) = (words.next(), words.next().map(str::parse)) {
                acknowledged.insert(key.to_owned(), revision);
            }
        }
        acknowledged
    });
    std::thread::sleep(pause);
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap()
}

#[test]
fn a_killed_process_loses_nothing_it_acknowledged() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    if let Some(path) = std::env::var_os(CHILD) {
        return runtime.block_on(write_for_ever(Path::new(&path)));
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.redb");
    let mut total = 0;
    for round in 0..ROUNDS {
        let pause = Duration::from_millis(150 + round * 7919 % 211);
        let acknowledged = kill_after(&path, pause);
        total += acknowledged.len();
        runtime.block_on(check(&path, &acknowledged, round));
    }
    assert!(total > 100, "the writers hardly wrote: {total} acknowledgements in {ROUNDS} rounds");
}

async fn check(path: &Path, acknowledged: &BTreeMap<String, u64>, round: u64) {
    let store = EmbeddedStore::open(path).unwrap();
    let newest = store.current_revision().await.unwrap().number();
    let page = store.list(&KeyRange::prefix("/kill/"), &ListOptions::default()).await.unwrap();
    let found: BTreeMap<&str, _> = page.entries.iter().map(|entry| (entry.key.as_str(), entry)).collect();
    for entry in &page.entries {
        assert!(is_whole(&entry.value), "round {round}: {} is half written", entry.key);
        let got = store.get(&entry.key).await.unwrap();
        assert_eq!(got.as_ref(), Some(entry), "round {round}");
    }
    let log = read_log(&store, newest).await;
    let revisions: Vec<u64> = log.keys().copied().collect();
    assert_eq!(revisions, (2..=newest).collect::<Vec<_>>(), "round {round}: the log has holes");
    for (key, revision) in acknowledged {
        assert_eq!(log.get(revision), Some(key), "round {round}: {key} at {revision} is lost");
        if let Some(entry) = found.get(key.as_str()) {
            assert!(entry.modified.number() >= *revision, "round {round}: {key} went back from {revision}");
        }
    }
}

/// Which key each revision wrote, from the first to `newest`.
async fn read_log(store: &EmbeddedStore, newest: u64) -> BTreeMap<u64, String> {
    let mut log = BTreeMap::new();
    let mut stream = store.watch(&KeyRange::prefix("/"), Revision::new(1)).await.unwrap();
    while let Some(item) = stream.next().await {
        match item.unwrap() {
            WatchItem::Event(event) => {
                log.insert(event.revision.number(), event.key.as_str().to_owned());
            }
            WatchItem::Progress(revision) if revision.number() >= newest => break,
            WatchItem::Progress(_) => {}
        }
    }
    log
}
