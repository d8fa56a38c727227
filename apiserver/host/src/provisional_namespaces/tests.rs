//! Tests of provisional namespaces.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use apiserver_machinery::store::PROVISIONAL;

use super::*;
use crate::fake::{Fake, status};
use crate::health::HostState;

/// Namespaces of Capstan or of the host, by name.
type Namespaces = Arc<Mutex<BTreeMap<String, Value>>>;

const PATH: &str = "/api/v1/namespaces";

fn own_namespace(name: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Namespace", "spec": {"finalizers": ["example.com/x", "kubernetes"]},
        "metadata": {"name": name, "uid": format!("own-{name}"), "resourceVersion": "7",
            "annotations": {PROVISIONAL: "true"},
            "labels": {"capstan.dev/keystone-project": "p1", "pod-security.kubernetes.io/enforce": "privileged"}}})
}

fn read(namespace: Value) -> Namespace {
    serde_json::from_value(namespace).unwrap()
}

/// Returns a store with these namespaces, and its server.
fn server(all: Vec<Value>) -> (Fake, Namespaces) {
    let named = all.into_iter().map(|it| (it["metadata"]["name"].as_str().unwrap().to_owned(), it));
    let namespaces: Namespaces = Arc::new(Mutex::new(named.collect()));
    let fake = Fake::new(status(404));
    fake.responds(stored(&namespaces));
    (fake, namespaces)
}

/// Responds as a server with these namespaces does.
fn stored(namespaces: &Namespaces) -> impl FnMut(&str, &Value) -> Option<(u16, Value)> + Send + use<> {
    let namespaces = Arc::clone(namespaces);
    move |line, body| {
        let mut namespaces = namespaces.lock().unwrap();
        let (method, path) = line.split_once(' ').unwrap();
        let name = path.strip_prefix(PATH).unwrap().split('/').nth(1).unwrap_or_default().to_owned();
        Some(match (method, namespaces.get(&name).cloned()) {
            ("GET", _) if name.is_empty() => {
                let items: Vec<Value> = namespaces.values().cloned().collect();
                let list = json!({"apiVersion": "v1", "kind": "NamespaceList", "items": items,
                    "metadata": {"resourceVersion": "9"}});
                (200, list)
            }
            ("GET", Some(found)) => (200, found),
            ("POST", _) => {
                let mut created = body.clone();
                created["metadata"]["uid"] = json!("of-host");
                namespaces.insert(created["metadata"]["name"].as_str().unwrap().to_owned(), created.clone());
                (201, created)
            }
            ("PUT", Some(_)) => {
                namespaces.insert(name, body.clone());
                (200, body.clone())
            }
            ("DELETE", Some(gone)) => {
                namespaces.remove(&name);
                (200, gone)
            }
            _ => status(404),
        })
    }
}

fn writer(own: &Fake, host: &Fake, health: &HostHealth) -> ProvisionalNamespaces {
    ProvisionalNamespaces::new(own.client(), host.client(), health.clone(), WriteLimit::default())
}

#[tokio::test(start_paused = true)]
async fn ho_35_a_provisional_namespace_is_created_in_the_host_and_capstans_own_one_ends() {
    let mut permanent = own_namespace("permanent");
    permanent["metadata"].as_object_mut().unwrap().remove("annotations");
    let (own, own_namespaces) = server(vec![own_namespace("team"), permanent]);
    let (host, of_host) = server(Vec::new());
    let health = HostHealth::in_state(HostState::Up);
    let mut writer = writer(&own, &host, &health);
    writer.pass().await.unwrap();
    let created = of_host.lock().unwrap()["team"].clone();
    assert_eq!(created["metadata"]["labels"], json!({"capstan.dev/keystone-project": "p1"}));
    assert_eq!(created["metadata"].get("annotations"), None);
    assert_eq!(of_host.lock().unwrap().len(), 1, "the other one is Capstan's own for ever");
    assert_eq!(own_namespaces.lock().unwrap().len(), 2, "the own one stays until the host has it");

    let before = own.requests().len();
    writer.pass().await.unwrap();
    assert_eq!(own_namespaces.lock().unwrap().keys().collect::<Vec<_>>(), ["permanent"]);
    let made = own.requests().split_off(before);
    assert_eq!(made[1..], [format!("PUT {PATH}/team/finalize"), format!("DELETE {PATH}/team")]);
    let bodies = own.bodies().split_off(before);
    assert_eq!(bodies[1]["spec"]["finalizers"], json!(["example.com/x"]), "no controller empties it");
    assert_eq!(bodies[2]["preconditions"], json!({"uid": "own-team", "resourceVersion": "7"}));
    assert_eq!(host.requests().iter().filter(|line| line.starts_with("POST")).count(), 1);
}

