//! Verdict on the records of a run. It is a pure function.

mod answers;
mod rollouts;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use self::answers::{Outage, wrong};
use crate::record::{Call, Realm, Records, Watched};

/// Marks that the caller makes.
const HOST_KILLED: &str = "host killed";
const HOST_STARTED: &str = "host started";
const HOST_RETURNED: &str = "host returned";
const HOST_SERVES: &str = "the host serves all APIs of Capstan";
const REPLICA_STARTS: &str = "replica starts";
const REPLICA_STARTED: &str = "replica started";
const CLOCKS_ADVANCED: &str = "clocks set forward";
const LEADER_LOST: [&str; 2] = ["leader killed", "leader frozen"];

/// Longest time from the loss of a leader to the next one.
const FAILOVER: Duration = Duration::from_secs(10);

/// Time that the machine may add to it: the replicas, the observer and other parts share its processors.
const BUSY: Duration = Duration::from_secs(2);

/// Number of times by which the latency of Capstan's own users may grow without the host.
const SLOWER: u32 = 2;

/// Latency that says nothing about the host: all processes of the lab, and those of other parts, share the processors of one
/// machine. Capstan waits for a host that does not answer for longer.
const QUICK: Duration = Duration::from_secs(1);

/// Duration of a slice of the run, whose calls have a p99 of their own: about two hundred calls. Unit: seconds.
const SLICE: u64 = 5;

/// Largest number of violations of one kind that are shown.
const SHOWN: usize = 5;

/// State of the cloud at the end.
#[derive(Debug, Clone, Default)]
pub(crate) struct CloudState {
    /// Number of servers that were ever created, and that should have been.
    pub(crate) created: usize,
    pub(crate) wanted: usize,
    /// Ids of the servers that exist, and of those that Machines name.
    pub(crate) servers: BTreeSet<String>,
    pub(crate) named: BTreeSet<String>,
    /// Resources that were made twice, for people.
    pub(crate) doubled: Vec<String>,
}

/// Numbers for people, and what must not have been.
#[derive(Debug, Default)]
pub(crate) struct Report {
    pub(crate) text: String,
    pub(crate) violations: Vec<String>,
}

/// Judges a run.
pub(crate) fn judge(records: &Records, cloud: &CloudState) -> Report {
    let mut report = Report::default();
    let outage = Outage::of(records);
    calls(records, &outage, &mut report);
    latency(records, &outage, &mut report);
    writes(records, &mut report);
    failovers(records, &mut report);
    rollouts::compare(records, &outage, &mut report);
    answers::bound_of_writes(records, &outage, &mut report);
    for (at, text) in &records.marks {
        let _ = writeln!(report.text, "{:>7.1} s  {text}", at.as_secs_f64());
    }
    let CloudState { created, wanted, servers, named, doubled } = cloud;
    let _ = writeln!(report.text, "servers: {created} created, {} exist", servers.len());
    if created != wanted {
        report.violations.push(format!("{created} servers were created instead of {wanted}"));
    }
    if servers != named {
        report.violations.push(format!("servers {servers:?} exist, and the Machines name {named:?}"));
    }
    report.violations.extend(doubled.iter().take(SHOWN).cloned());
    report
}

fn calls(records: &Records, outage: &Outage, report: &mut Report) {
    let mut totals: BTreeMap<&str, [usize; 4]> = BTreeMap::new();
    let mut shown: BTreeMap<&str, usize> = BTreeMap::new();
    for call in &records.calls {
        let [all, down, broken, bad] = totals.entry(&call.user).or_default();
        *all += 1;
        *down += usize::from(outage.is_down(call));
        *broken += call.broken;
        if let Some(why) = wrong(call, outage) {
            *bad += 1;
            let count = shown.entry(why).or_default();
            *count += 1;
            if *count <= SHOWN {
                let (method, user, at) = (call.method, &call.user, call.begun.as_secs_f64());
                let took = (call.ended.saturating_sub(call.begun)).as_secs_f64();
                let answer = &call.answer;
                report
                    .violations
                    .push(format!("{why}: {user} {method} at {at:.1} s, {took:.1} s: {answer:?}"));
            }
        }
    }
    for (user, [all, down, broken, bad]) in totals {
        let _ = writeln!(
            report.text,
            "{user:<12} {all:>6} calls, {down:>6} without the host, {broken:>3} attempts without a response, {bad} wrong"
        );
    }
}

