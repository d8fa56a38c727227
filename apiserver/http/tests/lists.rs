//! Tests of lists: the revision that they show, their pages, and their cost for the store.

#![allow(clippy::disallowed_methods, reason = "a test awaits its tasks, or ends with them")]
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod counted;
mod server;
mod stores;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use apiserver_access::{Attributes, Authorizer, Chain, Decision, LocalPolicy, Verdict};
use apiserver_machinery::encryption::{Encryption, Provider};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use counted::Counted;
use serde_json::{Value, json};
use server::{Server, Setup};
use storage_contract::{Key, Revision, Store};
use storage_embedded::EmbeddedStore;
use stores::Kept;

const GADGETS: &str = "/apis/toys.example.com/v1/namespaces/default/gadgets";

fn gadget(name: &str) -> Value {
    json!({"apiVersion": "toys.example.com/v1", "kind": "Gadget", "metadata": {"name": name}, "spec": {"size": 1}})
}

fn revision(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

fn names(list: &Value) -> Vec<&str> {
    let items = list["items"].as_array().unwrap();
    items.iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect()
}

fn token(rv: i64, start: &str) -> String {
    URL_SAFE_NO_PAD.encode(json!({"v": "meta.k8s.io/v1", "rv": rv, "start": start}).to_string())
}

struct World {
    store: Arc<dyn Store>,
    server: Server,
    _kept: Kept,
}

async fn world_on((store, kept): (Arc<dyn Store>, Kept)) -> (World, [u64; 3]) {
    let server = Server::start_on(Arc::clone(&store)).await;
    let mut revisions = [0; 3];
    for (name, made) in ["a", "b", "c"].into_iter().zip(&mut revisions) {
        *made = revision(&server.post(GADGETS, &gadget(name)).await.1);
    }
    (World { store, server, _kept: kept }, revisions)
}

/// A server on a store with the gadgets `a`, `b` and `c`.
async fn world() -> (World, [u64; 3]) {
    world_on(stores::embedded()).await
}

/// The same on every kind of store.
async fn worlds() -> Vec<(World, [u64; 3])> {
    let mut worlds = Vec::new();
    for store in stores::all().await {
        worlds.push(world_on(store).await);
    }
    worlds
}

#[tokio::test]
async fn invalid_list_options_get_the_errors_of_kube_apiserver() {
    let (world, _) = world().await;
    let continued = token(1, "a\0");
    let invalid = |why: &str| format!("ListOptions.meta.k8s.io \"\" is invalid: {why}");
    let unless = "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden unless resourceVersion is provided";
    let when = "resourceVersionMatch: Forbidden: resourceVersionMatch is forbidden when continue is provided";
    let unsupported = "resourceVersionMatch: Unsupported value: \"Foo\": supported values: \"Exact\", \"NotOlderThan\", \"\"";
    let exact = "resourceVersionMatch: Forbidden: resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"";
    let initial = "sendInitialEvents: Forbidden: sendInitialEvents is forbidden for list";
    let table = [
        ("resourceVersionMatch=Exact".to_owned(), 422, invalid(unless)),
        ("resourceVersionMatch=Foo".to_owned(), 422, invalid(&format!("[{unless}, {unsupported}]"))),
        ("resourceVersion=1&resourceVersionMatch=Foo".to_owned(), 422, invalid(unsupported)),
        ("resourceVersion=0&resourceVersionMatch=Exact".to_owned(), 422, invalid(exact)),
        ("continue=x&resourceVersion=1&resourceVersionMatch=Exact".to_owned(), 422, invalid(when)),
        ("continue=x&resourceVersionMatch=NotOlderThan".to_owned(), 422, invalid(&format!("[{unless}, {when}]"))),
        ("sendInitialEvents=".to_owned(), 422, invalid(initial)),
        (
            format!("continue={continued}&resourceVersion=5"),
            400,
            "specifying resource version is not allowed when using continue".to_owned(),
        ),
        (
            "resourceVersion=abc".to_owned(),
            400,
            "invalid resource version: resourceVersion: Invalid value: \"abc\": strconv.ParseUint: parsing \"abc\": invalid syntax"
                .to_owned(),
        ),
        ("labelSelector=a,,b&resourceVersionMatch=Foo".to_owned(), 400, "found ',', expected: identifier after ','".to_owned()),
        ("fieldSelector=spec.foo%3D1".to_owned(), 400, "field label not supported: spec.foo".to_owned()),
        (
            "resourceVersion=999999&resourceVersionMatch=Exact".to_owned(),
            504,
            "Timeout: Too large resource version: 999999, current: ".to_owned(),
        ),
    ];
    for (query, code, message) in table {
        let (found, status) = world.server.get(&format!("{GADGETS}?{query}")).await;
        assert_eq!(found, code, "{query}: {status}");
        assert!(
            status["message"].as_str().unwrap().starts_with(&message),
            "{query}: {status}\nand not {message}"
        );
    }
}

#[tokio::test]
async fn each_combination_of_list_options_returns_the_right_revision() {
    for (world, [first, second, third]) in worlds().await {
        let table = [
            (String::new(), vec!["a", "b", "c"], None),
            ("limit=2".to_owned(), vec!["a", "b"], None),
            ("limit=-1".to_owned(), vec!["a", "b", "c"], None),
            ("resourceVersion=0".to_owned(), vec!["a", "b", "c"], None),
            ("resourceVersion=0&limit=1".to_owned(), vec!["a", "b", "c"], None),
            ("resourceVersion=0&resourceVersionMatch=NotOlderThan".to_owned(), vec!["a", "b", "c"], None),
            (format!("resourceVersion={first}"), vec!["a", "b", "c"], None),
            (
                format!("resourceVersion={second}&resourceVersionMatch=NotOlderThan&limit=2"),
                vec!["a", "b"],
                None,
            ),
            // From before there was a match to say it by: a page of then.
            (format!("resourceVersion={second}&limit=5"), vec!["a", "b"], Some(second)),
            (format!("resourceVersion={first}&resourceVersionMatch=Exact"), vec!["a"], Some(first)),
            (format!("resourceVersion={second}&resourceVersionMatch=Exact&limit=1"), vec!["a"], Some(second)),
        ];
        // The first server has it all in its cache; a later one knows of it from the store alone.
        let late = Server::start_on(Arc::clone(&world.store)).await;
        for server in [&world.server, &late] {
            for (query, expected, exactly) in &table {
                let (code, list) = server.get(&format!("{GADGETS}?{query}")).await;
                assert_eq!(code, 200, "{query}: {list}");
                assert_eq!(&names(&list), expected, "{query}");
                let shown = revision(&list);
                assert!(exactly.map_or(shown >= third, |exactly| shown == exactly), "{query}: {shown}");
            }
        }
    }
}

#[tokio::test]
async fn a_list_not_older_than_a_revision_waits_for_it() {
    let (world, _) = world().await;
    let now = revision(&world.server.get(GADGETS).await.1);
    let waiting = {
        let server = world.server.clone();
        let path = format!("{GADGETS}?resourceVersion={}", now + 1);
        tokio::spawn(async move { server.get(&path).await })
    };
    tokio::time::sleep(std::time::Duration::from_millis(300)).await;
    world.server.post(GADGETS, &gadget("d")).await;
    let (code, list) = waiting.await.unwrap();
    assert_eq!((code, names(&list)), (200, vec!["a", "b", "c", "d"]));
    let (code, status) = world.server.get(&format!("{GADGETS}/a?resourceVersion=99999999")).await;
    assert_eq!((code, &status["details"]["causes"][0]["reason"]), (504, &json!("ResourceVersionTooLarge")));
    assert_eq!(status["details"]["retryAfterSeconds"], 1);
    let (code, status) = world.server.get(&format!("{GADGETS}/a?resourceVersion=abc")).await;
    assert_eq!((code, status.get("reason")), (500, None), "{status}");
}

/// Pages of any size, read while objects are written.
#[tokio::test]
async fn every_page_has_the_number_of_remaining_items() {
    for (world, _) in worlds().await {
        for name in ["d", "e", "f", "g"] {
            world.server.post(GADGETS, &gadget(name)).await;
        }
        let another = Server::start_on(Arc::clone(&world.store)).await;
        let (_, mut page) = world.server.get(&format!("{GADGETS}?limit=2")).await;
        world.server.post(GADGETS, &gadget("bb")).await;
        let mut told = vec![page["metadata"]["remainingItemCount"].clone()];
        for (limit, server) in [(1, &world.server), (1, &another), (2, &world.server), (1, &world.server)] {
            let next = page["metadata"]["continue"].as_str().unwrap().to_owned();
            let path = format!("{GADGETS}?limit={limit}&continue={next}");
            page = server.get(&path).await.1;
            told.push(page["metadata"]["remainingItemCount"].clone());
            // A page that is requested again is the same.
            assert_eq!(server.get(&path).await.1, page);
        }
        assert_eq!(told, [json!(5), json!(4), json!(3), json!(1), Value::Null]);
        let (_, fresh) = world.server.get(&format!("{GADGETS}?limit=3")).await;
        assert_eq!(fresh["metadata"]["remainingItemCount"], 5);
    }
}

#[tokio::test]
async fn pages_have_the_number_of_remaining_items_unless_a_selector_is_set() {
    for (world, [_, _, third]) in worlds().await {
        let late = Server::start_on(Arc::clone(&world.store)).await;
        for (server, at) in [(&world.server, ""), (&late, &*format!("&resourceVersion={third}"))] {
            let (_, page) = server.get(&format!("{GADGETS}?limit=1{at}")).await;
            assert_eq!(page["metadata"]["remainingItemCount"], 2, "{page}");
            let next = page["metadata"]["continue"].as_str().unwrap();
            let decoded: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(next).unwrap()).unwrap();
            assert_eq!(decoded, json!({"v": "meta.k8s.io/v1", "rv": revision(&page), "start": "/a\0"}));
            let (_, page) = server.get(&format!("{GADGETS}?limit=5&continue={next}&resourceVersion=0")).await;
            assert_eq!((names(&page), &page["metadata"]["continue"]), (vec!["b", "c"], &json!("")));
            assert_eq!(page["metadata"].get("remainingItemCount"), None);
            let (_, page) = server
                .get(&format!("{GADGETS}?limit=1&fieldSelector=metadata.namespace%3Ddefault{at}"))
                .await;
            assert_ne!(page["metadata"]["continue"], "");
            assert_eq!(page["metadata"].get("remainingItemCount"), None);
            let (_, page) = server.get(&format!("{GADGETS}?limit=1&fieldSelector=metadata.name%3Db")).await;
            assert_eq!((names(&page), &page["metadata"]["continue"]), (vec!["b"], &json!("")));
        }
        let everywhere = "/apis/toys.example.com/v1/gadgets";
        let (_, page) = world.server.get(&format!("{everywhere}?limit=1")).await;
        let next = page["metadata"]["continue"].as_str().unwrap();
        let decoded: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(next).unwrap()).unwrap();
        assert_eq!(decoded["start"], "/default/a\0");
        assert_eq!(names(&world.server.get(&format!("{everywhere}?continue={next}")).await.1), ["b", "c"]);
    }
}

