//! Calls of handlers, over TLS and HTTP.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use apiserver_types::{Cluster, ClusterSpec, ExtensionConfig, ExtensionConfigStatus};
use controllers_extensions::{
    AnswerCache, BeforeClusterCreateRequest, Caching, Call, Cause, DiscoverVariablesRequest, ExtensionError,
    ExtensionServers, Extensions, Hook, NO_SETTINGS, discover,
};
use controllers_runtime::ApiSecrets;
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};
use tests_scenarios::{ExtensionServer, Reply};

const HOOK: Hook = Hook::BeforeClusterCreate;

/// Returns the handlers of servers whose ExtensionConfigs have these names. They select all namespaces, so no API is read.
async fn registered(servers: &[(&str, &ExtensionServer)]) -> Extensions {
    let connections = ExtensionServers::default();
    let mut configs = Vec::new();
    for (name, server) in servers {
        let mut config: ExtensionConfig = serde_json::from_value(server.config(name)).unwrap();
        config.spec.settings = Some(BTreeMap::from([("who".to_owned(), (*name).to_owned())]));
        let handlers = Some(discover(&connections, &config).await.unwrap());
        config.status = Some(ExtensionConfigStatus { handlers, ..ExtensionConfigStatus::default() });
        configs.push(config);
    }
    let nowhere = tower::service_fn(|_: http::Request<Body>| async {
        Ok::<_, Infallible>(http::Response::new(Body::empty()))
    });
    let namespaces = ApiSecrets(Client::new(nowhere, "default"));
    Extensions::of(configs, Arc::new(namespaces), &connections)
}

fn request() -> BeforeClusterCreateRequest {
    BeforeClusterCreateRequest { cluster: Cluster::new("c", ClusterSpec::default()) }
}

/// Calls the handler `gate.ext`, whose server has this reply and whose entry in the discovery has these further fields.
async fn outcome(entry: &Value, reply: Reply) -> Result<String, ExtensionError> {
    let server = ExtensionServer::start().await.unwrap();
    server.handle(HOOK, "gate", entry, move |_| reply.clone());
    let extensions = registered(&[("ext", &server)]).await;
    let call = Call { handler: "gate.ext", namespace: "n", settings: &NO_SETTINGS };
    Ok(extensions.call(&call, &request()).await?.message)
}

/// Returns cause and text of an error.
fn failure(outcome: Result<String, ExtensionError>) -> (Cause, String) {
    let error = outcome.unwrap_err();
    (error.cause().unwrap(), error.to_string())
}

#[tokio::test]
async fn a_request_has_upstreams_path_query_kind_and_settings() {
    let server = ExtensionServer::start().await.unwrap();
    server.handle(HOOK, "gate", &json!({"timeoutSeconds": 7}), |_| Reply::retry(30, "wait"));
    let extensions = registered(&[("ext", &server)]).await;
    let settings = BTreeMap::from([("class".to_owned(), "c".to_owned())]);
    let call = Call { handler: "gate.ext", namespace: "n", settings: &settings };
    let answer = extensions.call(&call, &request()).await.unwrap();
    assert_eq!((answer.retry_after(), answer.message.as_str()), (Some(Duration::from_secs(30)), "wait"));
    let calls = server.calls(HOOK, "gate");
    assert_eq!((calls.len(), calls[0].query.as_str()), (1, "timeout=7s"));
    assert_eq!(calls[0].path, "/hooks.runtime.cluster.x-k8s.io/v1alpha1/beforeclustercreate/gate");
    let message = &calls[0].message;
    assert_eq!(message["apiVersion"], "hooks.runtime.cluster.x-k8s.io/v1alpha1");
    assert_eq!(message["kind"], "BeforeClusterCreateRequest");
    assert_eq!(message["settings"], json!({"class": "c", "who": "ext"}));
    assert_eq!(message["cluster"]["metadata"]["name"], "c");
}

#[tokio::test]
async fn the_answers_of_all_servers_are_joined_in_the_order_of_their_names() {
    let (first, second) = (ExtensionServer::start().await.unwrap(), ExtensionServer::start().await.unwrap());
    first.handle(HOOK, "gate", &json!({}), |_| Reply::retry(30, "backup"));
    second.handle(HOOK, "gate", &json!({}), |_| Reply::retry(10, "quota"));
    let extensions = registered(&[("b", &second), ("a", &first)]).await;
    let answer = extensions.call_all("n", &request()).await.unwrap();
    assert_eq!(answer.retry_after(), Some(Duration::from_secs(10)));
    assert_eq!(answer.message, "backup, quota");
    // The first refusal ends the calls.
    first.answer(HOOK, "gate", |_| Reply::failure("no"));
    let error = extensions.call_all("n", &request()).await.unwrap_err();
    assert!(error.to_string().contains("gate.a of ExtensionConfig a"), "{error}");
    assert_eq!((first.calls(HOOK, "gate").len(), second.calls(HOOK, "gate").len()), (2, 1));
}

