//! Tests of the ages of the copies.

use super::*;

/// Returns the seconds since the host has returned the Secret.
async fn age(secrets: &HostSecrets) -> u64 {
    secrets.aged_secret("n", "s").await.unwrap().unwrap().1.as_secs()
}

#[tokio::test(start_paused = true)]
async fn ho_21_a_copy_is_as_old_as_the_last_answer_of_the_host_for_each_leader() {
    let hour = 3600..3700;
    let (host, health, _stored, next) = leaders();
    let first = next();
    assert_eq!(age(&first).await, 0);
    host.hang();
    health.set(HostState::Down);
    tokio::time::sleep(Duration::from_secs(hour.start)).await;
    let found = age(&first).await;
    assert!(hour.contains(&found), "{found}: of this process");
    let found = age(&next()).await;
    assert!(hour.contains(&found), "{found}: of an earlier process");
    health.set(HostState::Up);
    host.answer(secret("2"));
    later().await;
    assert_eq!(age(&first).await, 0, "the host is back");
}

#[tokio::test(start_paused = true)]
async fn ho_21_a_secret_of_the_own_store_is_no_copy() {
    let (host, own, secrets) = world();
    own.answer(secret("own"));
    assert_eq!(age(&secrets).await, 0);
    host.hang();
    later().await;
    assert_eq!(age(&secrets).await, 0, "the answer of the host is that it has none");
}
