//! Tests of steps that the server refuses.

use k8s_openapi::api::core::v1::ConfigMap;
use kube::api::ApiResource;
use serde_json::{Value, json};

use super::*;
use crate::api_in_memory::FakeApi;

const PATH: &str = "/api/v1/namespaces/ns/configmaps/";

/// Name of a protected object. It comes before [`FREE`] in the queue.
const PROTECTED: &str = "a-protected";

const FREE: &str = "b-free";

/// Returns an object whose owner is gone.
fn orphan(name: &str) -> Value {
    let owner = json!({"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": "uid-gone"});
    json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": name, "namespace": "ns", "uid": format!("uid-{name}"), "ownerReferences": [owner]}})
}

fn reported(name: &str) -> PartialObjectMeta<DynamicObject> {
    serde_json::from_value(orphan(name)).unwrap()
}

fn exists(api: &FakeApi, name: &str) -> bool {
    api.get(&format!("{PATH}{name}")).is_some()
}

/// Collector whose kinds are all listed, with two objects to delete. The server refuses to delete one of them.
fn scene(api: &FakeApi) -> (GarbageCollector, State) {
    let resource = ApiResource::erase::<ConfigMap>(&());
    let kind = ServedKind { resource, namespaced: true, versions: vec!["v1".to_owned()] };
    let context = ControllerContext { kinds: Arc::from([kind]), ..api.context("garbage-collector") };
    let collector = GarbageCollector::new(&context);
    let mut state = State::new(&collector.kinds, Arc::clone(&collector.queue));
    state.take((0, Event::Init));
    for name in [PROTECTED, FREE] {
        api.put(&format!("{PATH}{name}"), orphan(name));
        state.take((0, Event::InitApply(reported(name))));
    }
    state.take((0, Event::InitDone));
    api.refuse_writes(Some(&format!("{PATH}{PROTECTED}")));
    (collector, state)
}

/// Makes a step for each object that waits now.
async fn work(collector: &GarbageCollector, state: &mut State) {
    for _ in 0..state.queue.len() {
        collector.work(state).await;
    }
}

#[tokio::test]
async fn a_protected_object_gets_an_event_and_does_not_block_the_queue() {
    let api = FakeApi::default();
    let (collector, mut state) = scene(&api);
    assert!(state.is_complete());
    work(&collector, &mut state).await;
    assert_eq!((exists(&api, PROTECTED), exists(&api, FREE)), (true, false));
    assert!(state.queue.is_empty() && state.not_before.is_none(), "other steps wait for nothing");
    let events = api.events();
    assert_eq!(events.len(), 1, "{events:?}");
    let event = &events[0];
    let about = &event["involvedObject"];
    assert_eq!((&about["kind"], &about["name"]), (&json!("ConfigMap"), &json!(PROTECTED)));
    assert_eq!((&event["type"], &event["reason"]), (&json!("Warning"), &json!("FailedDelete")));
    assert_eq!(event["message"], "The garbage collector cannot delete it: Forbidden");
}

#[tokio::test]
async fn a_refused_step_is_retried_after_its_interval() {
    let api = FakeApi::default();
    let (collector, mut state) = scene(&api);
    work(&collector, &mut state).await;
    state.retry_refused(Instant::now());
    assert!(state.queue.is_empty(), "it is too early");
    let later = Instant::now() + REFUSED;
    state.retry_refused(later);
    assert!(state.refused.is_empty());
    work(&collector, &mut state).await;
    assert!(exists(&api, PROTECTED) && state.refused.contains_key("uid-a-protected"), "refused once more");
    api.refuse_writes(None);
    state.retry_refused(Instant::now() + REFUSED);
    work(&collector, &mut state).await;
    assert!(!exists(&api, PROTECTED));
    assert!(state.queue.is_empty() && state.refused.is_empty());
}

#[tokio::test]
async fn a_change_of_a_refused_object_is_tried_at_once() {
    let api = FakeApi::default();
    let (collector, mut state) = scene(&api);
    work(&collector, &mut state).await;
    api.refuse_writes(None);
    state.take((0, Event::Apply(reported(PROTECTED))));
    work(&collector, &mut state).await;
    assert!(!exists(&api, PROTECTED));
}

#[tokio::test]
async fn an_object_that_was_changed_since_is_not_deleted() {
    let api = FakeApi::default();
    let (collector, mut state) = scene(&api);
    let path = format!("{PATH}{FREE}");
    let observed = serde_json::from_value(api.get(&path).unwrap()).unwrap();
    let mut taken_over = orphan(FREE);
    taken_over["metadata"]["ownerReferences"][0]["uid"] = json!("uid-of-another");
    api.put(&path, taken_over);
    state.take((0, Event::Apply(observed)));
    work(&collector, &mut state).await;
    assert!(exists(&api, FREE));
    let changed = serde_json::from_value(api.get(&path).unwrap()).unwrap();
    state.take((0, Event::Apply(changed)));
    work(&collector, &mut state).await;
    assert!(!exists(&api, FREE), "its new owner does not exist either");
}
