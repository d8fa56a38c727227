//! Checks of all replicas: their versions, stored forms, encryption keys and clocks.

use std::collections::BTreeSet;
use std::time::Duration;

use jiff::Timestamp;

use super::{Finding, Level, Node};
use crate::backup::Setup;
use crate::replicas::{Replica, is_dead};
use crate::report::{FormReport, Report, report};

/// Difference to the clock of this machine from which on an operator should act. Unit: seconds. Certificates, tokens and
/// backups have times of the machine that makes them.
const SKEW: i64 = 5;

/// Difference from which on things fail: a new certificate is not valid yet on another machine. Unit: seconds.
const BROKEN: i64 = 300;

/// Interval of renewals. A record is at most this old, by the clock of its machine. Unit: seconds.
const RENEWAL: i64 = 10;

/// Pause until a second look, if a record is old: in this time, a replica that lives renews it.
const PAUSE: Duration = Duration::from_secs(12);

/// Runs the checks.
pub(super) async fn check(node: &Node) -> Vec<Finding> {
    let setup = Setup { configuration: node.configuration.clone(), data: node.data.clone() };
    let read = async || {
        let found = report(&setup).await;
        found.map_err(|error| Finding::new(Level::Error, "replicas", format!("{error:#}")))
    };
    let first = match read().await {
        Ok(report) => report,
        Err(finding) => return vec![finding],
    };
    let mut second = None;
    if first.replicas.iter().any(|replica| difference(replica, Timestamp::now()) > SKEW) {
        tokio::time::sleep(PAUSE).await;
        second = match read().await {
            Ok(report) => Some(report),
            Err(finding) => return vec![finding],
        };
    }
    judge(&first, second.as_ref(), Timestamp::now())
}

/// Judges the replicas. `second` is a later report, if a record was old.
pub(super) fn judge(first: &Report, second: Option<&Report>, now: Timestamp) -> Vec<Finding> {
    let report = second.unwrap_or(first);
    let is_renewed = |replica: &Replica| {
        let before = first.replicas.iter().find(|it| it.id == replica.id);
        second.is_some() && before.is_none_or(|before| before.renewed != replica.renewed)
    };
    let (live, dead): (Vec<&Replica>, Vec<&Replica>) =
        report.replicas.iter().partition(|replica| !is_dead(replica, now) || is_renewed(replica));
    let mut findings: Vec<Finding> = dead.iter().map(|replica| lost(replica)).collect();
    findings.extend(live.iter().filter_map(|replica| clock(replica, now)));
    findings.push(versions(&live));
    findings.extend(keys(&live));
    findings.push(form(report.form, &live));
    findings
}

fn subject(replica: &Replica) -> String {
    format!("replica {} at {}", replica.id, replica.address)
}

fn lost(replica: &Replica) -> Finding {
    let since = replica.renewed.strftime("%Y-%m-%dT%H:%M:%SZ");
    let message = format!(
        "has not renewed its record since {since}; start it again, or ignore this if it was removed: the record goes after a \
         day"
    );
    Finding::new(Level::Warning, subject(replica), message)
}

/// Returns how far the clock of a replica is behind that of this machine at least, in seconds. Negative: ahead. A record
/// is at most ten seconds old.
fn difference(replica: &Replica, now: Timestamp) -> i64 {
    let age = now.duration_since(replica.renewed).as_secs();
    if age < 0 { age } else { (age - RENEWAL).max(0) }
}

/// Judges the clock of a replica by the time in its record.
fn clock(replica: &Replica, now: Timestamp) -> Option<Finding> {
    let difference = difference(replica, now);
    let level = match difference.abs() {
        0..=SKEW => return None,
        off if off > BROKEN => Level::Error,
        _ => Level::Warning,
    };
    let direction = if difference < 0 { "ahead of" } else { "behind" };
    let message = format!(
        "its clock is about {} s {direction} that of this machine; synchronize both with NTP",
        difference.abs()
    );
    Some(Finding::new(level, subject(replica), message))
}

fn versions(live: &[&Replica]) -> Finding {
    let versions: BTreeSet<&str> = live.iter().map(|replica| replica.version.as_str()).collect();
    let list = versions.iter().copied().collect::<Vec<_>>().join(", ");
    match versions.len() {
        0 => Finding::new(Level::Warning, "replicas", "none runs"),
        1 => Finding::new(Level::Ok, "replicas", format!("{} run version {list}", live.len())),
        _ => {
            let message = format!("versions {list} run; finish the upgrade, see `capstan upgrade plan`");
            Finding::new(Level::Warning, "replicas", message)
        }
    }
}

/// Names the replicas that lack a key with which another one seals.
fn keys(live: &[&Replica]) -> Vec<Finding> {
    let sealing: BTreeSet<&String> = live.iter().flat_map(|replica| &replica.seals).collect();
    let lacking = |key: &&String| {
        let names: Vec<&str> =
            live.iter().filter(|it| !it.keys.contains(*key)).map(|it| it.id.as_str()).collect();
        (!names.is_empty()).then(|| {
            let message = format!(
                "is missing on {}, and others seal with it; copy the encryption configuration there",
                names.join(", ")
            );
            Finding::new(Level::Error, format!("encryption key {key}"), message)
        })
    };
    sealing.iter().filter_map(lacking).collect()
}

fn form(form: FormReport, live: &[&Replica]) -> Finding {
    let subject = "stored form";
    let FormReport { committed, to, is_agreed, .. } = form;
    if let Some(to) = to {
        let message =
            format!("a downgrade to {to} has begun; run `capstan storage downgrade --to {to}` until it ends");
        return Finding::new(Level::Warning, subject, message);
    }
    let newest = live.iter().flat_map(|replica| &replica.reads).copied().max().unwrap_or(committed);
    if is_agreed && newest > committed {
        let message = format!("{committed}; form {newest} waits for its commit, see `capstan storage form`");
        return Finding::new(Level::Ok, subject, message);
    }
    Finding::new(Level::Ok, subject, committed.to_string())
}
