//! Fake host cluster that answers SubjectAccessReviews, and the authorizer of the direct endpoint with the same rule.

use apiserver_access::{Attributes, Authorizer, Decision, Verdict};
use async_trait::async_trait;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use kube::client::Body;
use serde_json::{Value, json};

/// User who may do everything in [`ELSEWHERE`], and nothing in any other namespace.
pub(crate) const NEIGHBOUR: &str = "neighbour";

/// The neighbour's namespace.
pub(crate) const ELSEWHERE: &str = "elsewhere";

fn allows(user: &str, namespace: &str) -> bool {
    user == NEIGHBOUR && namespace == ELSEWHERE
}

/// Authorizer of the direct endpoint.
#[derive(Debug)]
pub(crate) struct NeighbourRole;

#[async_trait]
impl Authorizer for NeighbourRole {
    async fn judge(&self, attributes: &Attributes) -> Verdict {
        let may = attributes.is_resource() && allows(&attributes.user.name, &attributes.namespace);
        Verdict::of(if may { Decision::Allow } else { Decision::NoOpinion(String::new()) }, self.name())
    }
}

/// Returns a client of a host cluster that has the same role.
pub(crate) fn client() -> kube::Client {
    let service = tower::service_fn(|request: Request<Body>| async move {
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let review: Value = serde_json::from_slice(&body).unwrap();
        let text = |path: &str| review.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        let allowed = allows(&text("/spec/user"), &text("/spec/resourceAttributes/namespace"));
        let answer = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "metadata": {}, "spec": {}, "status": {"allowed": allowed}});
        let response = Response::builder().status(201).header("content-type", "application/json");
        Ok::<_, std::convert::Infallible>(response.body(Full::new(Bytes::from(answer.to_string()))).unwrap())
    });
    kube::Client::new(service, "default")
}