#[tokio::test]
async fn a_page_of_a_compacted_revision_returns_a_token_to_continue() {
    for (world, [first, _, third]) in worlds().await {
        world.store.compact(Revision::new(third)).await.unwrap();
        let late = Server::start_on(Arc::clone(&world.store)).await;
        let (code, status) = late
            .get(&format!("{GADGETS}?limit=1&continue={}", token(first.try_into().unwrap(), "a\0")))
            .await;
        assert_eq!((code, &status["reason"]), (410, &json!("Expired")));
        let expected = "The provided continue parameter is too old to display a consistent list result. You can start a new list";
        assert!(status["message"].as_str().unwrap().starts_with(expected), "{status}");
        let next = status["metadata"]["continue"].as_str().unwrap();
        let decoded: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(next).unwrap()).unwrap();
        assert_eq!(decoded, json!({"v": "meta.k8s.io/v1", "rv": -1, "start": "a\0"}));
        // The rest, as it is now; from here on at one revision again.
        let (code, page) = late.get(&format!("{GADGETS}?limit=1&continue={next}")).await;
        assert_eq!((code, names(&page)), (200, vec!["b"]));
        let next = page["metadata"]["continue"].as_str().unwrap();
        let decoded: Value = serde_json::from_slice(&URL_SAFE_NO_PAD.decode(next).unwrap()).unwrap();
        assert_eq!(decoded["rv"], revision(&page));
        assert_eq!(names(&late.get(&format!("{GADGETS}?continue={next}")).await.1), ["c"]);
        let (code, status) =
            late.get(&format!("{GADGETS}?resourceVersion={first}&resourceVersionMatch=Exact")).await;
        assert_eq!(
            (code, &status["message"]),
            (410, &json!("The resourceVersion for the provided list is too old."))
        );
        assert_eq!(status["metadata"], json!({}));
    }
}

