//! Tests of the endpoints that a session connects to: credentials and catalogs are written by users.

use controllers_infrastructure::{CloudConnector, CloudError, Credentials, ErrorClass};
use controllers_infrastructure_openstack::{AllowedEndpoints, OpenStackConnector};

use crate::stub::{Answer, Stub};

const SERVERS: &str = "GET /compute/v2.1/servers/detail";
const LOGIN: &str = "POST /identity/v3/auth/tokens";

/// Credentials of a stub with another text in their `clouds.yaml`.
fn replaced(stub: &Stub, from: &str, to: &str) -> Credentials {
    let credentials = stub.credentials();
    let clouds_yaml = credentials.clouds_yaml.replace(from, to);
    assert_ne!(clouds_yaml, credentials.clouds_yaml);
    Credentials { clouds_yaml, ..credentials }
}

async fn refused(allowed: AllowedEndpoints, credentials: &Credentials) -> CloudError {
    let error = OpenStackConnector::new(allowed).connect(credentials).await.unwrap_err();
    assert!(!format!("{error:?}").contains("hunter2"), "{error:?}");
    error
}

fn redirect(code: u16, to: &Stub, path: &str) -> Answer {
    let header = format!("location: {}{path}\r\n", to.root());
    Answer::Respond(code, Box::leak(header.into_boxed_str()), String::new())
}

#[tokio::test]
async fn loopback_is_refused_by_default_and_nothing_is_sent() {
    let stub = Stub::start().await;
    let error = refused(AllowedEndpoints::default(), &stub.credentials()).await;
    assert_eq!(error.class, ErrorClass::Credentials);
    let expected = "cloud \"stub\": auth.auth_url: 127.0.0.1 is a loopback address, and cloud.allowedEndpoints of the server lacks it";
    assert_eq!(error.message, expected);
    let name = replaced(&stub, "127.0.0.1", "localhost");
    let error = refused(AllowedEndpoints::default(), &name).await;
    assert_eq!(error.class, ErrorClass::Credentials);
    assert!(error.message.starts_with("cloud \"stub\": auth.auth_url: "), "{error}");
    assert!(error.message.contains("an address of \"localhost\", is a loopback address"), "{error}");
    assert!(stub.received("").is_empty());
}

#[tokio::test]
async fn the_metadata_service_and_other_schemes_are_refused_in_a_lab_too() {
    let stub = Stub::start().await;
    let root = stub.root().to_owned();
    for (url, expected) in [
        ("http://169.254.169.254", "169.254.169.254 is a link-local address"),
        ("http://[fe80::a9fe:a9fe]", "fe80::a9fe:a9fe is a link-local address"),
        ("file:///etc/passwd", "is not an http or https address"),
    ] {
        let error = refused(AllowedEndpoints::with_loopback(), &replaced(&stub, &root, url)).await;
        assert_eq!(error.class, ErrorClass::Credentials, "{url}: {error}");
        assert!(error.message.contains("auth.auth_url") && error.message.contains(expected), "{error}");
    }
}

