//! Fake host cluster for tests.

use std::sync::{Arc, Mutex};

use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

type Answer = (u16, Value);
type Responder = Box<dyn FnMut(&str, &Value) -> Option<Answer> + Send>;

/// Fake host that answers every request with the same response, or as a closure responds, and records the requests.
#[derive(Clone)]
pub(crate) struct Fake(Arc<Mutex<State>>);

struct State {
    responds: Responder,
    requests: Vec<String>,
    bodies: Vec<Value>,
}

/// Returns a `Status` with this code.
pub(crate) fn status(code: u16) -> Answer {
    let reason = match code {
        403 => "Forbidden",
        404 => "NotFound",
        409 => "AlreadyExists",
        _ => "Other",
    };
    let status = json!({"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "message": format!("the fake responds {code}"), "reason": reason, "code": code});
    (code, status)
}

impl Fake {
    /// Creates a host that answers every request with this.
    pub(crate) fn new(answer: Answer) -> Self {
        let responds: Responder = Box::new(move |_, _| Some(answer.clone()));
        Self(Arc::new(Mutex::new(State { responds, requests: Vec::new(), bodies: Vec::new() })))
    }

    /// Answers every request with this from now on.
    pub(crate) fn answer(&self, answer: Answer) {
        self.responds(move |_, _| Some(answer.clone()));
    }

    /// Answers as `responds` does, which is given `METHOD /path` and the body; `None` never answers.
    pub(crate) fn responds(&self, responds: impl FnMut(&str, &Value) -> Option<Answer> + Send + 'static) {
        self.0.lock().unwrap().responds = Box::new(responds);
    }

    /// Never answers from now on.
    pub(crate) fn hang(&self) {
        self.responds(|_, _| None);
    }

    /// Returns every `METHOD /path` so far.
    pub(crate) fn requests(&self) -> Vec<String> {
        self.0.lock().unwrap().requests.clone()
    }

    /// Returns every body so far.
    pub(crate) fn bodies(&self) -> Vec<Value> {
        self.0.lock().unwrap().bodies.clone()
    }

    /// Returns a client of this host.
    pub(crate) fn client(&self) -> Client {
        let fake = self.clone();
        let service = tower::service_fn(move |request| {
            let fake = fake.clone();
            async move { Ok::<_, std::convert::Infallible>(fake.serve(request).await) }
        });
        Client::new(service, "default")
    }

    async fn serve(&self, request: Request<Body>) -> Response<Full<bytes::Bytes>> {
        let watch = request.uri().query().is_some_and(|query| query.contains("watch="));
        let method = if watch { "WATCH" } else { request.method().as_str() };
        let line = format!("{method} {}", request.uri().path());
        let body = request.into_body().collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
        // Other tasks run between a request and its response, as with a real host.
        tokio::task::yield_now().await;
        let answer = {
            let mut state = self.0.lock().unwrap();
            state.requests.push(line.clone());
            state.bodies.push(body.clone());
            (state.responds)(&line, &body)
        };
        let Some((code, value)) = answer else { return std::future::pending().await };
        let response = Response::builder().status(code).header("content-type", "application/json");
        response.body(Full::new(bytes::Bytes::from(value.to_string()))).unwrap()
    }
}
