//! Tests of requests that web pages of other origins send in a browser with a client certificate.

use serde_json::{Value, json};

use crate::caller::{Answer, Caller, NAME, Protocol};
use crate::world::{NAME_OF_OBJECTS, TEAM, World};

const MACHINES: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/team/machines";
const OPERATIONS: &str = "/apis/capstan.dev/v1alpha1/namespaces/team/machineoperations";
const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");
const WEB_SOCKET: [(&str, &str); 4] = [
    ("connection", "Upgrade"),
    ("upgrade", "websocket"),
    ("sec-websocket-version", "13"),
    ("sec-websocket-key", "dGhlIHNhbXBsZSBub25jZQ=="),
];

fn reboot_path() -> String {
    format!("{MACHINES}/{NAME_OF_OBJECTS}/reboot")
}

async fn reboot(caller: &Caller, headers: &[(&str, &str)]) -> Answer {
    caller.send("POST", &reboot_path(), headers, String::new()).await
}

/// Names of the operations that reboots have made.
async fn operations(admin: &Caller) -> usize {
    admin.get(OPERATIONS).await.json()["items"].as_array().unwrap().len()
}

fn is_cross_origin_refusal(answer: &Answer) -> bool {
    let status = answer.json();
    let message = status["message"].as_str().unwrap_or_default();
    answer.code == 403
        && (status["kind"].as_str(), status["reason"].as_str()) == (Some("Status"), Some("Forbidden"))
        && message.contains("a web page of another origin sent this request")
}

/// The administrator's browser, on the direct endpoint and through the host, in both versions of HTTP.
fn browsers(world: &World) -> Vec<(&'static str, Caller)> {
    let hosted = |protocol| world.hosted("admin", "system:masters", protocol);
    vec![
        ("direct, HTTP/1.1", world.admin(Protocol::Http1)),
        ("direct, HTTP/2", world.admin(Protocol::Http2)),
        ("hosted, HTTP/1.1", hosted(Protocol::Http1)),
        ("hosted, HTTP/2", hosted(Protocol::Http2)),
    ]
}

#[tokio::test]
async fn a_form_of_another_origin_reboots_no_machine() {
    let world = World::start().await;
    let admin = world.admin(Protocol::Http2);
    let foreign: [&[(&str, &str)]; 6] = [
        &[FORM, ("sec-fetch-site", "cross-site"), ("origin", "https://evil.example")],
        &[FORM, ("sec-fetch-site", "same-site"), ("origin", "https://other.capstan.example")],
        &[("sec-fetch-site", "cross-site")],
        &[FORM, ("origin", "https://evil.example")],
        &[FORM, ("origin", "null")],
        &[FORM, ("origin", "https://evil.example"), ("x-forwarded-host", NAME)],
    ];
    for (name, browser) in browsers(&world) {
        for headers in foreign {
            let answer = reboot(&browser, headers).await;
            assert!(
                is_cross_origin_refusal(&answer),
                "{name} {headers:?}: {} {}",
                answer.code,
                answer.json()
            );
        }
    }
    assert_eq!(operations(&admin).await, 0);
}

#[tokio::test]
async fn a_web_socket_of_another_origin_watches_no_secrets() {
    let world = World::start().await;
    let path = format!("/api/v1/namespaces/{TEAM}/secrets?watch=true");
    let own = format!("https://{NAME}");
    // Secrets are the host's own there, so the watch through it is one of Machines.
    let hosted_path = format!("{MACHINES}?watch=true");
    let hosted = || world.hosted("admin", "system:masters", Protocol::Http1);
    #[allow(clippy::type_complexity, reason = "one row of a table")]
    let table: [(&str, Caller, &str, &[(&str, &str)], u16); 8] = [
        ("foreign", world.admin(Protocol::Http1), &path, &[("origin", "https://evil.example")], 403),
        ("opaque", world.admin(Protocol::Http1), &path, &[("origin", "null")], 403),
        ("own", world.admin(Protocol::Http1), &path, &[("origin", &own)], 101),
        ("no browser", world.admin(Protocol::Http1), &path, &[], 101),
        ("foreign", hosted(), &hosted_path, &[("origin", "https://evil.example")], 403),
        // The name of the host that the browser addressed is not known to us.
        ("unknown", hosted(), &hosted_path, &[("origin", &own)], 403),
        (
            "own of the host",
            hosted(),
            &hosted_path,
            &[("origin", "https://host.example:6443"), ("x-forwarded-host", "host.example:6443")],
            101,
        ),
        ("no browser", hosted(), &hosted_path, &[], 101),
    ];
    for (name, browser, path, headers, expected) in table {
        let headers = [&WEB_SOCKET, headers].concat();
        let answer = browser.send("GET", path, &headers, String::new()).await;
        assert_eq!(answer.code, expected, "{name} {path}: {}", answer.json());
        assert_eq!(is_cross_origin_refusal(&answer), expected == 403, "{name} {path}: {}", answer.json());
    }
}

#[tokio::test]
async fn pages_of_the_same_origin_and_other_programs_pass() {
    let world = World::start().await;
    let (admin, own) = (world.admin(Protocol::Http2), format!("https://{NAME}"));
    let from_own_page: [&[(&str, &str)]; 4] = [
        &[],
        &[("sec-fetch-site", "same-origin"), ("origin", &own)],
        &[("sec-fetch-site", "none")],
        &[("sec-fetch-site", "same-origin"), ("origin", "https://host.example:6443")],
    ];
    for (name, browser) in browsers(&world) {
        for headers in from_own_page {
            let answer = reboot(&browser, headers).await;
            // One reboot at a time: the others find it.
            assert!(matches!(answer.code, 200 | 201 | 409), "{name} {headers:?}: {}", answer.json());
        }
        let only_origin = [("origin", own.as_str())];
        let code = reboot(&browser, &only_origin).await.code;
        assert_eq!(code == 403, name.starts_with("hosted"), "{name}: {code}");
        // A link on a foreign page may lead here: its response is for the person, not for the page.
        let link = [("sec-fetch-site", "cross-site"), ("sec-fetch-mode", "navigate")];
        assert_eq!(browser.send("GET", "/apis", &link, String::new()).await.code, 200, "{name}");
    }
    assert_eq!(operations(&admin).await, 1);
}

#[tokio::test]
async fn actions_refuse_form_media_types_even_without_a_body() {
    let world = World::start().await;
    let admin = world.admin(Protocol::Http2);
    for media in ["application/x-www-form-urlencoded", "multipart/form-data; boundary=x", "text/plain"] {
        for body in ["", "a=b"] {
            let answer = admin.send("POST", &reboot_path(), &[("content-type", media)], body).await;
            assert_eq!(answer.code, 415, "{media} {body:?}: {}", answer.json());
        }
    }
    assert_eq!(operations(&admin).await, 0);
    for media in [&[][..], &[("content-type", "application/json")], &[("content-type", "application/yaml")]] {
        let answer = reboot(&admin, media).await;
        assert!(matches!(answer.code, 200 | 201 | 409), "{media:?}: {}", answer.json());
    }
    let expected = json!(1);
    let list: Value = admin.get(OPERATIONS).await.json();
    assert_eq!(json!(list["items"].as_array().unwrap().len()), expected);
}
