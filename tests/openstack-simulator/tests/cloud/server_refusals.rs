//! Tests of Nova's errors and their messages.

use serde_json::{Value, json};
use tests_openstack_simulator::Simulator;

use crate::client::{Client, quick, send, slow};

const SERVERS: &str = "/compute/v2.1/servers";
const NOTHING: &str = "aaaaaaaa-bbf4-49c9-b37c-08fd55468fca";

#[tokio::test]
async fn an_invalid_create_call_is_refused() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    let volume =
        json!([{"boot_index": 0, "uuid": NOTHING, "source_type": "volume", "destination_type": "volume"}]);
    let table = [
        ("flavorRef", json!("zzz"), "Flavor zzz could not be found."),
        ("imageRef", json!(NOTHING), "Can not find requested image"),
        ("imageRef", json!(""), "Missing imageRef attribute"),
        ("key_name", json!("nobody"), "Invalid key_name provided."),
        ("availability_zone", json!("az9"), "The requested availability zone is not available"),
        ("networks", json!([{"uuid": NOTHING}]), &format!("Network {NOTHING} could not be found.")),
        ("networks", json!([{"port": NOTHING}]), &format!("Port id {NOTHING} could not be found.")),
        ("security_groups", json!([{"name": "x"}]), "Unable to find security_group with name or id 'x'"),
        (
            "block_device_mapping_v2",
            volume,
            &format!("Block Device Mapping is Invalid: failed to get volume {NOTHING}."),
        ),
        (
            "tags",
            json!(["a/b"]),
            "Invalid input for field/attribute 0. Value: a/b. 'a/b' does not match '^[^,/]*$'",
        ),
    ];
    for (key, value, message) in table {
        let mut body = client.server_body("machine").await;
        body["server"][key] = value;
        let response = client.post(SERVERS, body).await;
        assert_eq!((response.status, response.message().as_str()), (400, message), "{key}");
    }
    let mut body = client.server_body("machine").await;
    body["os:scheduler_hints"] = json!({"group": NOTHING});
    let response = client.post(SERVERS, body).await;
    assert_eq!(response.message(), format!("Instance group {NOTHING} could not be found."));
    assert!(simulator.inventory("demo").is_empty(), "a refused request creates no resources");
}

#[tokio::test]
async fn an_action_in_the_wrong_state_is_a_conflict() {
    let simulator = Simulator::start(slow()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    let id = client.boot(client.server_body("machine").await, "ACTIVE").await;
    let act = async |body: Value| client.post(&format!("{SERVERS}/{id}/action"), body).await;
    let soft = json!({"reboot": {"type": "SOFT"}});

    let response = act(json!({"os-start": null})).await;
    let words = format!("Cannot 'start' instance {id} while it is in vm_state active");
    assert_eq!((response.status, response.message()), (409, words));
    assert_eq!(act(soft.clone()).await.status, 202);
    let response = act(soft.clone()).await;
    let words = format!("Cannot 'reboot' instance {id} while it is in task_state rebooting");
    assert_eq!((response.status, response.message()), (409, words));
    assert_eq!(
        act(json!({"reboot": {"type": "HARD"}})).await.status,
        202,
        "a hard reboot overrides a soft one"
    );
    client.delete(&format!("{SERVERS}/{id}")).await;
    let response = act(json!({"os-stop": null})).await;
    let words = format!("Cannot 'stop' instance {id} while it is in task_state deleting");
    assert_eq!((response.status, response.message()), (409, words));
    assert_eq!(act(json!({"dance": {}})).await.message(), "There is no such action: dance");
}

#[tokio::test]
async fn a_server_that_never_ran_can_only_be_deleted() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    let mut body = client.server_body("machine").await;
    body["server"]["flavorRef"] = json!("impossible");
    let id = client.boot(body, "ERROR").await;
    let path = format!("{SERVERS}/{id}");
    let server = client.get(&path).await.object();
    assert!(server["fault"]["message"].as_str().unwrap().starts_with("No valid host was found."));
    let hard = client.post(&format!("{path}/action"), json!({"reboot": {"type": "HARD"}})).await;
    assert_eq!(hard.message(), format!("Instance {id} is in an invalid state for 'reboot'"));
    let start = client.post(&format!("{path}/action"), json!({"os-start": null})).await;
    assert_eq!(start.message(), format!("Instance {id} is not ready"));
    client.delete(&path).await;
    client.until_gone(&path).await;
}

#[tokio::test]
async fn a_port_can_be_attached_to_only_one_server() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    let id = client.boot(client.server_body("machine").await, "ACTIVE").await;
    let ports = client.get(&format!("/network/v2.0/ports?device_id={id}")).await.object();
    let port = ports[0]["id"].as_str().unwrap();
    let mut body = client.server_body("other").await;
    body["server"]["networks"] = json!([{"port": port}]);
    let response = client.post(SERVERS, body).await;
    assert_eq!((response.status, response.message()), (409, format!("Port {port} is still in use.")));
}

#[tokio::test]
async fn a_microversion_out_of_range_is_not_acceptable() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    let response = client.get(&format!("{SERVERS}/nothing")).await;
    assert_eq!((response.status, response.message().as_str()), (404, "Instance nothing could not be found."));
    assert_eq!(response.header("openstack-api-version"), Some("compute 2.90"));
    // The first of two headers counts.
    let token = format!("{}\r\nOpenStack-API-Version: compute 2.99", client.token);
    let response = send(client.address, "GET", SERVERS, &token, "").await.unwrap();
    let words = "Version 2.99 is not supported by the API. Minimum is 2.1 and maximum is 2.93.";
    assert_eq!((response.status, response.message().as_str()), (406, words));
}
