//! Tests of attested joins: which requests are approved, when, and for which keys.

use apiserver_types::MachineSpec;
use serde_json::Value;

use super::*;
use crate::api_in_memory::FakeApi;

const REQUESTS: &str = "/apis/certificates.k8s.io/v1/certificatesigningrequests";

/// Request for the Node `m`, made with openssl, in base64.
const OF_M: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIcE1JR1JBZ0VBTUM4eEZUQVRCZ05WQkFvTURITjVjM1JsYlRw\
    dWIyUmxjekVXTUJRR0ExVUVBd3dOYzNsegpkR1Z0T201dlpHVTZiVEJaTUJNR0J5cUdTTTQ5QWdFR0NDcUdTTTQ5QXdFSEEwSUFC\
    THYxR3BUZDBMNDgydklICkRQVzN6dTBTZC9DN0VObGliTXFhN3R1cDBmWGtSd1hEaU5ZS2svZGJ3OG5VUGZSZllBWmFWNnY1RzZD\
    cnJ1SEIKK3U1cU5oNmdBREFLQmdncWhrak9QUVFEQWdOSEFEQkVBaUFqTnZFQXhzUFRnRGU1anVtc1IvZmo1b0tkRVlYdApLc0tk\
    KzJTd0JXVnA2Z0lnT0IyNTFuV2dDYTBmdU9aVThxK1o4MzJSVEUzTkF5WkFjYi9FWU1neHliVT0KLS0tLS1FTkQgQ0VSVElGSUNB\
    VEUgUkVRVUVTVC0tLS0tCg==";

/// The same with another key.
const OTHER_OF_M: &str = "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0KTUlIcE1JR1JBZ0VBTUM4eEZUQVRCZ05WQkFvTURITjVjM1JsYlRw\
    dWIyUmxjekVXTUJRR0ExVUVBd3dOYzNsegpkR1Z0T201dlpHVTZiVEJaTUJNR0J5cUdTTTQ5QWdFR0NDcUdTTTQ5QXdFSEEwSUFCRVJUM\
    y9OWFdFMDk4eUFDCmxTM2poNUlkNzJQd2s5Mm9xU0YrR044eStBU2ZQcGxySFUyWWh2TDZxaEtUTmFDL1lVUGZQN1FaYkNtT0JteTgKUz\
    BDME9QNmdBREFLQmdncWhrak9QUVFEQWdOSEFEQkVBaUJrZGJMWHUyNzI2dnhQQjhMcUJRL3ZmTGNGM1JhZgpzRGtJWmU4dHlzYWM2UUl\
    nTSs0eCtWVjc3azg1cnN5M1BsWlh6V2pVdzY4VzNrWkVQRkkyU0F6ZWcwMD0KLS0tLS1FTkQgQ0VSVElGSUNBVEUgUkVRVUVTVC0tLS0t\
    Cg==";

/// Returns a request. The one with the name `a` has another key than all others.
fn request(name: &str, user: &str, conditions: &Value) -> Value {
    let request = if name == "a" { OF_M } else { OTHER_OF_M };
    json!({"metadata": {"name": name}, "status": {"conditions": conditions},
        "spec": {"request": request, "signerName": SIGNER, "username": user, "usages": []}})
}

async fn judged(requests: &[Value], server: &str) -> (Vec<String>, usize) {
    let api = FakeApi::default();
    api.put(REQUESTS, json!({"items": requests}));
    for request in requests {
        let name = request["metadata"]["name"].as_str().unwrap();
        api.put(&format!("{REQUESTS}/{name}/approval"), request.clone());
    }
    let token = Token::parse("k3v9qz.1x5w8m2c7r4t6y0p").unwrap();
    let mut machine = Machine::new("m", MachineSpec::default());
    machine.spec.infrastructure_ref.name = server.to_owned();
    api.crash_at(None);
    let refused = approve(&api.client(), &token, &machine).await.unwrap();
    let written = requests.iter().filter_map(|request| {
        let name = request["metadata"]["name"].as_str()?;
        let condition = api.get(&format!("{REQUESTS}/{name}/approval"))?["status"]["conditions"][0].clone();
        Some(format!("{name} {}", condition["type"].as_str()?))
    });
    let written: Vec<String> = written.collect();
    assert_eq!(refused.len(), written.iter().filter(|it| it.ends_with("Denied")).count());
    (written, api.writes())
}

