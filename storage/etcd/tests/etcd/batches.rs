//! Tests of batches: writes that go to etcd together, and their results when etcd refuses them, is silent, or dies.

#![allow(clippy::disallowed_methods, reason = "a test awaits its tasks, or ends with them")]

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::future::join_all;
use storage_contract::{
    Key, KeyRange, ListOptions, Revision, Store, StoreError, StoreResult, Unchanged, WatchItem,
};
use storage_etcd::{EtcdConfiguration, EtcdStore};

use crate::noise;
use crate::outage;
use crate::proxy::Proxy;
use crate::server::{Release, Server};

fn key(name: &str) -> Key {
    Key::new(format!("/batches/{name}")).unwrap()
}

async fn connect(endpoint: String) -> Arc<EtcdStore> {
    let configuration = EtcdConfiguration { endpoints: vec![endpoint], ..EtcdConfiguration::default() };
    Arc::new(EtcdStore::connect(configuration).await.unwrap())
}

/// Connects with a short deadline, for tests that wait until it has passed.
async fn connect_with_short_deadline(endpoint: String) -> Arc<EtcdStore> {
    Arc::new(outage::connect(endpoint).await)
}

/// Creates so many keys at once, with values of so many bytes.
async fn creates(store: &EtcdStore, prefix: &str, count: usize, size: usize) -> Vec<StoreResult<Revision>> {
    let value = noise(size);
    let creates = (0..count).map(|index| {
        let (key, value) = (key(&format!("{prefix}{index:03}")), value.clone());
        async move { store.create(&key, value).await }
    });
    join_all(creates).await
}

#[tokio::test(flavor = "multi_thread")]
async fn parallel_writes_share_transactions_and_have_different_revisions() {
    let server = Server::start(Release::Current);
    let store = connect(server.endpoint()).await;
    let before = store.current_revision().await.unwrap();
    let mut revisions: Vec<_> =
        creates(&store, "a", 250, 100).await.into_iter().map(Result::unwrap).collect();
    let after = store.current_revision().await.unwrap();
    // The first by itself, and the others by hundreds; one more where it was answered before all had come.
    let transactions = (after.number() - before.number()) / 100;
    assert!((3..=5).contains(&transactions), "{transactions}");
    revisions.sort_unstable();
    revisions.dedup();
    assert_eq!(revisions.len(), 250);
    assert!(*revisions.first().unwrap() > before && *revisions.last().unwrap() == after);
}

