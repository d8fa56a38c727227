//! What a consistent read costs etcd, by etcd's own count of what it sent.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test says what is wrong by panicking")]

use tests_history::sent_for_reads;

#[tokio::test(flavor = "multi_thread")]
async fn consistent_reads_are_answered_without_data_from_etcd() {
    let server = std::path::Path::new(env!("CARGO_BIN_EXE_history-replica"));
    let reads = 50;
    let cost = sent_for_reads(server, reads).await.unwrap();
    // 2 MB of objects, listed and read fifty times: the answers are a hundred megabytes.
    assert!(cost.answered > 90_000_000, "{cost:?}");
    assert!(cost.sent < 200_000, "etcd sent {} bytes for them: {cost:?}", cost.sent);
}
