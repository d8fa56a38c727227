//! The contract's suite on real etcds, killed and restarted where the suite asks for a cut.

use std::sync::Arc;
use std::time::Duration;

use crate::server::{Release, Server};
use bytes::Bytes;
use storage_contract::suite::{Harness, run};
use storage_contract::{Key, Store, StoreError};
use storage_etcd::{EtcdConfiguration, EtcdStore, LARGEST_VALUE};

struct Etcd {
    server: Server,
    store: Arc<EtcdStore>,
}

impl Etcd {
    async fn start(release: Release) -> Self {
        let server = Server::start(release, None);
        let store = EtcdStore::connect(configuration(&server)).await.unwrap();
        Self { server, store: Arc::new(store) }
    }
}

fn configuration(server: &Server) -> EtcdConfiguration {
    EtcdConfiguration { endpoints: vec![server.endpoint()], ..EtcdConfiguration::default() }
}

#[async_trait::async_trait]
impl Harness for Etcd {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    async fn disturb(&self) {
        self.server.kill();
        self.server.restart();
        // Until the client has its connection back and the server a leader.
        while self.store.current_revision().await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn largest_value(&self) -> usize {
        LARGEST_VALUE
    }

    fn reports_progress(&self) -> bool {
        self.store.reports_progress()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_distributions_etcd_keeps_the_contract() {
    run(Arc::new(Etcd::start(Release::Distribution).await)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_current_etcd_keeps_the_contract() {
    run(Arc::new(Etcd::start(Release::Current).await)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_etcd_is_said_to_be_unavailable_and_not_waited_for() {
    let etcd = Etcd::start(Release::Current).await;
    let key = Key::new("/dead/a").unwrap();
    etcd.store.create(&key, Bytes::from("1")).await.unwrap();
    etcd.server.kill();
    let read = tokio::time::timeout(Duration::from_secs(30), etcd.store.get(&key)).await.unwrap();
    assert!(matches!(read, Err(StoreError::Unavailable { .. })), "{read:?}");
    let write =
        tokio::time::timeout(Duration::from_secs(30), etcd.store.create(&key, Bytes::new())).await.unwrap();
    assert!(matches!(write, Err(StoreError::Unavailable { .. } | StoreError::Unknown { .. })), "{write:?}");
}
