//! Decisions about an upgrade. They are pure: a plan follows from a report, a release and the time.

use std::collections::BTreeSet;

use jiff::{SignedDuration, Timestamp};
use serde::Serialize;
use storage_contract::Form;

use super::numbers;
use crate::replicas::{Replica, is_dead};
use crate::report::{FormReport, Report};

/// Release that replaces the running one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Release {
    /// Version of the program.
    pub(super) version: String,
    /// Stored forms that it reads and writes. The last one is the newest.
    pub(super) reads: Vec<u64>,
}

impl Release {
    /// Returns the release of this program.
    pub(super) fn of_this_program() -> Self {
        Self { version: env!("CARGO_PKG_VERSION").to_owned(), reads: Form::READ.to_vec() }
    }

    fn newest(&self) -> u64 {
        self.reads.iter().copied().max().unwrap_or(Form::OLDEST)
    }
}

/// Plan of an upgrade, in lines for people.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Plan {
    /// Stored form of the store.
    pub(super) store: String,
    /// Running replicas.
    pub(super) replicas: Vec<String>,
    /// Steps in their order.
    pub(super) steps: Vec<String>,
    /// Facts that an operator should know before.
    pub(super) notes: Vec<String>,
    /// Reasons against the upgrade. Without one, it can begin.
    pub(super) blocked: Vec<String>,
}

/// Makes the plan.
pub(super) fn plan(report: &Report, release: &Release, now: Timestamp) -> Plan {
    let (dead, live): (Vec<&Replica>, Vec<&Replica>) =
        report.replicas.iter().partition(|replica| is_dead(replica, now));
    let outdated: Vec<&Replica> = live.iter().copied().filter(|it| it.version != release.version).collect();
    let mut plan = Plan {
        store: store(report.form),
        replicas: live.iter().map(|replica| named(replica, release)).collect(),
        steps: replacements(&live, &outdated, release),
        notes: notes(report, &dead, &live),
        blocked: blocked(report, release, &live),
    };
    plan.steps.extend(commit(report.form, release, &live, now));
    plan
}

fn store(form: FormReport) -> String {
    let FormReport { committed, least, to, .. } = form;
    match to {
        None if least == committed => format!("stored form {committed}"),
        None => format!("stored form {committed}, oldest value {least}"),
        Some(to) => format!("stored form {committed}, oldest value {least}, downgrade to {to} begun"),
    }
}

fn named(replica: &Replica, release: &Release) -> String {
    let Replica { id, version, reads, writes, address, .. } = replica;
    let is_new = if *version == release.version { ", has this version" } else { "" };
    format!("{id} at {address}: version {version}, reads {}, writes {writes}{is_new}", numbers(reads))
}

/// Returns a step for each replica that has another version.
fn replacements(live: &[&Replica], outdated: &[&Replica], release: &Release) -> Vec<String> {
    let version = &release.version;
    match (live.len(), outdated.len()) {
        (0, _) => vec![format!("install version {version}, and start the server")],
        (_, 0) => Vec::new(),
        (1, _) => vec![format!(
            "replace the only replica by version {version}: the API is down until the new one is ready"
        )],
        _ => {
            let step = |replica: &&Replica| {
                format!(
                    "replace {} at {} by version {version}, and wait until its /readyz answers ok",
                    replica.id, replica.address
                )
            };
            outdated.iter().map(step).collect()
        }
    }
}

/// Returns the step at which the newest form is committed, if this release has a newer one.
fn commit(form: FormReport, release: &Release, live: &[&Replica], now: Timestamp) -> Option<String> {
    let newest = release.newest();
    if !form.is_agreed || form.to.is_some() || newest <= form.committed {
        return None;
    }
    let seconds = i64::try_from(form.delay).unwrap_or(i64::MAX);
    let is_last =
        live.iter().all(|replica| replica.version == release.version && replica.reads.contains(&newest));
    let since = live.iter().map(|replica| replica.since).max().filter(|_| is_last);
    let when = match since.and_then(|since| since.checked_add(SignedDuration::from_secs(seconds)).ok()) {
        Some(at) if at <= now => "the leader commits it within a minute".to_owned(),
        Some(at) => format!("the leader commits it at {}", at.strftime("%Y-%m-%dT%H:%M:%SZ")),
        None => format!("the leader commits it {} h after the last replacement", seconds / 3600),
    };
    Some(format!(
        "form {newest} waits for its commit: {when}, or `capstan storage commit` does it at once. Until then you can go back \
         to the former release; afterwards only with `capstan storage downgrade`"
    ))
}

/// Returns the reasons against an upgrade.
fn blocked(report: &Report, release: &Release, live: &[&Replica]) -> Vec<String> {
    let mut reasons = Vec::new();
    let form = report.form;
    if !release.reads.contains(&form.committed) {
        reasons.push(format!(
            "version {} does not read form {}, which the store has: use a release that reads it",
            release.version, form.committed
        ));
    }
    if let Some(to) = form.to {
        reasons.push(format!(
            "a downgrade to form {to} has begun: run `capstan storage downgrade --to {to}` until it ends"
        ));
    }
    if let Some(command) = report.rewrite.as_ref().filter(|_| form.to.is_none()) {
        reasons.push(format!(
            "all values are being rewritten: wait until it ends, `{command}` shows its progress"
        ));
    }
    let sealing: BTreeSet<&String> = live.iter().flat_map(|replica| &replica.seals).collect();
    for key in sealing {
        let lacking: Vec<&str> =
            live.iter().filter(|it| !it.keys.contains(key)).map(|it| it.id.as_str()).collect();
        if !lacking.is_empty() {
            reasons.push(format!(
                "these replicas lack the encryption key {key}, with which others seal: {}. Copy the encryption \
                 configuration to them",
                lacking.join(", ")
            ));
        }
    }
    reasons
}

