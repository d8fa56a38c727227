//! Commands `capstan storage check`, `defrag` and `recover-space`, and the watch of etcd's space.

mod judge;
mod space;

use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use storage_etcd::{EtcdConfiguration, Maintenance, Member, MemberSpace};

use self::judge::Level;
pub(crate) use self::space::{SpaceMetrics, follow};
use crate::backup::{Setup, block_on};
use crate::cli::{DefragArguments, StoreArguments};
use crate::output;

/// Longest time until a member has caught up after its defragmentation.
const CATCH_UP: Duration = Duration::from_mins(5);

/// Interval of the queries until then.
const QUERY: Duration = Duration::from_millis(500);

/// Checks the members of etcd and prints a line for each finding.
///
/// # Errors
/// No etcd in the configuration; an etcd that refuses or does not answer; an error that a check has found.
pub(crate) fn check(arguments: &StoreArguments) -> anyhow::Result<()> {
    block_on(print_findings(arguments))
}

/// Limits of an etcd that are too low, permissions that are missing, and members that are nearly full, for `capstan doctor`:
/// each one with true for an error and false for a warning. Empty: all is well, or etcd does not answer.
pub(crate) async fn problems(configuration: EtcdConfiguration) -> Vec<(bool, String)> {
    let maintenance = Maintenance::new(configuration);
    let Ok(members) = maintenance.members().await else { return Vec::new() };
    let states = members.iter().filter_map(|(_, state)| state.as_ref().ok());
    let nearly_full = states.filter(|state| judge::is_nearly_full(state)).map(|state| {
        let (size, quota) = (state.size >> 20, judge::quota(state) >> 20);
        (
            false,
            format!(
                "{}: {size} MiB of a quota of {quota} MiB; see `capstan storage check`",
                state.member.name
            ),
        )
    });
    let mut problems: Vec<(bool, String)> = nearly_full.collect();
    // A full etcd refuses the attempts for that reason alone.
    if !judge::is_any_full(&members) {
        let mut found = judge::limits(&maintenance.limits().await);
        found.push(judge::compaction(&Box::pin(maintenance.may_compact()).await));
        let found = found.into_iter().filter(|finding| finding.level != Level::Ok);
        problems.extend(found.map(|finding| (finding.level == Level::Error, finding.text)));
    }
    problems
}

/// Defragments the members of etcd, one at a time, the leader last.
///
/// # Errors
/// No etcd in the configuration; a member that refuses, does not answer, or does not catch up.
pub(crate) fn defragment(arguments: &DefragArguments) -> anyhow::Result<()> {
    let maintenance = open(&arguments.store)?;
    block_on(defragment_members(&maintenance, arguments.all, arguments.pause))
}

/// Makes room in an etcd that refuses writes because its database is full.
///
/// # Errors
/// As of [`defragment`].
pub(crate) fn recover_space(arguments: &StoreArguments) -> anyhow::Result<()> {
    block_on(recover(&open(arguments)?))
}

fn open(arguments: &StoreArguments) -> anyhow::Result<Maintenance> {
    let configuration = Setup::load(arguments)?.etcd();
    let configuration =
        configuration.context("only an etcd is maintained: the embedded store needs no maintenance")?;
    Ok(Maintenance::new(configuration))
}

async fn print_findings(arguments: &StoreArguments) -> anyhow::Result<()> {
    let maintenance = open(arguments)?;
    let members = maintenance.members().await?;
    let mut findings = judge::members(&members);
    // A full etcd refuses the attempts for that reason alone.
    if !judge::is_any_full(&members) {
        findings.extend(judge::limits(&maintenance.limits().await));
        findings.push(judge::compaction(&Box::pin(maintenance.may_compact()).await));
    }
    let mut text = String::new();
    for finding in &findings {
        let word = match finding.level {
            Level::Ok => "ok     ",
            Level::Warning => "WARNING",
            Level::Error => "ERROR  ",
        };
        text.push_str(&format!("{word} {}\n", finding.text));
    }
    output::print(&text)?;
    match findings.iter().filter(|finding| finding.level == Level::Error).count() {
        0 => Ok(()),
        count => bail!("{count} errors in the storage"),
    }
}

