//! Tests of the stored form: servers agree on it by the record.

use std::time::Duration;

use bytes::Bytes;
use etcd_client::Client;
use futures::StreamExt;
use storage_contract::{Form, Key, KeyRange, Revision, Store, StoreError, WatchItem};
use storage_etcd::{EtcdConfiguration, EtcdStore};

use crate::server::{Release, Server};

const DERIVED: &[u8] = b"k8s:enc:aesgcm:v2:k:x";

fn key(name: &str) -> Key {
    Key::new(format!("/capstan/{name}")).unwrap()
}

async fn connect(server: &Server) -> Result<EtcdStore, StoreError> {
    EtcdStore::connect(EtcdConfiguration { endpoints: vec![server.endpoint()], ..Default::default() }).await
}

#[tokio::test]
async fn hv_21_another_server_adopts_a_form_and_writes_no_other_one() {
    let server = Server::start(Release::Current);
    let (one, other) = (connect(&server).await.unwrap(), connect(&server).await.unwrap());
    assert_eq!((one.form(), other.form()), (Form::of(4), Form::of(4)));
    let created = one.create(&key("a"), Bytes::from_static(DERIVED)).await.unwrap();
    let mut watch = other.watch(&KeyRange::prefix("/capstan/"), created).await.unwrap();

    let down = Form { to: Some(3), ..Form::of(4) };
    one.change_form(Form::of(4), down).await.unwrap();
    // The other one has not heard of it: its first write is refused, and not made in the old form.
    let refused = other.update(&key("a"), created, Bytes::from_static(DERIVED)).await;
    assert!(matches!(refused, Err(StoreError::Unavailable { .. })), "{refused:?}");
    assert_eq!((other.form(), other.history(), other.is_rewound()), (down, 0, false));
    // A value of the older form is written at once, also in a batch, and the watch goes on.
    let updated = other.update(&key("a"), created, Bytes::from_static(b"{}")).await.unwrap();
    let names: Vec<Key> = (0..50).map(|number| key(&format!("batch{number}"))).collect();
    let third = connect(&server).await.unwrap();
    one.change_form(down, Form::of(3)).await.unwrap();
    let writes = names.iter().map(|name| third.create(name, Bytes::from_static(b"{}")));
    for result in futures::future::join_all(writes).await {
        result.unwrap();
    }
    assert_eq!((third.form(), third.history()), (Form::of(3), 0));
    let mut last = Revision::NONE;
    while last < updated {
        if let WatchItem::Event(event) = watch.next().await.unwrap().unwrap() {
            last = event.revision;
        }
    }
    let expected = one.change_form(Form::of(4), Form::of(3)).await;
    assert!(expected.is_ok(), "a repeated change is done already: {expected:?}");
    let wrong = one.change_form(Form::of(4), Form::of(4)).await;
    assert!(matches!(wrong, Err(StoreError::Refused { .. })), "{wrong:?}");
}

#[tokio::test]
async fn hv_22_a_store_with_an_unknown_form_is_not_opened_and_an_open_one_is_closed() {
    let server = Server::start(Release::Current);
    let (one, other) = (connect(&server).await.unwrap(), connect(&server).await.unwrap());
    one.change_form(Form::of(4), Form::of(9)).await.unwrap();
    assert!(matches!(connect(&server).await, Err(StoreError::Form { found: 9 })));
    let refused = other.create(&key("a"), Bytes::from_static(b"{}")).await;
    assert!(refused.is_err());
    for _ in 0..100 {
        if other.unreadable_form() == Some(9) {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("the unknown form is not reported");
}

#[tokio::test]
async fn hv_23_a_value_of_a_program_that_does_not_compare_the_record_is_counted() {
    let server = Server::start(Release::Current);
    let store = connect(&server).await.unwrap();
    let before = store.create(&key("own"), Bytes::from_static(DERIVED)).await.unwrap();
    store.change_form(Form::of(4), Form { to: Some(3), ..Form::of(4) }).await.unwrap();
    let mut watch = store.watch(&KeyRange::prefix("/capstan/"), before).await.unwrap();
    let mut stranger = Client::connect([server.endpoint()], None).await.unwrap();
    stranger.put("/capstan/stray", DERIVED, None).await.unwrap();
    loop {
        if let WatchItem::Event(event) = watch.next().await.unwrap().unwrap()
            && event.key == key("stray")
        {
            break;
        }
    }
    assert_eq!(store.stray_writes(), 1, "its own value from before the change is none");
}

#[tokio::test]
async fn hv_23_a_value_in_a_form_that_another_server_has_just_committed_is_not_counted() {
    let server = Server::start(Release::Current);
    let (one, other) = (connect(&server).await.unwrap(), connect(&server).await.unwrap());
    let down = Form { to: Some(3), ..Form::of(4) };
    one.change_form(Form::of(4), down).await.unwrap();
    one.change_form(down, Form::of(3)).await.unwrap();
    let mut watch = other.watch(&KeyRange::prefix("/capstan/"), Revision::NONE).await.unwrap();
    let mut until = async |name: &str| loop {
        if let WatchItem::Event(event) = watch.next().await.unwrap().unwrap()
            && event.key == key(name)
        {
            break;
        }
    };
    other.create(&key("open"), Bytes::from_static(b"{}")).await.unwrap();
    until("open").await;
    assert_eq!(other.form(), Form::of(3));
    // The other one makes no call from here on.
    one.change_form(Form::of(3), Form::of(4)).await.unwrap();
    one.create(&key("a"), Bytes::from_static(DERIVED)).await.unwrap();
    until("a").await;
    assert_eq!((other.form(), other.stray_writes()), (Form::of(4), 0));
}

#[tokio::test]
async fn hv_23_the_record_is_not_written_while_a_server_of_an_older_release_writes() {
    let server = Server::start(Release::Current);
    let connect = || {
        let observation = Duration::from_secs(2);
        EtcdStore::connect(EtcdConfiguration {
            endpoints: vec![server.endpoint()],
            observation,
            ..Default::default()
        })
    };
    let mut older = Client::connect([server.endpoint()], None).await.unwrap();
    older.put("/capstan/lease", "0", None).await.unwrap();
    older.put("/other/program", "0", None).await.unwrap();
    let mut renewing = older.clone();
    let renewals = apiserver_executor::spawn_joined(async move {
        for number in 1.. {
            renewing.put("/capstan/lease", number.to_string(), None).await.unwrap();
            tokio::time::sleep(Duration::from_millis(500)).await;
        }
    });
    let refused = connect().await.unwrap_err();
    let text = refused.to_string();
    assert!(matches!(refused, StoreError::Refused { .. }), "{text}");
    assert!(text.contains("/capstan/lease") && text.contains("stop all servers of older releases"), "{text}");
    assert_eq!(older.get("/capstan/meta/store", None).await.unwrap().count(), 0, "nothing was written");

    renewals.abort();
    let _ = renewals.await;
    let mut beside = older.clone();
    let others = apiserver_executor::spawn_joined(async move {
        for number in 1.. {
            beside.put("/other/program", number.to_string(), None).await.unwrap();
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    });
    let store = connect().await.unwrap();
    others.abort();
    assert_eq!(store.form(), Form::of(3), "values of an older release stay readable for it");
    // A later server finds the record, and observes nothing.
    let begun = std::time::Instant::now();
    connect().await.unwrap();
    assert!(begun.elapsed() < Duration::from_secs(2));
}
