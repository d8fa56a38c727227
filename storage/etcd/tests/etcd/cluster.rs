//! Tests of three members, of which one dies.

#![allow(clippy::disallowed_methods, reason = "a test awaits its tasks, or ends with them")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt;
use storage_contract::{Key, KeyRange, ListOptions, Revision, Store, StoreError, WatchItem};
use storage_etcd::{EtcdConfiguration, EtcdStore};

use crate::server::{Release, Server};

/// Longest time without an answer that is no outage: an election takes up to two seconds.
const LONGEST_GAP: Duration = Duration::from_secs(20);

async fn create_with_retries(store: &EtcdStore, key: &Key) -> Revision {
    let began = Instant::now();
    loop {
        match store.create(key, Bytes::from("1")).await {
            Ok(revision) => return revision,
            Err(StoreError::Exists { found, .. }) => return found,
            Err(StoreError::Unknown { .. } | StoreError::Unavailable { .. }) => {
                assert!(began.elapsed() < LONGEST_GAP, "no answer for {:?}", began.elapsed());
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
            Err(other) => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn writes_and_watches_continue_with_one_of_three_members_down() {
    let members = Server::cluster(Release::Current);
    let configuration = EtcdConfiguration {
        endpoints: members.iter().map(Server::endpoint).collect(),
        ..EtcdConfiguration::default()
    };
    let store = Arc::new(EtcdStore::connect(configuration.clone()).await.unwrap());
    let range = KeyRange::prefix("/cluster/");
    let start = store.current_revision().await.unwrap().next();
    let mut watch = store.watch(&range, start).await.unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let writer = {
        let (store, stop) = (Arc::clone(&store), Arc::clone(&stop));
        tokio::spawn(async move {
            let mut written = Vec::new();
            while !stop.load(Ordering::Relaxed) {
                let key = Key::new(format!("/cluster/k{}", written.len())).unwrap();
                written.push(create_with_retries(&store, &key).await);
            }
            written
        })
    };
    for member in &members {
        tokio::time::sleep(Duration::from_millis(300)).await;
        member.kill();
        tokio::time::sleep(Duration::from_secs(2)).await;
        // A read with a member dead is answered by another.
        let began = Instant::now();
        while store.list(&range, &ListOptions::default()).await.is_err() {
            assert!(began.elapsed() < LONGEST_GAP, "no answer for {:?}", began.elapsed());
        }
        member.restart();
    }
    stop.store(true, Ordering::Relaxed);
    let written = writer.await.unwrap();
    let mut seen = Vec::new();
    while seen.len() < written.len() {
        let item =
            tokio::time::timeout(Duration::from_secs(30), watch.next()).await.unwrap().unwrap().unwrap();
        if let WatchItem::Event(event) = item {
            seen.push(event.revision);
        }
    }
    assert_eq!(seen, written);

    // A client that connects while a member is down is served, too.
    members[0].kill();
    let late = EtcdStore::connect(configuration).await.unwrap();
    for index in 0..30 {
        create_with_retries(&late, &Key::new(format!("/late/{index}")).unwrap()).await;
    }
}

/// Time well below the interval of the regular progress requests.
const AT_ONCE: Duration = Duration::from_millis(500);

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_reports_progress_immediately_on_request() {
    let server = Server::start(Release::Current);
    let configuration =
        EtcdConfiguration { endpoints: vec![server.endpoint()], ..EtcdConfiguration::default() };
    let store = EtcdStore::connect(configuration).await.unwrap();
    let from = store.current_revision().await.unwrap().next();
    let mut watch = store.watch(&KeyRange::prefix("/followed/"), from).await.unwrap();
    for index in 0..5 {
        // Changes elsewhere reach the watch only as progress.
        let key = Key::new(format!("/elsewhere/{index}")).unwrap();
        let newest = store.create(&key, Bytes::from("1")).await.unwrap();
        let began = Instant::now();
        let reached = async {
            while let Some(item) = watch.next().await {
                match item.unwrap() {
                    WatchItem::Progress(revision) if revision >= newest => return,
                    WatchItem::Progress(_) => {}
                    WatchItem::Event(event) => panic!("{event:?}"),
                }
            }
        };
        let hastening = async {
            loop {
                store.hasten_progress();
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        };
        tokio::select! {
            () = reached => {}
            () = hastening => {}
        }
        assert!(began.elapsed() < AT_ONCE, "{:?}", began.elapsed());
    }
}
