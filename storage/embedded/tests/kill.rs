//! Test of kills: it kills a process that writes under load, at moments drawn from a seed, and checks that every
//! acknowledged write is there, and no torn one.

#![allow(clippy::disallowed_methods, reason = "a test awaits its tasks, or ends with them")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use storage_contract::{Entry, Event, Key, KeyRange, ListOptions, Revision, Store, StoreError, WatchItem};
use storage_embedded::EmbeddedStore;

/// Environment variable of the child process: the store that it writes to.
const CHILD: &str = "CAPSTAN_KILL_TEST_STORE";

/// Number of kills: enough to hit commits, compactions and openings at different points, few enough to take seconds.
const ROUNDS: u64 = 30;

/// Seed of the moments of the kills.
const SEED: u64 = 20_260_119;

/// Distance of the child's compaction from the newest revision: less than a round writes.
const KEPT: u64 = 300;

/// An acknowledged write: key, revision and the seed of its value; a deletion has none.
type Acknowledged = Vec<(String, u64, Option<u64>)>;

/// A pause before the kill, in milliseconds. Every fifth is short, to hit the opening.
fn pause(round: u64) -> u64 {
    let mixed = (SEED ^ round).wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 33;
    if round % 5 == 4 { 5 + mixed % 60 } else { 150 + mixed % 210 }
}

/// A value whose bytes all follow from its first: a half-written one does not.
fn value(seed: u64) -> Bytes {
    let body = (0..500).map(|index: u64| (seed.wrapping_mul(31).wrapping_add(index) % 251).to_le_bytes()[0]);
    seed.to_le_bytes().into_iter().chain(body).collect()
}

/// The seed of a value that is whole.
fn seed_of(found: &Bytes) -> Option<u64> {
    let seed = found.get(..8).and_then(|bytes| bytes.try_into().ok()).map(u64::from_le_bytes);
    seed.filter(|seed| value(*seed) == *found)
}

/// Writes until it is killed, and prints the acknowledged writes on standard output.
async fn write_until_killed(path: &Path) {
    let store = Arc::new(EmbeddedStore::open(path).unwrap());
    let writers = (0..8).map(|writer| {
        let store = Arc::clone(&store);
        tokio::spawn(async move {
            for count in 0_u64.. {
                let key = Key::new(format!("/kill/w{writer}-{}", count % 7)).unwrap();
                let seed = count * 8 + writer;
                let (written, seed) = match store.get(&key).await.unwrap() {
                    None => (store.create(&key, value(seed)).await, seed.to_string()),
                    Some(entry) if count % 5 == 4 => {
                        (store.delete(&key, entry.modified).await, "-".to_owned())
                    }
                    Some(entry) => (store.update(&key, entry.modified, value(seed)).await, seed.to_string()),
                };
                let revision = written.unwrap();
                // One write to the pipe a line: a killed writer leaves no half line that parses.
                let line = format!("ack {key} {revision} {seed} .\n");
                std::io::stdout().write_all(line.as_bytes()).unwrap();
                if writer == 0 && count % 10 == 9 {
                    let far = Revision::new(revision.number().saturating_sub(KEPT));
                    store.compact(far).await.unwrap();
                }
            }
        })
    });
    futures::future::join_all(writers).await;
}

fn kill_after(path: &Path, pause: Duration) -> Acknowledged {
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "a_killed_process_loses_nothing_it_acknowledged", "--nocapture"])
        .env(CHILD, path)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let output = child.stdout.take().unwrap();
    let reader = std::thread::spawn(move || {
        let lines = BufReader::new(output).lines().map_while(Result::ok);
        lines.filter_map(|line| acknowledgement(&line)).collect()
    });
    std::thread::sleep(pause);
    child.kill().unwrap();
    child.wait().unwrap();
    reader.join().unwrap()
}

/// The test runner may have written before it on the same line.
fn acknowledgement(line: &str) -> Option<(String, u64, Option<u64>)> {
    let mut words = line.split(' ').skip_while(|word| !word.ends_with("ack")).skip(1);
    let (key, revision, seed) = (words.next()?, words.next()?.parse().ok()?, words.next()?);
    (words.next() == Some(".")).then(|| (key.to_owned(), revision, seed.parse().ok()))
}