#[tokio::test]
async fn a_list_admits_its_entries_and_no_other() {
    let stub = Stub::start().await;
    let list = |entry: &str| AllowedEndpoints::of(&[entry.to_owned()]).unwrap();
    OpenStackConnector::new(list("127.0.0.0/8")).connect(&stub.credentials()).await.unwrap();
    let error = refused(list("192.0.2.0/24"), &stub.credentials()).await;
    assert_eq!(error.class, ErrorClass::Credentials, "{error}");
    let error = refused(list("keystone.example"), &replaced(&stub, "127.0.0.1", "other.example")).await;
    assert!(error.message.contains(r#""other.example" is not in cloud.allowedEndpoints"#), "{error}");
}

#[tokio::test]
async fn a_login_that_is_redirected_is_not_sent_to_the_other_address() {
    for code in [301, 302, 303, 307, 308] {
        let (stub, other) = (Stub::start().await, Stub::start().await);
        stub.enqueue(LOGIN, redirect(code, &other, "/identity/v3/auth/tokens"));
        let error = refused(AllowedEndpoints::with_loopback(), &stub.credentials()).await;
        assert!(error.message.contains("follows no redirects"), "{error}");
        assert!(other.received("").is_empty(), "{code}: {:?}", other.received(""));
    }
}

#[tokio::test]
async fn a_call_that_is_redirected_is_an_error_with_the_address() {
    let (stub, other) = (Stub::start().await, Stub::start().await);
    let connector = OpenStackConnector::new(AllowedEndpoints::with_loopback());
    let cloud = connector.connect(&stub.credentials()).await.unwrap();
    stub.enqueue(SERVERS, redirect(302, &other, "/latest/meta-data"));
    let error = cloud.servers().await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Broken, "{error}");
    assert!(error.message.contains("/latest/meta-data") && error.message.contains("no redirects"), "{error}");
    assert!(other.received("").is_empty());
}

#[tokio::test]
async fn a_catalog_cannot_name_the_metadata_service() {
    let stub = Stub::start().await;
    let endpoint = r#"{"id":"e","interface":"public","region":"R","url":"http://169.254.169.254/latest"}"#;
    let body = format!(
        r#"{{"token":{{"user":{{"id":"u","name":"u"}},"project":{{"id":"p","name":"p"}},"expires_at":"2099-01-01T00:00:00Z","catalog":[{{"type":"compute","name":"nova","endpoints":[{endpoint}]}}]}}}}"#
    );
    stub.enqueue(LOGIN, Answer::Respond(201, "x-subject-token: secret-token\r\n", body));
    let connector = OpenStackConnector::new(AllowedEndpoints::with_loopback());
    let cloud = connector.connect(&stub.credentials()).await.unwrap();
    let error = cloud.servers().await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Broken, "{error}");
    assert!(error.message.contains("169.254.169.254 is a link-local address"), "{error}");
}

#[tokio::test]
async fn the_document_of_an_issuer_cannot_name_the_metadata_service() {
    const DOCUMENT: &str = "GET /issuer";
    let stub = Stub::start().await;
    let login = format!(
        "auth_url: '{0}/identity/v3', identity_provider: i, protocol: o, client_id: c, client_secret: hunter2, discovery_endpoint: '{0}/issuer'",
        stub.root()
    );
    let clouds_yaml = format!(
        "clouds: {{stub: {{auth_type: v3oidcclientcredentials, auth: {{{login}}}, region_name: R}}}}"
    );
    let credentials = Credentials { clouds_yaml, ..stub.credentials() };
    let document = r#"{"token_endpoint":"http://169.254.169.254/token"}"#;
    stub.enqueue(DOCUMENT, Answer::Respond(200, "", document.to_owned()));
    let error = refused(AllowedEndpoints::with_loopback(), &credentials).await;
    assert_eq!(error.class, ErrorClass::Credentials, "{error}");
    let expected = "auth.discovery_endpoint: 169.254.169.254 is a link-local address";
    assert!(error.message.contains(expected), "{error}");
    // One that is allowed gives the token for Keystone.
    let document = format!(r#"{{"token_endpoint":"{}/token"}}"#, stub.root());
    stub.enqueue(DOCUMENT, Answer::Respond(200, "", document));
    stub.enqueue("POST /token", Answer::Respond(200, "", r#"{"access_token":"t1"}"#.to_owned()));
    let federation = "POST /identity/v3/OS-FEDERATION/identity_providers/i/protocols/o/auth";
    let token = r#"{"token":{"user":{"id":"u","name":"u"},"expires_at":"2099-01-01T00:00:00Z"}}"#;
    stub.enqueue(federation, Answer::Respond(201, "x-subject-token: unscoped\r\n", token.to_owned()));
    let connector = OpenStackConnector::new(AllowedEndpoints::with_loopback());
    let error = connector.connect(&credentials).await.unwrap_err();
    assert!(error.message.contains("catalog"), "a token without a scope has none: {error}");
    let received = stub.received(federation);
    assert!(received[0].headers.contains("authorization: bearer t1"), "{}", received[0].headers);
}
