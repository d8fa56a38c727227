//! Tests of volumes and images.

use serde_json::json;
use tests_openstack_simulator::{FaultEffect, InjectedFault, Simulator, SimulatorOptions};

use crate::client::{Client, quick, send_with};

#[tokio::test]
async fn a_server_boots_from_a_volume_that_is_deleted_with_it() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    let volumes = format!("/volume/v3/{}/volumes", client.project);
    let image = client.id_of("/image/v2/images?name=cirros", "cirros").await;
    let created = client.post(&volumes, json!({"volume": {"size": 1, "name": "v", "imageRef": image}})).await;
    assert_eq!((created.status, &created.object()["status"]), (202, &json!("creating")));
    let path = format!("{volumes}/{}", created.id());
    let volume = client.until(&path, |volume| volume["status"] == "available").await;
    assert_eq!(volume["bootable"], "true");

    let mut body = client.server_body("machine").await;
    body["server"]["imageRef"] = json!("");
    body["server"]["block_device_mapping_v2"] = json!([{
        "boot_index": 0, "uuid": volume["id"], "source_type": "volume", "destination_type": "volume",
        "delete_on_termination": true,
    }]);
    let id = client.boot(body, "ACTIVE").await;
    let server = format!("/compute/v2.1/servers/{id}");
    assert_eq!(client.get(&server).await.object()["image"], "");
    let volume = client.get(&path).await.object();
    assert_eq!((&volume["status"], &volume["attachments"][0]["server_id"]), (&json!("in-use"), &json!(id)));
    assert_eq!(client.delete(&path).await.status, 400);
    let held = client.get(&format!("{server}/os-volume_attachments")).await.object();
    assert_eq!((&held[0]["volumeId"], &held[0]["delete_on_termination"]), (&volume["id"], &json!(true)));
    let root = format!("{server}/os-volume_attachments/{}", volume["id"].as_str().unwrap());
    let refused = client.delete(&root).await;
    assert_eq!((refused.status, refused.message()), (400, "Cannot detach a root device volume".to_owned()));
    client.delete(&server).await;
    client.until_gone(&server).await;
    client.until_gone(&path).await;
    assert!(simulator.inventory("demo").is_empty());
}

#[tokio::test]
async fn a_volume_is_detached_once_and_not_from_a_locked_server() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    let volumes = format!("/volume/v3/{}/volumes", client.project);
    let volume = client.post(&volumes, json!({"volume": {"size": 1, "name": "claim"}})).await.id();
    let path = format!("{volumes}/{volume}");
    client.until(&path, |volume| volume["status"] == "available").await;
    let id = client.boot(client.server_body("machine").await, "ACTIVE").await;
    let server = format!("/compute/v2.1/servers/{id}");
    let held = format!("{server}/os-volume_attachments/{volume}");
    let missing = client.delete(&held).await;
    let words = format!("Instance {id} is not attached to volume {volume}");
    assert_eq!((missing.status, missing.message()), (404, words));
    assert!(simulator.attach_volume(&volume, &id));
    client.post(&format!("{server}/action"), json!({"os-stop": null})).await;
    let busy = client.delete(&held).await;
    let words = format!("Cannot 'detach_volume' instance {id} while it is in task_state powering-off");
    assert_eq!((busy.status, busy.message()), (409, words));
    client.until(&server, |server| server["status"] == "SHUTOFF").await;

    client.post(&format!("{server}/action"), json!({"lock": null})).await;
    let locked = client.delete(&held).await;
    assert_eq!((locked.status, locked.message()), (409, format!("Instance {id} is locked")));
    let start = client.post(&format!("{server}/action"), json!({"os-start": null})).await;
    assert_eq!(start.status, 409);
    client.post(&format!("{server}/action"), json!({"unlock": null})).await;

    assert_eq!(client.delete(&held).await.status, 202);
    assert_eq!(client.get(&path).await.object()["status"], "detaching");
    let again = client.delete(&held).await;
    assert!(again.status == 400 && again.message().contains("Volume status must be 'in-use'"), "{again:?}");
    let free = client.until(&path, |volume| volume["status"] == "available").await;
    assert_eq!(free["attachments"], json!([]));
    assert_eq!(client.get(&format!("{server}/os-volume_attachments")).await.object(), json!([]));
    let actions = client.get(&format!("{server}/os-instance-actions")).await.object();
    let names: Vec<&str> =
        actions.as_array().unwrap().iter().filter_map(|action| action["action"].as_str()).collect();
    assert_eq!(names, ["detach_volume", "unlock", "lock", "stop", "create"]);
    let request = actions[0]["request_id"].as_str().unwrap();
    let action = client.get(&format!("{server}/os-instance-actions/{request}")).await.object();
    let event = &action["events"][0];
    assert_eq!((&event["event"], &event["result"]), (&json!("compute_detach_volume"), &json!("Success")));
}