#[tokio::test]
async fn consistent_reads_are_fresh_and_read_nothing_from_the_store() {
    let directory = tempfile::tempdir().unwrap();
    let embedded = EmbeddedStore::open(&directory.path().join("store")).unwrap();
    let (counted, counts) = Counted::new(Arc::new(embedded));
    let store: Arc<dyn Store> = Arc::new(counted);
    let reader = Server::start_on(Arc::clone(&store)).await;
    let writer = Server::start_on(store).await;
    for index in 0..20 {
        let (_, made) = writer.post(GADGETS, &gadget(&format!("g{index:02}"))).await;
        counts.reads.store(0, Ordering::Relaxed);
        let (_, list) = reader.get(GADGETS).await;
        assert_eq!(names(&list).len(), index + 1, "an acknowledged write is missing");
        assert!(revision(&list) >= revision(&made));
        let (code, one) = reader.get(&format!("{GADGETS}/g{index:02}")).await;
        assert_eq!((code, &one), (200, &made));
        let (_, page) = reader.get(&format!("{GADGETS}?limit=1&labelSelector=!none")).await;
        assert_eq!(names(&page), ["g00"]);
        assert_eq!(counts.reads.load(Ordering::Relaxed), 0, "a consistent read read the store");
    }
    // Where the store cannot be followed soundly it is read, and the answers are the same.
    counts.silent.store(true, Ordering::Relaxed);
    writer.post(GADGETS, &gadget("last")).await;
    counts.reads.store(0, Ordering::Relaxed);
    assert_eq!(names(&reader.get(GADGETS).await.1).len(), 21);
    assert_eq!(reader.get(&format!("{GADGETS}/last")).await.0, 200);
    assert_eq!(counts.reads.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn an_undecodable_object_is_named_in_the_error_and_never_omitted() {
    let (world, _) = world().await;
    let key = Key::new("/capstan/toys.example.com/gadgets/default/broken").unwrap();
    let mut watch = world.server.watch(&format!("{GADGETS}?watch=true&labelSelector=app")).await;
    let made = world.store.create(&key, Bytes::from("{")).await.unwrap();
    for path in [GADGETS.to_owned(), format!("{GADGETS}?labelSelector=app%3Dx"), format!("{GADGETS}/broken")]
    {
        for accept in ["application/json", "application/json;as=Table;v=v1;g=meta.k8s.io"] {
            let (code, status) = world.server.send("GET", &path, &[("accept", accept)], "").await;
            assert_eq!(code, 500, "{path}: {status}");
            assert!(status["message"].as_str().unwrap().contains(key.as_str()), "{path}: {status}");
        }
    }
    let error = watch.next().await;
    assert_eq!((&error["type"], &error["object"]["code"]), (&json!("ERROR"), &json!(500)));
    assert!(error["object"]["message"].as_str().unwrap().contains(key.as_str()), "{error}");
    assert_eq!(watch.next_or_end().await, None);
    // The others are read all the same, and all are once it is gone.
    assert_eq!(world.server.get(&format!("{GADGETS}/a")).await.0, 200);
    assert_eq!(world.server.get(&format!("{GADGETS}?fieldSelector=metadata.name%3Da")).await.0, 200);
    world.store.delete(&key, made).await.unwrap();
    assert_eq!(world.server.get(GADGETS).await.0, 200);
}

#[tokio::test]
async fn tm_15_a_planted_plain_object_of_a_sealed_kind_is_an_error_and_the_others_are_served() {
    let key = Provider::aes_gcm("k1", &[1; 32]).unwrap();
    let sealed = Encryption::new(BTreeMap::from([("gadgets.toys.example.com".to_owned(), vec![key])]));
    let of = |name: &str| Key::new(format!("/capstan/toys.example.com/gadgets/default/{name}")).unwrap();
    let mut planted: Option<String> = None;
    for (encryption, code) in [(Encryption::default(), 200), (sealed, 500)] {
        let (store, _kept) = stores::embedded();
        let setup = Setup { encryption: Arc::new(encryption), ..Setup::default() };
        let server = Server::set_up_on(Arc::clone(&store), setup).await;
        server.post(GADGETS, &gadget("a")).await;
        let stored = store.get(&of("a")).await.unwrap().unwrap().value;
        // It is a whole object: that of a server which does not seal the kind.
        let plain = planted.get_or_insert_with(|| {
            let text = String::from_utf8(stored.to_vec()).unwrap();
            text.replace(r#""name":"a""#, r#""name":"planted""#)
        });
        store.create(&of("planted"), Bytes::from(plain.clone())).await.unwrap();
        for path in [format!("{GADGETS}/planted"), GADGETS.to_owned()] {
            let (found, answer) = server.get(&path).await;
            assert_eq!(found, code, "{path}: {answer}");
            let named = answer["message"].as_str().is_some_and(|text| text.contains(of("planted").as_str()));
            assert_eq!(named, code == 500, "{path}: {answer}");
        }
        assert_eq!(server.get(&format!("{GADGETS}/a")).await.0, 200);
    }
}

/// Authorizer that allows deletions, and nothing else.
#[derive(Debug)]
struct Deletes;

#[async_trait::async_trait]
impl Authorizer for Deletes {
    async fn judge(&self, attributes: &Attributes) -> Verdict {
        let may = attributes.verb == "delete";
        Verdict::of(if may { Decision::Allow } else { Decision::NoOpinion(String::new()) }, self.name())
    }
}

#[tokio::test]
async fn an_object_that_cannot_be_read_is_deleted_with_the_option_and_its_permission() {
    let key = Provider::aes_gcm("k1", &[1; 32]).unwrap();
    let sealed = Encryption::new(BTreeMap::from([("gadgets.toys.example.com".to_owned(), vec![key])]));
    let (store, _kept) = stores::embedded();
    let authorizer = Arc::new(Chain(vec![Arc::new(LocalPolicy::default()), Arc::new(Deletes)]));
    let setup = Setup { encryption: Arc::new(sealed), authorizer, ..Setup::default() };
    let server = Server::set_up_on(Arc::clone(&store), setup).await;
    server.post(GADGETS, &gadget("good")).await;
    let key = Key::new("/capstan/toys.example.com/gadgets/default/damaged").unwrap();
    store.create(&key, Bytes::from_static(b"k8s:enc:aesgcm:v1:k1:nonsense")).await.unwrap();
    let option = "ignoreStoreReadErrorWithClusterBreakingPotential=true";
    let (damaged, good) = (format!("{GADGETS}/damaged"), format!("{GADGETS}/good"));
    assert_eq!(server.delete(&damaged).await.0, 500, "the value cannot be opened");
    let unsafely = format!("{damaged}?{option}");
    let (code, refused) = server.seen_by("deleter", &[]).delete(&unsafely).await;
    assert_eq!(code, 403, "{refused}");
    assert!(refused["message"].as_str().unwrap().contains("unsafe-delete-ignore-read-errors"), "{refused}");
    for path in [format!("{good}?{option}"), format!("{unsafely}&dryRun=All"), format!("{GADGETS}?{option}")]
    {
        let (code, answer) = server.delete(&path).await;
        assert_eq!(code, 422, "{path}: {answer}");
    }
    assert!(store.get(&key).await.unwrap().is_some(), "nothing was deleted");
    let (code, status) = server.delete(&unsafely).await;
    assert_eq!((code, &status["status"]), (200, &json!("Success")), "{status}");
    let details = json!({"name": "damaged", "group": "toys.example.com", "kind": "gadgets"});
    assert_eq!(status["details"], details, "the uid is not known");
    assert_eq!(store.get(&key).await.unwrap(), None);
    assert_eq!(server.delete(&unsafely).await.0, 404);
    assert_eq!(server.get(&good).await.0, 200);
}

#[tokio::test]
async fn tables_contain_the_requested_objects() {
    let (world, _) = world().await;
    let get = async |query: &str, version: &str| {
        let accept = format!("application/json;as=Table;v={version};g=meta.k8s.io");
        world.server.send("GET", &format!("{GADGETS}{query}"), &[("accept", &accept)], "").await
    };
    let (_, table) = get("", "v1").await;
    assert_eq!(table["rows"][0]["object"]["kind"], "PartialObjectMetadata");
    assert_eq!(table["metadata"].get("continue"), None);
    let column = json!({"name": "Size", "type": "integer", "format": "", "priority": 0,
        "description": "Custom resource definition column (in JSONPath format): .spec.size"});
    assert_eq!(table["columnDefinitions"][1], column);
    let (_, table) = get("?limit=1&includeObject=Object", "v1beta1").await;
    assert_eq!(table["apiVersion"], "meta.k8s.io/v1beta1");
    assert_eq!(table["rows"][0]["object"]["spec"]["size"], 1);
    assert_eq!(table["metadata"]["remainingItemCount"], 2);
    let (_, table) = get("/a?includeObject=None", "v1").await;
    assert_eq!(table["rows"], json!([{"cells": ["a", 1], "object": null}]));
    // The rows of a list are made of excerpts, that of one object of the whole of it.
    for query in ["", "?includeObject=None", "?includeObject=Object"] {
        let (_, all) = get(query, "v1").await;
        let name = all["rows"][0]["cells"][0].as_str().unwrap();
        let (_, one) = get(&format!("/{name}{query}"), "v1").await;
        assert_eq!(one["rows"][0], all["rows"][0], "{query}");
    }
    let (code, status) = get("?includeObject=Foo", "v1").await;
    let expected = "Unable to convert to Table as requested: includeObject: Invalid value: \"Foo\": must be 'Metadata', 'Object', 'None', or empty";
    assert_eq!((code, &status["message"]), (400, &json!(expected)));
}
