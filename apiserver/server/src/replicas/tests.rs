//! Tests of the records of replicas.

use storage_embedded::EmbeddedStore;

use super::*;

fn open(directory: &tempfile::TempDir) -> Arc<dyn Store> {
    Arc::new(EmbeddedStore::open(&directory.path().join("store.redb")).unwrap())
}

fn record(store: &Arc<dyn Store>, address: &str) -> ReplicaRecord {
    let metrics = ReplicaMetrics::default();
    ReplicaRecord::new(Arc::clone(store), Arc::default(), address.to_owned(), metrics)
}

fn live(record: &ReplicaRecord) -> i64 {
    let version = Version { version: env!("CARGO_PKG_VERSION").to_owned() };
    record.metrics.versions.get_or_create(&version).get()
}

#[tokio::test]
async fn hv_10_a_replica_is_dead_after_thirty_seconds_without_a_renewal_and_removed_after_a_day() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let (mut one, mut other) = (record(&store, "192.0.2.1:7443"), record(&store, "192.0.2.2:7443"));
    let (mut seen, begun) = (Seen::new(), Instant::now());
    other.pass(&mut Seen::new(), begun).await.unwrap();
    one.pass(&mut seen, begun).await.unwrap();
    assert_eq!(live(&one), 2);
    one.pass(&mut seen, begun + DEAD).await.unwrap();
    assert_eq!(live(&one), 1, "its clock does not count, only its renewals");
    other.pass(&mut Seen::new(), begun).await.unwrap();
    one.pass(&mut seen, begun + DEAD).await.unwrap();
    assert_eq!(live(&one), 2);
    one.pass(&mut seen, begun + DEAD + REMOVED).await.unwrap();
    let entries = list(store.as_ref()).await.unwrap();
    assert_eq!(
        entries.iter().map(|entry| entry.key.clone()).collect::<Vec<_>>(),
        [one.replica.key().unwrap()]
    );
}

#[test]
fn a_replica_without_a_key_with_which_another_one_seals_is_counted() {
    let with = |keys: &[&str], seals: &str| {
        let mut replica = Replica::of_this_process("a".to_owned());
        replica.keys = keys.iter().map(|&key| key.to_owned()).collect();
        replica.seals = [seals.to_owned()].into();
        replica
    };
    let metrics = ReplicaMetrics::default();
    metrics.set(&[with(&["new", "old"], "new"), with(&["old"], "old")]);
    assert_eq!(metrics.without_key.get(), 1);
    metrics.set(&[with(&["new", "old"], "new"), with(&["old", "new"], "old")]);
    assert_eq!(metrics.without_key.get(), 0);
}

#[tokio::test]
async fn hv_10_a_replica_that_ends_in_order_removes_its_record() {
    let directory = tempfile::tempdir().unwrap();
    let store = open(&directory);
    let shutdown = CancellationToken::new();
    shutdown.cancel();
    record(&store, "a").run(shutdown).await;
    assert!(list(store.as_ref()).await.unwrap().is_empty());
}

#[test]
fn hv_10_the_table_shows_forms_keys_and_dead_replicas() {
    let mut replica = Replica::of_this_process("192.0.2.1:7443".to_owned());
    replica.keys = ["0011aabb".to_owned(), "ffeeddcc".to_owned()].into();
    let now = replica.renewed;
    let later = now + jiff::SignedDuration::from_secs(45);
    for (now, expected) in [(now, "live"), (later, "dead 45 s")] {
        let text = command::table(std::slice::from_ref(&replica), now);
        let row = text.lines().nth(1).unwrap();
        for part in [expected, "0011aabb,ffeeddcc", "192.0.2.1:7443", env!("CARGO_PKG_VERSION"), "3"] {
            assert!(row.contains(part), "{part}: {text}");
        }
    }
    assert!(command::table(&[], now).contains("no replica"));
}

#[test]
fn a_record_of_a_later_release_with_more_fields_is_read() {
    let replica = Replica::of_this_process("a".to_owned());
    let mut value = serde_json::to_value(&replica).unwrap();
    value["zone"] = "z1".into();
    assert_eq!(Replica::read(&serde_json::to_vec(&value).unwrap()), Some(replica));
    assert_eq!(Replica::read(b"other"), None);
}
