//! API server whose answers a test gives.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// Request as a test sees it.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    /// Method and path, as in `GET /api/v1/nodes/a`.
    pub(crate) what: String,
    pub(crate) query: String,
    pub(crate) body: Value,
}

/// Answer: status, body, and the time that it takes.
pub(crate) type Answer = (u16, Value, Duration);

type Script = dyn Fn(&Call) -> Answer + Send + Sync;

/// Fake server. It ends with this value.
pub(crate) struct Scripted {
    address: SocketAddr,
    calls: Arc<Mutex<Vec<Call>>>,
    _task: JoinSet<()>,
}

impl Scripted {
    pub(crate) async fn start(script: impl Fn(&Call) -> Answer + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (script, calls): (Arc<Script>, _) = (Arc::new(script), Arc::default());
        let mut task = JoinSet::new();
        task.spawn(accept(listener, script, Arc::clone(&calls)));
        Self { address, calls, _task: task }
    }

    pub(crate) fn kubeconfig(&self) -> Vec<u8> {
        format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: a\n\
             contexts: [{{name: a, context: {{cluster: b, user: c}}}}]\n\
             clusters: [{{name: b, cluster: {{server: 'http://{}'}}}}]\nusers: [{{name: c, user: {{}}}}]\n",
            self.address
        )
        .into_bytes()
    }

    /// Returns the calls since the last time that begin with a method.
    pub(crate) fn take(&self, method: &str) -> Vec<Call> {
        let calls = std::mem::take(&mut *self.calls.lock().unwrap());
        calls.into_iter().filter(|call| call.what.starts_with(method)).collect()
    }
}

/// Answers at once.
pub(crate) fn now(code: u16, body: Value) -> Answer {
    (code, body, Duration::ZERO)
}

/// Answers with a failure, as an API server words it.
pub(crate) fn failure(code: u16, message: &str, causes: &Value) -> Answer {
    let reason = if code == 404 { "NotFound" } else { "" };
    let status = json!({
        "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
        "message": message, "reason": reason, "details": { "causes": causes },
    });
    now(code, status)
}

async fn accept(listener: TcpListener, script: Arc<Script>, calls: Arc<Mutex<Vec<Call>>>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (script, calls) = (Arc::clone(&script), Arc::clone(&calls));
        let service = service_fn(move |request| answer(request, Arc::clone(&script), Arc::clone(&calls)));
        connections.spawn(async move {
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    script: Arc<Script>,
    calls: Arc<Mutex<Vec<Call>>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let what = format!("{} {}", request.method(), request.uri().path());
    let query = request.uri().query().unwrap_or_default().to_owned();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let body = serde_json::from_slice(&body).unwrap_or(Value::Null);
    let call = Call { what, query, body };
    let (code, body, pause) = script(&call);
    calls.lock().unwrap().push(call);
    tokio::time::sleep(pause).await;
    let mut response = Response::new(Full::new(Bytes::from(body.to_string())));
    *response.status_mut() = code.try_into().unwrap();
    Ok(response)
}
