//! Comparison of Capstan on the embedded store with the recorded responses of a real kube-apiserver.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod server;

use std::path::PathBuf;

use server::SuiteServer;
use tests_conformance::{Area, KnownDifferences};

#[tokio::test(flavor = "multi_thread")]
async fn responses_match_kube_apiserver_except_for_known_differences() {
    // The variable is read at run time: a build directory may be shared with another checkout.
    let suite = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap());
    let areas = Area::load(&suite.join("cases")).unwrap();
    let goldens = tests_conformance::load(&suite.join("goldens")).unwrap();
    let listed = KnownDifferences::load(&suite.join("differences.yaml")).unwrap();
    let server = SuiteServer::start();
    let responses = server.target().run(&areas, "").await.unwrap();
    let cases =
        |transcripts: &tests_conformance::Transcripts| transcripts.keys().cloned().collect::<Vec<_>>();
    assert_eq!(
        cases(&responses),
        cases(&goldens),
        "cases and goldens differ: cargo xtask conformance record"
    );
    let found = responses.iter().filter_map(|(id, response)| Some((id, goldens.get(id)?, response)));
    let found =
        found.flat_map(|(id, golden, response)| tests_conformance::compare(id, golden, response)).collect();
    let (unlisted, stale) = listed.partition(found, false);
    assert!(unlisted.is_empty(), "not as the real one:\n{}", tests_conformance::report(&unlisted));
    assert!(stale.is_empty(), "listed, but there is no difference any more; lower the ceiling: {stale:#?}");
}
