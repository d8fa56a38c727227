//! Test of the cost of consistent reads for etcd, by etcd's own metric of sent bytes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

use tests_history::sent_for_reads;

#[tokio::test(flavor = "multi_thread")]
async fn consistent_reads_are_answered_without_data_from_etcd() {
    let server = std::path::Path::new(env!("CARGO_BIN_EXE_history-replica"));
    let reads = 50;
    let cost = sent_for_reads(server, reads).await.unwrap();
    // The objects have 2 MB. Listed and read fifty times, the responses have a hundred megabytes.
    assert!(cost.response_bytes > 90_000_000, "{cost:?}");
    assert!(cost.etcd_bytes < 200_000, "etcd sent {} bytes for them: {cost:?}", cost.etcd_bytes);
}
