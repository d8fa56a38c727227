//! Decisions about the members of etcd: findings, and the order of a defragmentation. They are pure.

use std::collections::BTreeSet;

use storage_contract::StoreError;
use storage_etcd::{Limits, Maintenance, Member, MemberSpace};

/// Oldest supported version of etcd.
const OLDEST: (u64, u64) = (3, 4);

/// Part of the quota from which an operator should make room. Unit: percent.
const FULL: u64 = 80;

/// Quota that etcd has by default. A member before 3.6 does not report its own. Unit: bytes.
const DEFAULT_QUOTA: u64 = 2 << 30;

/// Quota that etcd's documentation names as the largest sensible one. Unit: bytes.
const ADVISED_QUOTA: u64 = 8 << 30;

/// Free bytes and free part from which a defragmentation is worth that a member answers nothing for a while.
const WORTH: (u64, u64) = (256 << 20, 30);

/// Severity of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Level {
    Ok,
    Warning,
    Error,
}

/// Result of one check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Finding {
    pub(super) level: Level,
    pub(super) text: String,
}

impl Finding {
    fn new(level: Level, text: impl Into<String>) -> Self {
        Self { level, text: text.into() }
    }
}

/// Judges the members of a cluster.
pub(super) fn members(found: &[(Member, Result<MemberSpace, StoreError>)]) -> Vec<Finding> {
    let mut findings: Vec<Finding> =
        found.iter().flat_map(|(member, state)| of_member(member, state)).collect();
    let states = || found.iter().filter_map(|(_, state)| state.as_ref().ok());
    let clusters: BTreeSet<u64> = states().map(|state| state.cluster).collect();
    if clusters.len() > 1 {
        let text = "the members belong to different clusters; correct their --initial-cluster and endpoints";
        findings.push(Finding::new(Level::Error, text));
    }
    if !states().any(|state| state.is_leader) {
        findings.push(Finding::new(Level::Error, "no member leads; do most of the members run?"));
    }
    findings
}

/// Returns true if a member refuses writes because its database is full.
pub(super) fn is_any_full(found: &[(Member, Result<MemberSpace, StoreError>)]) -> bool {
    found.iter().any(|(_, state)| state.as_ref().is_ok_and(|state| state.is_full))
}

fn of_member(member: &Member, state: &Result<MemberSpace, StoreError>) -> Vec<Finding> {
    let name = if member.name.is_empty() { format!("member {:x}", member.id) } else { member.name.clone() };
    let state = match state {
        Ok(state) => state,
        Err(error) => return vec![Finding::new(Level::Error, format!("{name}: cannot be reached: {error}"))],
    };
    let mut findings = Vec::new();
    let version = &state.version;
    if is_older(version) {
        findings.push(Finding::new(
            Level::Error,
            format!("{name}: version {version} is older than 3.4; upgrade it"),
        ));
    } else if !state.has_sound_progress {
        let text = format!(
            "{name}: version {version}; with 3.5.13 or later, consistent reads come from memory: upgrade it"
        );
        findings.push(Finding::new(Level::Warning, text));
    }
    findings.push(space(&name, state));
    findings
}

fn space(name: &str, state: &MemberSpace) -> Finding {
    let (size, in_use) = (state.size >> 20, state.in_use >> 20);
    let quota = quota(state);
    let text = format!("{name}: version {}, {size} MiB, of which {in_use} MiB are in use", state.version);
    if state.is_full {
        let text = format!(
            "{text}; the database is full, and writes are refused: run `capstan storage recover-space`"
        );
        return Finding::new(Level::Error, text);
    }
    if is_nearly_full(state) {
        let remedy = if is_worth_it(state) {
            "run `capstan storage defrag`"
        } else {
            "raise its --quota-backend-bytes; etcd advises at most 8 GiB"
        };
        let text =
            format!("{text}; that is more than {FULL} % of its quota of {} MiB: {remedy}", quota >> 20);
        return Finding::new(Level::Warning, text);
    }
    if quota > ADVISED_QUOTA {
        let text = format!("{text}; its quota of {} MiB is above the 8 GiB that etcd advises", quota >> 20);
        return Finding::new(Level::Warning, text);
    }
    Finding::new(Level::Ok, text)
}

/// Returns the size above which a member refuses writes.
pub(super) const fn quota(state: &MemberSpace) -> u64 {
    if state.quota == 0 { DEFAULT_QUOTA } else { state.quota }
}

/// Returns true if an operator should make room.
pub(super) const fn is_nearly_full(state: &MemberSpace) -> bool {
    state.size.saturating_mul(100) > quota(state).saturating_mul(FULL)
}

fn is_older(version: &str) -> bool {
    let mut numbers = version.split(['.', '-']).map(|part| part.parse::<u64>().unwrap_or_default());
    (numbers.next().unwrap_or_default(), numbers.next().unwrap_or_default()) < OLDEST
}

/// Judges the limits of etcd and the permissions of the user.
pub(super) fn limits(found: &Result<Limits, StoreError>) -> Vec<Finding> {
    let limits = match found {
        Ok(limits) => limits,
        Err(error) => {
            let text =
                format!("a write below the prefix of Capstan is refused: {error}; grant readwrite on it");
            return vec![Finding::new(Level::Error, text)];
        }
    };
    let mut findings = Vec::new();
    if !limits.takes_transactions {
        let text = format!(
            "a transaction may have fewer than {} operations: set --max-txn-ops",
            Maintenance::OPERATIONS
        );
        findings.push(Finding::new(Level::Error, text));
    }
    if !limits.takes_values {
        let text =
            "the largest objects are refused: set --max-request-bytes to its default of 1.5 MiB or more";
        findings.push(Finding::new(Level::Warning, text));
    }
    if findings.is_empty() {
        findings.push(Finding::new(Level::Ok, "the limits of requests and the permission to write suffice"));
    }
    findings
}