#[test]
fn a_killed_process_loses_nothing_it_acknowledged() {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
    if let Some(path) = std::env::var_os(CHILD) {
        return runtime.block_on(write_until_killed(Path::new(&path)));
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("store.redb");
    let (mut total, mut compared) = (0, 0);
    for round in 0..ROUNDS {
        let acknowledged = kill_after(&path, Duration::from_millis(pause(round)));
        total += acknowledged.len();
        compared += runtime.block_on(check(&path, &acknowledged, round));
    }
    assert!(total > 100, "the writers hardly wrote: {total} acknowledgements in {ROUNDS} rounds");
    // A fast machine writes many more in each round than the compaction leaves in the log.
    let kept = usize::try_from(KEPT * ROUNDS).unwrap();
    assert!(
        compared * 2 > total.min(kept),
        "of {total} acknowledgements only {compared} were still in the log"
    );
}

type State = BTreeMap<Key, Entry>;

async fn state(store: &EmbeddedStore, revision: Option<Revision>) -> State {
    let options = ListOptions { limit: 0, revision };
    let page = store.list(&KeyRange::prefix("/"), &options).await.unwrap();
    page.entries.into_iter().map(|entry| (entry.key.clone(), entry)).collect()
}

/// Compares the store with the acknowledged writes, and its log, history and current entries with each other. Returns
/// the number of acknowledgements that the log still has.
async fn check(path: &Path, acknowledged: &Acknowledged, round: u64) -> usize {
    let store = EmbeddedStore::open(path).unwrap();
    let newest = store.current_revision().await.unwrap();
    let (oldest, log) = read_log(&store, newest).await;
    let revisions: Vec<u64> = log.keys().copied().collect();
    let first = oldest.number().max(2);
    assert_eq!(revisions, (first..=newest.number()).collect::<Vec<_>>(), "round {round}: the log has holes");

    // From the oldest kept moment the log leads to the present.
    let mut replayed =
        if oldest == Revision::NONE { State::new() } else { state(&store, Some(oldest)).await };
    for event in log.values().filter(|event| event.revision > oldest) {
        assert_eq!(replayed.remove(&event.key), event.previous, "round {round}: before {}", event.revision);
        if let Some(value) = &event.value {
            let created = event.previous.as_ref().map_or(event.revision, |entry| entry.created);
            let (key, modified) = (event.key.clone(), event.revision);
            replayed.insert(key.clone(), Entry { key, value: value.clone(), modified, created });
        }
    }
    let present = state(&store, None).await;
    assert_eq!(replayed, present, "round {round}: the log and the present disagree");
    for entry in present.values() {
        assert!(seed_of(&entry.value).is_some(), "round {round}: {} is half written", entry.key);
        assert_eq!(store.get(&entry.key).await.unwrap().as_ref(), Some(entry), "round {round}");
    }

    let mut compared = 0;
    for (key, revision, seed) in acknowledged {
        assert!(*revision <= newest.number(), "round {round}: {key} at {revision} is lost");
        if let Some(event) = log.get(revision) {
            assert_eq!(event.key.as_str(), key, "round {round}: at {revision}");
            assert_eq!(
                event.value.as_ref().map(seed_of),
                seed.map(Some),
                "round {round}: {key} at {revision}"
            );
            compared += 1;
        }
    }
    compared
}

/// Returns the oldest revision that is kept, and the change of each revision from there to `newest`.
async fn read_log(store: &EmbeddedStore, newest: Revision) -> (Revision, BTreeMap<u64, Event>) {
    let everything = KeyRange::prefix("/");
    let (oldest, mut stream) = match store.watch(&everything, Revision::NONE).await {
        Ok(stream) => (Revision::NONE, stream),
        Err(StoreError::Compacted { oldest, .. }) => {
            (oldest, store.watch(&everything, oldest).await.unwrap())
        }
        Err(other) => panic!("{other}"),
    };
    let mut log = BTreeMap::new();
    while let Some(item) = stream.next().await {
        match item.unwrap() {
            WatchItem::Event(event) => {
                log.insert(event.revision.number(), event);
            }
            WatchItem::Progress(revision) if revision >= newest => break,
            WatchItem::Progress(_) => {}
        }
    }
    (oldest, log)
}
