//! Provider suite against the simulator, and tests of errors that only a simulator produces on demand.

use std::{sync::Arc, time::Duration};

use controllers_infrastructure::{
    CloudConnector, Credentials, ErrorClass, ImageQuery, NetworkQuery, NewNetwork, PortQuery,
    suite::{Expectations, World, run},
};
use controllers_infrastructure_openstack::{AllowedEndpoints, OpenStackConnector};
use tests_openstack_simulator::{FaultEffect, InjectedFault, SeededShare, Simulator, SimulatorOptions};

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
    let connector = Arc::new(OpenStackConnector::new(AllowedEndpoints::with_loopback()));
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
        let cloud = OpenStackConnector::new(AllowedEndpoints::with_loopback())
            .connect(&credentials(&yaml))
            .await
            .unwrap();
        cloud.compute_zones().await.unwrap();
        tokio::time::sleep(lifetime * 2).await;
        cloud.compute_zones().await.unwrap();
    }
}

/// The caller then looks by name: the network exists although the call failed.
#[tokio::test(flavor = "multi_thread")]
async fn a_create_with_a_lost_response_has_an_unknown_outcome() {
    let simulator = Simulator::start(SimulatorOptions::default()).await.unwrap();
    let cloud = OpenStackConnector::new(AllowedEndpoints::with_loopback())
        .connect(&credentials(&simulator.clouds_yaml("demo")))
        .await
        .unwrap();
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
    let unlimited = OpenStackConnector::new(AllowedEndpoints::with_loopback())
        .connect(&credentials(&yaml))
        .await
        .unwrap();
    assert_eq!(unlimited.credentials_expire_at(), None);
    let end = "2099-01-01T00:00:00Z";
    assert!(simulator.set_credential_expiry("demo", end.parse().unwrap()));
    let limited = OpenStackConnector::new(AllowedEndpoints::with_loopback())
        .connect(&credentials(&yaml))
        .await
        .unwrap();
    assert_eq!(limited.credentials_expire_at(), Some(end));
    assert!(simulator.set_credential_expiry("demo", "2000-01-01T00:00:00Z".parse().unwrap()));
    let expired = OpenStackConnector::new(AllowedEndpoints::with_loopback())
        .connect(&credentials(&yaml))
        .await
        .unwrap_err();
    assert_eq!(expired.class, ErrorClass::Unauthorized);
}

#[tokio::test(flavor = "multi_thread")]
async fn r4_6_one_caller_gets_a_new_token_before_the_old_one_ends() {
    let options = SimulatorOptions { token_lifetime: Duration::from_secs(5), ..SimulatorOptions::default() };
    let simulator = Simulator::start(options).await.unwrap();
    let connector = OpenStackConnector::new(AllowedEndpoints::with_loopback());
    let credentials = credentials(&simulator.clouds_yaml("demo"));
    let logins = || {
        let log = simulator.log();
        log.iter().filter(|call| call.method == "POST" && call.path.ends_with("/auth/tokens")).count()
    };
    let old = connector.connect(&credentials).await.unwrap();
    assert!(Arc::ptr_eq(&old, &connector.connect(&credentials).await.unwrap()), "the token is young");
    let before = logins();
    tokio::time::sleep(Duration::from_millis(4300)).await;
    let all = futures::future::join_all((0..20).map(|_| connector.connect(&credentials))).await;
    let new = connector.connect(&credentials).await.unwrap();
    assert!(!Arc::ptr_eq(&old, &new));
    let known = |cloud: &Arc<dyn controllers_infrastructure::Cloud>| {
        Arc::ptr_eq(cloud, &old) || Arc::ptr_eq(cloud, &new)
    };
    assert!(all.iter().flatten().all(known), "the others use the old one or the new one");
    assert_eq!(logins() - before, 1);
    tokio::time::sleep(Duration::from_millis(1200)).await;
    new.compute_zones().await.unwrap();
    assert!(!simulator.log().iter().any(|call| call.status == 401), "no call was refused");
}

