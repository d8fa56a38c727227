//! Script of twenty requests, for the simulator and a real OpenStack: codes, words and JSON keys of the responses must be
//! the same.
//!
//! `CAPSTAN_OPENSTACK_CLOUDS` names the `clouds.yaml` of a real OpenStack with the cloud `lab`, as `hack/openstack/up.sh`
//! writes it. Without it, the responses of the simulator are compared with the script's own expectations.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test panics, and says when it is skipped; its functions are no tests to clippy"
)]

#[path = "../cloud/client.rs"]
#[allow(dead_code, reason = "the other tests of the simulator use the rest")]
mod client;
mod requests;

use std::collections::BTreeSet;
use std::net::SocketAddr;

use client::{ReceivedResponse, quick, send};
use requests::{Found, SCRIPT, Step};
use serde_json::{Value, json};
use tests_openstack_simulator::Simulator;

/// A cloud with a user.
struct Cloud {
    token: String,
    /// Type and URL of each service.
    catalog: Vec<(String, String)>,
}

/// The compared parts of a response.
#[derive(Debug, PartialEq, Eq)]
struct Answer {
    status: u16,
    /// Message of an error, without ids.
    words: String,
    keys: BTreeSet<String>,
}

impl Cloud {
    /// Logs in with the `auth` of a `clouds.yaml`.
    async fn login(auth: &Value) -> Self {
        let text = |key: &str| auth[key].as_str().unwrap();
        let domain = json!({"id": "default"});
        let body = json!({"auth": {
            "identity": {"methods": ["password"], "password": {"user": {
                "name": text("username"), "password": text("password"), "domain": domain}}},
            "scope": {"project": {"name": text("project_name"), "domain": domain}},
        }});
        let (address, path) = split(text("auth_url"));
        let path = format!("{}/v3/auth/tokens", path.trim_end_matches("/v3"));
        let answer = send(address, "POST", &path, "", &body.to_string()).await.expect("a response");
        let entries = answer.object()["catalog"].as_array().unwrap().clone();
        let public = |entry: &Value| {
            let endpoints = entry["endpoints"].as_array()?;
            let endpoint = endpoints.iter().find(|it| it["interface"] == "public")?;
            Some((entry["type"].as_str()?.to_owned(), endpoint["url"].as_str()?.to_owned()))
        };
        let mut catalog: Vec<_> = entries.iter().filter_map(public).collect();
        catalog.push(("identity-tokens".to_owned(), text("auth_url").to_owned()));
        Self { token: answer.header("x-subject-token").expect("a token").to_owned(), catalog }
    }

    async fn send(&self, service: &str, method: &str, path: &str, body: &Value) -> ReceivedResponse {
        let names = requests::aliases(service);
        let found = self.catalog.iter().find(|(kind, _)| names.contains(&kind.as_str()));
        let (address, base) = split(&found.unwrap_or_else(|| panic!("no {service} in the catalog")).1);
        let base = base.trim_end_matches('/');
        // Some endpoints end with the version, and some do not.
        let version = requests::version(service);
        let base = if base.contains(version) { base.to_owned() } else { format!("{base}{version}") };
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let path = format!("{base}{path}");
        send(address, method, &path, &self.token, &body).await.expect("a response")
    }

    /// Makes all requests, then deletes what they created.
    async fn play(&self) -> Vec<(&'static str, Answer)> {
        let mut found = Found::default();
        for (name, service, path, key) in requests::LOOKUPS {
            let body = self.send(service, "GET", path, &Value::Null).await.json();
            let mut lists = body.as_object().unwrap().values().filter_map(Value::as_array).flatten();
            let one = lists.find(|one| one["name"] == name);
            found.set(key, one.unwrap_or_else(|| panic!("no {name}"))["id"].as_str().unwrap());
        }
        let mut answers = Vec::new();
        for Step { title, service, method, path, body, creates, .. } in SCRIPT {
            let answer = self.send(service, method, &found.fill(path), &body(&found)).await;
            if let Some(key) = creates.filter(|_| answer.status < 300) {
                found.set(key, &answer.id());
            }
            answers.push((title, compared(&answer)));
        }
        for (service, path) in requests::CLEANUP {
            let answer = self.send(service, "DELETE", &found.fill(path), &Value::Null).await;
            assert!(answer.status < 300, "{path}: {}", answer.text);
        }
        answers
    }
}