/// Compares the latency of Capstan's own users with the host, before and after the outage, and without it. Calls whose replica
/// was lost do not count.
///
/// Other work on the same machine slows down all calls for a while. So the run is cut into slices, and the medians of their p99
/// are compared.
fn latency(records: &Records, outage: &Outage, report: &mut Report) {
    let quiet = |call: &&Call| call.realm == Realm::Own && call.broken == 0 && call.user != "observer";
    let of = |select: &dyn Fn(&Call) -> bool| {
        let mut slices: BTreeMap<u64, Vec<Duration>> = BTreeMap::new();
        for call in records.calls.iter().filter(quiet).filter(|call| select(call)) {
            let slice = slices.entry(call.begun.as_secs() / SLICE).or_default();
            slice.push(call.ended.saturating_sub(call.begun));
        }
        percentile(50, slices.into_values().map(|slice| percentile(99, slice)).collect())
    };
    let before = of(&|call| call.ended < outage.killed);
    let after = of(&|call| call.begun > outage.returned && outage.is_up(call));
    let (with, without) = (before.max(after), of(&|call| outage.is_down(call)));
    let _ = writeln!(
        report.text,
        "p99 of Capstan's own users, median of slices of {SLICE} s: {} ms before, {} ms without the host, {} ms after",
        before.as_millis(),
        without.as_millis(),
        after.as_millis()
    );
    if without > QUICK && without > with.saturating_mul(SLOWER) {
        report.violations.push(format!(
            "the p99 of Capstan's own users is {} ms without the host, more than {SLOWER} times that of {} ms with it",
            without.as_millis(),
            with.as_millis()
        ));
    }
}

/// Returns a percentile.
fn percentile(percent: usize, mut durations: Vec<Duration>) -> Duration {
    durations.sort_unstable();
    let index = durations.len().saturating_mul(percent) / 100;
    durations.get(index).or_else(|| durations.last()).copied().unwrap_or_default()
}

fn writes(records: &Records, report: &mut Report) {
    report.violations.extend(records.contradictions.iter().take(SHOWN).cloned());
    let mut revisions: BTreeMap<u64, &str> = BTreeMap::new();
    for write in &records.writes {
        if let Some(other) = revisions.insert(write.revision, &write.object) {
            let (object, revision) = (&write.object, write.revision);
            report.violations.push(format!("writes of {other} and {object} both have revision {revision}"));
        }
    }
    let watchers: BTreeSet<&str> = records.watched.iter().map(|it| it.watcher.as_str()).collect();
    for watcher in &watchers {
        let seen: Vec<u64> =
            records.seen.iter().filter(|it| it.watcher == *watcher).map(|it| it.revision).collect();
        let pairs = seen.iter().zip(seen.iter().skip(1));
        if let Some((one, other)) = pairs.into_iter().find(|(one, other)| one >= other) {
            report.violations.push(format!("watcher {watcher} saw revision {other} after {one}"));
        }
    }
    for watched in &records.watched {
        report.violations.extend(missed(watched, records, &revisions));
        report.violations.extend(outdated(watched, &revisions));
    }
    let expired = records.watched.iter().filter(|it| it.until.is_some()).count();
    if expired > 0 {
        let _ = writeln!(
            report.text,
            "{expired} watchers listed again: the history had ended without a connection"
        );
    }
    let _ = writeln!(
        report.text,
        "{} acknowledged writes, {} events of {} watchers",
        records.writes.len(),
        records.seen.len(),
        watchers.len()
    );
}

/// Reports the writes between two lists that a watcher did not see.
fn missed(watched: &Watched, records: &Records, revisions: &BTreeMap<u64, &str>) -> Option<String> {
    let Watched { watcher, from, until, .. } = watched;
    let seen: BTreeSet<u64> =
        records.seen.iter().filter(|it| it.watcher == *watcher).map(|it| it.revision).collect();
    let range = from.saturating_add(1)..=until.unwrap_or(u64::MAX).max(from.saturating_add(1));
    let missing: Vec<_> = revisions.range(range).filter(|(it, _)| !seen.contains(it)).collect();
    let first = missing.first()?;
    Some(format!("watcher {watcher} missed {} writes; the first is {first:?}", missing.len()))
}

/// Reports an object of a list that is older than an acknowledged write before the list.
fn outdated(watched: &Watched, revisions: &BTreeMap<u64, &str>) -> Option<String> {
    let Watched { watcher, from, listed, .. } = watched;
    let last: BTreeMap<&str, u64> = revisions.range(..=*from).map(|(it, object)| (*object, *it)).collect();
    let older =
        |(object, revision): &&(String, u64)| last.get(object.as_str()).is_some_and(|it| it > revision);
    let (object, revision) = listed.iter().find(older)?;
    Some(format!(
        "watcher {watcher} listed {object} as of {revision} at {from}, older than an acknowledged write"
    ))
}

fn failovers(records: &Records, report: &mut Report) {
    for (lost, text) in records.marks.iter().filter(|(_, text)| LEADER_LOST.contains(&text.as_str())) {
        let next = records.holders.iter().find(|(at, _)| at > lost).map(|(at, _)| at.saturating_sub(*lost));
        match next {
            Some(after) if after < FAILOVER + BUSY => {
                let _ = writeln!(report.text, "{text}: the next leader after {:.1} s", after.as_secs_f64());
            }
            after => report.violations.push(format!("{text}: the next leader after {after:?}")),
        }
    }
}
