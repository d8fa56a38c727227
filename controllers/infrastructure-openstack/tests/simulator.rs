//! Provider suite against the simulator, and tests of errors that only a simulator produces on demand.

use std::{sync::Arc, time::Duration};

use controllers_infrastructure::{
    CloudConnector, Credentials, ErrorClass, NewNetwork,
    suite::{Expectations, World, run},
};
use controllers_infrastructure_openstack::OpenStackConnector;
use tests_openstack_simulator::{FaultEffect, InjectedFault, Simulator, SimulatorOptions};

fn credentials(clouds_yaml: &str) -> Credentials {
    Credentials {
        clouds_yaml: clouds_yaml.into(),
        cloud_name: "openstack".into(),
        ca_certificate: None,
        region: None,
        identity: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_suite_passes_on_the_simulator() {
    let simulator = Simulator::start(SimulatorOptions::default()).await.unwrap();
    let demo = simulator.clouds_yaml("demo");
    let port = format!(":{}/", simulator.address().port());
    let expected = Expectations {
        external_network: "public".into(),
        image: "ubuntu-2204-kube-v1.29.0".into(),
        other_image: "ubuntu-2204-kube-v1.30.0".into(),
        flavor: "m1.tiny".into(),
        impossible_flavor: "x1.impossible".into(),
        large_flavor: "m1.large".into(),
        zone: "az1".into(),
        wrong_password: credentials(&demo.replace("password: demo", "password: wrong")),
        unreachable: credentials(&demo.replace(&port, ":1/")),
        tiny: credentials(&simulator.clouds_yaml("tiny")),
    };
    let connector = Arc::new(OpenStackConnector::new());
    let world = World::new(connector, credentials(&demo), expected, "suite").await.unwrap();
    run(world, &std::env::var("CAPSTAN_SUITE_FILTER").unwrap_or_default()).await;
    for project in ["demo", "tiny"] {
        let inventory = simulator.inventory(project);
        assert!(inventory.is_empty(), "{project}: {inventory:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_token_is_renewed_for_every_authentication_method() {
    let lifetime = Duration::from_millis(400);
    let options = SimulatorOptions { token_lifetime: lifetime, ..SimulatorOptions::default() };
    let simulator = Simulator::start(options).await.unwrap();
    let by_password = simulator.clouds_yaml("demo");
    let by_credential = format!(
        "clouds: {{openstack: {{auth: {{auth_url: '{}', application_credential_id: \
         demo-application-credential, application_credential_secret: demo-secret}}}}}}",
        simulator.auth_url()
    );
    for yaml in [by_password, by_credential] {
        let cloud = OpenStackConnector::new().connect(&credentials(&yaml)).await.unwrap();
        cloud.compute_zones().await.unwrap();
        tokio::time::sleep(lifetime * 2).await;
        cloud.compute_zones().await.unwrap();
    }
}

/// The caller then looks by name: the network exists although the call failed.
#[tokio::test(flavor = "multi_thread")]
async fn a_create_with_a_lost_response_has_an_unknown_outcome() {
    let simulator = Simulator::start(SimulatorOptions::default()).await.unwrap();
    let cloud =
        OpenStackConnector::new().connect(&credentials(&simulator.clouds_yaml("demo"))).await.unwrap();
    simulator.inject(InjectedFault {
        path: Some("/networks".into()),
        method: Some("POST".into()),
        count: Some(1),
        ..InjectedFault::new(FaultEffect::DropAfterEffect)
    });
    let new = NewNetwork { name: "lost".into(), ..NewNetwork::default() };
    let error = cloud.create_network(&new).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Unknown, "{error:?}");
    assert_eq!(simulator.inventory("demo").networks.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn r4_8_the_end_of_an_application_credential_is_known_after_the_login() {
    let simulator = Simulator::start(SimulatorOptions::default()).await.unwrap();
    let yaml = format!(
        "clouds: {{openstack: {{auth: {{auth_url: '{}', application_credential_id: \
         demo-application-credential, application_credential_secret: demo-secret}}}}}}",
        simulator.auth_url()
    );
    let unlimited = OpenStackConnector::new().connect(&credentials(&yaml)).await.unwrap();
    assert_eq!(unlimited.credentials_expire_at(), None);
    let end = "2099-01-01T00:00:00Z";
    assert!(simulator.set_credential_expiry("demo", end.parse().unwrap()));
    let limited = OpenStackConnector::new().connect(&credentials(&yaml)).await.unwrap();
    assert_eq!(limited.credentials_expire_at(), Some(end));
    assert!(simulator.set_credential_expiry("demo", "2000-01-01T00:00:00Z".parse().unwrap()));
    let expired = OpenStackConnector::new().connect(&credentials(&yaml)).await.unwrap_err();
    assert_eq!(expired.class, ErrorClass::Unauthorized);
}
