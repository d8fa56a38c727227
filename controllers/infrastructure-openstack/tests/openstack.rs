//! Provider suite against a real OpenStack, if one is configured.
//!
//! `CAPSTAN_OPENSTACK_CLOUDS` names a `clouds.yaml` with the clouds `lab` and `lab-tiny`, as the
//! lab of Debian's packages writes it; `CAPSTAN_SUITE_FILTER` runs only the cases whose sentence
//! contains it.
#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test panics, and says when it is skipped; its helpers are no tests to clippy"
)]

use std::sync::Arc;

use controllers_infrastructure::{
    Cloud, CloudConnector, CloudResult, Credentials, NetworkQuery,
    suite::{Expectations, World, run},
};
use controllers_infrastructure_openstack::{AllowedEndpoints, OpenStackConnector};

fn clouds_yaml() -> Option<String> {
    let Some(path) = std::env::var_os("CAPSTAN_OPENSTACK_CLOUDS") else {
        println!("skipped: CAPSTAN_OPENSTACK_CLOUDS is not set");
        return None;
    };
    Some(std::fs::read_to_string(path).unwrap())
}

fn credentials(cloud_name: &str, clouds_yaml: &str) -> Credentials {
    Credentials {
        clouds_yaml: clouds_yaml.into(),
        cloud_name: cloud_name.into(),
        ca_certificate: None,
        region: None,
        identity: None,
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_suite_passes_on_a_real_cloud() {
    let Some(clouds_yaml) = clouds_yaml() else { return };
    let wrong = clouds_yaml.replace(r#""password": "lab""#, r#""password": "wrong""#);
    assert_ne!(wrong, clouds_yaml, "the lab's password is lab");
    let expected = Expectations {
        external_network: "public".into(),
        image: "ubuntu-2204-kube-v1.29.0".into(),
        other_image: "ubuntu-2204-kube-v1.30.0".into(),
        flavor: "m1.tiny".into(),
        impossible_flavor: "x1.impossible".into(),
        large_flavor: "m1.large".into(),
        zone: "az1".into(),
        wrong_password: credentials("lab", &wrong),
        unreachable: credentials("lab", &clouds_yaml.replace("127.0.0.1:5000", "127.0.0.1:1")),
        tiny: credentials("lab-tiny", &clouds_yaml),
    };
    let connector = Arc::new(OpenStackConnector::new(AllowedEndpoints::all()));
    let prefix = format!("suite-{}", std::process::id());
    let world = World::new(connector, credentials("lab", &clouds_yaml), expected, &prefix).await.unwrap();
    run(world, &std::env::var("CAPSTAN_SUITE_FILTER").unwrap_or_default()).await;
}

/// Keystone's own behaviour for each login method; a simulator has only its author's belief.
#[tokio::test(flavor = "multi_thread")]
async fn every_authentication_method_works() {
    let Some(clouds_yaml) = clouds_yaml() else { return };
    let own_network = async |credentials: Credentials| -> CloudResult<String> {
        let cloud: Arc<dyn Cloud> =
            OpenStackConnector::new(AllowedEndpoints::all()).connect(&credentials).await?;
        let query = NetworkQuery { name: Some("private".into()), ..NetworkQuery::default() };
        Ok(cloud.networks(&query).await?.remove(0).id)
    };
    let expected = own_network(credentials("lab", &clouds_yaml)).await.unwrap();
    assert_eq!(own_network(credentials("lab-appcred", &clouds_yaml)).await.unwrap(), expected);

    let secret = "application_credential_secret: lab-application-credential-secret";
    let by_name = "application_credential_name: lab, username: demo, user_domain_name: Default";
    // No version in the address, a project that the credential must not name, and no auth_type.
    let yaml = format!(
        "clouds: {{here: {{interface: internalURL, auth: {{auth_url: 'http://127.0.0.1:5000/', \
         project_name: demo, {by_name}, {secret}}}}}}}"
    );
    assert_eq!(own_network(credentials("here", &yaml)).await.unwrap(), expected);

    let wrong = yaml.replace("credential-secret", "credential-secret-no");
    let error = own_network(credentials("here", &wrong)).await.unwrap_err();
    assert_eq!(error.class, controllers_infrastructure::ErrorClass::Unauthorized, "{error}");
}
