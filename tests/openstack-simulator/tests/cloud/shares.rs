//! Tests of the shares of Manila.

use serde_json::{Value, json};
use tests_openstack_simulator::{SeededShare, Simulator};

use crate::client::{Client, ReceivedResponse, quick, send_with};

fn share(project: &str, name: &str) -> SeededShare {
    let metadata = [("manila.csi.openstack.org/cluster".to_owned(), "blue".to_owned())].into();
    SeededShare { project: project.to_owned(), name: name.to_owned(), size: 2, metadata }
}

/// Sends a read with this version in its head.
async fn get(client: &Client, path: &str, version: &str) -> ReceivedResponse {
    let header = format!("X-OpenStack-Manila-API-Version: {version}\r\n");
    send_with(client.address, "GET", path, &client.token, &header, "").await.unwrap()
}

fn names(body: &Value) -> Vec<&str> {
    body["shares"].as_array().unwrap().iter().filter_map(|share| share["name"].as_str()).collect()
}

#[tokio::test]
async fn shares_of_the_project_are_listed_by_offset_and_links_lead_to_the_first_page() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    let list = format!("/share/v2/{}/shares/detail", client.project);
    assert_eq!(client.get(&list).await.json(), json!({"shares": []}));
    for name in ["one", "two", "three"] {
        assert!(simulator.create_share(&share("demo", name)).is_some());
    }
    assert!(simulator.create_share(&share("demo2", "other")).is_some());
    assert_eq!(simulator.create_share(&share("nowhere", "none")), None);
    let other = json!({"project": "demo", "name": "four", "size": 3});
    assert_eq!(client.post("/simulator/shares", other).await.status, 201);

    let page = get(&client, &format!("{list}?limit=3&offset=0"), "2.37").await.json();
    assert_eq!(names(&page), ["four", "three", "two"]);
    let next = page["shares_links"][0]["href"].as_str().unwrap();
    let query = next.split_once('?').unwrap().1;
    let again = get(&client, &format!("{list}?{query}"), "2.37").await.json();
    assert_eq!(names(&again), names(&page), "the marker is ignored");
    let rest = get(&client, &format!("{list}?limit=3&offset=3"), "2.37").await.json();
    assert_eq!((names(&rest), &rest["shares_links"]), (vec!["one"], &Value::Null));
    let without_project = get(&client, "/share/v2/shares/detail", "2.60").await.json();
    assert_eq!(names(&without_project).len(), 4);
    assert_eq!(simulator.inventory("demo").shares.len(), 4);
}

#[tokio::test]
async fn a_share_has_the_attributes_of_the_requested_version() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    simulator.create_share(&share("demo", "one")).unwrap();
    let list = format!("/share/v2/{}/shares/detail", client.project);
    let new = get(&client, &list, "2.37").await;
    assert_eq!(new.header("x-openstack-manila-api-version"), Some("2.37"));
    let (new, old) = (new.json(), get(&client, &list, "2.0").await.json());
    for share in [&new["shares"][0], &old["shares"][0]] {
        assert_eq!((&share["size"], &share["status"]), (&json!(2), &json!("available")));
        assert_eq!(share["metadata"], json!({"manila.csi.openstack.org/cluster": "blue"}));
    }
    let has = |body: &Value, key: &str| body["shares"][0].get(key).is_some();
    assert!(has(&new, "mount_snapshot_support") && !has(&new, "export_locations"));
    assert!(!has(&old, "mount_snapshot_support") && has(&old, "export_locations"));

    for (version, status) in [("2.999", 406), ("1.0", 406), ("two", 400)] {
        assert_eq!(get(&client, &list, version).await.status, status, "{version}");
    }
    let elsewhere = client.get("/share/v2/elsewhere/shares/detail").await;
    assert_eq!((elsewhere.status, elsewhere.message().as_str()), (400, "Malformed request url"));
    assert_eq!(client.get(&format!("{list}?limit=x")).await.message(), "limit param must be an integer");
    assert_eq!(client.get("/share/v2/other").await.status, 404);
}