/// Returns the facts that are no reason against an upgrade.
fn notes(report: &Report, dead: &[&Replica], live: &[&Replica]) -> Vec<String> {
    let mut notes = Vec::new();
    let versions: BTreeSet<&str> = live.iter().map(|replica| replica.version.as_str()).collect();
    if versions.len() > 1 {
        let versions: Vec<&str> = versions.into_iter().collect();
        notes.push(format!("replicas of several versions run: {}", versions.join(", ")));
    }
    for replica in dead {
        let Replica { id, address, renewed, .. } = replica;
        notes.push(format!(
            "{id} at {address} has not renewed its record since {}: it runs no more, or does not reach the store",
            renewed.strftime("%Y-%m-%dT%H:%M:%SZ")
        ));
    }
    let rotating: BTreeSet<&str> = report
        .authorities
        .iter()
        .filter(|authority| authority.role != "signs")
        .map(|authority| authority.ca.as_str())
        .collect();
    for ca in rotating {
        notes.push(format!("the {ca} CA is being rotated: see `capstan ca status`"));
    }
    notes.push("take a backup before the first step: see `capstan backup`".to_owned());
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: u64 = 24 * 3600;

    fn replica(id: &str, version: &str, reads: &[u64]) -> Replica {
        let mut replica = Replica::of_this_process("192.0.2.1:7443".to_owned());
        (replica.id, replica.version, replica.reads) = (id.to_owned(), version.to_owned(), reads.to_vec());
        (replica.since, replica.renewed) = (Timestamp::UNIX_EPOCH, Timestamp::UNIX_EPOCH);
        replica
    }

    fn report(replicas: &[Replica], committed: u64, to: Option<u64>) -> Report {
        let form = FormReport { is_agreed: true, committed, least: committed, to, delay: DAY };
        let (authorities, certificates) = (Vec::new(), Vec::new());
        Report { replicas: replicas.to_vec(), form, rewrite: None, authorities, certificates }
    }

    fn release() -> Release {
        Release { version: "2.0.0".to_owned(), reads: vec![3, 4] }
    }

    fn made(report: &Report) -> Plan {
        plan(report, &release(), Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn replicas_of_other_versions_are_replaced_one_after_the_other_and_the_form_waits() {
        let all = [replica("a", "1.0.0", &[3]), replica("b", "2.0.0", &[3, 4]), replica("c", "1.0.0", &[3])];
        let plan = made(&report(&all, 3, None));
        assert_eq!(plan.blocked, Vec::<String>::new());
        let [first, second, form] = &plan.steps[..] else { panic!("{plan:?}") };
        assert!(first.contains("replace a at") && second.contains("replace c at"), "{plan:?}");
        assert!(form.contains("form 4") && form.contains("24 h after the last replacement"), "{form}");
        assert!(plan.notes.iter().any(|note| note.contains("1.0.0, 2.0.0")), "{plan:?}");
        assert!(plan.replicas[1].contains("has this version"), "{plan:?}");
    }

    #[test]
    fn after_the_last_replacement_only_the_commit_is_left_with_its_time() {
        let all = [replica("a", "2.0.0", &[3, 4]), replica("b", "2.0.0", &[3, 4])];
        let plan = made(&report(&all, 3, None));
        assert!(plan.steps.len() == 1 && plan.steps[0].contains("at 1970-01-02T00:00:00Z"), "{plan:?}");
        assert_eq!(made(&report(&all, 4, None)).steps, Vec::<String>::new());
        let mut embedded = report(&all[..1], 3, None);
        embedded.form.is_agreed = false;
        assert_eq!(made(&embedded).steps, Vec::<String>::new(), "the embedded store commits no form");
    }

    #[test]
    fn a_form_that_the_release_cannot_read_a_downgrade_a_rewrite_and_a_missing_key_block_it() {
        let all = [replica("a", "1.0.0", &[3])];
        for (report, expected) in [
            (report(&all, 9, None), "does not read form 9"),
            (report(&all, 4, Some(3)), "downgrade --to 3"),
            (
                Report { rewrite: Some("capstan storage migrate".to_owned()), ..report(&all, 3, None) },
                "migrate",
            ),
        ] {
            let blocked = made(&report).blocked;
            assert!(blocked.len() == 1 && blocked[0].contains(expected), "{expected}: {blocked:?}");
        }
        let mut all = [replica("a", "1.0.0", &[3]), replica("b", "1.0.0", &[3])];
        all[0].seals.insert("0011aabb".to_owned());
        all[0].keys.insert("0011aabb".to_owned());
        let blocked = made(&report(&all, 3, None)).blocked;
        assert!(
            blocked.len() == 1 && blocked[0].contains("0011aabb") && blocked[0].contains(": b."),
            "{blocked:?}"
        );
    }

    #[test]
    fn a_dead_replica_is_a_note_and_a_single_one_means_a_downtime() {
        let mut all = [replica("a", "1.0.0", &[3]), replica("b", "1.0.0", &[3])];
        all[1].renewed = Timestamp::UNIX_EPOCH - SignedDuration::from_hours(1);
        let plan = made(&report(&all, 3, None));
        assert!(plan.steps[0].contains("the API is down"), "{plan:?}");
        assert!(plan.notes.iter().any(|note| note.starts_with("b at")), "{plan:?}");
        assert!(made(&report(&[], 3, None)).steps[0].starts_with("install version 2.0.0"));
    }
}