/// Writes that go together, of which some cannot be made: a key that is there, another that is not as it was read.
#[tokio::test(flavor = "multi_thread")]
async fn a_failed_guard_fails_only_its_own_write() {
    for release in [Release::Distribution, Release::Current] {
        let server = Server::start(release);
        let store = connect(server.endpoint()).await;
        let (space, taken) = (key("space"), key("r0-7"));
        let old = store.create(&space, Bytes::new()).await.unwrap();
        let modified = store.update(&space, old, Bytes::from_static(b"new")).await.unwrap();
        let existing = store.create(&taken, Bytes::new()).await.unwrap();
        // The second round comes while all are sent in parts, the third when that is over.
        for (round, pause) in [0, 0, 1100].into_iter().enumerate() {
            tokio::time::sleep(Duration::from_millis(pause)).await;
            let writes =
                (0..30).map(|index| {
                    let (store, space) = (&store, space.clone());
                    let name = if index == 7 { taken.clone() } else { key(&format!("r{round}-{index}")) };
                    let modified = if index == 9 { old } else { modified };
                    let value = noise(2 + index);
                    async move {
                        store.create_while(&name, value, Some(&Unchanged { key: space, modified })).await
                    }
                });
            let began = store.current_revision().await.unwrap();
            let results = join_all(writes).await;
            let transactions = (store.current_revision().await.unwrap().number() - began.number()) / 100;
            // All together, or the first by itself; one more where that was answered before all had come.
            assert!((1..=3).contains(&transactions), "{release:?}, {round}: {transactions}");
            for (index, result) in results.into_iter().enumerate() {
                match (index, result) {
                    (7, Err(StoreError::Exists { key, found })) => {
                        assert_eq!((key, found), (taken.clone(), existing));
                    }
                    (9, Err(StoreError::Conflict { key, expected, found })) => {
                        assert_eq!((key, expected, found), (space.clone(), old, modified));
                    }
                    (0..7 | 8 | 10.., Ok(revision)) => {
                        let entry = store.get(&key(&format!("r{round}-{index}"))).await.unwrap().unwrap();
                        assert_eq!((entry.modified, entry.value), (revision, noise(2 + index)));
                    }
                    (_, other) => panic!("{release:?}, {round}: {index}: {other:?}"),
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_batch_that_is_too_large_is_written_one_by_one() {
    let server = Server::start_with(Release::Current, &["--max-request-bytes=10000"]);
    let store = connect(server.endpoint()).await;
    let results = creates(&store, "a", 30, 3000).await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
    // And of one that no request can carry it is said, and of no other.
    let c = key("c");
    let (small, large) = tokio::join!(creates(&store, "b", 20, 100), store.create(&c, noise(20_000)));
    assert!(small.iter().all(Result::is_ok), "{small:?}");
    assert!(matches!(large, Err(StoreError::TooLarge { size: 20_000, .. })), "{large:?}");
}

/// Old releases do not see what the parts of a transaction write.
#[tokio::test(flavor = "multi_thread")]
async fn batched_writes_fail_like_single_ones_when_the_quota_is_exceeded() {
    for release in [Release::Distribution, Release::Current] {
        let server = Server::start_with(release, &["--quota-backend-bytes=4000000"]);
        let store = connect(server.endpoint()).await;
        let mut rounds = 0;
        let mut results = Vec::new();
        while results.iter().all(Result::is_ok) {
            rounds += 1;
            assert!(rounds < 20, "{release:?}: twenty megabytes are in a store of four");
            results = creates(&store, &format!("{rounds}-"), 50, 20_000).await;
        }
        // And from then on nothing is taken, by itself or together.
        results.extend(creates(&store, "after-", 50, 20_000).await);
        let names = (0..50).map(|index| format!("{rounds}-{index:03}"));
        for (name, result) in names.chain((0..50).map(|index| format!("after-{index:03}"))).zip(results) {
            let found = store.get(&key(&name)).await.unwrap().map(|entry| entry.modified);
            match result {
                Ok(revision) => assert_eq!(found, Some(revision), "{release:?}: {name}"),
                Err(StoreError::Refused { reason, .. }) => {
                    assert!(
                        found.is_none()
                            && reason.contains("space exceeded: run `capstan storage recover-space`"),
                        "{name}: {reason}"
                    );
                }
                Err(other) => panic!("{release:?}: {name}: {other:?}"),
            }
            assert!(found.is_none() || !name.starts_with("after"), "{release:?}: {name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_etcd_with_a_low_transaction_limit_gets_single_writes() {
    let server = Server::start_with(Release::Current, &["--max-txn-ops=20"]);
    let store = connect(server.endpoint()).await;
    let results = creates(&store, "a", 60, 10).await;
    assert!(results.iter().all(Result::is_ok), "{results:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn each_write_of_an_unanswered_batch_has_an_unknown_outcome() {
    let server = Server::start(Release::Current);
    let proxy = Proxy::start(server.client_port()).await;
    let (direct, store) =
        (connect(server.endpoint()).await, connect_with_short_deadline(proxy.endpoint()).await);
    store.create(&key("before"), Bytes::new()).await.unwrap();
    proxy.drop_responses();
    let results = creates(&store, "a", 150, 10).await;
    for (index, result) in results.into_iter().enumerate() {
        assert!(
            matches!(result, Err(StoreError::Unknown { operation: "create", .. })),
            "{index}: {result:?}"
        );
        assert!(direct.get(&key(&format!("a{index:03}"))).await.unwrap().is_some(), "{index}");
    }
}

/// Without it, each of many that compete for an object would wait for all before it.
#[tokio::test(flavor = "multi_thread")]
async fn writers_that_compete_for_an_object_do_not_wait_for_each_other() {
    let server = Server::start(Release::Current);
    let proxy = Proxy::start(server.client_port()).await;
    let (direct, store) =
        (connect(server.endpoint()).await, connect_with_short_deadline(proxy.endpoint()).await);
    let revision = store.create(&key("a"), Bytes::new()).await.unwrap();
    proxy.drop_responses();
    let updates = (0..60).map(|index| {
        let store = Arc::clone(&store);
        async move { store.update(&key("a"), revision, Bytes::from(index.to_string())).await }
    });
    let began = direct.current_revision().await.unwrap();
    let results = join_all(updates).await;
    // All left before the first was given up, in transactions of their own: one of them was made.
    assert!(results.iter().all(|it| matches!(it, Err(StoreError::Unknown { .. }))), "{results:?}");
    assert_eq!(direct.current_revision().await.unwrap().number() - began.number(), 100);
}

/// A watch must report progress where an answer has some of a transaction's changes, but not the last.
#[tokio::test(flavor = "multi_thread")]
async fn a_watch_reports_progress_at_the_end_of_a_transaction() {
    let server = Server::start(Release::Distribution);
    let store = connect(server.endpoint()).await;
    assert!(!store.reports_progress(), "it would say so a little later anyway");
    let start = store.current_revision().await.unwrap().next();
    let mut watch = store.follow(&KeyRange::prefix("/batches/in"), start).await.unwrap();
    let (first, second, elsewhere) = (key("in-a"), key("in-b"), key("out"));
    let writes = tokio::join!(
        store.create(&first, Bytes::new()),
        store.create(&second, Bytes::new()),
        store.create(&elsewhere, Bytes::new()),
    );
    let newest = writes.2.unwrap();
    assert_eq!(newest.number() - writes.1.unwrap().number(), 1, "the first went alone, and these together");
    let told = async {
        loop {
            match watch.next().await.unwrap().unwrap() {
                WatchItem::Progress(told) if told >= newest => return,
                WatchItem::Progress(_) | WatchItem::Event(_) => {}
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(30), told).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_member_delays_the_next_writes_only_briefly() {
    let server = Server::start(Release::Current);
    let proxy = Proxy::start(server.client_port()).await;
    let (direct, store) =
        (connect(server.endpoint()).await, connect_with_short_deadline(proxy.endpoint()).await);
    store.create(&key("before"), Bytes::new()).await.unwrap();
    proxy.drop_responses();
    let first = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.create(&key("first"), Bytes::new()).await }
    });
    tokio::time::sleep(Duration::from_millis(10)).await;
    let second = tokio::spawn({
        let store = Arc::clone(&store);
        async move { store.create(&key("second"), Bytes::new()).await }
    });
    while direct.get(&key("second")).await.unwrap().is_none() {
        assert!(!first.is_finished(), "the second was not sent while the first waited");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let results = (first.await.unwrap(), second.await.unwrap());
    assert!(
        matches!(results, (Err(StoreError::Unknown { .. }), Err(StoreError::Unknown { .. }))),
        "{results:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn cancelled_callers_do_not_affect_others_in_the_batch() {
    let server = Server::start(Release::Current);
    let store = connect(server.endpoint()).await;
    for round in 0..20 {
        let tasks: Vec<_> = (0..40)
            .map(|index| {
                let (store, key) = (Arc::clone(&store), key(&format!("r{round}-{index}")));
                (index, tokio::spawn(async move { store.create(&key, Bytes::new()).await }))
            })
            .collect();
        tokio::time::sleep(Duration::from_micros(100 * round)).await;
        tasks.iter().filter(|(index, _)| index % 2 == 0).for_each(|(_, task)| task.abort());
        for (index, task) in tasks {
            match task.await {
                Ok(result) => assert!(result.is_ok(), "{round}, {index}: {result:?}"),
                Err(gone) => assert!(gone.is_cancelled() && index % 2 == 0, "{round}, {index}: {gone}"),
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn acknowledged_writes_survive_a_kill_of_etcd_during_parallel_writes() {
    let server = Server::start(Release::Current);
    let store = connect_with_short_deadline(server.endpoint()).await;
    store.create(&key("there"), Bytes::new()).await.unwrap();
    for round in 0..12 {
        let writing = tokio::spawn({
            let store = Arc::clone(&store);
            async move {
                let (alone, there, prefix) =
                    (key(&format!("alone{round}")), key("there"), format!("k{round}-"));
                // The first leaves by itself, and the second fails the transaction of those that go next.
                let (_, there, results) = tokio::join!(
                    store.create(&alone, Bytes::new()),
                    store.create(&there, Bytes::new()),
                    creates(&store, &prefix, 400, 500),
                );
                assert!(there.is_err(), "{round}: {there:?}");
                results
            }
        });
        // From before the first is sent to after most are answered.
        tokio::time::sleep(Duration::from_millis(2 * round)).await;
        server.kill();
        let results = writing.await.unwrap();
        server.restart();
        while store.current_revision().await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        let range = KeyRange::prefix(&format!("/batches/k{round}-"));
        let page = store.list(&range, &ListOptions::default()).await.unwrap();
        for (index, result) in results.into_iter().enumerate() {
            let key = key(&format!("k{round}-{index:03}"));
            let found = page.entries.iter().find(|entry| entry.key == key).map(|entry| entry.modified);
            match result {
                Ok(revision) => assert_eq!(found, Some(revision), "{round}, {index}"),
                Err(StoreError::Unavailable { .. }) => assert_eq!(found, None, "{round}, {index}"),
                Err(StoreError::Unknown { .. }) => {}
                Err(other) => panic!("{round}, {index}: {other:?}"),
            }
        }
    }
}