#[tokio::test]
async fn one_request_of_the_machine_for_its_own_node_is_approved() {
    let user = "system:bootstrap:k3v9qz";
    let new = |name: &str| request(name, user, &json!([]));
    assert_eq!(
        judged(&[new("a"), new("b")], "m").await,
        (vec!["a Approved".to_owned(), "b Denied".to_owned()], 2)
    );
    assert_eq!(judged(&[new("a")], "n").await, (vec!["a Denied".to_owned()], 1), "another machine's name");
    let other = request("a", "system:bootstrap:aaaaaa", &json!([]));
    assert_eq!(judged(&[other], "m").await, (vec![], 0), "another token");
    let approved = request("a", user, &json!([{"type": "Approved", "status": "True"}]));
    let (written, writes) = judged(&[approved, new("b")], "m").await;
    assert_eq!((written, writes), (vec!["a Approved".to_owned(), "b Denied".to_owned()], 1));
    let mut newer = new("b");
    newer["metadata"]["creationTimestamp"] = json!("2026-01-02T03:04:05Z");
    let mut older = new("a");
    older["metadata"]["creationTimestamp"] = json!("2026-01-02T03:04:03Z");
    let (written, _) = judged(&[older, newer], "m").await;
    assert_eq!(written, ["a Denied", "b Approved"], "a kubelet waits for its newest request");
}

#[tokio::test]
async fn a_kubelet_that_lost_its_certificate_gets_another_one_unless_there_is_its_node() {
    let approved = |ago: SignedDuration| {
        let time = Timestamp::now() - ago;
        json!([{"type": "Approved", "status": "True", "lastUpdateTime": time.to_string()}])
    };
    let user = "system:bootstrap:k3v9qz";
    let decided = async |ago: SignedDuration, is_there: bool| {
        let api = FakeApi::default();
        let new = request("b", user, &json!([]));
        api.put(REQUESTS, json!({"items": [request("a", user, &approved(ago)), new.clone()]}));
        api.put(&format!("{REQUESTS}/b/approval"), new);
        if is_there {
            api.put("/api/v1/nodes/m", json!({"metadata": {"name": "m"}}));
        }
        let token = Token::parse("k3v9qz.1x5w8m2c7r4t6y0p").unwrap();
        let mut machine = Machine::new("m", MachineSpec::default());
        machine.spec.infrastructure_ref.name = "m".to_owned();
        approve(&api.client(), &token, &machine).await.unwrap().len()
    };
    let second = SignedDuration::from_secs(1);
    assert_eq!(decided(LOST - second, false).await, 1, "its kubelet may still make its Node");
    assert_eq!(decided(LOST + second, false).await, 0);
    assert_eq!(decided(LOST + second, true).await, 1, "its certificate is in use");
}

/// User of the token of the tests.
const USER: &str = "system:bootstrap:k3v9qz";

/// Returns the conditions of a request that was approved before this time.
fn approved_before(ago: SignedDuration) -> Value {
    let time = Timestamp::now() - ago;
    json!([{"type": "Approved", "status": "True", "lastUpdateTime": time.to_string()}])
}

/// Judges a request `b` that is newer than others. Returns its decision, what was refused, and the API.
async fn judged_after(earlier: &[Value], mut newer: Value) -> (String, Vec<String>, FakeApi) {
    let api = FakeApi::default();
    newer["metadata"]["creationTimestamp"] = json!("2026-01-02T03:05:05Z");
    let mut items = vec![newer.clone()];
    for request in earlier {
        let name = request["metadata"]["name"].as_str().unwrap();
        api.put(&format!("{REQUESTS}/{name}"), request.clone());
        let mut item = request.clone();
        item["metadata"]["creationTimestamp"] = json!("2026-01-02T03:04:05Z");
        items.push(item);
    }
    api.put(REQUESTS, json!({"items": items}));
    api.put(&format!("{REQUESTS}/b/approval"), newer);
    let token = Token::parse("k3v9qz.1x5w8m2c7r4t6y0p").unwrap();
    let mut machine = Machine::new("m", MachineSpec::default());
    machine.spec.infrastructure_ref.name = "m".to_owned();
    let refused = approve(&api.client(), &token, &machine).await.unwrap();
    let decided = api.get(&format!("{REQUESTS}/b/approval")).unwrap();
    let kind = decided["status"]["conditions"][0]["type"].as_str().unwrap().to_owned();
    (kind, refused, api)
}

