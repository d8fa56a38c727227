//! Tests of a history that goes back: an older data directory is put in place, or another etcd.

use std::time::{Duration, Instant};

use bytes::Bytes;
use futures::StreamExt;
use futures::future::join_all;
use storage_contract::{Key, KeyRange, ListOptions, Revision, Store, StoreError, WatchStream};
use storage_etcd::{EtcdConfiguration, EtcdStore, Replacement, Seen};

use crate::server::{Release, Server};

/// Longest time that any step may take on a busy machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn key(name: &str) -> Key {
    Key::new(format!("/capstan/{name}")).unwrap()
}

pub(crate) async fn connect(server: &Server, seen: Option<Seen>) -> EtcdStore {
    let end = Instant::now() + PATIENCE;
    loop {
        let endpoints = vec![server.endpoint()];
        let configuration =
            EtcdConfiguration { endpoints, seen: seen.clone(), ..EtcdConfiguration::default() };
        match EtcdStore::connect(configuration).await {
            Ok(store) => return store,
            Err(error) => assert!(Instant::now() < end, "{error:?}"),
        }
    }
}

/// Waits until the store answers in its newest incarnation.
pub(crate) async fn settled(store: &EtcdStore) -> Revision {
    let end = Instant::now() + PATIENCE;
    loop {
        match store.current_revision().await {
            Ok(revision) => return revision,
            Err(error) => assert!(Instant::now() < end, "{error:?}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

pub(crate) async fn create(store: &EtcdStore, name: &str) -> Revision {
    store.create(&key(name), Bytes::from("1")).await.unwrap()
}

/// Returns the error with which a watch ends.
pub(crate) async fn end_of(watch: &mut WatchStream) -> StoreError {
    let ended = async {
        loop {
            if let Err(error) = watch.next().await.unwrap() {
                break error;
            }
        }
    };
    tokio::time::timeout(PATIENCE, ended).await.unwrap()
}

/// Asserts that the store has the key `kept` and not the key `lost`, and accepts nothing that refers to revisions up to
/// `newest`, which is the largest one before the history went back.
pub(crate) async fn assert_new_history(store: &EtcdStore, kept: Revision, newest: Revision) {
    assert!(settled(store).await > newest);
    assert_eq!((store.history(), store.is_rewound()), (1, false));
    assert_eq!(store.get(&key("lost")).await.unwrap(), None);
    let entry = store.get(&key("kept")).await.unwrap().unwrap();
    assert!(entry.modified > newest && entry.created > newest, "{entry:?}");
    let all = KeyRange::prefix("/capstan/");
    for at in [kept, newest] {
        let options = ListOptions { limit: 0, revision: Some(at) };
        let list = store.list(&all, &options).await;
        assert!(matches!(list, Err(StoreError::Compacted { requested, .. }) if requested == at), "{list:?}");
        let watch = store.watch(&all, at).await.map(|_| ());
        assert!(
            matches!(watch, Err(StoreError::Compacted { requested, .. }) if requested == at),
            "{watch:?}"
        );
        let update = store.update(&key("kept"), at, Bytes::from("2")).await;
        assert!(matches!(update, Err(StoreError::Conflict { .. })), "{update:?}");
    }
    let updated = store.update(&key("kept"), entry.modified, Bytes::from("2")).await.unwrap();
    let mut watch = store.watch(&all, entry.modified.next()).await.unwrap();
    let first = watch.next().await.unwrap().unwrap();
    assert!(updated > newest, "{updated} {first:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn df_09_an_older_data_directory_begins_a_new_incarnation_above_all_revisions() {
    for release in [Release::Distribution, Release::Current] {
        let server = Server::start(release);
        let store = connect(&server, None).await;
        let kept = create(&store, "kept").await;
        let copy = server.copy();
        settled(&store).await;
        for index in 0..20 {
            create(&store, &format!("more{index}")).await;
        }
        let newest = create(&store, "lost").await;
        let mut watch = store.watch(&KeyRange::prefix("/capstan/"), newest.next()).await.unwrap();
        server.restore(&copy);
        let error = end_of(&mut watch).await;
        assert!(matches!(error, StoreError::Rewound { .. }), "{error:?}");
        assert!(error.to_string().contains("etcd is at revision"), "{error}");
        assert!(watch.next().await.is_none());
        assert_new_history(&store, kept, newest).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn df_09_another_etcd_without_data_begins_a_new_incarnation() {
    let server = Server::start(Release::Current);
    let store = connect(&server, None).await;
    let newest = create(&store, "lost").await;
    server.start_anew();
    assert!(settled(&store).await > newest);
    assert_eq!(store.get(&key("lost")).await.unwrap(), None);
    assert!(create(&store, "lost").await > newest, "it can be created again");
}

/// Returns two servers, of which only the first one has noticed that the data were replaced. The second cannot notice it
/// from etcd's revision.
async fn one_noticed() -> (Server, EtcdStore, EtcdStore) {
    let server = Server::start(Release::Current);
    let (first, second) = (connect(&server, None).await, connect(&server, None).await);
    let copy = server.copy();
    settled(&first).await;
    create(&first, "lost").await;
    settled(&second).await;
    server.restore(&copy);
    settled(&first).await;
    for index in 0..10 {
        create(&first, &format!("new{index}")).await;
    }
    (server, first, second)
}

#[tokio::test(flavor = "multi_thread")]
async fn df_09_a_server_in_an_ended_incarnation_reads_nothing_with_its_earlier_numbers() {
    let (_server, first, second) = Box::pin(one_noticed()).await;
    let found = second.get(&key("new3")).await;
    assert!(matches!(found, Err(StoreError::Rewound { .. })), "{found:?}");
    settled(&second).await;
    assert_eq!(second.get(&key("new3")).await.unwrap(), first.get(&key("new3")).await.unwrap());

    let (_server, _first, second) = Box::pin(one_noticed()).await;
    let list = second.list(&KeyRange::prefix("/capstan/"), &ListOptions::default()).await;
    assert!(matches!(list, Err(StoreError::Rewound { .. })), "{list:?}");
}

/// Servers of earlier releases write no record, and compare none.
#[tokio::test(flavor = "multi_thread")]
async fn df_09_the_data_of_an_earlier_release_keep_their_revisions_and_it_can_write_beside_this_one() {
    for release in [Release::Distribution, Release::Current] {
        let server = Server::start(release);
        let mut earlier = etcd_client::Client::connect([server.endpoint()], None).await.unwrap();
        let written = earlier.put("/capstan/old", "1", None).await.unwrap();
        let revision = Revision::new(written.header().unwrap().revision().unsigned_abs() * 100);
        let store = connect(&server, None).await;
        let entry = store.get(&key("old")).await.unwrap().unwrap();
        assert_eq!((entry.modified, entry.created), (revision, revision));
        store.update(&key("old"), revision, Bytes::from("2")).await.unwrap();
        let written = earlier.put("/capstan/old", "3", None).await.unwrap();
        let revision = Revision::new(written.header().unwrap().revision().unsigned_abs() * 100);
        let entry = store.get(&key("old")).await.unwrap().unwrap();
        assert_eq!((entry.modified, &*entry.value), (revision, &b"3"[..]));
        assert_eq!((store.history(), store.is_rewound()), (0, false));
    }
}

/// A write that was acknowledged in neither history must not be made by a server that does not know the newest one.
#[tokio::test(flavor = "multi_thread")]
async fn k_07_a_server_in_an_ended_incarnation_writes_nothing_and_takes_over_the_next_one() {
    let (_server, first, second) = Box::pin(one_noticed()).await;
    let idle = second.seen().revision;
    let names: Vec<Key> = (0..30).map(|index| key(&format!("stray{index}"))).collect();
    let writes = names.iter().map(|name| second.create(name, Bytes::from("1")));
    let results = join_all(writes).await;
    assert!(matches!(results[0], Err(StoreError::Rewound { .. })), "{:?}", results[0]);
    assert!(settled(&second).await > idle);
    assert_eq!(first.seen().incarnation, second.seen().incarnation, "one of them began it");
    for (name, result) in names.iter().zip(results) {
        let found = second.get(name).await.unwrap().map(|entry| entry.modified);
        match result {
            // A write that still waited when the server took over the next incarnation is made there.
            Ok(revision) => assert!(revision > idle && found == Some(revision), "{revision} {found:?}"),
            Err(StoreError::Rewound { .. }) => assert_eq!(found, None),
            Err(error) => panic!("{error:?}"),
        }
    }
    let entry = first.get(&key("new3")).await.unwrap();
    assert_eq!(second.get(&key("new3")).await.unwrap(), entry);
    second.update(&key("new3"), entry.unwrap().modified, Bytes::from("2")).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn hv_34_a_server_that_saw_more_in_an_earlier_run_begins_a_new_incarnation_at_its_start() {
    let server = Server::start(Release::Current);
    let store = connect(&server, None).await;
    create(&store, "kept").await;
    let copy = server.copy();
    settled(&store).await;
    let newest = create(&store, "lost").await;
    let seen = store.seen();
    assert_eq!(seen.revision, newest);
    drop(store);
    let store = connect(&server, Some(seen.clone())).await;
    assert_eq!(store.seen(), seen, "nothing went back");
    server.restore(&copy);
    let store = connect(&server, Some(seen.clone())).await;
    assert!(settled(&store).await > newest && store.seen().incarnation != seen.incarnation);
    // The next one continues it, also one that saw the earlier incarnation only.
    let next = connect(&server, Some(seen)).await;
    assert_eq!(next.seen().incarnation, store.seen().incarnation);
}

/// Replaces the data of an etcd, and writes one value.
async fn replaced(
    server: &Server,
    replacement: &mut Replacement,
    name: &str,
) -> Result<EtcdStore, StoreError> {
    let configuration =
        || EtcdConfiguration { endpoints: vec![server.endpoint()], ..EtcdConfiguration::default() };
    let mut store = EtcdStore::replace(configuration(), replacement).await?;
    if !replacement.moved {
        let page = store.list(&KeyRange::prefix("/capstan/"), &ListOptions::default()).await?;
        for entry in page.entries.iter().filter(|entry| !entry.key.as_str().ends_with("meta/store")) {
            store.delete(&entry.key, entry.modified).await?;
        }
        store.advance_replacement().await?;
        store = EtcdStore::replace(configuration(), replacement).await?;
        assert!(replacement.moved);
    }
    store.create(&key(name), Bytes::from("new")).await?;
    Ok(store)
}

fn replacement(by: &str, aside: Option<&str>, after: u64) -> Replacement {
    let (by, aside) = (by.to_owned(), aside.map(str::to_owned));
    Replacement { by, aside, after: Revision::new(after), form: 3, moved: false }
}

#[tokio::test(flavor = "multi_thread")]
async fn bk_05_no_server_serves_data_that_are_being_replaced_and_then_all_revisions_are_larger() {
    for release in [Release::Distribution, Release::Current] {
        let server = Server::start(release);
        let store = connect(&server, None).await;
        let mut newest = create(&store, "old").await;
        let refused = replaced(&server, &mut replacement("b1", None, 1), "x").await.unwrap_err();
        assert!(refused.to_string().contains("it has 1 keys below /capstan/"), "{refused}");
        for round in 0..3 {
            let (name, by) = (format!("new{round}"), format!("backup \"{round}\""));
            let mut this = replacement(&by, Some("/aside/"), newest.number() + 5_000_000_000);
            let writing = replaced(&server, &mut this, &name).await.unwrap();
            let error = store.get(&key(&name)).await.unwrap_err();
            assert!(matches!(error, StoreError::Rewound { .. }), "{error:?}");
            let endpoints = vec![server.endpoint()];
            let opened =
                EtcdStore::connect(EtcdConfiguration { endpoints, ..EtcdConfiguration::default() }).await;
            let error = opened.unwrap_err().to_string();
            assert!(error.contains(&format!("replaced by backup _{round}_, which has not ended")), "{error}");
            let error =
                replaced(&server, &mut replacement("other", None, 1), "y").await.unwrap_err().to_string();
            assert!(error.contains("has not ended") && error.contains("--replace"), "{error}");
            // An interrupted one goes on with the same new incarnation.
            let mut again = replacement(&by, None, 1);
            let second = replaced(&server, &mut again, &format!("{name}-2")).await.unwrap();
            assert_eq!((again.aside.as_deref(), again.moved), (Some("/aside/"), true));
            assert_eq!(second.seen().incarnation, writing.seen().incarnation);
            second.advance_replacement().await.unwrap();
            let now = settled(&store).await;
            assert!(now.number() > newest.number() + 5_000_000_000, "{now} {newest}");
            assert_eq!(store.get(&key(&name)).await.unwrap().unwrap().value, "new");
            assert_eq!(store.get(&key("old")).await.unwrap(), None);
            newest = create(&store, "more").await;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bk_06_a_migrated_store_is_refused_until_an_operator_returns_to_it() {
    let server = Server::start(Release::Current);
    let store = connect(&server, None).await;
    let newest = create(&store, "kept").await;
    let configuration =
        EtcdConfiguration { endpoints: vec![server.endpoint()], ..EtcdConfiguration::default() };
    let to = "the embedded store /a";
    let migrating = EtcdStore::migrate(configuration.clone(), to).await.unwrap();
    assert!(matches!(store.get(&key("kept")).await, Err(StoreError::Rewound { .. })));
    assert!(EtcdStore::migrate(configuration.clone(), "elsewhere").await.is_err());
    migrating.cancel_migration().await.unwrap();
    settled(&store).await;
    assert_eq!(store.get(&key("kept")).await.unwrap().unwrap().modified, newest, "the incarnation goes on");
    // The first attempt was interrupted.
    for _ in 0..2 {
        let migrating = EtcdStore::migrate(configuration.clone(), to).await.unwrap();
        assert!(migrating.get(&key("kept")).await.unwrap().is_some());
    }
    let error = EtcdStore::connect(configuration.clone()).await.unwrap_err().to_string();
    assert!(error.contains("migrated to the embedded store /a") && error.contains("--force"), "{error}");
    let mut with_force = configuration.clone();
    with_force.accept_migrated = true;
    let returned = EtcdStore::connect(with_force).await.unwrap();
    let entry = returned.get(&key("kept")).await.unwrap().unwrap();
    assert!(entry.modified.number() > newest.number() + 1_000_000, "{entry:?}");
    EtcdStore::connect(configuration).await.unwrap();
}
