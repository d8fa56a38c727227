//! Fake host cluster: it has a front proxy, reviews tokens, and decides about its users.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};

use serde_json::{Value, json};

/// Namespace in which the users of the host have permissions.
pub(crate) const TEAM: &str = "team";

/// Namespaces of the host.
const NAMESPACES: [&str; 5] = ["kube-system", "default", TEAM, "elsewhere", "capstan-system"];

/// User who may read in [`TEAM`], by the front proxy and by a token.
pub(crate) const VIEWER: &str = "host-viewer";

/// Service account of the host with the same permissions. Its name is that of an account of the server, too.
pub(crate) const ACCOUNT: &str = "system:serviceaccount:team:robot";

/// Token of a user: its name after this word.
pub(crate) const TOKEN: &str = "token-of-";

/// Starts a host with this front-proxy CA. Its namespace [`TEAM`] belongs to this project of Keystone. Returns its port.
pub(crate) fn start(ca: &str, project: &str) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let host = Host { ca: ca.to_owned(), project: project.to_owned() };
    std::thread::spawn(move || {
        for stream in listener.incoming().filter_map(Result::ok) {
            let host = host.clone();
            std::thread::spawn(move || serve(&stream, &host));
        }
    });
    port
}

#[derive(Clone)]
struct Host {
    ca: String,
    project: String,
}

/// Serves the requests of one connection until it ends. A watch stays open without events.
fn serve(stream: &TcpStream, host: &Host) {
    let mut reader = BufReader::new(stream);
    while let Some((line, body)) = request(&mut reader) {
        if line.contains("watch=") {
            return std::thread::park();
        }
        let (code, answer) = host.answer(&line, &body);
        let answer = answer.to_string();
        let head = format!("content-type: application/json\r\ncontent-length: {}", answer.len());
        let mut stream = stream;
        if write!(stream, "HTTP/1.1 {code} X\r\n{head}\r\n\r\n{answer}").is_err() {
            return;
        }
    }
}

/// Reads one request: method and path with the query, and the body.
fn request(reader: &mut BufReader<&TcpStream>) -> Option<(String, Value)> {
    let (mut first, mut length) = (String::new(), 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line).ok()? == 0 {
            return None;
        }
        let line = line.trim_end();
        if line.is_empty() {
            break;
        }
        match line.split_once(": ") {
            Some((name, value)) if name.eq_ignore_ascii_case("content-length") => {
                length = value.parse().ok()?
            }
            _ if first.is_empty() => line.trim_end_matches(" HTTP/1.1").clone_into(&mut first),
            _ => {}
        }
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some((first, serde_json::from_slice(&body).unwrap_or_default()))
}

impl Host {
    fn namespace(&self, name: &str) -> Value {
        let labels =
            if name == TEAM { json!({"capstan.dev/keystone-project": self.project}) } else { json!({}) };
        json!({"apiVersion": "v1", "kind": "Namespace", "status": {"phase": "Active"},
            "metadata": {"name": name, "uid": format!("uid-{name}"), "resourceVersion": "1", "labels": labels}})
    }

    fn answer(&self, line: &str, body: &Value) -> (u16, Value) {
        let list = |kind: &str, items: Value| json!({"apiVersion": "v1", "kind": kind, "metadata": {"resourceVersion": "1"}, "items": items});
        let metadata = json!({"name": "extension-apiserver-authentication", "resourceVersion": "1"});
        let configuration = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata,
            "data": {"requestheader-client-ca-file": self.ca, "requestheader-allowed-names": "[\"front\"]"}});
        match line.split('?').next().unwrap_or_default() {
            "GET /readyz" => (200, json!("ok")),
            "GET /api/v1/namespaces" => {
                let items: Vec<Value> = NAMESPACES.iter().map(|name| self.namespace(name)).collect();
                (200, list("NamespaceList", items.into()))
            }
            // The server looks here for a namespace that its list does not have yet.
            path if NAMESPACES.contains(&path.trim_start_matches("GET /api/v1/namespaces/")) => {
                (200, self.namespace(path.trim_start_matches("GET /api/v1/namespaces/")))
            }
            "GET /api/v1/namespaces/kube-system/configmaps" => {
                (200, list("ConfigMapList", json!([configuration])))
            }
            path if path.ends_with("/extension-apiserver-authentication") => (200, configuration),
            "POST /apis/authorization.k8s.io/v1/subjectaccessreviews" => (201, access(body)),
            "POST /apis/authentication.k8s.io/v1/tokenreviews" => (201, token(body)),
            _ => (
                404,
                json!({"apiVersion": "v1", "kind": "Status", "status": "Failure", "reason": "NotFound", "code": 404}),
            ),
        }
    }
}

fn access(review: &Value) -> Value {
    let of = |field: &str| review.pointer(field).and_then(Value::as_str).unwrap_or_default();
    let resource = |field: &str| of(&format!("/spec/resourceAttributes/{field}")).to_owned();
    let is_known = [VIEWER, ACCOUNT].contains(&of("/spec/user"));
    let reads = ["get", "list", "watch"].contains(&resource("verb").as_str());
    let is_secret = resource("resource") == "secrets" || resource("subresource") == "nonsense";
    let allowed = is_known && reads && resource("namespace") == TEAM && !is_secret;
    json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "metadata": {},
        "spec": review["spec"], "status": {"allowed": allowed}})
}

fn token(review: &Value) -> Value {
    let token = review.pointer("/spec/token").and_then(Value::as_str).unwrap_or_default();
    let status = match token.strip_prefix(TOKEN) {
        Some(user) => json!({"authenticated": true, "audiences": ["capstan"],
            "user": {"username": user, "groups": ["system:masters", "system:authenticated"]}}),
        None => json!({"authenticated": false}),
    };
    json!({"apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview", "metadata": {},
        "spec": review["spec"], "status": status})
}
