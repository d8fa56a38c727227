//! Tests of the life cycle of servers.

use serde_json::{Value, json};
use tests_openstack_simulator::Simulator;

use crate::client::{Client, quick};

const SERVERS: &str = "/compute/v2.1/servers";
const PORTS: &str = "/network/v2.0/ports";

#[tokio::test]
async fn a_server_is_built_rebooted_rebuilt_and_deleted() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    let mut body = client.server_body("machine").await;
    let network = body["server"]["networks"][0]["uuid"].clone();
    let port = client.post(PORTS, json!({"port": {"name": "p", "network_id": network}})).await.id();
    body["server"]["networks"] = json!([{"port": port}]);
    body["server"]["tags"] = json!(["b", "a"]);
    body["server"]["user_data"] = json!("aGVsbG8=");
    let created = client.post(SERVERS, body).await;
    assert_eq!(created.status, 202);
    let id = created.id();
    let path = format!("{SERVERS}/{id}");
    assert_eq!(client.get(&path).await.object()["status"], "BUILD");
    let server = client.until(&path, |server| server["status"] == "ACTIVE").await;
    assert_eq!(server["tags"], json!(["a", "b"]));
    let address = server["addresses"]["private"][0]["addr"].clone();
    assert!(address.is_string());
    let bound = client.get(&format!("{PORTS}/{port}")).await.object();
    assert_eq!((&bound["device_id"], &bound["status"]), (&json!(id), &json!("ACTIVE")));
    assert!(bound["device_owner"].as_str().unwrap().starts_with("compute:az"));

    let reboot = client.post(&format!("{path}/action"), json!({"reboot": {"type": "SOFT"}})).await;
    assert_eq!(reboot.status, 202);
    assert_eq!(client.get(&path).await.object()["status"], "REBOOT");
    client.until(&path, |server| server["status"] == "ACTIVE").await;

    let image = client.id_of("/image/v2/images", "ubuntu-2204-kube-v1.30.0").await;
    let rebuild =
        client.post(&format!("{path}/action"), json!({"rebuild": {"imageRef": image, "name": "new"}})).await;
    assert_eq!(rebuild.object()["status"], "REBUILD");
    let server = client.until(&path, |server| server["status"] == "ACTIVE").await;
    assert_eq!((&server["image"]["id"], &server["name"]), (&json!(image), &json!("new")));
    assert_eq!(server["addresses"]["private"][0]["addr"], address);

    let actions = client.get(&format!("{path}/os-instance-actions")).await.object();
    let names: Vec<&Value> = actions.as_array().unwrap().iter().map(|action| &action["action"]).collect();
    assert_eq!(names, ["rebuild", "reboot", "create"]);
    assert_eq!(actions[1]["request_id"], json!(reboot.header("x-openstack-request-id").unwrap()));
    let request = actions[1]["request_id"].as_str().unwrap();
    let action = client.get(&format!("{path}/os-instance-actions/{request}")).await.object();
    assert_eq!(action["events"][0]["event"], "compute_reboot_instance");
    assert_eq!(action["events"][0]["result"], "Success");
    assert_eq!(simulator.inventory("demo").user_data[&id], "aGVsbG8=");

    assert_eq!(client.delete(&path).await.status, 204);
    assert_eq!(client.get(&path).await.object()["OS-EXT-STS:task_state"], "deleting");
    assert_eq!(client.delete(&path).await.status, 204);
    client.until_gone(&path).await;
    let actions = client.get(&format!("{path}/os-instance-actions")).await.object();
    assert_eq!(actions[0]["action"], "delete", "the history outlives the server");
    let free = client.get(&format!("{PORTS}/{port}")).await.object();
    assert_eq!((&free["device_id"], &free["status"]), (&json!(""), &json!("DOWN")));
}

#[tokio::test]
async fn ports_created_by_nova_are_deleted_with_their_server() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    let id = client.boot(client.server_body("machine").await, "ACTIVE").await;
    let interfaces = client.get(&format!("{SERVERS}/{id}/os-interface")).await.object();
    assert_eq!(interfaces.as_array().unwrap().len(), 1);
    client.delete(&format!("{SERVERS}/{id}")).await;
    client.until_gone(&format!("{SERVERS}/{id}")).await;
    assert!(simulator.inventory("demo").is_empty());
}

