//! Tests of what a cloud puts in the way of its users: stale lists, endless tasks, locked servers and users, cells that
//! are away.

use serde_json::{Value, json};
use tests_openstack_simulator::{FaultEffect, InjectedFault, Simulator, SimulatorOptions};

use crate::client::{Client, quick, send};

const NETWORKS: &str = "/network/v2.0/networks";
const SERVERS: &str = "/compute/v2.1/servers";

#[tokio::test]
async fn a_list_lags_for_the_given_number_of_reads() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    let before = client.get(NETWORKS).await.object().as_array().unwrap().len();
    simulator.inject(InjectedFault {
        method: Some("GET".to_owned()),
        path: Some(NETWORKS.to_owned()),
        count: Some(2),
        ..InjectedFault::new(FaultEffect::StaleList)
    });
    client.post(NETWORKS, json!({"network": {"name": "new"}})).await.id();
    // A token that is newer than the list is accepted.
    let client = Client::login(&simulator, "demo").await;
    let mut counts = Vec::new();
    for _ in 0..3 {
        counts.push(client.get(NETWORKS).await.object().as_array().unwrap().len() - before);
    }
    assert_eq!(counts, [0, 0, 1]);
}

#[tokio::test]
async fn a_proxy_answers_with_its_own_page() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    let page = FaultEffect::HtmlPage { code: 404 };
    simulator.inject(InjectedFault { count: Some(1), ..InjectedFault::new(page) });
    let answer = client.get(NETWORKS).await;
    assert_eq!((answer.status, answer.header("content-type")), (404, Some("text/html")));
    assert!(answer.text.contains("404 Not Found") && answer.json().is_null(), "{}", answer.text);
    assert_eq!(client.get(NETWORKS).await.status, 200);
}

fn inject_into_next_post(simulator: &Simulator, effect: FaultEffect) {
    let (method, count) = (Some("POST".to_owned()), Some(1));
    simulator.inject(InjectedFault { method, count, ..InjectedFault::new(effect) });
}

#[tokio::test]
async fn a_task_that_never_ends_stays_pending() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    inject_into_next_post(&simulator, FaultEffect::PendingForever);
    let base = format!("/volume/v3/{}/volumes", client.project);
    let id = client.post(&base, json!({"volume": {"size": 1}})).await.id();
    tokio::time::sleep(std::time::Duration::from_millis(400)).await;
    assert_eq!(client.get(&format!("{base}/{id}")).await.object()["status"], "creating");
    let next = client.post(&base, json!({"volume": {"size": 1}})).await.id();
    client.until(&format!("{base}/{next}"), |volume| volume["status"] == "available").await;
}

#[tokio::test]
async fn a_volume_that_ends_in_error_can_only_be_deleted() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    inject_into_next_post(&simulator, FaultEffect::EndInError);
    let base = format!("/volume/v3/{}/volumes", client.project);
    let path = format!("{base}/{}", client.post(&base, json!({"volume": {"size": 1}})).await.id());
    client.until(&path, |volume| volume["status"] == "error").await;
    assert_eq!(client.delete(&path).await.status, 202);
    client.until_gone(&path).await;
}

#[tokio::test]
async fn a_locked_server_refuses_every_change() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    let body = client.server_body("m").await;
    let id = client.post(SERVERS, body).await.id();
    let path = format!("{SERVERS}/{id}");
    client.until(&path, |server| server["status"] == "ACTIVE").await;
    let act = async |action: Value| client.post(&format!("{path}/action"), action).await;
    assert_eq!(act(json!({"lock": null})).await.status, 202);
    assert_eq!(client.get(&path).await.object()["locked"], true);
    let refused = [act(json!({"reboot": {"type": "HARD"}})).await, client.delete(&path).await];
    for answer in refused {
        assert_eq!((answer.status, answer.message()), (409, format!("Instance {id} is locked")));
    }
    assert_eq!(act(json!({"unlock": null})).await.status, 202);
    assert_eq!(client.delete(&path).await.status, 204);
}

