//! Tests of outages: the errors of callers when etcd, or the network to it, is gone.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt;
use storage_contract::{Key, KeyRange, Store, StoreError, WatchItem};
use storage_etcd::{EtcdConfiguration, EtcdStore};

use crate::proxy::Proxy;
use crate::server::{Release, Server};

/// Deadline of calls: short, because the tests wait until it has passed.
const DEADLINE: Duration = Duration::from_secs(2);

fn key(name: &str) -> Key {
    Key::new(format!("/outage/{name}")).unwrap()
}

/// Connects, with that deadline.
pub(crate) async fn connect(endpoint: String) -> EtcdStore {
    let configuration =
        EtcdConfiguration { endpoints: vec![endpoint], deadline: DEADLINE, ..EtcdConfiguration::default() };
    EtcdStore::connect(configuration).await.unwrap()
}

/// Asserts that `call` is answered well before the deadline: a dead server is distinguished from a slow one.
async fn at_once<T>(call: impl Future<Output = T>) -> T {
    let began = Instant::now();
    let answer = call.await;
    assert!(began.elapsed() < DEADLINE, "{:?}", began.elapsed());
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dead_etcd_is_reported_as_unavailable_at_once() {
    let server = Server::start(Release::Current);
    let store = connect(server.endpoint()).await;
    let revision = store.create(&key("a"), Bytes::from("1")).await.unwrap();
    server.kill();
    // The first call may still be sent into the dying connection; its outcome is then unknown.
    let _ = store.update(&key("a"), revision, Bytes::from("2")).await;
    let read = at_once(store.get(&key("a"))).await;
    assert!(matches!(read, Err(StoreError::Unavailable { .. })), "{read:?}");
    let write = at_once(store.create(&key("b"), Bytes::new())).await;
    assert!(matches!(write, Err(StoreError::Unavailable { .. })), "{write:?}");
    let error = at_once(store.current_revision()).await.unwrap_err();
    let mut chain = vec![error.to_string()];
    let mut source = std::error::Error::source(&error);
    while let Some(cause) = source {
        chain.push(cause.to_string());
        source = cause.source();
    }
    assert!(chain.iter().any(|text| text.contains("refused")), "{chain:?}");
    // A write that was reported as not made was not made.
    server.restart();
    while store.current_revision().await.is_err() {
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(store.get(&key("b")).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_write_with_a_lost_response_has_an_unknown_outcome_that_a_read_resolves() {
    let server = Server::start(Release::Current);
    let proxy = Proxy::start(server.client_port()).await;
    let (direct, store) = (connect(server.endpoint()).await, connect(proxy.endpoint()).await);
    store.create(&key("before"), Bytes::new()).await.unwrap();
    proxy.drop_responses();
    let write = store.create(&key("a"), Bytes::from("1")).await;
    assert!(matches!(write, Err(StoreError::Unknown { operation: "create", .. })), "{write:?}");
    assert_eq!(direct.get(&key("a")).await.unwrap().unwrap().value, "1");
}

#[tokio::test(flavor = "multi_thread")]
async fn calls_end_within_the_deadline_if_the_network_drops_everything() {
    let server = Server::start(Release::Current);
    let proxy = Proxy::start(server.client_port()).await;
    let (direct, store) = (connect(server.endpoint()).await, connect(proxy.endpoint()).await);
    store.create(&key("before"), Bytes::new()).await.unwrap();
    proxy.drop_everything();
    let a = key("a");
    let began = Instant::now();
    let (read, write) = tokio::join!(store.get(&a), store.create(&a, Bytes::from("1")));
    assert!(began.elapsed() < DEADLINE * 2, "{:?}", began.elapsed());
    assert!(matches!(read, Err(StoreError::Unavailable { .. })), "{read:?}");
    assert!(matches!(write, Err(StoreError::Unknown { .. })), "{write:?}");
    assert_eq!(direct.get(&a).await.unwrap(), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_endpoint_without_listener_fails_the_connection() {
    let configuration = EtcdConfiguration {
        endpoints: vec!["http://127.0.0.1:1".to_owned()],
        deadline: DEADLINE,
        ..EtcdConfiguration::default()
    };
    let error = at_once(Box::pin(EtcdStore::connect(configuration))).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable { operation: "connect", .. }), "{error:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_over_the_limit_of_etcd_is_too_large_and_not_unknown() {
    let server = Server::start_with(Release::Current, &["--max-request-bytes=10000"]);
    let store = connect(server.endpoint()).await;
    for size in [20_000, 1_400_000] {
        let error = store.create(&key("a"), crate::noise(size)).await.unwrap_err();
        assert!(matches!(error, StoreError::TooLarge { size: said, .. } if said == size), "{error:?}");
    }
    assert_eq!(store.get(&key("a")).await.unwrap(), None);
}

/// Another client may compact further than this one did. A change whose predecessor is gone must not be reported as
/// if there had been none.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_whose_previous_value_is_compacted_is_reported_as_compacted() {
    let server = Server::start(Release::Current);
    let store = connect(server.endpoint()).await;
    let first = store.create(&key("a"), Bytes::from("1")).await.unwrap();
    let second = store.update(&key("a"), first, Bytes::from("2")).await.unwrap();
    let mut another = etcd_client::Client::connect([server.endpoint()], None).await.unwrap();
    another.compact(i64::try_from(second.number() / 100).unwrap(), None).await.unwrap();
    let mut watch = store.watch(&KeyRange::prefix("/outage/"), second).await.unwrap();
    let told = loop {
        match watch.next().await.unwrap() {
            Ok(WatchItem::Progress(_)) => {}
            other => break other,
        }
    };
    assert!(matches!(told, Err(StoreError::Compacted { requested, .. }) if requested == second), "{told:?}");
}
