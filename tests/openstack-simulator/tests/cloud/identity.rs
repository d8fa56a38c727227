//! Tests of tokens and of visibility.

use std::time::Duration;

use serde_json::{Value, json};
use tests_openstack_simulator::{Simulator, SimulatorOptions};

use crate::client::{Client, ReceivedResponse, quick, send};

const UNAUTHORIZED: &str = "The request you have made requires authentication.";

#[tokio::test]
async fn a_wrong_password_and_a_foreign_project_are_refused() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let domain = json!({"name": "Default"});
    for (password, project) in [("wrong", "demo"), ("demo", "demo2"), ("demo", "nothing")] {
        let user = json!({"name": "demo", "password": password, "domain": domain});
        let body = json!({"auth": {
            "identity": {"methods": ["password"], "password": {"user": user}},
            "scope": {"project": {"name": project, "domain": domain}},
        }});
        let response =
            send(simulator.address(), "POST", "/v3/auth/tokens", "", &body.to_string()).await.unwrap();
        assert_eq!(
            (response.status, response.message().as_str()),
            (401, UNAUTHORIZED),
            "{password} {project}"
        );
    }
}

#[tokio::test]
async fn a_token_expires_at_every_service() {
    let options = SimulatorOptions { token_lifetime: Duration::from_secs(1), ..quick() };
    let simulator = Simulator::start(options).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    let volumes = format!("/volume/v3/{}/volumes", client.project);
    let paths =
        ["/compute/v2.1/servers", "/network/v2.0/ports", "/image/v2/images", &volumes, "/v3/auth/projects"];
    for path in paths {
        assert_eq!(client.get(path).await.status, 200, "{path}");
    }
    tokio::time::sleep(Duration::from_secs(1)).await;
    for path in paths {
        let response = client.get(path).await;
        assert_eq!((response.status, response.message().as_str()), (401, UNAUTHORIZED), "{path}");
    }
}

#[tokio::test]
async fn an_application_credential_and_a_token_return_new_tokens() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let held = json!({"id": "demo-application-credential", "secret": "demo-secret"});
    let body = json!({"auth": {"identity": {
        "methods": ["application_credential"], "application_credential": held,
    }}});
    let response = send(simulator.address(), "POST", "/v3/auth/tokens", "", &body.to_string()).await.unwrap();
    assert_eq!(response.object()["project"]["name"], "demo");
    let token = response.header("x-subject-token").unwrap();
    let body = json!({"auth": {"identity": {"methods": ["token"], "token": {"id": token}}}});
    let again = send(simulator.address(), "POST", "/v3/auth/tokens", "", &body.to_string()).await.unwrap();
    assert_eq!(again.object()["project"]["name"], "demo");
}

#[tokio::test]
async fn the_catalog_links_to_version_documents() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    let catalog = client.get("/v3/auth/catalog").await.object();
    assert_eq!(catalog.as_array().unwrap().len(), 8);
    let compute = ["/compute/v2.1/", "/compute/"];
    let others =
        ["/", "/v3/", "/network/", "/image/", "/volume/v3/", "/load-balancer/", "/share/", "/share/v2/"];
    for path in compute.into_iter().chain(others) {
        let response = send(simulator.address(), "GET", path, "", "").await.unwrap();
        assert!(matches!(response.status, 200 | 300), "{path} {}", response.status);
        let own = format!("http://{}", simulator.address());
        assert!(response.text.contains(&own), "{path} {}", response.text);
    }
}

#[tokio::test]
async fn resources_of_other_projects_are_not_visible() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let demo = Client::login(&simulator, "demo").await;
    let other = Client::login(&simulator, "demo2").await;
    let server = demo.boot(demo.server_body("mine").await, "ACTIVE").await;
    let network = demo.id_of("/network/v2.0/networks", "private").await;
    let volume =
        demo.post(&format!("/volume/v3/{}/volumes", demo.project), json!({"volume": {"size": 1}})).await.id();
    for path in [
        format!("/compute/v2.1/servers/{server}"),
        format!("/network/v2.0/networks/{network}"),
        format!("/volume/v3/{}/volumes/{volume}", other.project),
    ] {
        assert_eq!(other.get(&path).await.status, 404, "{path}");
        assert_eq!(other.delete(&path).await.status, 404, "{path}");
    }
    assert_eq!(other.get("/compute/v2.1/servers").await.object(), json!([]));
    let public = other.id_of("/network/v2.0/networks", "public").await;
    assert_eq!(other.delete(&format!("/network/v2.0/networks/{public}")).await.status, 403);
    assert!(simulator.inventory("demo2").is_empty());
    assert_eq!(simulator.inventory("demo").servers.len(), 1);
}