/// Judges whether the user may remove the history of old revisions, which servers do every five minutes.
pub(super) fn compaction(found: &Result<bool, StoreError>) -> Finding {
    match found {
        Ok(true) => Finding::new(Level::Ok, "the user may remove the history of old revisions"),
        Ok(false) => Finding::new(
            Level::Warning,
            "the user may not remove the history of old revisions, so the database grows until its quota: set \
             --auto-compaction-retention of etcd to 10m or more, or grant the role root",
        ),
        Err(error) => {
            let text =
                format!("it is not known whether the user may remove the history of old revisions: {error}");
            Finding::new(Level::Warning, text)
        }
    }
}

/// Returns true if a defragmentation frees enough.
pub(super) const fn is_worth_it(state: &MemberSpace) -> bool {
    let free = state.free();
    free > WORTH.0 && free.saturating_mul(100) > state.size.saturating_mul(WORTH.1)
}

/// Returns the members to defragment, in their order: the followers, and the leader last.
pub(super) fn order(states: &[MemberSpace], all: bool) -> Vec<&MemberSpace> {
    let mut chosen: Vec<&MemberSpace> = states.iter().filter(|state| all || is_worth_it(state)).collect();
    chosen.sort_by_key(|state| state.is_leader);
    chosen
}

/// Returns true if a member has applied what the cluster had when its defragmentation began.
pub(super) const fn has_caught_up(state: &MemberSpace, applied: u64) -> bool {
    state.applied >= applied
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(name: &str, size: u64, in_use: u64) -> MemberSpace {
        let member = Member {
            id: 1,
            name: name.to_owned(),
            peer_urls: Vec::new(),
            client_urls: Vec::new(),
            is_learner: false,
        };
        MemberSpace {
            member,
            version: "3.6.16".to_owned(),
            has_sound_progress: true,
            cluster: 7,
            is_leader: name == "leader",
            size: size << 20,
            in_use: in_use << 20,
            quota: 0,
            applied: 10,
            is_full: false,
        }
    }

    fn judged(states: Vec<MemberSpace>) -> Vec<Finding> {
        let found: Vec<_> = states.into_iter().map(|state| (state.member.clone(), Ok(state))).collect();
        members(&found)
    }

    #[test]
    fn hv_31_each_problem_of_a_member_has_its_level_and_remedy() {
        assert_eq!(judged(vec![state("leader", 10, 5)])[0].level, Level::Ok);
        let expect = |state: MemberSpace, level: Level, text: &str| {
            let findings = judged(vec![state]);
            assert!(findings.iter().any(|it| it.level == level && it.text.contains(text)), "{findings:?}");
        };
        expect(
            MemberSpace { version: "3.3.9".to_owned(), ..state("leader", 1, 1) },
            Level::Error,
            "older than 3.4",
        );
        let unsound = MemberSpace { has_sound_progress: false, ..state("leader", 1, 1) };
        expect(unsound, Level::Warning, "3.5.13 or later");
        expect(MemberSpace { is_full: true, ..state("leader", 1, 1) }, Level::Error, "recover-space");
        expect(state("leader", 1_700, 1_000), Level::Warning, "run `capstan storage defrag`");
        expect(state("leader", 1_700, 1_690), Level::Warning, "raise its --quota-backend-bytes");
        expect(
            MemberSpace { quota: 16 << 30, ..state("leader", 1_700, 1) },
            Level::Warning,
            "above the 8 GiB",
        );
        expect(state("follower", 1, 1), Level::Error, "no member leads");
        let other = MemberSpace { cluster: 8, ..state("follower", 1, 1) };
        let findings = judged(vec![state("leader", 1, 1), other]);
        assert!(findings.iter().any(|it| it.text.contains("different clusters")), "{findings:?}");
    }

    #[test]
    fn hv_32_followers_come_first_and_members_with_little_free_space_are_left_out() {
        let states = [
            state("leader", 1_000, 100),
            state("a", 1_000, 100),
            state("b", 1_000, 800),
            state("c", 300, 10),
        ];
        let names = |all| order(&states, all).iter().map(|it| it.member.name.as_str()).collect::<Vec<_>>();
        assert_eq!(names(false), ["a", "c", "leader"]);
        assert_eq!(names(true), ["a", "b", "c", "leader"]);
        assert!(has_caught_up(&states[0], 10) && !has_caught_up(&states[0], 11));
    }

    #[test]
    fn hv_30_a_role_that_may_not_compact_is_a_warning_with_the_flag_of_etcd() {
        assert_eq!(compaction(&Ok(true)).level, Level::Ok);
        let refused = compaction(&Ok(false));
        assert_eq!(refused.level, Level::Warning);
        assert!(refused.text.contains("--auto-compaction-retention"), "{refused:?}");
        let error = StoreError::Unavailable { operation: "connect", source: "silence".into() };
        assert_eq!(compaction(&Err(error)).level, Level::Warning);
    }

    #[test]
    fn hv_31_limits_name_the_flag_of_etcd() {
        let text = |takes_transactions, takes_values| {
            let findings = limits(&Ok(Limits { takes_transactions, takes_values }));
            findings.into_iter().map(|finding| finding.text).collect::<String>()
        };
        assert!(text(true, true).contains("suffice"));
        assert!(
            text(false, true).contains("--max-txn-ops") && text(true, false).contains("--max-request-bytes")
        );
    }
}
