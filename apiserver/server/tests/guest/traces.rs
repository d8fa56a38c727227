//! Traces: one from a request to the call to the cloud that it causes, and none of callers that are not authenticated.

use std::path::Path;
use std::time::{Duration, Instant};

use opentelemetry_proto::tonic::trace::v1::Span;
use serde_json::Value;
use tests_openstack_simulator::{Simulator, SimulatorOptions};

use crate::client::{Client, Identity};
use crate::collector::{Collector, attributes};
use crate::process::{Capstan, PATIENCE};

/// Trace of a caller, and the header with it.
const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";

/// Objects of a cluster with one worker. They are those of the scenarios of operations.
const OBJECTS: [&str; 2] = [
    include_str!("../../../../tests/scenarios/tests/operations/cluster.yaml"),
    include_str!("../../../../tests/scenarios/tests/operations/machine.yaml"),
];

/// Authorizer that decides about requests of administrators with `system:masters`.
const AUTHORIZER: &str = "System";

const MACHINE: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/ns/machines/w";

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn header() -> String {
    format!("00-{TRACE}-{CALLER}-01")
}

/// Starts a server that sends its traces to the collector.
async fn start(data: &Path, collector: &Collector, rate: u32) -> Capstan {
    let config = data.join("config.yaml");
    let text = format!(
        "apiVersion: capstan.dev/v1alpha1\nkind: ServerConfiguration\n\
         tracing: {{endpoint: '127.0.0.1:{}', samplingRatePerMillion: {rate}}}\n",
        collector.port
    );
    std::fs::write(&config, text).unwrap();
    let capstan = Capstan::start(data, &["--config", config.to_str().unwrap()]);
    capstan.ready().await;
    capstan
}

/// Creates the cluster, and waits until its worker has a server.
async fn create_worker(client: &Client, simulator: &Simulator) {
    let instantly = simulator.clouds_yaml("demo");
    let clouds: String = instantly.lines().map(|line| format!("    {line}\n")).collect();
    for manifest in OBJECTS {
        let text = manifest.replace("CLOUDS\n", &clouds).replace("NAMESPACE", "ns").replace("ROOT", "");
        for document in serde_saphyr::from_multiple::<Value>(&text).unwrap() {
            let answer = client.once("POST", &collection(&document), &document.to_string()).await.unwrap();
            assert_eq!(answer.code, 201, "{}", answer.text());
        }
    }
    let end = Instant::now() + PATIENCE;
    loop {
        let machine: Value = serde_json::from_slice(&client.get(MACHINE).await.unwrap().body).unwrap();
        if machine.pointer("/status/phase").and_then(Value::as_str) == Some("Provisioned") {
            return;
        }
        assert!(Instant::now() < end, "the worker has no server: {machine}");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// Returns the path of the collection of a document.
fn collection(document: &Value) -> String {
    let text = |path: &str| document.pointer(path).and_then(Value::as_str).unwrap_or_default();
    let version = text("/apiVersion");
    let root = if version.contains('/') { format!("/apis/{version}") } else { format!("/api/{version}") };
    let plural = format!("{}s", text("/kind").to_lowercase());
    match text("/kind") {
        "Namespace" => format!("{root}/{plural}"),
        _ => format!("{root}/namespaces/ns/{plural}"),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_trace_goes_from_a_request_to_the_call_to_the_cloud() {
    let options = SimulatorOptions { build_time: Duration::from_millis(1), ..SimulatorOptions::default() };
    let simulator = Simulator::start(options).await.unwrap();
    let (collector, data) = (Collector::start().await, tempfile::tempdir().unwrap());
    let mut capstan = start(data.path(), &collector, 0).await;
    create_worker(&capstan.client(), &simulator).await;
    assert!(collector.spans().is_empty(), "a trace without a cause: {:?}", collector.spans());

    let caller = capstan.client_of(capstan.identity.clone().with_trace(header()));
    let reboot = caller.once("POST", &format!("{MACHINE}/reboot"), "{}").await;
    assert_eq!(reboot.unwrap().code, 201);
    let call = collector
        .until("the reboot in Nova", |span| {
            let of = attributes(span);
            of.get("url.template").is_some_and(|path| path == "/servers/{id}/action")
        })
        .await;
    let of_call = attributes(&call);
    assert_eq!(hex(&call.trace_id), TRACE);
    assert_eq!(of_call["openstack.service"], "Nova");
    assert_eq!(of_call["http.response.status_code"], "202");
    assert!(of_call["openstack.request_id"].starts_with("req-"), "{of_call:?}");

    capstan.signal("INT");
    assert!(capstan.ended().await.success());
    let spans = collector.spans();
    let parent = |span: &Span| spans.iter().find(|it| it.span_id == span.parent_span_id).cloned();
    let pass = parent(&call).unwrap();
    assert_eq!(pass.name, "reconcile MachineOperation");
    let request = parent(&pass).unwrap();
    assert_eq!(request.name, "POST machines/reboot");
    assert_eq!(hex(&request.parent_span_id), CALLER);
    assert_eq!(pass.links.len(), 1);
    assert_eq!(pass.links[0].span_id, request.span_id);
    for step in ["authentication", "authorization", "store create"] {
        let found = spans.iter().any(|it| it.name == step && it.parent_span_id == request.span_id);
        assert!(found, "the request has no step {step}");
    }
    let decision = spans.iter().find(|it| it.name == "authorization" && it.parent_span_id == request.span_id);
    let decided_by = attributes(decision.unwrap());
    assert_eq!(decided_by["capstan.authorizer"], AUTHORIZER, "{decided_by:?}");
    assert!(spans.iter().all(|span| hex(&span.trace_id) == TRACE));
    for secret in ["credentials", "bootstrap", "clouds.yaml", "machines/w", "password"] {
        assert!(!collector.received().contains(secret), "{secret} is in the spans");
    }
    simulator.shutdown().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn the_trace_of_a_caller_who_is_not_authenticated_is_not_continued() {
    let (collector, data) = (Collector::start().await, tempfile::tempdir().unwrap());
    let capstan = start(data.path(), &collector, 1_000_000).await;
    let of = |identity: Identity| capstan.client_of(identity.with_trace(header()));
    let known = of(capstan.identity.clone()).get("/api/v1/namespaces").await;
    assert_eq!(known.unwrap().code, 200);
    let refused = of(Identity::anonymous(data.path())).get("/api/v1/namespaces/default").await.unwrap();
    assert!(matches!(refused.code, 401 | 403), "{}", refused.code);
    let of_code = |code: &'static str| {
        move |span: &Span| attributes(span).get("http.response.status_code").is_some_and(|it| it == code)
    };
    let known = collector.until("of the known caller", |span| hex(&span.trace_id) == TRACE).await;
    assert!(!known.name.is_empty());
    let code: &'static str = if refused.code == 401 { "401" } else { "403" };
    let of_unknown = collector.until("of the unknown caller", of_code(code)).await;
    assert_ne!(hex(&of_unknown.trace_id), TRACE);
    assert!(of_unknown.parent_span_id.is_empty());
}