#[tokio::test(start_paused = true)]
async fn ho_35_nothing_is_written_while_the_host_is_not_up_and_the_namespaces_wait() {
    let (own, own_namespaces) = server(vec![own_namespace("team")]);
    let (host, of_host) = server(Vec::new());
    for state in [HostState::Down, HostState::Probation, HostState::Other] {
        let health = HostHealth::in_state(state);
        writer(&own, &host, &health).pass().await.unwrap();
        assert_eq!(health.metrics().outbox(Outbox::Namespaces).0, 1, "{state:?}");
    }
    assert!(host.requests().is_empty() && of_host.lock().unwrap().is_empty());
    assert_eq!(own_namespaces.lock().unwrap().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn ho_35_a_refusal_is_a_condition_and_is_tried_again_after_a_minute() {
    let (own, own_namespaces) = server(vec![own_namespace("a"), own_namespace("b")]);
    let (host, of_host) = server(Vec::new());
    let mut responds = stored(&of_host);
    host.responds(move |line, body| match body["metadata"]["name"].as_str() {
        Some("a") => Some(status(403)),
        _ => responds(line, body),
    });
    let health = HostHealth::in_state(HostState::Up);
    let mut writer = writer(&own, &host, &health);
    for _ in 0..2 {
        writer.pass().await.unwrap();
    }
    assert_eq!(of_host.lock().unwrap().keys().collect::<Vec<_>>(), ["b"], "it stops no other");
    let condition = own_namespaces.lock().unwrap()["a"]["status"]["conditions"][0].clone();
    assert_eq!((&condition["type"], &condition["status"]), (&json!("WriteBackForbidden"), &json!("True")));
    let message = condition["message"].as_str().unwrap();
    assert!(message.starts_with("the fake responds 403. Apply the output of"), "{message}");
    assert!(message.contains("--create-namespaces"), "{message}");
    let attempts = || host.requests().iter().filter(|line| line.starts_with("POST")).count();
    assert_eq!(attempts(), 2, "one for each namespace");

    host.responds(stored(&of_host));
    writer.pass().await.unwrap();
    assert_eq!(attempts(), 2, "a minute has not passed");
    tokio::time::sleep(REFUSED_PAUSE).await;
    for _ in 0..2 {
        writer.pass().await.unwrap();
    }
    assert!(of_host.lock().unwrap().contains_key("a") && own_namespaces.lock().unwrap().is_empty());
}

#[test]
fn ho_35_the_host_decides_on_the_step() {
    let leaving = json!({"metadata": {"name": "team", "deletionTimestamp": "2026-11-21T12:00:00Z"}});
    assert_eq!(step(None), Step::Create);
    assert_eq!(step(Some(&read(json!({"metadata": {"name": "team"}})))), Step::HandOver);
    assert_eq!(step(Some(&read(leaving))), Step::Wait);
    let mut own = own_namespace("team");
    assert!(is_provisional(&read(own.clone())));
    own["metadata"]["deletionTimestamp"] = json!("2026-11-21T12:00:00Z");
    assert!(!is_provisional(&read(own)), "its user has deleted it");
}

#[test]
fn ho_35_a_condition_is_written_once_and_replaces_that_of_another_refusal() {
    let at = |seconds| Time(Timestamp::from_second(seconds).unwrap());
    let refused = |reason, message: &str| Refusal { reason, message: message.to_owned() };
    let first = shown(&read(own_namespace("team")), &refused("WriteBackForbidden", "m"), at(1)).unwrap();
    assert!(shown(&first, &refused("WriteBackForbidden", "m"), at(2)).is_none());
    let conditions = |namespace: &Namespace| {
        namespace.status.as_ref().and_then(|status| status.conditions.clone()).unwrap_or_default()
    };
    let second = shown(&first, &refused("WriteBackForbidden", "n"), at(2)).unwrap();
    assert_eq!(conditions(&second)[0].last_transition_time, Some(at(1)));
    let third = shown(&second, &refused("WriteBackRefused", "n"), at(3)).unwrap();
    assert_eq!(conditions(&third).len(), 1);
    assert_eq!(conditions(&third)[0].last_transition_time, Some(at(3)));
}

#[test]
fn ho_35_only_a_refusal_that_a_person_ends_is_shown() {
    let error = |code| {
        let status = kube::core::Status::failure("no", "No").with_code(code);
        refusal("team", &kube::Error::Api(status.boxed())).map(|refusal| refusal.reason)
    };
    assert_eq!(
        [400, 403, 422].map(error),
        ["WriteBackRefused", "WriteBackForbidden", "WriteBackRefused"].map(Some)
    );
    assert_eq!([401, 409, 429, 500, 503].map(error), [None; 5]);
}
