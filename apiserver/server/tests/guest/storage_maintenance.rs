//! Maintenance of a real etcd: checks, defragmentation, and an etcd whose database is full.

use std::path::Path;
use std::process::Command;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::etcd::Etcd;
use crate::process::Capstan;

/// Quota that some dozen writes fill. Unit: bytes.
const QUOTA: u32 = 16 << 20;

/// Bytes of one write. They do not compress.
const SIZE: usize = 256 << 10;

/// Runs `capstan storage`. Returns true for success, and the output.
async fn storage(data: &Path, etcd: &Etcd, arguments: &[&str]) -> (bool, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_capstan"));
    command.arg("storage").args(arguments).args(["--etcd-endpoints", &etcd.url(), "--data-dir"]).arg(data);
    let output =
        tokio::task::spawn_blocking(move || command.env("NO_COLOR", "1").output().unwrap()).await.unwrap();
    let text = [&output.stdout[..], &output.stderr].map(|part| String::from_utf8_lossy(part).into_owned());
    (output.status.success(), text.concat())
}

fn noise(seed: u64) -> String {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut bytes = Vec::with_capacity(SIZE);
    while bytes.len() < SIZE {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend(state.to_le_bytes());
    }
    STANDARD.encode(bytes)
}

#[tokio::test(flavor = "multi_thread")]
async fn hv_32_a_full_etcd_is_found_and_recovers_and_keeps_its_objects() {
    let etcd = Etcd::started_with(&[&format!("--quota-backend-bytes={QUOTA}")]);
    let data = tempfile::tempdir().unwrap();
    let server = Capstan::start(data.path(), &["--etcd-endpoints", &etcd.url()]);
    server.ready().await;
    let client = server.client();
    let (good, text) = storage(data.path(), &etcd, &["check"]).await;
    assert!(good && text.contains("ok      m0: version 3.6") && text.contains("suffice"), "{text}");
    assert!(text.contains("ok      the user may remove the history"), "{text}");
    let (good, text) = storage(data.path(), &etcd, &["defrag"]).await;
    assert!(good && text.contains("nothing to do"), "{text}");
    let (good, text) = storage(data.path(), &etcd, &["defrag", "--all"]).await;
    assert!(good && text.starts_with("m0: ") && text.contains("KiB after"), "{text}");

    let secret = |content: &str| {
        format!(
            r#"{{"apiVersion": "v1", "kind": "Secret", "metadata": {{"name": "s"}}, "data": {{"k": "{content}"}}}}"#
        )
    };
    let path = "/api/v1/namespaces/default/secrets";
    let created = client.with_retries("POST", path, &secret(&noise(0))).await.unwrap();
    assert_eq!(created.code, 201, "{}", created.text());
    let mut last = 0;
    for seed in 1..400 {
        let answer = client.once("PUT", &format!("{path}/s"), &secret(&noise(seed))).await.unwrap();
        if answer.code != 200 {
            assert!(answer.text().contains("capstan storage recover-space"), "{}", answer.text());
            break;
        }
        last = seed;
    }
    assert!(last > 10 && last < 399, "{last} writes fit");
    let (good, text) = storage(data.path(), &etcd, &["check"]).await;
    assert!(!good && text.contains("ERROR") && text.contains("writes are refused"), "{text}");
    let (good, text) = storage(data.path(), &etcd, &["recover-space"]).await;
    assert!(good && text.contains("the alarm is cleared"), "{text}");
    let (good, text) = storage(data.path(), &etcd, &["check"]).await;
    assert!(good, "{text}");
    let kept = client.get(&format!("{path}/s")).await.unwrap();
    assert!(kept.text().contains(&noise(last)), "the last write that was answered is there");
    let answer = client.once("PUT", &format!("{path}/s"), &secret(&noise(500))).await.unwrap();
    assert_eq!(answer.code, 200, "{}", answer.text());
    let metrics = client.get("/metrics").await.unwrap().text();
    let quota = format!("capstan_etcd_database_quota_bytes {QUOTA}");
    assert!(metrics.contains(&quota) && metrics.contains("capstan_etcd_database_size_bytes "), "{metrics}");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_embedded_store_needs_no_maintenance() {
    let data = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_capstan"));
    let output = command.args(["storage", "check", "--data-dir"]).arg(data.path()).output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success() && text.contains("the embedded store needs no maintenance"), "{text}");
}
