//! API in memory for tests: a table of paths and their answers.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::sync::{Arc, Mutex};

use http::{Request, Response};
use kube::Client;
use kube::client::Body;
use serde_json::{Value, json};

/// Answers of an API, and the requests that it received.
#[derive(Debug, Clone, Default)]
pub(crate) struct FakeApi {
    answers: BTreeMap<String, (u16, Value)>,
    received: Arc<Mutex<Vec<String>>>,
}

impl FakeApi {
    /// Sets the answer of a path, which starts after `/namespaces/team/` and may have a label selector. The path of an object
    /// of the cluster is complete.
    pub(crate) fn answer(mut self, path: &str, code: u16, body: Value) -> Self {
        self.answers.insert(path.to_owned(), (code, body));
        self
    }

    /// Sets the items of a list.
    pub(crate) fn list(self, path: &str, items: &Value) -> Self {
        self.answer(path, 200, json!({"metadata": {}, "items": items}))
    }

    /// Returns the paths that were requested so far.
    pub(crate) fn received(&self) -> Vec<String> {
        self.received.lock().unwrap().clone()
    }

    /// Creates a client of the API. Paths without an answer return 404.
    pub(crate) fn client(&self) -> Client {
        let api = self.clone();
        let service = tower::service_fn(move |request: Request<Body>| {
            let response = api.respond(&request);
            async move { Ok::<_, Infallible>(response) }
        });
        Client::new(service, "default")
    }

    fn respond(&self, request: &Request<Body>) -> Response<Body> {
        let uri = request.uri().to_string();
        let path = uri.split_once("/namespaces/team/").map_or(uri.as_str(), |(_, path)| path);
        let path =
            path.trim_end_matches(['?', '&']).replace("?&", "?").replace("%2F", "/").replace("%3D", "=");
        self.received.lock().unwrap().push(path.clone());
        let absent =
            || (404, json!({"kind": "Status", "code": 404, "reason": "NotFound", "message": "not found"}));
        let (code, body) = self.answers.get(&path).cloned().unwrap_or_else(absent);
        Response::builder().status(code).body(Body::from(body.to_string().into_bytes())).unwrap()
    }
}

/// Runs a test on a runtime of one thread.
pub(crate) fn block_on<T>(test: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(test)
}