#[tokio::test]
async fn volumes_are_validated_listed_and_deleted() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    let volumes = format!("/volume/v3/{}/volumes", client.project);
    let table = [
        (json!({"name": "v"}), 400),
        (json!({"size": 1, "imageRef": "nothing"}), 400),
        (json!({"size": 1, "volume_type": "nothing"}), 404),
        (json!({"size": 1, "availability_zone": "nowhere"}), 400),
    ];
    for (volume, status) in table {
        let response = client.post(&volumes, json!({"volume": volume})).await;
        assert_eq!(response.status, status, "{volume}");
    }
    for name in ["one", "two"] {
        client.post(&volumes, json!({"volume": {"size": 1, "name": name}})).await.id();
    }
    let found = client.get(&format!("{volumes}/detail?name=one")).await.object();
    assert_eq!(found.as_array().unwrap().len(), 1);
    let path = format!("{volumes}/{}", found[0]["id"].as_str().unwrap());
    client.until(&path, |volume| volume["status"] == "available").await;
    assert_eq!(client.delete(&path).await.status, 202);
    assert_eq!(client.get(&path).await.object()["status"], "deleting");
    client.until_gone(&path).await;
    assert_eq!(client.get("/volume/v3/elsewhere/volumes").await.message(), "Malformed request url");
}

#[tokio::test]
async fn a_volume_with_a_snapshot_is_not_deleted() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    let base = format!("/volume/v3/{}", client.project);
    let id = client.post(&format!("{base}/volumes"), json!({"volume": {"size": 1, "name": "v"}})).await.id();
    let volume = format!("{base}/volumes/{id}");
    client.until(&volume, |volume| volume["status"] == "available").await;
    let snapshots = format!("{base}/snapshots");
    let absent = client.post(&snapshots, json!({"snapshot": {"volume_id": "nothing"}})).await;
    assert_eq!(absent.status, 404);
    let made = client.post(&snapshots, json!({"snapshot": {"volume_id": id, "name": "s"}})).await;
    assert_eq!((made.status, &made.object()["volume_id"]), (202, &json!(id)));
    let refused = client.delete(&volume).await;
    assert_eq!(refused.status, 400);
    assert!(refused.message().contains("have snapshots"), "{}", refused.message());
    let listed = client.get(&format!("{snapshots}/detail")).await.object();
    assert_eq!((listed.as_array().unwrap().len(), &listed[0]["status"]), (1, &json!("available")));
    assert_eq!(client.delete(&format!("{snapshots}/{}", made.id())).await.status, 202);
    assert_eq!(client.delete(&format!("{snapshots}/{}", made.id())).await.status, 404);
    assert_eq!(client.delete(&volume).await.status, 202);
    client.until_gone(&volume).await;
    assert!(simulator.inventory("demo").is_empty());
}

#[tokio::test]
async fn images_are_listed_in_pages() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    let page = client.get("/image/v2/images?limit=4&tag=kubernetes&sort=name:asc").await.json();
    assert_eq!(page["images"][0]["name"], "ubuntu-2204-kube-v1.29.0");
    let next = format!("/image{}", page["next"].as_str().unwrap());
    let rest = client.get(&next).await.json();
    assert_eq!((rest["images"].as_array().unwrap().len(), &rest["next"]), (3, &json!(null)));
    assert_eq!(client.get("/image/v2/images/nothing").await.status, 404);
}

