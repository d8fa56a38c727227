//! One history behind everything that anybody was told; and that a bug would be found.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test says what is wrong by panicking"
)]

use std::time::{Duration, SystemTime};

use tests_history::{Fault, Outcome, Plan, Records, Violation, check, run};

/// How long everybody works, when `CAPSTAN_HISTORY_SECONDS` does not say. Unit: seconds.
const LASTS: u64 = 40;

/// How long it takes at most that a bug shows. Unit: seconds.
const PLANTED: u64 = 8;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok()?.parse().ok()
}

fn plan(seconds: u64, fault: Option<Fault>) -> Plan {
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap();
    let seed = number("CAPSTAN_HISTORY_SEED").unwrap_or_else(|| now.subsec_nanos().into());
    println!("CAPSTAN_HISTORY_SEED={seed}");
    let server = env!("CARGO_BIN_EXE_history-replica").into();
    Plan { server, seed, lasts: Duration::from_secs(seconds), trouble: fault.is_none(), fault }
}

fn show(records: &Records, violations: &[Violation]) -> String {
    let count = |wanted: fn(&Outcome) -> bool| records.writes.iter().filter(|w| wanted(&w.outcome)).count();
    let told: Vec<String> =
        records.watchers.iter().map(|watcher| format!("{}: {}", watcher.name, watcher.told.len())).collect();
    let violations: Vec<String> = violations.iter().take(20).map(ToString::to_string).collect();
    format!(
        "{} writes ({} stored, {} deleted, {} refused, {} unknown), {} reads; told: {}\n{}",
        records.writes.len(),
        count(|outcome| matches!(outcome, Outcome::Stored(..))),
        count(|outcome| matches!(outcome, Outcome::Deleted(_))),
        count(|outcome| matches!(outcome, Outcome::Refused)),
        count(|outcome| matches!(outcome, Outcome::Unknown)),
        records.reads.len(),
        told.join("; "),
        violations.join("\n")
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn everybody_was_told_one_history_whatever_was_killed() {
    let plan = plan(number("CAPSTAN_HISTORY_SECONDS").unwrap_or(LASTS), None);
    let records = run(&plan).await.unwrap();
    let violations = check(&records);
    println!("{}", show(&records, &violations));
    assert!(violations.is_empty(), "seed {}: {}", plan.seed, show(&records, &violations));
    // Nothing is proved by those who did nothing.
    assert!(records.writes.len() > 100 && records.reads.len() > 100, "{}", show(&records, &[]));
    assert!(records.watchers.iter().all(|watcher| watcher.told.len() > 20), "{}", show(&records, &[]));
}

async fn find(fault: Fault) -> Vec<Violation> {
    let records = run(&plan(PLANTED, Some(fault))).await.unwrap();
    let violations = check(&records);
    println!("{fault}: {}", show(&records, &violations));
    violations
}

#[tokio::test(flavor = "multi_thread")]
async fn a_dropped_event_is_found() {
    let found = find(Fault::DroppedEvent).await;
    let lost = |violation: &Violation| matches!(violation, Violation::LostEvent { watcher, .. } if watcher.contains("server 0"));
    assert!(found.iter().any(lost), "{found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stale_read_is_found() {
    let found = find(Fault::StaleRead).await;
    let stale = |violation: &Violation| matches!(violation, Violation::StaleRead { reader, .. } if reader.contains("server 0"));
    assert!(found.iter().any(stale), "{found:?}");
    // Late is not lost.
    assert!(!found.iter().any(|violation| matches!(violation, Violation::LostEvent { .. })), "{found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_update_is_found() {
    let found = find(Fault::LostUpdate).await;
    assert!(found.iter().any(|violation| matches!(violation, Violation::LostUpdate { .. })), "{found:?}");
    assert!(!found.iter().any(|violation| matches!(violation, Violation::LostEvent { .. })), "{found:?}");
}
