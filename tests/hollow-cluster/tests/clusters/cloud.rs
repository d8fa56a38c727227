//! A simulated cloud with hollow clusters, and a client of both.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use kube::Client;
use serde_json::{Value, json};
use tests_hollow_cluster::{EndpointRoutes, HollowClusters, HollowOptions, loopback_range};
use tests_openstack_simulator::{GuestServer, Simulator, SimulatorOptions};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::documents::Pki;

const SERVERS: &str = "/compute/v2.1/servers";

/// Routes of a load balancer in front of all servers of a control plane.
#[derive(Debug)]
struct AllControlPlanes;

impl EndpointRoutes for AllControlPlanes {
    fn leads_to(&self, _: std::net::IpAddr, server: &GuestServer) -> bool {
        server.name.starts_with("cp-")
    }
}

/// A cloud whose servers become nodes.
pub(crate) struct Cloud {
    pub(crate) simulator: Simulator,
    pub(crate) hollow: HollowClusters,
    token: String,
    image: String,
    network: String,
    /// Port for the first server, with the floating IP.
    port: String,
    pub(crate) endpoint: SocketAddr,
    pub(crate) pki: Pki,
}

impl Cloud {
    /// Starts a cloud where the floating IP leads to one server.
    pub(crate) async fn start() -> Self {
        Self::with(HollowOptions::default()).await
    }

    /// Starts a cloud with a load balancer.
    pub(crate) async fn balanced() -> Self {
        Self::with(HollowOptions { routes: Arc::new(AllControlPlanes), ..HollowOptions::default() }).await
    }

    pub(crate) async fn with(options: HollowOptions) -> Self {
        let short = Duration::from_millis(100);
        let simulator = Simulator::start(SimulatorOptions {
            external_cidr: loopback_range(),
            build_time: short,
            reboot_time: short,
            power_time: short,
            delete_time: short,
            rebuild_time: short,
            ..SimulatorOptions::default()
        });
        let simulator = simulator.await.expect("a simulator");
        let options = HollowOptions {
            join_timeout: Duration::from_secs(3),
            node_grace: Duration::from_millis(500),
            ..options
        };
        let hollow = HollowClusters::start(simulator.hypervisor(), options);
        let mut cloud = Self {
            simulator,
            hollow,
            token: String::new(),
            image: String::new(),
            network: String::new(),
            port: String::new(),
            endpoint: SocketAddr::from(([127, 0, 0, 1], 6443)),
            pki: Pki::generate(),
        };
        cloud.prepare().await;
        cloud
    }

    async fn prepare(&mut self) {
        let domain = json!({"name": "Default"});
        let user = json!({"name": "demo", "password": "demo", "domain": domain});
        let body = json!({"auth": {
            "identity": {"methods": ["password"], "password": {"user": user}},
            "scope": {"project": {"name": "demo", "domain": domain}},
        }});
        let (head, _) = self.call("POST", "/v3/auth/tokens", &body).await;
        let token = head.lines().find_map(|line| {
            line.to_lowercase()
                .strip_prefix("x-subject-token:")
                .map(|_| line.split_once(':').map(|(_, token)| token.trim().to_owned()).unwrap_or_default())
        });
        self.token = token.expect("a token");
        self.image = self.id_of("/image/v2/images", "ubuntu-2204-kube-v1.33.0").await;
        self.network = self.id_of("/network/v2.0/networks", "private").await;
        let public = self.id_of("/network/v2.0/networks", "public").await;
        let port = json!({"port": {"network_id": self.network}});
        self.port =
            self.post("/network/v2.0/ports", &port).await["port"]["id"].as_str().expect("an id").to_owned();
        let floating = json!({"floatingip": {"floating_network_id": public, "port_id": self.port}});
        let floating = self.post("/network/v2.0/floatingips", &floating).await;
        let address = floating["floatingip"]["floating_ip_address"].as_str().expect("an address");
        self.endpoint = SocketAddr::new(address.parse().expect("an address"), 6443);
    }

    async fn call(&self, method: &str, path: &str, body: &Value) -> (String, String) {
        let address = self.simulator.address();
        let mut stream = TcpStream::connect(address).await.expect("a listener");
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = format!(
            "{method} {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\nX-Auth-Token: {}\r\n\
             OpenStack-API-Version: compute 2.90\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.token,
            body.len()
        );
        stream.write_all(request.as_bytes()).await.expect("a request");
        let mut text = String::new();
        let _ = stream.read_to_string(&mut text).await;
        let (head, body) = text.split_once("\r\n\r\n").expect("a response");
        (head.to_owned(), body.to_owned())
    }

