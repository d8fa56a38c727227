//! Tests of the command.

use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use http_body_util::BodyExt;
use kube::client::Body;
use serde_json::json;

use super::*;

/// Kinds of the product.
fn kinds() -> Vec<HostedKind> {
    HostedKind::all(&Assembly::default().registry())
}

fn at(text: &str) -> Timestamp {
    text.parse().unwrap()
}

/// Returns HostStatus in this state since midnight, with these namespaces.
fn status(state: &str, gone: &[&str]) -> Value {
    let compared = if gone.is_empty() { "False" } else { "True" };
    json!({"status": {"state": state, "since": "2020-01-01T00:00:00Z", "namespacesGone": gone,
        "conditions": [{"type": "NamespacesGone", "status": compared}]}})
}

#[test]
fn c2_only_namespaces_that_a_host_in_the_state_up_does_not_have_are_pruned() {
    let now = at("2020-01-01T00:02:00Z");
    let chosen = |object: &Value, names: &[&str]| {
        let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
        plan::namespaces(object, &names, now).map_err(|error| error.to_string())
    };
    let good = status("Up", &["a", "b"]);
    assert_eq!(chosen(&good, &[]).unwrap().len(), 2);
    assert_eq!(chosen(&good, &["b"]).unwrap().into_iter().collect::<Vec<_>>(), ["b"]);
    assert!(chosen(&good, &["b", "team"]).unwrap_err().contains("namespace team is not in"));
    assert!(chosen(&status("Up", &[]), &[]).unwrap().is_empty());
    for state in ["Slow", "Down", "Probation", "Other"] {
        assert!(chosen(&status(state, &["a"]), &[]).unwrap_err().contains(state), "{state}");
    }
    let mut unknown = status("Up", &[]);
    unknown["status"]["conditions"][0]["status"] = json!("Unknown");
    assert!(chosen(&unknown, &[]).unwrap_err().contains("is not known yet"));
    let early = plan::namespaces(&good, &[], at("2020-01-01T00:01:59Z")).unwrap_err();
    assert!(early.to_string().contains("less than two minutes"), "{early}");
    assert!(chosen(&json!({}), &[]).is_err());
}

fn found<'a>(kinds: &'a [HostedKind], kind: &str, has_owner: bool, is_being_deleted: bool) -> Found<'a> {
    let kind = kinds.iter().find(|it| it.resource.kind == kind).unwrap();
    let (namespace, name, uid) = ("old".to_owned(), "x".to_owned(), "u".to_owned());
    Found { kind, namespace, name, uid, has_owner, is_being_deleted }
}

#[test]
fn clusters_are_deleted_before_what_they_own() {
    let kinds = kinds();
    let steps = |objects| -> Vec<Step> { plan::steps(objects).into_iter().map(|(_, step)| step).collect() };
    let of = |kind, has_owner| found(&kinds, kind, has_owner, false);
    let all = vec![
        of("Cluster", false),
        of("Machine", true),
        of("OpenStackMachineTemplate", false),
        of("MachineOperation", true),
    ];
    assert_eq!(steps(all), [Step::Delete, Step::Later, Step::Delete, Step::Later]);
    let ending = vec![found(&kinds, "Cluster", false, true), of("Machine", true)];
    assert_eq!(steps(ending), [Step::Await, Step::Later]);
    assert_eq!(steps(vec![of("Machine", true), of("MachineOperation", true)]), [Step::Delete, Step::Later]);
    assert_eq!(steps(vec![of("MachineOperation", true)]), [Step::Delete]);
    let classes = vec![of("Cluster", false), of("ClusterClass", false)];
    assert_eq!(steps(classes), [Step::Delete, Step::Later], "the server refuses a class that is used");
}

#[test]
fn no_secret_and_no_object_of_the_server_itself_is_deleted() {
    for kind in kinds() {
        assert!(!kind.resource.group.is_empty(), "{:?}", kind.resource);
        assert_ne!(kind.resource.group, "rbac.authorization.k8s.io");
        assert_ne!(kind.resource.plural, "hoststatuses");
    }
    assert!(kinds().iter().any(|kind| kind.resource.kind == "Cluster"));
}

type Requests = Arc<Mutex<Vec<(String, Value)>>>;

/// State of the server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scene {
    /// The namespace does not exist.
    Absent,
    /// The namespace exists.
    Present,
    /// The namespace does not exist, and the Cluster in it is protected.
    Protected,
}

