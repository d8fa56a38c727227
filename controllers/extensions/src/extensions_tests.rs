//! Tests of the choice of handlers.

use async_trait::async_trait;
use k8s_openapi::api::core::v1::{Namespace, Secret};
use serde_json::{Value, json};

use super::*;
use crate::UpdateMachineRequest;

/// Namespaces with a label of their own name. `gone` does not exist.
#[derive(Debug)]
struct Namespaces;

#[async_trait]
impl SecretSource for Namespaces {
    async fn secret(&self, _: &str, _: &str) -> Result<Option<Secret>, kube::Error> {
        Ok(None)
    }

    async fn namespace(&self, name: &str) -> Result<Option<Namespace>, kube::Error> {
        let found = json!({"metadata": {"name": name, "labels": {"team": name}}});
        Ok((name != "gone").then(|| serde_json::from_value(found).unwrap()))
    }

    async fn create(&self, secret: &Secret) -> Result<Secret, kube::Error> {
        Ok(secret.clone())
    }

    async fn replace(&self, secret: &Secret) -> Result<Secret, kube::Error> {
        Ok(secret.clone())
    }
}

/// Returns an ExtensionConfig whose server does not exist, with these handlers of a hook.
#[allow(clippy::needless_pass_by_value, reason = "a test reads better with a literal")]
fn config(name: &str, selector: Value, hook: &str, handlers: &[&str]) -> ExtensionConfig {
    let listed = |short: &&str| {
        let policy = if *short == "ignored" { "Ignore" } else { "Fail" };
        let hook = json!({"apiVersion": crate::API_VERSION, "hook": hook});
        json!({"name": format!("{short}.{name}"), "failurePolicy": policy, "requestHook": hook})
    };
    let handlers: Vec<Value> = handlers.iter().map(listed).collect();
    serde_json::from_value(json!({
        "metadata": {"name": name, "uid": name, "resourceVersion": "1"},
        "spec": {"clientConfig": {"url": "https://127.0.0.1:1"}, "namespaceSelector": selector},
        "status": {"handlers": handlers},
    }))
    .unwrap()
}

fn extensions(configs: Vec<ExtensionConfig>) -> Extensions {
    Extensions::of(configs, Arc::new(Namespaces), &ExtensionServers::default())
}

async fn names(extensions: &Extensions, namespace: &str) -> Vec<String> {
    let found = extensions.handlers(Hook::UpdateMachine, namespace).await.unwrap();
    found.iter().map(|handler| handler.name().to_owned()).collect()
}

fn cause(error: &ExtensionError) -> Cause {
    error.cause().unwrap()
}

#[tokio::test]
async fn handlers_come_in_the_order_of_their_configs_and_names() {
    let none = || json!({});
    let found = extensions(vec![
        config("b", none(), "UpdateMachine", &["y", "x"]),
        config("a", none(), "UpdateMachine", &["z"]),
        config("c", none(), "CanUpdateMachine", &["other"]),
    ]);
    assert_eq!(names(&found, "gone").await, ["z.a", "x.b", "y.b"], "no selector needs the Namespace");
    assert!(found.has(Hook::CanUpdateMachine) && !found.has(Hook::BeforeClusterCreate));
}

#[tokio::test]
async fn a_selector_decides_by_the_labels_of_the_namespace() {
    let blue = json!({"matchLabels": {"team": "blue"}});
    let not_blue = json!({"matchExpressions": [{"key": "team", "operator": "NotIn", "values": ["blue"]}]});
    let found = extensions(vec![
        config("a", blue, "UpdateMachine", &["only"]),
        config("b", not_blue, "UpdateMachine", &["others"]),
        config("c", json!(null), "UpdateMachine", &["all"]),
    ]);
    assert_eq!(names(&found, "blue").await, ["only.a", "all.c"]);
    assert_eq!(names(&found, "red").await, ["others.b", "all.c"]);
    let error = found.handlers(Hook::UpdateMachine, "gone").await.unwrap_err();
    assert_eq!(cause(&error), Cause::NotSelected);
    assert!(error.to_string().contains("namespace gone does not exist"), "{error}");
}