    async fn post(&self, path: &str, body: &Value) -> Value {
        let (head, text) = self.call("POST", path, body).await;
        assert!(head.starts_with("HTTP/1.1 2"), "{path}: {head} {text}");
        serde_json::from_str(&text).unwrap_or_default()
    }

    async fn id_of(&self, path: &str, name: &str) -> String {
        let (_, text) = self.call("GET", path, &Value::Null).await;
        let list: Value = serde_json::from_str(&text).expect("a list");
        let mut things = list.as_object().expect("a list").values().filter_map(Value::as_array).flatten();
        let found = things.find(|thing| thing["name"] == name).unwrap_or_else(|| panic!("no {name}"));
        found["id"].as_str().expect("an id").to_owned()
    }

    /// Returns the id of an image.
    pub(crate) async fn image_of(&self, name: &str) -> String {
        self.id_of("/image/v2/images", name).await
    }

    /// Creates a server with user data, and returns its id. The first one gets the floating IP.
    pub(crate) async fn create(&self, name: &str, first: bool, user_data: &str) -> String {
        self.create_from(&self.image, name, first, user_data).await
    }

    /// Creates a server from an image.
    pub(crate) async fn create_from(
        &self,
        image: &str,
        name: &str,
        first: bool,
        user_data: impl AsRef<[u8]>,
    ) -> String {
        let network = if first { json!({"port": self.port}) } else { json!({"uuid": self.network}) };
        let body = json!({"server": {
            "name": name, "imageRef": image, "flavorRef": "2", "networks": [network],
            "user_data": STANDARD.encode(user_data.as_ref()),
        }});
        self.post(SERVERS, &body).await["server"]["id"].as_str().expect("an id").to_owned()
    }

    /// Sends an action to a server.
    pub(crate) async fn act(&self, id: &str, action: Value) {
        self.post(&format!("{SERVERS}/{id}/action"), &action).await;
    }

    pub(crate) async fn delete(&self, id: &str) {
        self.call("DELETE", &format!("{SERVERS}/{id}"), &Value::Null).await;
    }

    /// Returns the console log as Nova returns it.
    pub(crate) async fn console(&self, id: &str) -> String {
        let action = json!({"os-getConsoleOutput": {"length": 20}});
        let output = self.post(&format!("{SERVERS}/{id}/action"), &action).await;
        output["output"].as_str().expect("a log").to_owned()
    }

    /// Creates the first control plane server, and waits for its Node.
    pub(crate) async fn init(&self) -> String {
        let id = self.create("cp-0", true, &self.pki.init(self.endpoint)).await;
        self.until_ready("cp-0").await;
        id
    }

    /// Waits until a Node is ready.
    pub(crate) async fn until_ready(&self, node: &str) -> Value {
        self.until(node, || {
            let found = self.node(node)?;
            (ready(&found) == "True").then_some(found)
        })
        .await
    }

    /// Waits until a server has failed to boot, and returns the reason.
    pub(crate) async fn until_refused(&self, server: &str) -> String {
        self.until(server, || self.hollow.boot_error(server)).await
    }

    /// Polls until there is a value.
    pub(crate) async fn until<T>(&self, what: &str, ready: impl Fn() -> Option<T>) -> T {
        // Real programs need a minute to start on a busy machine.
        for _ in 0..5000 {
            if let Some(value) = ready() {
                return value;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        let servers = self.simulator.hypervisor().servers();
        let consoles: Vec<_> =
            servers.iter().map(|server| self.simulator.hypervisor().console(&server.id)).collect();
        panic!(
            "{what}: nothing happened; nodes {:?}; consoles {consoles:#?}",
            self.hollow.nodes(self.endpoint)
        )
    }

    pub(crate) fn node(&self, name: &str) -> Option<Value> {
        self.hollow.nodes(self.endpoint).into_iter().find(|node| node["metadata"]["name"] == name)
    }

    /// Returns a client of the cluster's administrator.
    pub(crate) fn admin(&self) -> Client {
        self.pki.client(self.endpoint, "admin", "system:masters")
    }
}

/// Returns the status of the condition Ready.
pub(crate) fn ready(node: &Value) -> String {
    let conditions = node["status"]["conditions"].as_array().cloned().unwrap_or_default();
    let ready = conditions.iter().find(|condition| condition["type"] == "Ready");
    ready.and_then(|ready| ready["status"].as_str()).unwrap_or_default().to_owned()
}
