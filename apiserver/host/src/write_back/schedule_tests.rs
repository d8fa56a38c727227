//! Tests of the schedule.

use super::*;

fn key(namespace: &str, name: &str) -> Key {
    (namespace.to_owned(), name.to_owned())
}

fn taken(schedule: &mut Schedule) -> Option<String> {
    schedule.take().map(|((namespace, name), _, _)| format!("{namespace}/{name}"))
}

fn record() -> CopyRecord {
    let [namespace, name, cluster, owner, host] = ["n", "c-ca", "c", "u", "h"].map(str::to_owned);
    CopyRecord { namespace, name, cluster, owner, host, uid: None }
}

#[tokio::test(start_paused = true)]
async fn ho_32_namespaces_take_turns_and_a_failed_secret_waits_longer_each_time() {
    let mut schedule = Schedule::default();
    for (namespace, name) in [("n", "a-ca"), ("n", "b-ca"), ("m", "x-ca")] {
        schedule.change(key(namespace, name), "c");
        tokio::time::advance(Duration::from_millis(1)).await;
    }
    let order = [taken(&mut schedule), taken(&mut schedule), taken(&mut schedule), taken(&mut schedule)];
    assert_eq!(order.map(Option::unwrap_or_default), ["n/a-ca", "m/x-ca", "n/b-ca", ""]);
    let failed = key("n", "a-ca");
    let mut pauses = Vec::new();
    for _ in 0..10 {
        schedule.finish(&failed, Outcome::Pending, None, true);
        let due = schedule.next_due().unwrap();
        pauses.push(due.duration_since(Instant::now()).as_secs());
        assert_eq!(taken(&mut schedule), None);
        tokio::time::sleep_until(due).await;
        assert_eq!(taken(&mut schedule).as_deref(), Some("n/a-ca"));
    }
    assert_eq!(pauses, [1, 2, 4, 8, 16, 32, 64, 128, 256, 300]);
    assert_eq!(schedule.backlog().objects, 3, "those in flight are owed, too");
}

#[tokio::test(start_paused = true)]
async fn a_change_during_a_pass_is_compared_at_once() {
    let mut schedule = Schedule::default();
    let secret = key("n", "c-ca");
    schedule.change(secret.clone(), "c");
    assert!(taken(&mut schedule).is_some());
    schedule.change(secret.clone(), "c");
    assert_eq!(taken(&mut schedule), None, "it is in flight");
    schedule.finish(&secret, Outcome::Settled, Some(record()), true);
    assert_eq!(schedule.backlog().objects, 1);
    let (_, cluster, recorded) = schedule.take().unwrap();
    assert_eq!((cluster.as_str(), recorded), ("c", Some(record())));
    schedule.finish(&secret, Outcome::Settled, Some(record()), true);
    assert_eq!((schedule.backlog().objects, taken(&mut schedule)), (0, None));
    tokio::time::sleep(COMPARE).await;
    assert!(taken(&mut schedule).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_secret_stays_while_it_or_its_record_exists() {
    let mut schedule = Schedule::default();
    schedule.restore(record());
    schedule.change_known(&key("n", "unknown"));
    assert_eq!(schedule.entries.len(), 1);
    let (gone, _, recorded) = schedule.take().unwrap();
    assert_eq!(recorded, Some(record()));
    schedule.finish(&gone, Outcome::Pending, recorded, false);
    tokio::time::sleep(FIRST_PAUSE).await;
    assert!(taken(&mut schedule).is_some());
    schedule.finish(&gone, Outcome::Settled, None, false);
    assert!(schedule.entries.is_empty() && schedule.turns.is_empty());
}

#[tokio::test(start_paused = true)]
async fn refusals_of_a_cluster_are_complete_after_all_of_its_secrets_were_compared() {
    let mut schedule = Schedule::default();
    for name in ["c-ca", "c-etcd", "d-ca"] {
        schedule.change(key("n", name), name.split('-').next().unwrap());
    }
    let refusal = |text: &str| Refusal { reason: "WriteBackRefused", message: text.to_owned() };
    while let Some((taken, _, _)) = schedule.take() {
        let outcome = if taken.1 == "c-ca" { Outcome::Pending } else { Outcome::Refused(refusal(&taken.1)) };
        schedule.finish(&taken, outcome, None, true);
    }
    schedule.set_listed();
    assert_eq!(schedule.refusals("n", "c"), (vec![refusal("c-etcd")], false));
    assert_eq!(schedule.refusals("n", "d"), (vec![refusal("d-ca")], true));
    tokio::time::sleep(FIRST_PAUSE).await;
    assert_eq!(taken(&mut schedule).as_deref(), Some("n/c-ca"));
    schedule.finish(&key("n", "c-ca"), Outcome::Settled, None, true);
    assert_eq!(schedule.refusals("n", "c"), (vec![refusal("c-etcd")], true));
    assert_eq!((schedule.backlog().objects, schedule.backlog().refused), (0, 2));
}

#[tokio::test(start_paused = true)]
async fn ho_32_a_first_refusal_is_checked_soon_and_each_is_tried_again_after_an_outage() {
    let (mut schedule, secret) = (Schedule::default(), key("n", "c-ca"));
    schedule.change(secret.clone(), "c");
    let mut pauses = Vec::new();
    for _ in 0..3 {
        assert!(taken(&mut schedule).is_some());
        let refusal = Refusal { reason: "WriteBackForbidden", message: String::new() };
        schedule.finish(&secret, Outcome::Refused(refusal), None, true);
        let due = schedule.next_due().unwrap();
        pauses.push(due.duration_since(Instant::now()).as_secs());
        tokio::time::sleep_until(due).await;
    }
    assert_eq!(pauses, [30, 300, 300]);
    for _ in 0..9 {
        let due = schedule.next_due().unwrap();
        tokio::time::sleep_until(due).await;
        assert!(taken(&mut schedule).is_some());
        schedule.finish(&secret, Outcome::Pending, None, true);
    }
    assert_eq!(taken(&mut schedule), None, "it has failed often");
    schedule.retry_failed();
    assert!(taken(&mut schedule).is_some());
    schedule.finish(&secret, Outcome::Pending, None, true);
    let pause = schedule.next_due().unwrap().duration_since(Instant::now());
    assert_eq!(pause, FIRST_PAUSE, "the pauses begin anew");
}

#[tokio::test(start_paused = true)]
async fn ho_42_changes_that_the_host_is_owed_come_before_comparisons_of_their_namespace() {
    let (mut schedule, compared) = (Schedule::default(), key("n", "old-ca"));
    schedule.change(compared.clone(), "old");
    assert!(taken(&mut schedule).is_some());
    schedule.finish(&compared, Outcome::Settled, None, true);
    tokio::time::sleep(COMPARE).await;
    // The copy of an earlier process.
    schedule.restore(record());
    tokio::time::advance(Duration::from_millis(1)).await;
    schedule.change(key("n", "new-ca"), "new");
    let order = [taken(&mut schedule), taken(&mut schedule), taken(&mut schedule)];
    assert_eq!(order.map(Option::unwrap_or_default), ["n/new-ca", "n/c-ca", "n/old-ca"]);
}
