//! Contract suite on real etcds, which are killed and restarted, or cut off, where the suite calls for it.

use std::sync::Arc;
use std::time::Duration;

use storage_contract::Store;
use storage_contract::suite::{Harness, run};
use storage_etcd::{EtcdConfiguration, EtcdStore, LARGEST_VALUE};

use crate::proxy::Proxy;
use crate::server::{Release, Server};

struct Etcd {
    server: Server,
    /// Cut instead of killing the server.
    proxy: Option<Proxy>,
    store: Arc<EtcdStore>,
    reports_progress: bool,
}

impl Etcd {
    async fn new(server: Server, proxy: Option<Proxy>) -> Self {
        let endpoint = proxy.as_ref().map_or_else(|| server.endpoint(), Proxy::endpoint);
        let configuration = EtcdConfiguration { endpoints: vec![endpoint], ..EtcdConfiguration::default() };
        let store = Arc::new(EtcdStore::connect(configuration).await.unwrap());
        let reports_progress = store.reports_progress();
        Self { server, proxy, store, reports_progress }
    }
}

#[async_trait::async_trait]
impl Harness for Etcd {
    fn store(&self) -> Arc<dyn Store> {
        self.store.clone()
    }

    async fn disturb(&self) {
        match &self.proxy {
            Some(proxy) => proxy.cut(),
            None => {
                self.server.kill();
                self.server.restart();
            }
        }
        // Until the client has its connection back and the server a leader.
        while self.store.current_revision().await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    fn largest_value(&self) -> usize {
        LARGEST_VALUE
    }

    fn reports_progress(&self) -> bool {
        self.reports_progress
    }

    fn step(&self) -> u64 {
        100
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_suite_passes_on_the_etcd_of_the_distribution() {
    run(Arc::new(Etcd::new(Server::start(Release::Distribution), None).await)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_suite_passes_on_a_current_etcd() {
    run(Arc::new(Etcd::new(Server::start(Release::Current), None).await)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_suite_passes_on_a_current_etcd_with_interrupted_connections() {
    let server = Server::start(Release::Current);
    let proxy = Proxy::start(server.client_port()).await;
    run(Arc::new(Etcd::new(server, Some(proxy)).await)).await;
}

/// An old etcd's progress reports may overtake events, so none is requested. The reports that it sends by itself
/// never do, and an operator can have them sent as often as the contract needs.
#[tokio::test(flavor = "multi_thread")]
async fn the_suite_passes_on_an_old_etcd_with_periodic_progress() {
    let flags = ["--experimental-watch-progress-notify-interval=1s"];
    let mut etcd = Etcd::new(Server::start_with(Release::Distribution, &flags), None).await;
    etcd.reports_progress = true;
    run(Arc::new(etcd)).await;
}
