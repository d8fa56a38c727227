//! Tests of logins, of the trust in certificates, and of the sharing of sessions.

use controllers_infrastructure::{CloudConnector, Credentials, ErrorClass};
use controllers_infrastructure_openstack::{AllowedEndpoints, OpenStackConnector};

use crate::stub::Stub;
use crate::{LOGIN, SERVERS, response};

#[tokio::test]
async fn a_hundred_callers_share_one_login() {
    let stub = Stub::start().await;
    let connector = OpenStackConnector::new(AllowedEndpoints::with_loopback());
    let credentials = stub.credentials();
    let all = futures::future::join_all((0..100).map(|_| connector.connect(&credentials))).await;
    assert!(all.into_iter().all(|cloud| cloud.is_ok_and(|cloud| cloud.region() == "R")));
    assert_eq!(stub.received(LOGIN).len(), 1);
    let other = Credentials { region: Some("R".into()), ..credentials };
    connector.connect(&other).await.unwrap();
    assert_eq!(stub.received(LOGIN).len(), 2, "other credentials, another session");
}

#[tokio::test]
async fn failed_logins_have_different_classes() {
    let page = "<html><body>hello</body></html>";
    let table = [
        (
            LOGIN,
            response(401, r#"{"error":{"code":401,"message":"no","title":"Unauthorized"}}"#),
            ErrorClass::Unauthorized,
        ),
        (
            LOGIN,
            response(403, r#"{"error":{"code":403,"message":"locked","title":"Forbidden"}}"#),
            ErrorClass::Forbidden,
        ),
        (LOGIN, response(500, "oops"), ErrorClass::Broken),
        ("GET /identity/v3", response(200, page), ErrorClass::Broken),
        ("GET /identity/v3", response(502, page), ErrorClass::Broken),
    ];
    for (call, answer, class) in table {
        let stub = Stub::start().await;
        stub.enqueue(call, answer);
        let error = OpenStackConnector::new(AllowedEndpoints::with_loopback())
            .connect(&stub.credentials())
            .await
            .unwrap_err();
        assert_eq!(error.class, class, "{error:?}");
        assert!(!format!("{error:?}").contains("hunter2"));
    }
}

#[tokio::test]
async fn a_certificate_must_be_in_the_credentials_unless_verification_is_off() {
    let (stub, pem) = Stub::start_tls().await;
    let unknown = stub.credentials();
    let error =
        OpenStackConnector::new(AllowedEndpoints::with_loopback()).connect(&unknown).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Unreachable);
    assert!(error.message.to_lowercase().contains("certificate"), "{error}");

    let known = Credentials { ca_certificate: Some(pem.clone()), ..unknown.clone() };
    OpenStackConnector::new(AllowedEndpoints::with_loopback()).connect(&known).await.unwrap();

    let careless = unknown.clouds_yaml.replace("{stub: {", "{stub: {verify: false, ");
    let careless = Credentials { clouds_yaml: careless, ..unknown.clone() };
    OpenStackConnector::new(AllowedEndpoints::with_loopback()).connect(&careless).await.unwrap();

    let path = unknown.clouds_yaml.replace("{stub: {", "{stub: {cacert: /etc/hosts, ");
    let path = Credentials { clouds_yaml: path, ..unknown.clone() };
    let error = OpenStackConnector::new(AllowedEndpoints::with_loopback()).connect(&path).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Credentials, "a path of another machine: {error}");

    let garbage = Credentials { ca_certificate: Some(pem.replace("MII", "!!!")), ..unknown };
    let error =
        OpenStackConnector::new(AllowedEndpoints::with_loopback()).connect(&garbage).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Credentials, "{error}");
}

#[tokio::test]
async fn logins_with_a_token_and_with_a_named_application_credential_work() {
    let stub = Stub::start().await;
    let with = |auth: &str| {
        let mut credentials = stub.credentials();
        let (before, _) = credentials.clouds_yaml.split_once(", username").unwrap();
        credentials.clouds_yaml = format!("{before}, {auth}}}, region_name: R}}}}");
        credentials
    };
    OpenStackConnector::new(AllowedEndpoints::with_loopback())
        .connect(&with("token: t0, project_id: p"))
        .await
        .unwrap();
    let body = stub.received(LOGIN).pop().unwrap().body;
    assert!(body.contains(r#""token":{"id":"t0"}"#) && body.contains(r#""project":{"id":"p"}"#), "{body}");

    let named = "application_credential_name: n, username: u, user_domain_name: d, project_name: p";
    let named = with(&format!("{named}, application_credential_secret: s"));
    stub.enqueue(LOGIN, response(201, r#"{"token":{"application_credential":{"id":"by-id"}}}"#));
    OpenStackConnector::new(AllowedEndpoints::with_loopback()).connect(&named).await.unwrap();
    let [.., asked, logged_in] = &stub.received(LOGIN)[..] else { panic!("two calls") };
    assert!(asked.body.contains(r#""user":{"domain":{"name":"d"},"name":"u"}"#), "{}", asked.body);
    assert!(logged_in.body.contains(r#""id":"by-id""#) && !logged_in.body.contains("scope"));
}

#[tokio::test]
async fn the_credentials_of_a_trustee_lead_to_the_project_of_the_trust() {
    let stub = Stub::start().await;
    let yaml = stub.credentials().clouds_yaml.replace("username: u,", "username: u, trust_id: t,");
    let credentials = Credentials { clouds_yaml: yaml, ..stub.credentials() };
    let cloud =
        OpenStackConnector::new(AllowedEndpoints::with_loopback()).connect(&credentials).await.unwrap();
    let body = stub.received(LOGIN).remove(0).body;
    assert!(body.contains(r#""scope":{"OS-TRUST:trust":{"id":"t"}}"#), "{body}");
    assert_eq!((cloud.region(), cloud.project()), ("R", "p"));
    stub.enqueue(SERVERS, response(200, r#"{"servers":[]}"#));
    cloud.servers().await.unwrap();
    assert!(stub.received(SERVERS).remove(0).headers.contains("x-auth-token: secret-token"));
    // A token that ended is no reason for a login without the trust.
    stub.enqueue(SERVERS, response(401, r#"{"error":{"code":401,"message":"no"}}"#));
    let error = cloud.servers().await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Unauthorized);
    assert_eq!(stub.received(LOGIN).len(), 1);
}
