//! Comparison of Capstan on the embedded store with the recorded responses of a real kube-apiserver.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod server;

use server::{Suite, SuiteServer};

#[tokio::test(flavor = "multi_thread")]
async fn responses_match_kube_apiserver_except_for_known_differences() {
    let suite = Suite::load("");
    let server = SuiteServer::start(&[]).await;
    let responses = server.target().run(&suite.areas, "").await.unwrap();
    suite.check(&responses);
}

#[tokio::test(flavor = "multi_thread")]
async fn audit_events_match_kube_apiserver_under_the_same_policy() {
    let suite = Suite::load("audit");
    let policy = server::directory("audit/policy.yaml");
    let server = SuiteServer::start(&["--audit-policy", policy.to_str().unwrap()]).await;
    let events = server.target().run_audited(&suite.areas, "", &server.audit_log()).await.unwrap();
    suite.check(&events);
}

#[tokio::test(flavor = "multi_thread")]
async fn quotas_match_kube_apiserver_with_its_controller() {
    let suite = Suite::load("quota");
    let server = SuiteServer::start(&["--controllers"]).await;
    let responses = server.target().run(&suite.areas, "").await.unwrap();
    suite.check(&responses);
}