/// Returns address and path of a URL without TLS.
fn split(url: &str) -> (SocketAddr, String) {
    let rest = url.strip_prefix("http://").expect("the test speaks plain HTTP");
    let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
    (host.replace("localhost", "127.0.0.1").parse().expect("an address"), format!("/{path}"))
}

fn compared(answer: &ReceivedResponse) -> Answer {
    let mut keys = BTreeSet::new();
    add_keys(&answer.json(), "", &mut keys);
    Answer { status: answer.status, words: words(answer), keys }
}

/// Adds the paths of all keys. Elements of a list count as one.
fn add_keys(value: &Value, path: &str, keys: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let path = format!("{path}.{key}");
                add_keys(value, &path, keys);
                keys.insert(path);
            }
        }
        Value::Array(list) => list.iter().for_each(|value| add_keys(value, &format!("{path}[]"), keys)),
        _ => {}
    }
}

/// Returns the message of an error, with ids replaced.
fn words(answer: &ReceivedResponse) -> String {
    if answer.status < 400 {
        return String::new();
    }
    let body = answer.json();
    let inner = body.as_object().and_then(|body| body.values().find(|value| value.is_object()));
    let said = [&body["faultstring"], inner.map_or(&Value::Null, |inner| &inner["message"])];
    let said = said.iter().find_map(|text| text.as_str()).unwrap_or("no JSON");
    let is_id =
        |word: &str| word.len() >= 32 && word.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit());
    let parts =
        said.split_inclusive(|character: char| !character.is_ascii_alphanumeric() && character != '-');
    let parts = parts.map(|part| {
        let word = part.trim_end_matches(|character: char| !character.is_ascii_alphanumeric());
        if is_id(word) { part.replace(word, "ID") } else { part.to_owned() }
    });
    parts.collect()
}

async fn simulated() -> Vec<(&'static str, Answer)> {
    let simulator = Simulator::start(quick()).await.unwrap();
    let auth = json!({"auth_url": simulator.auth_url(), "username": "demo", "password": "demo", "project_name": "demo"});
    let answers = Cloud::login(&auth).await.play().await;
    assert!(simulator.inventory("demo").is_empty(), "{:?}", simulator.inventory("demo"));
    answers
}

#[tokio::test]
async fn the_simulator_answers_the_script_in_the_words_of_openstack() {
    let answers = simulated().await;
    assert_eq!(answers.len(), 20);
    for (step, (title, answer)) in SCRIPT.iter().zip(answers) {
        assert_eq!(answer.status, step.status, "{title}: {answer:?}");
        assert!(answer.words.contains(step.words), "{title}: {answer:?}");
    }
}

#[tokio::test]
async fn the_simulator_answers_the_script_like_a_real_cloud() {
    let Some(path) = std::env::var_os("CAPSTAN_OPENSTACK_CLOUDS") else {
        println!("skipped: CAPSTAN_OPENSTACK_CLOUDS is not set");
        return;
    };
    let clouds: Value = serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap();
    let real = Cloud::login(&clouds["clouds"]["lab"]["auth"]).await.play().await;
    let mut differences = Vec::new();
    for ((title, ours), (_, theirs)) in simulated().await.into_iter().zip(real) {
        let missing: Vec<_> = theirs.keys.difference(&ours.keys).collect();
        let surplus: Vec<_> = ours.keys.difference(&theirs.keys).collect();
        if (ours.status, &ours.words) != (theirs.status, &theirs.words) {
            differences.push(format!(
                "{title}: {} {:?}, the cloud says {} {:?}",
                ours.status, ours.words, theirs.status, theirs.words
            ));
        }
        if !missing.is_empty() || !surplus.is_empty() {
            differences.push(format!(
                "{title}: keys of the cloud alone {missing:?}, of the simulator alone {surplus:?}"
            ));
        }
    }
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}
