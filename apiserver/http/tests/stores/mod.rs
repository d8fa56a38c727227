//! Stores on which the tests run: the embedded one, and a real etcd if the environment names one.
#![allow(dead_code, reason = "each file of tests uses a part of it")]

use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use storage_contract::Store;
use storage_embedded::EmbeddedStore;
use storage_etcd::{EtcdConfiguration, EtcdStore};

/// Longest time that a start may take on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Resources that must outlive a store.
pub(crate) struct Kept {
    _directory: tempfile::TempDir,
    etcd: Option<Child>,
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(etcd) = &mut self.etcd {
            let _ = etcd.kill();
            let _ = etcd.wait();
        }
    }
}

/// Each kind of store, empty. `cargo xtask test` names an etcd.
pub(crate) async fn all() -> Vec<(Arc<dyn Store>, Kept)> {
    let mut stores = vec![embedded()];
    if let Some(binary) = std::env::var_os("CAPSTAN_ETCD_CURRENT") {
        stores.push(etcd(binary.into()).await);
    }
    stores
}

pub(crate) fn embedded() -> (Arc<dyn Store>, Kept) {
    let directory = tempfile::tempdir().unwrap();
    let store = EmbeddedStore::open(&directory.path().join("store")).unwrap();
    (Arc::new(store), Kept { _directory: directory, etcd: None })
}

async fn etcd(binary: PathBuf) -> (Arc<dyn Store>, Kept) {
    let directory = tempfile::tempdir().unwrap();
    let free = || format!("http://{}", TcpListener::bind(("127.0.0.1", 0)).unwrap().local_addr().unwrap());
    let (client, peer) = (free(), free());
    let mut command = Command::new(binary);
    command.arg("--name=m").arg("--log-level=error").arg("--data-dir").arg(directory.path().join("etcd"));
    for (flag, url) in [("client", &client), ("peer", &peer)] {
        command.arg(format!("--listen-{flag}-urls={url}"));
    }
    command.arg(format!("--advertise-client-urls={client}"));
    command.arg(format!("--initial-advertise-peer-urls={peer}")).arg(format!("--initial-cluster=m={peer}"));
    let etcd = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let kept = Kept { _directory: directory, etcd: Some(etcd) };
    let begun = Instant::now();
    loop {
        let configuration =
            EtcdConfiguration { endpoints: vec![client.clone()], ..EtcdConfiguration::default() };
        match EtcdStore::connect(configuration).await {
            Ok(store) => return (Arc::new(store), kept),
            Err(error) => assert!(begun.elapsed() < PATIENCE, "{error}"),
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}