#[tokio::test(flavor = "multi_thread")]
async fn r4_9_earlier_credentials_of_a_source_are_used_until_their_token_ends() {
    let options = SimulatorOptions { token_lifetime: Duration::from_secs(3), ..SimulatorOptions::default() };
    let simulator = Simulator::start(options).await.unwrap();
    let connector = OpenStackConnector::new(AllowedEndpoints::with_loopback());
    let good = credentials(&simulator.clouds_yaml("demo"));
    let wrong = credentials(&simulator.clouds_yaml("demo").replace("password: demo", "password: wrong"));
    let first = connector.connect_from("n/s", &good).await.unwrap();
    assert!(first.refused.is_none());
    let earlier = connector.connect_from("n/s", &wrong).await.unwrap();
    assert!(Arc::ptr_eq(&earlier.cloud, &first.cloud));
    assert_eq!(earlier.refused.unwrap().class, ErrorClass::Unauthorized);
    earlier.cloud.compute_zones().await.unwrap();
    let other = connector.connect_from("other/s", &wrong).await.unwrap_err();
    assert_eq!(other.class, ErrorClass::Unauthorized, "another source never had others");
    tokio::time::sleep(Duration::from_secs(4)).await;
    assert!(connector.connect_from("n/s", &wrong).await.is_err(), "the token has ended");
    assert!(connector.connect_from("n/s", &good).await.unwrap().refused.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn r2_7_a_lookup_before_a_create_is_answered_by_the_cloud_and_not_from_memory() {
    let simulator = Simulator::start(SimulatorOptions::default()).await.unwrap();
    let cloud = OpenStackConnector::new(AllowedEndpoints::with_loopback())
        .connect(&credentials(&simulator.clouds_yaml("demo")))
        .await
        .unwrap();
    let network = NetworkQuery { name: Some("n".into()), ..NetworkQuery::default() };
    let port = PortQuery { name: Some("n".into()), ..PortQuery::default() };
    cloud.images(&ImageQuery::default()).await.unwrap();
    simulator.clear_log();
    for _ in 0..2 {
        cloud.images(&ImageQuery::default()).await.unwrap();
        cloud.networks(&network).await.unwrap();
        cloud.ports(&port).await.unwrap();
        cloud.servers_named("n").await.unwrap();
        cloud.volumes_named("n").await.unwrap();
        cloud.server_groups().await.unwrap();
    }
    let log = simulator.log();
    let count = |path: &str| log.iter().filter(|call| call.path.ends_with(path)).count();
    for path in ["/networks", "/ports", "/servers/detail", "/volumes/detail", "/os-server-groups"] {
        assert_eq!(count(path), 2, "{path}");
    }
    assert_eq!(count("/images"), 0, "an image is no resource of ours");
}

#[tokio::test(flavor = "multi_thread")]
async fn r17_3_shares_of_the_project_are_listed_with_their_metadata() {
    let simulator = Simulator::start(SimulatorOptions::default()).await.unwrap();
    let cloud = OpenStackConnector::new(AllowedEndpoints::with_loopback())
        .connect(&credentials(&simulator.clouds_yaml("demo")))
        .await
        .unwrap();
    assert_eq!(cloud.shares().await.unwrap(), []);
    let share = |project: &str, name: &str| SeededShare {
        project: project.into(),
        name: name.into(),
        size: 5,
        metadata: [("manila.csi.openstack.org/cluster".into(), "blue".into())].into(),
    };
    // More than Manila has on one page.
    let ids: Vec<String> = (0..1001)
        .map(|index| simulator.create_share(&share("demo", &format!("pvc-{index}"))).unwrap())
        .collect();
    simulator.create_share(&share("demo2", "pvc-other")).unwrap();
    let found = cloud.shares().await.unwrap();
    assert_eq!(found.len(), ids.len());
    let first = found.iter().find(|share| share.id == ids[0]).unwrap();
    assert_eq!((first.name.as_str(), first.size_gib, first.status.as_str()), ("pvc-0", 5, "available"));
    assert_eq!(first.metadata, share("demo", "").metadata);
}

#[tokio::test(flavor = "multi_thread")]
async fn r17_3_a_cloud_without_manila_has_no_shares() {
    let options = SimulatorOptions { shared_file_systems: false, ..SimulatorOptions::default() };
    let simulator = Simulator::start(options).await.unwrap();
    let cloud = OpenStackConnector::new(AllowedEndpoints::with_loopback())
        .connect(&credentials(&simulator.clouds_yaml("demo")))
        .await
        .unwrap();
    simulator.clear_log();
    assert_eq!(cloud.shares().await.unwrap(), []);
    assert!(simulator.log().is_empty(), "the catalog says so, and no call is made");
}