async fn login(simulator: &Simulator, user: &str, scope: &Value) -> ReceivedResponse {
    let user = json!({"name": user, "password": user, "domain": {"name": "Default"}});
    let body = json!({"auth": {
        "identity": {"methods": ["password"], "password": {"user": user}}, "scope": scope,
    }});
    send(simulator.address(), "POST", "/v3/auth/tokens", "", &body.to_string()).await.unwrap()
}

#[tokio::test]
async fn a_token_of_a_trust_is_for_the_project_of_the_trustor() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let trust = simulator.trust("demo", "demo2").unwrap();
    assert_eq!(simulator.trust("demo", "nobody"), None);
    let scope = |id: &str| json!({"OS-TRUST:trust": {"id": id}});
    let response = login(&simulator, "demo2", &scope(&trust)).await;
    let token = response.object();
    assert_eq!((&token["project"]["name"], &token["user"]["name"]), (&json!("demo"), &json!("demo2")));
    let shown = &token["OS-TRUST:trust"];
    assert_eq!((&shown["id"], &shown["impersonation"]), (&json!(trust), &json!(false)));
    assert_eq!(shown["trustee_user"]["id"], token["user"]["id"]);
    let owner = Client::login(&simulator, "demo").await;
    let network = owner.id_of("/network/v2.0/networks", "private").await;
    let path = format!("/network/v2.0/networks/{network}");
    let id = response.header("x-subject-token").unwrap();
    assert_eq!(send(simulator.address(), "GET", &path, id, "").await.unwrap().status, 200);

    let refused = login(&simulator, "tiny", &scope(&trust)).await;
    let words = "You are not authorized to perform the requested action.";
    assert_eq!((refused.status, refused.message().as_str()), (403, words), "another trustee");
    let unknown = login(&simulator, "demo2", &scope("nothing")).await;
    assert_eq!((unknown.status, unknown.message().as_str()), (401, UNAUTHORIZED));
}

#[tokio::test]
async fn everyone_reads_the_regions_and_administrators_change_them() {
    let simulator = Simulator::start(quick()).await.unwrap();
    let client = Client::login(&simulator, "demo").await;
    let regions = client.get("/v3/regions").await.json();
    assert_eq!(regions["regions"].as_array().map(Vec::len), Some(1), "{regions}");
    assert_eq!(regions["regions"][0]["id"], "RegionOne");
    assert_eq!(client.get("/v3/regions/RegionOne").await.object()["parent_region_id"], Value::Null);
    let missing = client.get("/v3/regions/RegionTwo").await;
    assert_eq!((missing.status, missing.message().as_str()), (404, "Could not find region: RegionTwo."));
    let words = "You are not authorized to perform the requested action: identity:";
    for (path, action) in [("/v3/regions/RegionOne", "delete_region"), ("/v3/users", "list_users")] {
        let refused = if action == "list_users" { client.get(path).await } else { client.delete(path).await };
        assert_eq!((refused.status, refused.message()), (403, format!("{words}{action}.")));
    }
    let anonymous = send(simulator.address(), "GET", "/v3/regions", "", "").await.unwrap();
    assert_eq!(anonymous.status, 401);
}

#[tokio::test]
async fn octavia_refuses_the_changes_of_a_reader() {
    let simulator = Simulator::start(quick()).await.unwrap();
    assert!(simulator.set_reader("demo", true) && !simulator.set_reader("nobody", true));
    let client = Client::login(&simulator, "demo").await;
    let scope = json!({"project": {"name": "demo", "domain": {"name": "Default"}}});
    let roles = login(&simulator, "demo", &scope).await.object()["roles"].clone();
    assert_eq!((roles.as_array().map(Vec::len), &roles[0]["name"]), (Some(1), &json!("reader")));
    let path = "/load-balancer/v2/lbaas/loadbalancers";
    assert_eq!(client.get(path).await.status, 200);
    let network = client.id_of("/network/v2.0/networks", "private").await;
    let body = json!({"loadbalancer": {"vip_network_id": network}});
    let refused = client.post(path, body.clone()).await;
    let words = "Policy does not allow this request to be performed.";
    assert_eq!((refused.status, &refused.json()["faultstring"]), (403, &json!(words)));
    // Neutron of this release does not tell readers from members.
    assert_eq!(client.post("/network/v2.0/networks", json!({"network": {"name": "n"}})).await.status, 201);
    assert!(simulator.set_reader("demo", false));
    assert_eq!(client.post(path, body).await.status, 201);
}