#[tokio::test]
async fn a_request_with_a_key_that_was_approved_does_not_wait_and_no_other_key_waits_longer_for_it() {
    let second = SignedDuration::from_secs(1);
    let mut again = request("b", USER, &json!([]));
    again["spec"]["request"] = json!(OF_M);
    let first = request("a", USER, &approved_before(second));
    let (kind, refused, _) = judged_after(&[first], again.clone()).await;
    assert_eq!((kind.as_str(), refused), ("Approved", Vec::new()), "only one machine has the private key");

    // A thief sends the request of the machine again, so that its kubelet would wait for another key.
    let mut first = request("a", USER, &approved_before(LOST + second));
    first["status"]["certificate"] = json!("eA==");
    let mut repeated = request("c", USER, &approved_before(second));
    repeated["spec"]["request"] = json!(OF_M);
    let (kind, _, _) = judged_after(&[first, repeated], request("b", USER, &json!([]))).await;
    assert_eq!(kind, "Approved", "the minute counts from the first approval of a key");

    let foreign = request("a", "system:bootstrap:aaaaaa", &approved_before(second));
    let token_of_another = request("c", USER, &approved_before(second));
    let (kind, refused, _) = judged_after(&[foreign, token_of_another], again).await;
    assert_eq!((kind.as_str(), refused.len()), ("Denied", 1), "the key of a request with another token");
}

#[tokio::test]
async fn an_approval_without_a_certificate_is_withdrawn_for_a_newer_request_of_another_key() {
    let seconds = SignedDuration::from_secs;
    let new = || request("b", USER, &json!([]));
    let (kind, refused, api) =
        judged_after(&[request("a", USER, &approved_before(seconds(20)))], new()).await;
    assert_eq!((kind.as_str(), refused.len()), ("Approved", 1));
    assert!(refused[0].contains("CertificateSigningRequest a: its approval was withdrawn"), "{refused:?}");
    let withdrawn = api.get(&format!("{REQUESTS}/a")).unwrap();
    let conditions = withdrawn["status"]["conditions"].as_array().unwrap();
    let kinds: Vec<&str> = conditions.iter().filter_map(|it| it["type"].as_str()).collect();
    assert_eq!(kinds, ["Approved", "Failed"], "no certificate is made for the other key any more");

    let mut failed = request("a", USER, &approved_before(seconds(1)));
    let conditions = failed["status"]["conditions"].as_array_mut().unwrap();
    conditions.push(json!({"type": "Failed", "status": "True"}));
    let (kind, refused, _) = judged_after(&[failed], new()).await;
    assert_eq!((kind.as_str(), refused), ("Approved", Vec::new()), "its signer has failed");
}

#[tokio::test]
async fn a_certificate_that_may_be_in_use_keeps_another_key_waiting() {
    let seconds = SignedDuration::from_secs;
    let new = || request("b", USER, &json!([]));
    let young = request("a", USER, &approved_before(seconds(1)));
    let mut signed = request("a", USER, &approved_before(seconds(20)));
    signed["status"]["certificate"] = json!("eA==");
    // The signer writes the certificate after the requests were read.
    let mut raced = request("a", USER, &approved_before(seconds(20)));
    raced["metadata"]["resourceVersion"] = json!("of an earlier revision");
    for (case, earlier) in [("not signed yet", young), ("signed", signed), ("signed now", raced)] {
        let (kind, refused, api) = judged_after(&[earlier], new()).await;
        assert_eq!((kind.as_str(), refused.len()), ("Denied", 1), "{case}");
        let kept = api.get(&format!("{REQUESTS}/a")).unwrap();
        assert_eq!(kept["status"]["conditions"].as_array().unwrap().len(), 1, "{case}");
    }
}

#[test]
fn the_group_is_one_that_the_authenticator_accepts() {
    let mut cluster = Cluster::new("blue.lab", apiserver_types::ClusterSpec::default());
    assert_eq!(group(&cluster), None);
    cluster.annotations_mut().insert(OPT_IN.to_owned(), "true".to_owned());
    assert_eq!(group(&cluster).as_deref(), Some("system:bootstrappers:capstan:blue-lab"));
}