#[tokio::test]
async fn a_filter_by_metadata_works_unless_the_cloud_ignores_it() {
    for works in [true, false] {
        let options = SimulatorOptions { volume_metadata_filter: works, ..quick() };
        let simulator = Simulator::start(options).await.unwrap();
        let client = Client::login(&simulator, "demo").await;
        let volumes = format!("/volume/v3/{}/volumes", client.project);
        for owner in ["a", "b"] {
            let body = json!({"volume": {"size": 1, "name": owner, "metadata": {"owner": owner}}});
            client.post(&volumes, body).await.id();
        }
        let found =
            client.get(&format!("{volumes}/detail?metadata=%7B%27owner%27%3A+%27a%27%7D")).await.object();
        let names: Vec<&str> =
            found.as_array().unwrap().iter().filter_map(|it| it["name"].as_str()).collect();
        let expected = if works { vec!["a"] } else { vec!["b", "a"] };
        assert_eq!(names, expected);
    }
}

#[tokio::test]
async fn a_message_says_why_a_volume_was_not_created() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    let base = format!("/volume/v3/{}", client.project);
    simulator.inject(InjectedFault {
        method: Some("POST".to_owned()),
        path: Some("/volumes".to_owned()),
        count: Some(1),
        ..InjectedFault::new(FaultEffect::EndInError)
    });
    let id = client.post(&format!("{base}/volumes"), json!({"volume": {"size": 1}})).await.id();
    client.until(&format!("{base}/volumes/{id}"), |volume| volume["status"] == "error").await;
    let path = format!("{base}/messages");
    let old = client.get(&path).await;
    let words = "API version 3.0 is not supported on this method.";
    assert_eq!((old.status, old.message().as_str()), (404, words));
    let call = async |method: &str, path: &str| {
        let version = "OpenStack-API-Version: volume 3.3\r\n";
        send_with(client.address, method, path, &client.token, version, "").await.unwrap()
    };
    let messages = call("GET", &path).await.object();
    let message = &messages[0];
    assert_eq!((messages.as_array().map(Vec::len), &message["resource_uuid"]), (Some(1), &json!(id)));
    let words = "schedule allocate volume:Could not find any available weighted backend.";
    assert_eq!(message["user_message"], words);
    assert_eq!(message["event_id"], "VOLUME_VOLUME_001_003");
    let one = format!("{path}/{}", message["id"].as_str().unwrap());
    assert_eq!(call("GET", &one).await.object()["message_level"], "ERROR");
    assert_eq!(call("DELETE", &one).await.status, 204);
    assert_eq!(call("GET", &one).await.status, 404);
}

#[tokio::test]
async fn nova_may_refuse_volumes_of_another_zone_than_that_of_the_server() {
    let options = SimulatorOptions { cross_zone_attachment: false, ..quick() };
    let simulator = Simulator::start(options).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    let volumes = format!("/volume/v3/{}/volumes", client.project);
    let mut ids = Vec::new();
    for zone in ["az1", "az2"] {
        let id = client.post(&volumes, json!({"volume": {"size": 1, "availability_zone": zone}})).await.id();
        client.until(&format!("{volumes}/{id}"), |volume| volume["status"] == "available").await;
        ids.push(id);
    }
    let plain = client.server_body("machine").await;
    let create = async |zone: Option<&str>, volumes: &[&String]| {
        let mut body = plain.clone();
        let disks = volumes.iter().map(|id| {
            json!({
                "boot_index": -1, "uuid": id, "source_type": "volume", "destination_type": "volume",
            })
        });
        body["server"]["block_device_mapping_v2"] = disks.collect();
        if let Some(zone) = zone {
            body["server"]["availability_zone"] = json!(zone);
        }
        client.post("/compute/v2.1/servers", body).await
    };
    let mismatch = "The availability zone between the server and its attached volumes do not match: ";
    let refused = create(Some("az1"), &[&ids[1]]).await;
    let words =
        "Server and volumes are not in the same availability zone. Server is in: az1. Volumes are in: az2.";
    assert_eq!((refused.status, refused.message()), (400, format!("{mismatch}{words}")));
    let refused = create(None, &[&ids[0], &ids[1]]).await;
    let words = "Volumes are in different availability zones: az1,az2.";
    assert_eq!((refused.status, refused.message()), (400, format!("{mismatch}{words}")));
    // A server without a zone goes to that of its volumes.
    let id = create(None, &[&ids[1]]).await.id();
    let path = format!("/compute/v2.1/servers/{id}");
    let server = client.until(&path, |server| server["status"] == "ACTIVE").await;
    assert_eq!(server["OS-EXT-AZ:availability_zone"], "az2");
    assert_eq!(create(Some("az1"), &[&ids[0]]).await.status, 202);
}
