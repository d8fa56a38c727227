//! Comparison of the permissions of 25 random policies with the recorded verdicts of a real kube-apiserver.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod server;

use std::path::PathBuf;
use std::time::Duration;

use apiserver_access::Decision;
use apiserver_access::rbac::Snapshot;
use server::SuiteServer;
use tests_conformance::rbac::{self, Recording, World};

fn recording() -> Recording {
    // The variable is read at run time: a build directory may be shared with another checkout.
    let suite = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap());
    Recording::load(&suite.join("rbac/recorded.json")).unwrap()
}

fn worlds(recording: &Recording) -> Vec<World> {
    let numbers = 0..u32::try_from(recording.worlds.len()).unwrap();
    numbers.map(|number| World::generate(recording.seed, number)).collect()
}

#[test]
fn every_decision_is_that_of_kube_apiserver() {
    let recording = recording();
    let mut allowed = 0;
    for (world, recorded) in worlds(&recording).into_iter().zip(&recording.worlds) {
        let snapshot = Snapshot::new(world.policy.clone());
        assert_eq!(world.questions.len(), recorded.decisions.len());
        for (question, expected) in world.questions.iter().zip(recorded.decisions.chars()) {
            let decision = snapshot.decide(question).0 == Decision::Allow;
            assert_eq!(decision, expected == '1', "{question:#?}");
            allowed += usize::from(decision);
        }
    }
    assert!(allowed > 1000, "the policies allow too little: {allowed}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_write_of_a_role_or_binding_has_the_code_of_kube_apiserver() {
    let recording = recording();
    let server = SuiteServer::start(&[]).await;
    let client = server.target().client;
    let worlds = worlds(&recording);
    for world in &worlds {
        rbac::establish(&client, world).await.unwrap();
    }
    // Roles and bindings take effect within a second.
    tokio::time::sleep(Duration::from_secs(1)).await;
    for (world, recorded) in worlds.iter().zip(&recording.worlds) {
        let found = rbac::answer(&client, world, false).await.unwrap();
        for ((write, found), expected) in world.writes.iter().zip(found.writes).zip(&recorded.writes) {
            // An update that changes nothing grants nothing. kube-apiserver checks it, too, if the body has no uid.
            let is_unchanged = write.is_update && world.has(&write.object);
            let expected = if is_unchanged && *expected == 403 { 200 } else { *expected };
            assert_eq!(found, expected, "{write:#?}\n{:#?}", world.policy);
        }
    }
}
