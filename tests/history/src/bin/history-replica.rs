//! Server of one test kind on an etcd: `history-replica <port> <endpoint,...> [bug]`.

#![allow(
    clippy::disallowed_methods,
    reason = "a program for tests and measurements awaits its tasks, or ends with them"
)]

use std::sync::Arc;

use anyhow::Context;
use apiserver_access::{Authenticator, Chain, LocalPolicy, User};
use apiserver_http::{ApiServer, Identity, InProcess, Parts, Supervisor};
use apiserver_machinery::encryption::Encryption;
use apiserver_machinery::resource::{Registry, Resource};
use apiserver_machinery::store::{ObjectStore, OwnNamespaces};
use apiserver_machinery::strategy::Plain;
use apiserver_schema::KindSchema;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use hyper_util::service::TowerToHyperService;
use serde_json::json;
use storage_contract::Store;
use storage_etcd::{EtcdConfiguration, EtcdStore};
use tests_history::{BuggyStore, InjectedBug};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

fn gadgets() -> Resource {
    let open_api = json!({"type": "object", "properties": {
        "apiVersion": {"type": "string"}, "kind": {"type": "string"}, "metadata": {"type": "object"},
        "spec": {"type": "object", "properties": {
            "count": {"type": "integer"}, "token": {"type": "string"}}}}});
    Resource {
        group: "toys.example.com".to_owned(),
        version: "v1".to_owned(),
        kind: "Gadget".to_owned(),
        plural: "gadgets".to_owned(),
        singular: "gadget".to_owned(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced: false,
        status_subresource: false,
        scale: None,
        deprecation: None,
        conversion: None,
        generation: true,
        hosted: true,
        columns: Vec::new(),
        selectable: Vec::new(),
        schema: KindSchema::new(apiserver_machinery::metadata::RULES, move || open_api.clone()),
        strategy: Arc::new(Plain),
        verbs: Vec::new(),
        preview: None,
    }
}

async fn store(endpoints: &str, bug: Option<InjectedBug>) -> anyhow::Result<Arc<dyn Store>> {
    let endpoints = endpoints.split(',').map(str::to_owned).collect();
    let etcd = EtcdStore::connect(EtcdConfiguration { endpoints, ..EtcdConfiguration::default() }).await?;
    Ok(match bug {
        None => Arc::new(etcd),
        Some(bug) => Arc::new(BuggyStore::new(Arc::new(etcd), bug)),
    })
}

fn server(store: Arc<dyn Store>) -> anyhow::Result<Arc<ApiServer>> {
    let objects = Arc::new(ObjectStore::open(
        Arc::new(Registry::new(vec![gadgets()])),
        store,
        Arc::new(Encryption::default()),
        Arc::new(OwnNamespaces),
        &Supervisor::default(),
        CancellationToken::new(),
    ));
    let authorizer = Arc::new(Chain(vec![Arc::new(LocalPolicy::default())]));
    Ok(Arc::new(ApiServer::new(Parts {
        objects,
        authenticator: Arc::new(Authenticator::default()),
        authorizer: authorizer.clone(),
        hosted_authorizer: authorizer,
        identity: Identity { git_version: "v1.36.0".to_owned(), address: "test".to_owned() },
        checks: Vec::new(),
        supervisor: Supervisor::default(),
    })))
}

#[tokio::main(flavor = "multi_thread", worker_threads = 2)]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let mut arguments = std::env::args().skip(1);
    let port: u16 = arguments.next().context("the port is missing")?.parse()?;
    let endpoints = arguments.next().context("the etcd endpoints are missing")?;
    let bug =
        arguments.next().map(|text| text.parse::<InjectedBug>().map_err(anyhow::Error::msg)).transpose()?;
    let server = server(store(&endpoints, bug).await?)?;
    let entry_point = InProcess::new(server, User::authenticated("tester", ["system:masters".to_owned()]));
    let listener = TcpListener::bind(("127.0.0.1", port)).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        let service = TowerToHyperService::new(entry_point.clone());
        tokio::spawn(async move {
            let builder = auto::Builder::new(TokioExecutor::new());
            // A client that disconnects early needs no error.
            let _ = builder.serve_connection(TokioIo::new(stream), service).await;
        });
    }
}
