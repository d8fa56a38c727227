//! Tests of tokens and of visibility.

use std::time::Duration;

use serde_json::json;
use tests_openstack_simulator::{Simulator, SimulatorOptions};

use crate::client::{Client, quick, send};

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
    assert_eq!(catalog.as_array().unwrap().len(), 7);
    for path in
        ["/", "/v3/", "/compute/v2.1/", "/compute/", "/network/", "/image/", "/volume/v3/", "/load-balancer/"]
    {
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