#[tokio::test]
async fn a_server_is_stopped_and_started() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    let id = client.boot(client.server_body("machine").await, "ACTIVE").await;
    let path = format!("{SERVERS}/{id}");
    assert_eq!(client.post(&format!("{path}/action"), json!({"os-stop": null})).await.status, 202);
    client.until(&path, |server| server["status"] == "SHUTOFF").await;
    assert_eq!(client.post(&format!("{path}/action"), json!({"os-start": null})).await.status, 202);
    client.until(&path, |server| server["status"] == "ACTIVE").await;
    let hard = client.post(&format!("{path}/action"), json!({"reboot": {"type": "HARD"}})).await;
    assert_eq!(hard.status, 202);
    assert_eq!(client.get(&path).await.object()["status"], "HARD_REBOOT");
}

#[tokio::test]
async fn anti_affinity_fails_without_enough_hosts() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    let group = json!({"server_group": {"name": "g", "policy": "anti-affinity"}});
    let group = client.post("/compute/v2.1/os-server-groups", group).await.id();
    let mut body = client.server_body("machine").await;
    body["server"]["availability_zone"] = json!("az1");
    body["os:scheduler_hints"] = json!({"group": group});
    client.boot(body.clone(), "ACTIVE").await;
    client.boot(body.clone(), "ACTIVE").await;
    let third = client.boot(body, "ERROR").await;
    let server = client.get(&format!("{SERVERS}/{third}")).await.object();
    assert_eq!(server["fault"]["message"], "No valid host was found. There are not enough hosts available.");
    let members = client.get(&format!("/compute/v2.1/os-server-groups/{group}")).await.object();
    assert_eq!(members["members"].as_array().unwrap().len(), 3);
    let ports = client.get(&format!("{PORTS}?device_id={third}")).await.object();
    assert_eq!(ports, json!([]), "what was never placed holds no ports");
}

#[tokio::test]
async fn servers_are_listed_by_name_status_tag_page_and_change() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    for name in ["a-1", "a-2", "b-1"] {
        let mut body = client.server_body(name).await;
        body["server"]["tags"] = json!([name]);
        client.boot(body, "ACTIVE").await;
    }
    let names = async |query: &str| {
        let servers = client.get(&format!("{SERVERS}/detail?{query}")).await.json();
        let servers = servers["servers"].as_array().unwrap().clone();
        servers.iter().map(|server| server["name"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(names("").await, ["b-1", "a-2", "a-1"], "newest first");
    assert_eq!(names("name=%5Ea").await, ["a-2", "a-1"]);
    assert_eq!(names("name=%5Ea-1%24").await, ["a-1"]);
    assert_eq!(names("status=ERROR").await, Vec::<String>::new());
    assert_eq!(names("tags=a-1").await, ["a-1"]);
    let page = client.get(&format!("{SERVERS}?limit=2")).await.json();
    let next =
        page["servers_links"][0]["href"].as_str().unwrap().split_once("2.1/servers?").unwrap().1.to_owned();
    assert_eq!(names(&next).await, ["a-1"]);
    let doomed = client.id_of(SERVERS, "b-1").await;
    client.delete(&format!("{SERVERS}/{doomed}")).await;
    client.until_gone(&format!("{SERVERS}/{doomed}")).await;
    let changed = client.get(&format!("{SERVERS}/detail?changes-since=2020-01-01T00:00:00Z")).await.object();
    assert_eq!(changed[0]["status"], "DELETED");
    assert_eq!(names("").await, ["a-2", "a-1"]);
}

#[tokio::test]
async fn an_admin_can_reset_a_server_to_error() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    let admin = Client::login(&simulator, "admin").await;
    let id = client.boot(client.server_body("machine").await, "ACTIVE").await;
    let action = format!("{SERVERS}/{id}/action");
    let body = json!({"os-resetState": {"state": "error"}});
    assert_eq!(client.post(&action, body.clone()).await.status, 403);
    assert_eq!(admin.post(&action, body).await.status, 202);
    assert_eq!(client.get(&format!("{SERVERS}/{id}")).await.object()["status"], "ERROR");
    client.post(&action, json!({"reboot": {"type": "HARD"}})).await;
    client.until(&format!("{SERVERS}/{id}"), |server| server["status"] == "ACTIVE").await;
}