#[tokio::test]
async fn a_server_in_an_unreachable_cell_is_known_by_its_id_alone() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    let body = client.server_body("m").await;
    let id = client.post(SERVERS, body).await.id();
    let path = format!("{SERVERS}/{id}");
    client.until(&path, |server| server["status"] == "ACTIVE").await;
    assert!(simulator.set_cell_reachable(&id, false));
    let listed = client.get(&format!("{SERVERS}/detail?limit=1000")).await.object();
    for server in [&listed[0], &client.get(&path).await.object()] {
        let mut keys: Vec<&str> = server.as_object().unwrap().keys().map(String::as_str).collect();
        keys.sort_unstable();
        assert_eq!(keys, ["created", "id", "links", "status", "tenant_id"]);
        assert_eq!((&server["id"], &server["status"]), (&json!(id), &json!("UNKNOWN")));
    }
    let filtered = client.get(&format!("{SERVERS}/detail?name=m")).await.object();
    assert_eq!(filtered, json!([]));
    assert!(simulator.set_cell_reachable(&id, true));
    assert_eq!(client.get(&path).await.object()["status"], "ACTIVE");
}

#[tokio::test]
async fn a_user_is_locked_after_wrong_passwords() {
    let options = SimulatorOptions { lockout_attempts: Some(2), ..quick() };
    let simulator = Simulator::start(options).await.unwrap();
    let login = async |password: &str| {
        let domain = json!({"name": "Default"});
        let user = json!({"name": "demo", "password": password, "domain": domain});
        let body = json!({"auth": {"identity": {"methods": ["password"], "password": {"user": user}}}});
        let answer = send(simulator.address(), "POST", "/v3/auth/tokens", "", &body.to_string()).await;
        answer.expect("a response").status
    };
    let mut statuses = Vec::new();
    for password in ["wrong", "demo", "wrong", "wrong", "demo"] {
        statuses.push(login(password).await);
    }
    assert_eq!(
        statuses,
        [401, 201, 401, 401, 401],
        "a right password counts from the beginning, until the lock"
    );
}

#[tokio::test]
async fn cinder_limits_each_volume_and_each_type() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    let base = format!("/volume/v3/{}/volumes", client.project);
    simulator.set_quota("demo", "per_volume_gigabytes", 10);
    simulator.set_quota("demo", "gigabytes_ssd", 5);
    let table = [
        (json!({"size": 11}), "Requested volume size 11G is larger than maximum allowed limit 10G."),
        (
            json!({"size": 6, "volume_type": "ssd"}),
            "exceeds allowed gigabytes_ssd quota. Requested 6G, quota is 5G",
        ),
    ];
    for (volume, words) in table {
        let refused = client.post(&base, json!({"volume": volume})).await;
        assert_eq!((refused.status, refused.header("retry-after")), (413, Some("0")));
        assert!(refused.message().contains(words), "{}", refused.message());
    }
    assert_eq!(client.post(&base, json!({"volume": {"size": 6}})).await.status, 202);
}

#[tokio::test]
async fn octavia_may_refuse_the_ports_of_users() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    simulator.refuse_vip_ports();
    let network = client.id_of(NETWORKS, "private").await;
    let port = client.post("/network/v2.0/ports", json!({"port": {"network_id": network}})).await.id();
    let path = "/load-balancer/v2/lbaas/loadbalancers";
    let create = async |key: &str, id: &str| client.post(path, json!({"loadbalancer": {key: id}})).await;
    let refused = create("vip_port_id", &port).await;
    assert_eq!(refused.status, 400);
    let words = refused.json()["faultstring"].to_string();
    assert!(
        words.contains("use of vip_port_id is disallowed by this deployment's configuration."),
        "{words}"
    );
    assert_eq!(create("vip_network_id", &network).await.status, 201);
}