/// Returns the states of all members. All must answer: one that is defragmented while another is down may end the
/// majority.
async fn healthy(maintenance: &Maintenance) -> anyhow::Result<Vec<MemberSpace>> {
    let mut states = Vec::new();
    for (member, state) in maintenance.members().await? {
        states.push(state.with_context(|| {
            format!("member {:?} cannot be reached; repair or remove it first", member.name)
        })?);
    }
    Ok(states)
}

async fn defragment_members(maintenance: &Maintenance, all: bool, pause: Duration) -> anyhow::Result<()> {
    let states = healthy(maintenance).await?;
    let chosen = judge::order(&states, all);
    if chosen.is_empty() {
        let text =
            "nothing to do: no member has more than 256 MiB and 30 % free; --all defragments them anyway\n";
        return Ok(output::print(text)?);
    }
    for (index, state) in chosen.iter().enumerate() {
        if index > 0 && !pause.is_zero() {
            output::print(&format!("waiting {} s before the next member\n", pause.as_secs()))?;
            tokio::time::sleep(pause).await;
            healthy(maintenance).await?;
        }
        one(maintenance, &state.member, states.len()).await?;
    }
    Ok(())
}

/// Defragments a member and waits until it has caught up.
async fn one(maintenance: &Maintenance, member: &Member, members: usize) -> anyhow::Result<()> {
    let name = &member.name;
    let before = maintenance.state(member).await?;
    if before.is_leader && members > 1 {
        hand_over(maintenance, member).await?;
    }
    let begun = Instant::now();
    maintenance.defragment(member).await.with_context(|| format!("{name}: cannot be defragmented"))?;
    let after = loop {
        match maintenance.state(member).await {
            Ok(state) if judge::has_caught_up(&state, before.applied) => break state,
            _ if begun.elapsed() > CATCH_UP => bail!("{name}: has not caught up after its defragmentation"),
            _ => tokio::time::sleep(QUERY).await,
        }
    };
    let (from, to) = (before.size >> 10, after.size >> 10);
    output::print(&format!(
        "{name}: {from} KiB before, {to} KiB after, in {:.1} s\n",
        begun.elapsed().as_secs_f64()
    ))?;
    Ok(())
}

/// Moves the leadership to another member, so that the cluster answers while this one does not.
async fn hand_over(maintenance: &Maintenance, leader: &Member) -> anyhow::Result<()> {
    let states = healthy(maintenance).await?;
    let other = states.iter().find(|state| state.member.id != leader.id && !state.member.is_learner);
    let other = other.context("no other member can lead")?;
    let moved = maintenance.move_leader(leader, &other.member).await;
    moved.with_context(|| format!("{}: the leadership cannot be moved", leader.name))?;
    output::print(&format!("{}: leads now\n", other.member.name)).map_err(Into::into)
}

async fn recover(maintenance: &Maintenance) -> anyhow::Result<()> {
    Box::pin(maintenance.compact()).await.context("the history cannot be removed")?;
    output::print("the history of old revisions is removed\n")?;
    defragment_members(maintenance, true, Duration::ZERO).await?;
    let states = healthy(maintenance).await?;
    if let Some(full) = states.iter().find(|state| judge::is_nearly_full(state)) {
        bail!(
            "{}: {} MiB are still in use, of a quota of {} MiB; raise its --quota-backend-bytes, restart it, and run this \
             command again. The alarm is not cleared",
            full.member.name,
            full.in_use >> 20,
            judge::quota(full) >> 20
        );
    }
    Box::pin(maintenance.disarm()).await.context("the alarm cannot be cleared")?;
    Ok(output::print("the alarm is cleared: etcd accepts writes\n")?)
}
