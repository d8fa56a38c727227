//! Test of linearizability: one history explains all observations, and the checker finds injected bugs.
#![allow(clippy::unwrap_used, clippy::panic, clippy::print_stdout, reason = "a test fails by panicking")]

use std::time::{Duration, SystemTime};

use tests_history::{InjectedBug, Records, RunPlan, Violation, WriteOutcome, check, run};

/// Duration of the run in seconds, if `CAPSTAN_HISTORY_SECONDS` is not set.
const RUN_SECONDS: u64 = 40;

/// Longest time until a bug shows, in seconds.
const BUG_RUN_SECONDS: u64 = 8;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn plan(seconds: u64, bug: Option<InjectedBug>) -> RunPlan {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let seed = number("CAPSTAN_HISTORY_SEED").unwrap_or_else(|| now.subsec_nanos().into());
    println!("CAPSTAN_HISTORY_SEED={seed}");
    let server = env!("CARGO_BIN_EXE_history-replica").into();
    RunPlan { server, seed, lasts: Duration::from_secs(seconds), disruptions: bug.is_none(), bug }
}

fn show(records: &Records, violations: &[Violation]) -> String {
    let count =
        |matches: fn(&WriteOutcome) -> bool| records.writes.iter().filter(|w| matches(&w.outcome)).count();
    let deliveries: Vec<String> = records
        .watchers
        .iter()
        .map(|watcher| format!("{}: {}", watcher.name, watcher.deliveries.len()))
        .collect();
    let violations: Vec<String> = violations.iter().take(20).map(ToString::to_string).collect();
    format!(
        "{} writes ({} stored, {} deleted, {} refused, {} unknown), {} reads; deliveries: {}\n{}",
        records.writes.len(),
        count(|outcome| matches!(outcome, WriteOutcome::Stored(..))),
        count(|outcome| matches!(outcome, WriteOutcome::Deleted(_))),
        count(|outcome| matches!(outcome, WriteOutcome::Refused)),
        count(|outcome| matches!(outcome, WriteOutcome::Unknown)),
        records.reads.len(),
        deliveries.join("; "),
        violations.join("\n")
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn all_clients_observe_one_history_despite_kills() {
    let plan = plan(number("CAPSTAN_HISTORY_SECONDS").unwrap_or(RUN_SECONDS), None);
    let records = run(&plan).await.unwrap();
    let violations = check(&records);
    println!("{}", show(&records, &violations));
    assert!(violations.is_empty(), "seed {}: {}", plan.seed, show(&records, &violations));
    // A run with few operations would prove nothing.
    assert!(records.writes.len() > 100 && records.reads.len() > 100, "{}", show(&records, &[]));
    assert!(records.watchers.iter().all(|watcher| watcher.deliveries.len() > 20), "{}", show(&records, &[]));
}

async fn find(bug: InjectedBug) -> Vec<Violation> {
    let records = run(&plan(BUG_RUN_SECONDS, Some(bug))).await.unwrap();
    let violations = check(&records);
    println!("{bug}: {}", show(&records, &violations));
    violations
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_event_is_found() {
    let found = find(InjectedBug::DroppedEvent).await;
    let lost = |violation: &Violation| matches!(violation, Violation::LostEvent { watcher, .. } if watcher.contains("server 0"));
    assert!(found.iter().any(lost), "{found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_read_is_found() {
    let found = find(InjectedBug::StaleRead).await;
    let stale = |violation: &Violation| matches!(violation, Violation::StaleRead { reader, .. } if reader.contains("server 0"));
    assert!(found.iter().any(stale), "{found:?}");
    // Delayed events are not lost.
    assert!(!found.iter().any(|violation| matches!(violation, Violation::LostEvent { .. })), "{found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_update_is_found() {
    let found = find(InjectedBug::LostUpdate).await;
    assert!(found.iter().any(|violation| matches!(violation, Violation::LostUpdate { .. })), "{found:?}");
    assert!(!found.iter().any(|violation| matches!(violation, Violation::LostEvent { .. })), "{found:?}");
}
