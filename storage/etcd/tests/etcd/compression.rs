//! Tests of compression: the values in etcd, and the values that are read.

use bytes::Bytes;
use etcd_client::Client;
use futures::StreamExt;
use storage_contract::{Key, KeyRange, ListOptions, Revision, Store, WatchItem};
use storage_etcd::{EtcdConfiguration, EtcdStore};

use crate::noise;
use crate::server::{Release, Server};

fn key(name: &str) -> Key {
    Key::new(format!("/compression/{name}")).unwrap()
}

/// As large as a Machine with a status, and as repetitive.
fn large(word: &str) -> Bytes {
    Bytes::from(format!(r#"{{"f:{word}":{{}},"f:lastTransitionTime":{{}}}}"#).repeat(140))
}

struct World {
    // Its processes end with it.
    _server: Server,
    store: EtcdStore,
    etcd: Client,
}

impl World {
    async fn start() -> Self {
        let server = Server::start(Release::Current);
        let endpoints = vec![server.endpoint()];
        let etcd = Client::connect(&endpoints, None).await.unwrap();
        let configuration = EtcdConfiguration { endpoints, ..EtcdConfiguration::default() };
        Self { store: EtcdStore::connect(configuration).await.unwrap(), etcd, _server: server }
    }

    /// Returns the stored bytes in etcd.
    async fn stored(&mut self, name: &str) -> Vec<u8> {
        self.etcd.get(key(name).as_str(), None).await.unwrap().kvs()[0].value().to_vec()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn large_values_are_compressed_in_etcd_and_complete_in_every_read() {
    let mut world = World::start().await;
    let created = world.store.create(&key("a"), large("created")).await.unwrap();
    let updated = world.store.update(&key("a"), created, large("updated")).await.unwrap();
    let stored = world.stored("a").await;
    assert!(stored.starts_with(b"capstan:lz4:v1:") && stored.len() < 1000, "{}", stored.len());
    let entry = world.store.get(&key("a")).await.unwrap().unwrap();
    assert_eq!((&entry.value, entry.modified), (&large("updated"), updated));
    let all = KeyRange::prefix("/compression/");
    let page = world.store.list(&all, &ListOptions::default()).await.unwrap();
    assert_eq!(page.entries, std::slice::from_ref(&entry));
    let before = ListOptions { revision: Some(created), ..ListOptions::default() };
    assert_eq!(world.store.list(&all, &before).await.unwrap().entries[0].value, large("created"));
    let mut watch = world.store.watch(&all, updated).await.unwrap();
    let event = loop {
        if let WatchItem::Event(event) = watch.next().await.unwrap().unwrap() {
            break event;
        }
    };
    assert_eq!(event.value, Some(large("updated")));
    assert_eq!(event.previous.unwrap().value, large("created"));
}

#[tokio::test(flavor = "multi_thread")]
async fn small_and_incompressible_values_are_stored_uncompressed() {
    let mut world = World::start().await;
    for (name, value) in [("small", Bytes::from("{}")), ("noise", noise(5000))] {
        world.store.create(&key(name), value.clone()).await.unwrap();
        assert_eq!(world.stored(name).await, value);
        assert_eq!(world.store.get(&key(name)).await.unwrap().unwrap().value, value);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn values_stored_before_compression_are_read_and_updated() {
    let mut world = World::start().await;
    world.etcd.put(key("old").as_str(), large("old").to_vec(), None).await.unwrap();
    let old = world.store.get(&key("old")).await.unwrap().unwrap();
    assert_eq!(old.value, large("old"));
    world.store.update(&key("old"), old.modified, large("new")).await.unwrap();
    assert!(world.stored("old").await.starts_with(b"capstan:lz4:v1:"));
    assert_eq!(world.store.get(&key("old")).await.unwrap().unwrap().value, large("new"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_damaged_value_is_returned_unchanged_and_hides_no_other() {
    let mut world = World::start().await;
    let sound = world.store.create(&key("b"), large("sound")).await.unwrap();
    let stored = world.stored("b").await;
    let cut_off = &stored[..stored.len() - 10];
    world.etcd.put(key("a").as_str(), cut_off, None).await.unwrap();
    let all = KeyRange::prefix("/compression/");
    let entries = world.store.list(&all, &ListOptions::default()).await.unwrap().entries;
    let read: Vec<(&[u8], Revision)> =
        entries.iter().map(|entry| (&entry.value[..], entry.modified)).collect();
    assert_eq!(read, [(cut_off, entries[0].modified), (&large("sound")[..], sound)]);
    // It can be replaced and deleted as any other.
    let mended = world.store.update(&key("a"), entries[0].modified, large("mended")).await.unwrap();
    assert_eq!(world.store.get(&key("a")).await.unwrap().unwrap().modified, mended);
}
