//! Tests of the recorded time.

use bytes::Bytes;
use storage_contract::Key;
use storage_embedded::EmbeddedStore;

use super::*;
use crate::replicas::Replica;

/// Recorded time of a store, with a correction of its own: that of the process is for all tests.
fn recorded_time() -> (tempfile::TempDir, RecordedTime) {
    let directory = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(&directory.path().join("store")).unwrap();
    let time = RecordedTime::new(Arc::new(store), Arc::default());
    (directory, restarted(&time))
}

/// Returns the recorded time of the same store in another process.
fn restarted(time: &RecordedTime) -> RecordedTime {
    let correction = Box::leak(Box::new(ClockCorrection::none()));
    RecordedTime { correction, is_compared: Arc::default(), ..time.clone() }
}

fn from_now(seconds: i64) -> Timestamp {
    Timestamp::now() + SignedDuration::from_secs(seconds)
}

/// Writes the record of a replica that was renewed at a time.
async fn renew(time: &RecordedTime, id: &str, renewed: Timestamp) {
    let mut replica = Replica::of_this_process(String::new());
    replica.renewed = renewed;
    let key = Key::new(format!("/capstan/replicas/{id}")).unwrap();
    let value = Bytes::from(serde_json::to_vec(&replica).unwrap());
    time.values.store.create(&key, value).await.unwrap();
}

#[tokio::test]
async fn tm_25_without_a_host_a_clock_that_was_set_back_is_corrected_from_the_start() {
    let (_directory, time) = recorded_time();
    time.begin().await;
    assert_eq!((time.correction.seconds(), time.metric.get()), (0, 0), "an empty store knows no time");
    time.record(from_now(3600)).await.unwrap();
    time.record(from_now(-3600)).await.unwrap();
    time.compare().await.unwrap();
    assert_eq!(time.correction.seconds(), 0, "another replica may have recorded it while this one runs");

    let next = restarted(&time);
    next.begin().await;
    let found = next.correction.seconds();
    assert!((3590..=3600).contains(&found), "{found}");
    assert_eq!(u64::try_from(next.metric.get()).unwrap(), found);
}

#[tokio::test]
async fn tm_25_the_record_of_a_replica_that_was_killed_counts_too() {
    let (_directory, time) = recorded_time();
    renew(&time, "a", from_now(7200)).await;
    time.begin().await;
    assert!((7190..=7200).contains(&time.correction.seconds()));
}

#[tokio::test]
async fn tm_25_the_correction_ends_when_the_clock_is_right_and_never_grows() {
    let (_directory, time) = recorded_time();
    time.record(from_now(3600)).await.unwrap();
    time.begin().await;
    let before = time.correction.seconds();
    renew(&time, "a", from_now(7200)).await;
    time.compare().await.unwrap();
    assert!(time.correction.seconds() <= before);
    // As if the clock had been set to the right time.
    let key = time.values.key(KIND, NAME).unwrap();
    let known = time.values.store.get(&key).await.unwrap().unwrap();
    time.values.store.delete(&key, known.modified).await.unwrap();
    replicas::forget_later(time.values.store.as_ref(), Timestamp::now()).await.unwrap();
    time.compare().await.unwrap();
    assert_eq!(time.correction.seconds(), 0);
    tokio::time::timeout(PATIENCE, time.until_right()).await.expect("nothing is compared any more");
}

#[tokio::test]
async fn tm_25_an_operator_accepts_a_clock_after_one_that_was_ahead() {
    let (_directory, time) = recorded_time();
    time.record(from_now(86_400)).await.unwrap();
    renew(&time, "ahead", from_now(86_400)).await;
    renew(&time, "right", from_now(0)).await;
    let accepting = RecordedTime { accepted: Some(from_now(-60)), ..restarted(&time) };
    accepting.begin().await;
    assert_eq!(accepting.correction.seconds(), 0);
    assert_eq!(replicas::all(time.values.store.as_ref()).await.unwrap().len(), 1, "the other one is wrong");

    // Later the clock is set back. The same setting does not help.
    time.record(from_now(3600)).await.unwrap();
    let again = RecordedTime { accepted: accepting.accepted, ..restarted(&time) };
    again.begin().await;
    assert!(again.correction.seconds() > 3500);
}