/// Returns a client of a server in which the namespace `old` has a Cluster and a Machine of it, and all its requests except
/// for lists.
fn server(scene: Scene) -> (Client, Requests) {
    let requests = Requests::default();
    let log = Arc::clone(&requests);
    let service = tower::service_fn(move |request: Request<Body>| {
        let log = Arc::clone(&log);
        async move {
            let line = format!("{} {}", request.method(), request.uri().path());
            let body = request.into_body().collect().await.unwrap().to_bytes();
            let (code, answer) = answer(&line, scene);
            if !line.contains("/namespaces/old/") || !line.starts_with("GET ") {
                log.lock().unwrap().push((line, serde_json::from_slice(&body).unwrap_or_default()));
            }
            let response = Response::builder().status(code).header("content-type", "application/json");
            Ok::<_, Infallible>(response.body(Body::from(answer.to_string().into_bytes())).unwrap())
        }
    });
    (Client::new(service, "default"), requests)
}

fn answer(line: &str, scene: Scene) -> (u16, Value) {
    let missing = json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404,
        "metadata": {}, "message": "there is none"});
    let list = |items: Value| {
        let version = "meta.k8s.io/v1";
        (
            200,
            json!({"apiVersion": version, "kind": "PartialObjectMetadataList", "metadata": {}, "items": items}),
        )
    };
    let owner = json!([{"apiVersion": "v1", "kind": "Cluster", "name": "prod", "uid": "u1"}]);
    match line {
        "GET /apis/capstan.dev/v1alpha1/hoststatuses/host" => (200, status("Up", &["old"])),
        "GET /api/v1/namespaces/old" if scene == Scene::Present => {
            (200, json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "old"}}))
        }
        _ if line.starts_with("DELETE ") && scene == Scene::Protected => {
            (403, json!({"kind": "Status", "status": "Failure", "code": 403, "message": "it is protected"}))
        }
        _ if line.starts_with("DELETE ") => {
            (200, json!({"kind": "Status", "status": "Success", "metadata": {}}))
        }
        _ if line.ends_with("/namespaces/old/clusters") => {
            list(json!([{"metadata": {"name": "prod", "namespace": "old", "uid": "u1"}}]))
        }
        _ if line.ends_with("/namespaces/old/machines") => list(json!([
            {"metadata": {"name": "m", "namespace": "old", "uid": "u2", "ownerReferences": owner}}
        ])),
        _ => (404, missing),
    }
}

/// Output and refusals, and the deletions.
type Pruned = (anyhow::Result<(String, Vec<String>)>, Vec<(String, Value)>);

async fn pruned(scene: Scene, yes: bool) -> Pruned {
    let (client, requests) = server(scene);
    let arguments = PruneNamespacesArguments { yes, ..PruneNamespacesArguments::default() };
    let kinds = kinds();
    let result = Box::pin(prune(&client, &kinds, &arguments)).await;
    let requests = requests.lock().unwrap().clone();
    (result, requests.into_iter().filter(|(line, _)| line.starts_with("DELETE ")).collect())
}

#[tokio::test]
async fn without_yes_the_objects_are_shown_and_nothing_is_deleted() {
    let (result, deletions) = pruned(Scene::Absent, false).await;
    let (text, _) = result.unwrap();
    assert!(text.contains("old        Cluster  prod  to be deleted\n"), "{text}");
    assert!(text.contains("old        Machine  m     to be deleted later\n"), "{text}");
    assert!(text.contains("Nothing was deleted."), "{text}");
    assert!(deletions.is_empty(), "{deletions:?}");
}

#[tokio::test]
async fn with_yes_the_cluster_is_deleted_by_its_uid() {
    let (result, deletions) = pruned(Scene::Absent, true).await;
    let (text, refusals) = result.unwrap();
    assert!(text.contains("deletion requested") && refusals.is_empty(), "{text}");
    let [(line, body)] = deletions.as_slice() else { panic!("{deletions:?}") };
    assert!(line.ends_with("/namespaces/old/clusters/prod"), "{line}");
    assert_eq!(
        (&body["preconditions"]["uid"], &body["propagationPolicy"]),
        (&json!("u1"), &json!("Background"))
    );
}

#[tokio::test]
async fn nothing_is_deleted_in_a_namespace_that_exists_again() {
    let (result, deletions) = pruned(Scene::Present, true).await;
    assert!(result.unwrap_err().to_string().contains("exists again"));
    assert!(deletions.is_empty(), "{deletions:?}");
}

#[tokio::test]
async fn a_refusal_is_shown_with_its_reason() {
    let (text, refusals) = pruned(Scene::Protected, true).await.0.unwrap();
    assert!(text.contains("Cluster  prod  refused\n"), "{text}");
    assert_eq!(refusals, ["Cluster old/prod: it is protected"]);
}
