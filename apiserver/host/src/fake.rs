//! A host that says what a test wants it to say.

use std::sync::{Arc, Mutex};

use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

type Answer = (u16, Value);
type Says = Box<dyn FnMut(&str, &Value) -> Option<Answer> + Send>;

/// Answers every request alike, or as a closure says, and remembers what was asked.
#[derive(Clone)]
pub(crate) struct Fake(Arc<Mutex<State>>);

struct State {
    says: Says,
    asked: Vec<String>,
    bodies: Vec<Value>,
}

/// A `Status` with this code.
pub(crate) fn status(code: u16) -> Answer {
    let reason = match code {
        403 => "Forbidden",
        404 => "NotFound",
        409 => "AlreadyExists",
        _ => "Other",
    };
    let status = json!({"apiVersion": "v1", "kind": "Status", "metadata": {}, "status": "Failure",
        "message": format!("the fake says {code}"), "reason": reason, "code": code});
    (code, status)
}

impl Fake {
    /// Answers everything with this.
    pub(crate) fn new(answer: Answer) -> Self {
        let says: Says = Box::new(move |_, _| Some(answer.clone()));
        Self(Arc::new(Mutex::new(State { says, asked: Vec::new(), bodies: Vec::new() })))
    }

    /// Answers everything with this from now on.
    pub(crate) fn answer(&self, answer: Answer) {
        self.says(move |_, _| Some(answer.clone()));
    }

    /// Answers as `says` does, which is given `METHOD /path` and the body; `None` never answers.
    pub(crate) fn says(&self, says: impl FnMut(&str, &Value) -> Option<Answer> + Send + 'static) {
        self.0.lock().unwrap().says = Box::new(says);
    }

    /// Never answers from now on.
    pub(crate) fn hang(&self) {
        self.says(|_, _| None);
    }

    /// Every `METHOD /path` so far.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.0.lock().unwrap().asked.clone()
    }

    /// Every body so far.
    pub(crate) fn bodies(&self) -> Vec<Value> {
        self.0.lock().unwrap().bodies.clone()
    }

    /// A client of this host.
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
        // ObjectReader get their turn between a question and its answer, as with a real host.
        tokio::task::yield_now().await;
        let answer = {
            let mut state = self.0.lock().unwrap();
            state.asked.push(line.clone());
            state.bodies.push(body.clone());
            (state.says)(&line, &body)
        };
        let Some((code, value)) = answer else { return std::future::pending().await };
        let response = Response::builder().status(code).header("content-type", "application/json");
        response.body(Full::new(bytes::Bytes::from(value.to_string()))).unwrap()
    }
}
