//! Cordon of the Machine's Node, and the annotation that says which operation began it.

use controllers_workload::drain::{CORDONED_BY, is_cordoned};
use controllers_workload::{describe, found};
use k8s_openapi::api::core::v1::Node;
use kube::api::{Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};

/// State of a Node, as far as a cordon is concerned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CordonState {
    /// There is no Node.
    NoNode,
    /// The Node is schedulable. With `marked`, it has the annotation of an earlier cordon still.
    Schedulable {
        /// The annotation is there.
        marked: bool,
    },
    /// This operation has cordoned the Node.
    ByThis,
    /// An earlier operation has cordoned the Node.
    ByEarlier,
    /// Another client has cordoned the Node.
    ByAnother,
}

impl CordonState {
    /// Returns the state of a Node for the operation with this uid. Pure.
    pub(crate) fn of(node: Option<&Node>, uid: &str) -> Self {
        let Some(node) = node else { return Self::NoNode };
        let marked = is_marked(node);
        match (is_cordoned(node), marked) {
            (false, _) => Self::Schedulable { marked },
            (true, true) if mark(node).is_some_and(|(by, _)| by == uid) => Self::ByThis,
            (true, true) => Self::ByEarlier,
            (true, false) => Self::ByAnother,
        }
    }
}

/// Reports whether a Node has the annotation of an operation.
pub(crate) fn is_marked(node: &Node) -> bool {
    node.annotations().contains_key(CORDONED_BY)
}

/// Returns the uid of the operation that has cordoned a Node, and the boot id at that time.
pub(crate) fn mark(node: &Node) -> Option<(&str, &str)> {
    node.annotations().get(CORDONED_BY)?.split_once('/')
}

/// Returns the boot id that a Node reports.
pub(crate) fn boot_id(node: &Node) -> String {
    let info = node.status.as_ref().and_then(|status| status.node_info.as_ref());
    info.map(|info| info.boot_id.clone()).unwrap_or_default()
}

/// Reads a Node; `None` if the API server says that it does not exist.
///
/// # Errors
/// The Node cannot be read. For people.
pub(crate) async fn node(client: &Client, name: &str) -> Result<Option<Node>, String> {
    let nodes: Api<Node> = Api::all(client.clone());
    found(nodes.get(name).await).map_err(|error| format!("Node {name}: {error}"))
}

/// Cordons a Node and marks it with the uid of an operation, unless it is cordoned already.
///
/// # Errors
/// The Node cannot be read or written. For people.
pub(crate) async fn begin(client: &Client, name: &str, uid: &str) -> Result<(), String> {
    let Some(node) = node(client, name).await?.filter(|node| !is_cordoned(node)) else { return Ok(()) };
    let mark = format!("{uid}/{}", boot_id(&node));
    let change = json!({
        "metadata": {"resourceVersion": node.resource_version(), "annotations": {CORDONED_BY: mark}},
        "spec": {"unschedulable": true},
    });
    patch(client, name, &change).await
}

/// Makes a Node schedulable, and removes the annotation. The revision of the Node guards the write.
///
/// # Errors
/// The Node cannot be written. For people.
pub(crate) async fn lift(client: &Client, node: &Node) -> Result<(), String> {
    let change = json!({
        "metadata": {"resourceVersion": node.resource_version(), "annotations": {CORDONED_BY: null}},
        "spec": {"unschedulable": null},
    });
    patch(client, &node.name_any(), &change).await
}

async fn patch(client: &Client, name: &str, change: &Value) -> Result<(), String> {
    let nodes: Api<Node> = Api::all(client.clone());
    let patched = nodes.patch(name, &PatchParams::default(), &Patch::Merge(change)).await;
    patched.map(drop).map_err(|error| format!("Node {name}: {}", describe(&error)))
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use http::{Request, Response};
    use kube::client::Body;

    use super::*;

    /// A page of a load balancer was taken for a Node that does not exist, and the Node stayed cordoned.
    #[tokio::test]
    async fn only_the_api_server_says_that_a_node_does_not_exist() {
        let client = |answer: &'static str| {
            let service = tower::service_fn(move |_: Request<Body>| async move {
                let response = Response::builder().status(404).body(Body::from(answer.as_bytes().to_vec()));
                Ok::<_, Infallible>(response.unwrap())
            });
            Client::new(service, "default")
        };
        let page = "<html><body>no such page</body></html>";
        let error = node(&client(page), "n").await.unwrap_err();
        assert!(error.contains("Node n: ") && error.contains("HTML instead of JSON"), "{error}");
        let status = r#"{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","code":404,
            "message":"nodes \"n\" not found"}"#;
        assert_eq!(node(&client(status), "n").await, Ok(None));
    }

    #[test]
    fn the_annotation_says_who_has_cordoned_a_node() {
        let table = [
            (json!({}), None, CordonState::Schedulable { marked: false }),
            (json!({}), Some("this/boot"), CordonState::Schedulable { marked: true }),
            (json!({"unschedulable": true}), Some("this/boot"), CordonState::ByThis),
            (json!({"unschedulable": true}), Some("other/boot"), CordonState::ByEarlier),
            (json!({"unschedulable": true}), Some("by hand"), CordonState::ByEarlier),
            (json!({"unschedulable": true}), None, CordonState::ByAnother),
        ];
        for (spec, mark, expected) in table {
            let annotations = mark.map(|mark| json!({CORDONED_BY: mark})).unwrap_or_default();
            let node = json!({"metadata": {"name": "n", "annotations": annotations}, "spec": spec});
            let node: Node = serde_json::from_value(node).unwrap();
            assert_eq!(CordonState::of(Some(&node), "this"), expected, "{node:?}");
        }
        assert_eq!(CordonState::of(None, "this"), CordonState::NoNode);
    }
}