#[tokio::test]
async fn a_selector_that_cannot_be_used_is_an_error() {
    let wrong = json!({"matchExpressions": [{"key": "team", "operator": "Like", "values": ["b"]}]});
    let found = extensions(vec![config("a", wrong, "UpdateMachine", &["up"])]);
    let error = found.handlers(Hook::UpdateMachine, "blue").await.unwrap_err();
    assert_eq!(cause(&error), Cause::Misconfigured);
    assert!(error.to_string().contains("spec.namespaceSelector"), "{error}");
}

#[tokio::test]
async fn a_named_handler_must_be_registered_for_the_hook_and_the_namespace() {
    let blue = json!({"matchLabels": {"team": "blue"}});
    let found = extensions(vec![
        config("a", blue, "UpdateMachine", &["up"]),
        config("b", json!({}), "CanUpdateMachine", &["can"]),
    ]);
    let request = UpdateMachineRequest::default();
    for (handler, namespace, expected, text) in [
        ("up.x", "blue", Cause::NotRegistered, "ExtensionConfig x, hook UpdateMachine: the handler is not"),
        ("can.b", "blue", Cause::NotRegistered, "the handler serves the hook CanUpdateMachine"),
        ("up.a", "red", Cause::NotSelected, "does not select the namespace red"),
    ] {
        let call = Call { handler, namespace, settings: &NO_SETTINGS };
        let error = found.call(&call, &request).await.unwrap_err();
        assert_eq!(cause(&error), expected, "{handler}");
        assert!(error.to_string().contains(text), "{error}");
    }
}

#[tokio::test]
async fn a_server_that_does_not_answer_is_ignored_only_if_its_policy_says_so() {
    let config = config("a", json!({}), "BeforeClusterDelete", &["ignored", "needed"]);
    let found = extensions(vec![config]);
    let request = crate::BeforeClusterDeleteRequest::default();
    let call = |handler| Call { handler, namespace: "blue", settings: &NO_SETTINGS };
    let answer = found.call(&call("ignored.a"), &request).await.unwrap();
    assert_eq!(answer.retry_after(), None);
    let error = found.call(&call("needed.a"), &request).await.unwrap_err();
    assert_eq!(cause(&error), Cause::NoAnswer);
    let text = error.to_string();
    let expected = "extension handler needed.a of ExtensionConfig a, hook BeforeClusterDelete: ";
    assert!(text.starts_with(expected), "{text}");
    assert!(text.contains("POST https://127.0.0.1:1/hooks.runtime.cluster.x-k8s.io/"), "{text}");
    let error = found.call_all("blue", &request).await.unwrap_err();
    assert!(error.to_string().contains("needed.a"), "{error}");
}

#[tokio::test]
async fn an_answer_that_a_policy_ignores_is_not_kept() {
    let found = extensions(vec![config("a", json!({}), "BeforeClusterDelete", &["ignored"])]);
    let request = crate::BeforeClusterDeleteRequest::default();
    let cache = AnswerCache::default();
    let caching = Caching { cache: &cache, key: "k", time: Duration::from_secs(60) };
    let call = Call { handler: "ignored.a", namespace: "blue", settings: &NO_SETTINGS };
    found.call_cached(&caching, &call, &request).await.unwrap();
    let key = "BeforeClusterDelete/ignored.a/a/1/{}/k";
    assert!(cache.get(key).is_none());
    let kept = crate::RetryResponse { retry_after_seconds: 7, ..crate::RetryResponse::default() };
    cache.keep(key.to_owned(), kept.clone(), Duration::from_secs(60));
    assert_eq!(found.call_cached(&caching, &call, &request).await.unwrap(), kept);
}

#[tokio::test]
async fn without_a_handler_all_agree() {
    let answer = extensions(Vec::new()).call_all("blue", &crate::BeforeClusterDeleteRequest::default()).await;
    assert_eq!(answer.unwrap().retry_after(), None);
}