#[tokio::test]
async fn a_refusal_is_an_error_whatever_the_policy() {
    let ignore = json!({"failurePolicy": "Ignore"});
    let (cause, text) = failure(outcome(&ignore, Reply::failure("no quota")).await);
    assert_eq!(cause, Cause::Refused);
    assert!(text.contains("hook BeforeClusterCreate: the server refused: no quota"), "{text}");
    let unknown = Reply::Answer(json!({"status": "Perhaps"}));
    let (cause, text) = failure(outcome(&ignore, unknown).await);
    assert!(cause == Cause::Refused && text.contains("\"Perhaps\""), "{text}");
}

#[tokio::test]
async fn an_answer_out_of_the_protocol_is_ignored_only_by_the_policy() {
    let page = || Reply::Raw(500, String::new(), "<html>broken</html>".to_owned());
    let text = || Reply::Raw(200, String::new(), "broken".to_owned());
    for reply in [page(), text()] {
        let (cause, text) = failure(outcome(&json!({}), reply.clone()).await);
        assert_eq!(cause, Cause::NoAnswer, "{text}");
        assert_eq!(outcome(&json!({"failurePolicy": "Ignore"}), reply).await.unwrap(), "");
    }
    let (_, text) = failure(outcome(&json!({}), page()).await);
    assert!(text.contains("status 500") && text.contains("broken"), "{text}");
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let other = ExtensionServer::start().await.unwrap();
    other.handle(HOOK, "gate", &json!({}), |_| Reply::success());
    let location = format!("{}{}", other.url(), HOOK.path(Some("gate")));
    let (cause, text) = failure(outcome(&json!({}), Reply::Raw(307, location, String::new())).await);
    assert_eq!(cause, Cause::NoAnswer);
    assert!(text.contains("redirects are not followed"), "{text}");
    assert!(other.calls(HOOK, "gate").is_empty());
}

#[tokio::test]
async fn an_answer_is_read_up_to_its_limit() {
    let long = Reply::Raw(200, String::new(), " ".repeat(17 * 1024 * 1024));
    let (cause, text) = failure(outcome(&json!({}), long).await);
    assert!(cause == Cause::NoAnswer && text.contains("larger than 16777216 bytes"), "{text}");
}

#[tokio::test]
async fn a_silent_server_is_waited_for_until_the_timeout() {
    let (cause, text) = failure(outcome(&json!({"timeoutSeconds": 1}), Reply::Silence).await);
    assert!(cause == Cause::NoAnswer && text.contains("no answer within 1 seconds"), "{text}");
}

#[tokio::test]
async fn a_certificate_of_another_ca_is_refused_before_anything_is_sent() {
    let (server, other) = (ExtensionServer::start().await.unwrap(), ExtensionServer::start().await.unwrap());
    let mut config = other.config("ext");
    config["spec"]["clientConfig"]["url"] = server.url().into();
    let config: ExtensionConfig = serde_json::from_value(config).unwrap();
    let error = discover(&ExtensionServers::default(), &config).await.unwrap_err();
    assert_eq!(error.cause(), Some(Cause::NoAnswer), "{error}");
    assert_eq!(server.discoveries(), 0);
}

#[tokio::test]
async fn an_answer_is_kept_by_what_it_depends_on() {
    let server = ExtensionServer::start().await.unwrap();
    let hook = Hook::DiscoverVariables;
    server.handle(hook, "vars", &json!({}), |_| Reply::success());
    let extensions = registered(&[("ext", &server)]).await;
    let (cache, none) = (AnswerCache::default(), &NO_SETTINGS);
    let other = &BTreeMap::from([("size".to_owned(), "big".to_owned())]);
    let request = DiscoverVariablesRequest::default();
    for (key, settings, calls) in [("a", none, 1), ("a", none, 1), ("b", none, 2), ("b", other, 3)] {
        let caching = Caching { cache: &cache, key, time: Duration::from_secs(600) };
        let call = Call { handler: "vars.ext", namespace: "n", settings };
        extensions.call_cached(&caching, &call, &request).await.unwrap();
        assert_eq!(server.calls(hook, "vars").len(), calls, "{key}");
    }
}
