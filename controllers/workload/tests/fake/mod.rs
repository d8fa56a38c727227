//! API server of a workload cluster that serves Nodes only.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use http_body_util::channel::{Channel, Sender};
use http_body_util::{BodyExt, Full};
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinSet;

/// Kind of the server's answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mode {
    Works,
    Html,
    HtmlOf502,
    Hangs,
    /// Lists and watches of Nodes get no answer. All other requests do.
    NodesHang,
    Unauthorized,
}

/// State of the server.
#[derive(Debug)]
struct State {
    mode: Mode,
    nodes: Vec<Value>,
    watches: Vec<Sender<Bytes>>,
    probes: u32,
    unanswered: u32,
}

/// Fake server. It ends with this value.
#[derive(Debug)]
pub(crate) struct Fake {
    pub(crate) address: SocketAddr,
    state: Arc<Mutex<State>>,
    _connections: JoinSet<()>,
}

type Body = http_body_util::combinators::BoxBody<Bytes, Infallible>;

impl Fake {
    pub(crate) async fn start(mode: Mode) -> Self {
        let state = State { mode, nodes: Vec::new(), watches: Vec::new(), probes: 0, unanswered: 0 };
        let state = Arc::new(Mutex::new(state));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let mut connections = JoinSet::new();
        connections.spawn(accept(listener, Arc::clone(&state)));
        Self { address, state, _connections: connections }
    }

    /// A kubeconfig with a token, which only tells kubeconfigs apart.
    pub(crate) fn kubeconfig(&self, token: &str) -> Vec<u8> {
        kubeconfig(self.address, token)
    }

    pub(crate) fn set(&self, mode: Mode) {
        self.state.lock().unwrap().mode = mode;
    }

    pub(crate) fn probes(&self) -> u32 {
        self.state.lock().unwrap().probes
    }

    pub(crate) fn add(&self, name: &str, provider_id: &str) {
        self.state.lock().unwrap().nodes.push(node(name, provider_id));
    }

    pub(crate) fn remove(&self, name: &str) {
        self.state.lock().unwrap().nodes.retain(|node| node["metadata"]["name"] != name);
    }

    /// Returns the number of requests for Nodes that get no answer.
    pub(crate) fn unanswered(&self) -> u32 {
        self.state.lock().unwrap().unanswered
    }

    pub(crate) async fn send(&self, kind: &str, name: &str, provider_id: &str) {
        let event = json!({ "type": kind, "object": node(name, provider_id) });
        let watches = std::mem::take(&mut self.state.lock().unwrap().watches);
        for mut watch in watches {
            if watch.send_data(Bytes::from(format!("{event}\n"))).await.is_ok() {
                self.state.lock().unwrap().watches.push(watch);
            }
        }
    }
}

pub(crate) fn kubeconfig(address: SocketAddr, token: &str) -> Vec<u8> {
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: a\n\
         contexts: [{{name: a, context: {{cluster: b, user: c}}}}]\n\
         clusters: [{{name: b, cluster: {{server: 'http://{address}'}}}}]\n\
         users: [{{name: c, user: {{token: {token}}}}}]\n"
    )
    .into_bytes()
}

async fn accept(listener: TcpListener, state: Arc<Mutex<State>>) {
    let mut connections = JoinSet::new();
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let state = Arc::clone(&state);
        let service = service_fn(move |request| answer(request, Arc::clone(&state)));
        connections.spawn(async move {
            let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
        });
    }
}

async fn answer(request: Request<Incoming>, state: Arc<Mutex<State>>) -> Result<Response<Body>, Infallible> {
    let mode = state.lock().unwrap().mode;
    let page = "<!DOCTYPE html><html><body>Please log in</body></html>";
    let status = |code: u16| {
        json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "message": "Unauthorized",
                "reason": "Unauthorized", "code": code })
    };
    Ok(match mode {
        Mode::Html => full(200, page.to_owned()),
        Mode::HtmlOf502 => full(502, page.to_owned()),
        Mode::Unauthorized => full(401, status(401).to_string()),
        Mode::Hangs => {
            tokio::time::sleep(Duration::from_secs(3600)).await;
            full(500, String::new())
        }
        Mode::NodesHang if request.uri().path() == "/api/v1/nodes" => {
            state.lock().unwrap().unanswered += 1;
            std::future::pending().await
        }
        Mode::Works | Mode::NodesHang => works(&request, &state),
    })
}

fn works(request: &Request<Incoming>, state: &Mutex<State>) -> Response<Body> {
    let mut state = state.lock().unwrap();
    match request.uri().path() {
        "/" => {
            state.probes += 1;
            full(200, json!({ "paths": [] }).to_string())
        }
        "/api/v1/nodes" if request.uri().query().is_some_and(|query| query.contains("watch=true")) => {
            let (sender, body) = Channel::<Bytes, Infallible>::new(16);
            state.watches.push(sender);
            Response::new(body.boxed())
        }
        "/api/v1/nodes" => {
            let metadata = json!({ "resourceVersion": "1" });
            let list = json!({ "kind": "NodeList", "apiVersion": "v1", "metadata": metadata,
                               "items": state.nodes });
            full(200, list.to_string())
        }
        other => full(404, format!("no {other}")),
    }
}

fn full(code: u16, text: String) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::from(text)).boxed());
    *response.status_mut() = code.try_into().unwrap();
    response
}

fn node(name: &str, provider_id: &str) -> Value {
    json!({
        "kind": "Node", "apiVersion": "v1",
        "metadata": { "name": name, "resourceVersion": "2", "managedFields": [{ "manager": "kubelet" }] },
        "spec": { "providerID": provider_id },
        "status": { "images": [{ "names": ["busybox"] }] },
    })
}
