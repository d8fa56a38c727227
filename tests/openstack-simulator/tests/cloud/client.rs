//! Minimal HTTP client with a token.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::{Value, json};
use tests_openstack_simulator::{Simulator, SimulatorOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Returns options of a cloud with short durations.
pub(crate) fn quick() -> SimulatorOptions {
    // It is long enough for a task in progress to be observed on a busy machine.
    let short = Duration::from_millis(200);
    SimulatorOptions {
        build_time: short,
        reboot_time: short,
        rebuild_time: short,
        power_time: short,
        delete_time: short,
        volume_time: short,
        load_balancer_time: short,
        ..SimulatorOptions::default()
    }
}

/// Returns options of a cloud in which no task ends.
pub(crate) fn slow() -> SimulatorOptions {
    let long = Duration::from_secs(3600);
    SimulatorOptions { reboot_time: long, rebuild_time: long, delete_time: long, ..quick() }
}

/// One response.
#[derive(Debug)]
pub(crate) struct ReceivedResponse {
    pub(crate) status: u16,
    head: String,
    pub(crate) text: String,
}

impl ReceivedResponse {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        let line = self.head.lines().find(|line| line.to_lowercase().starts_with(&format!("{name}:")))?;
        line.split_once(':').map(|(_, value)| value.trim())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }

    /// Returns the message of an error, in any service's format.
    pub(crate) fn message(&self) -> String {
        let body = self.json();
        let inner = body.as_object().and_then(|body| body.values().next()).cloned().unwrap_or_default();
        inner["message"].as_str().unwrap_or_default().to_owned()
    }

    /// Returns the only value in the body.
    pub(crate) fn object(&self) -> Value {
        assert!(self.status < 300, "{} {}", self.status, self.text);
        let body = self.json();
        body.as_object().and_then(|body| body.values().next()).cloned().unwrap_or_default()
    }

    pub(crate) fn id(&self) -> String {
        self.object()["id"].as_str().expect("an id").to_owned()
    }
}

/// Sends one request. Returns `None` if the connection closed without a response.
pub(crate) async fn send(
    address: SocketAddr,
    method: &str,
    path: &str,
    token: &str,
    body: &str,
) -> Option<ReceivedResponse> {
    // Cinder refuses the version of another service.
    let version = if path.contains("/v3/") { "" } else { "OpenStack-API-Version: compute 2.90\r\n" };
    send_with(address, method, path, token, version, body).await
}

/// Sends one request with another line in its head.
pub(crate) async fn send_with(
    address: SocketAddr,
    method: &str,
    path: &str,
    token: &str,
    version: &str,
    body: &str,
) -> Option<ReceivedResponse> {
    let mut stream = TcpStream::connect(address).await.expect("a listener");
    let request = format!(
        "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nX-Auth-Token: {token}\r\n\
         {version}Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    stream.write_all(request.as_bytes()).await.expect("a request");
    let mut bytes = Vec::new();
    let _ = stream.read_to_end(&mut bytes).await;
    let text = String::from_utf8(bytes).expect("text");
    let (head, body) = text.split_once("\r\n\r\n")?;
    let status = head.split(' ').nth(1)?.parse().ok()?;
    Some(ReceivedResponse { status, head: head.to_owned(), text: body.to_owned() })
}

/// A user of the cloud.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(crate) address: SocketAddr,
    pub(crate) token: String,
    pub(crate) project: String,
}

impl Client {
    pub(crate) async fn login(simulator: &Simulator, name: &str) -> Self {
        let domain = json!({"name": "Default"});
        let user = json!({"name": name, "password": name, "domain": domain});
        let body = json!({"auth": {
            "identity": {"methods": ["password"], "password": {"user": user}},
            "scope": {"project": {"name": name, "domain": domain}},
        }});
        let address = simulator.address();
        let response =
            send(address, "POST", "/v3/auth/tokens", "", &body.to_string()).await.expect("a response");
        let token = response.header("x-subject-token").expect("a token").to_owned();
        let project = response.object()["project"]["id"].as_str().expect("a project").to_owned();
        Self { address, token, project }
    }

    async fn call(&self, method: &str, path: &str, body: &str) -> ReceivedResponse {
        send(self.address, method, path, &self.token, body).await.expect("a response")
    }

    pub(crate) async fn get(&self, path: &str) -> ReceivedResponse {
        self.call("GET", path, "").await
    }

    pub(crate) async fn post(&self, path: &str, body: Value) -> ReceivedResponse {
        self.call("POST", path, &body.to_string()).await
    }

    pub(crate) async fn put(&self, path: &str, body: Value) -> ReceivedResponse {
        self.call("PUT", path, &body.to_string()).await
    }

    pub(crate) async fn delete(&self, path: &str) -> ReceivedResponse {
        self.call("DELETE", path, "").await
    }

    /// Returns the id of the first resource called `name` in a list.
    pub(crate) async fn id_of(&self, path: &str, name: &str) -> String {
        let list = self.get(path).await.json();
        let lists = list.as_object().expect("a list").values();
        let mut things = lists.filter_map(Value::as_array).flatten();
        let found =
            things.find(|thing| thing["name"] == name).unwrap_or_else(|| panic!("no {name} in {list}"));
        found["id"].as_str().expect("an id").to_owned()
    }

    /// Returns a body for a server in the project's own network.
    pub(crate) async fn server_body(&self, name: &str) -> Value {
        let image = self.id_of("/image/v2/images", "ubuntu-2204-kube-v1.29.0").await;
        let network = self.id_of("/network/v2.0/networks", "private").await;
        json!({"server": {
            "name": name, "imageRef": image, "flavorRef": "1", "networks": [{"uuid": network}],
        }})
    }

    /// Creates a server and waits until it is in `status`.
    pub(crate) async fn boot(&self, body: Value, status: &str) -> String {
        let id = self.post("/compute/v2.1/servers", body).await.id();
        self.until(&format!("/compute/v2.1/servers/{id}"), |server| server["status"] == status).await;
        id
    }

    /// Polls until the resource fulfils the condition.
    pub(crate) async fn until(&self, path: &str, is_so: impl Fn(&Value) -> bool) -> Value {
        for _ in 0..500 {
            let thing = self.get(path).await.object();
            if is_so(&thing) {
                return thing;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{path} stays as it is: {}", self.get(path).await.text)
    }

    /// Polls until the resource is gone.
    pub(crate) async fn until_gone(&self, path: &str) {
        for _ in 0..500 {
            if self.get(path).await.status == 404 {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{path} stays")
    }
}
