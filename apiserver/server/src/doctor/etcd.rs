//! Checks of the members of etcd.

use storage_etcd::{EtcdConfiguration, Member, MemberStatus, Members, member_status};

use super::{Finding, Level, Node, PATIENCE};
use crate::etcd_files::EtcdFiles;
use crate::storage_maintenance;

/// Size of a database at which an operator should defragment it: etcd advises at most 8 GiB. Unit: bytes.
const LARGE: u64 = 6 << 30;

/// Runs the checks; none with the embedded store.
pub(super) async fn check(node: &Node) -> Vec<Finding> {
    let Some(etcd) = node.configuration.storage.etcd.clone() else { return Vec::new() };
    let configuration = match EtcdFiles::new(etcd, false).read() {
        Ok(configuration) => EtcdConfiguration { deadline: PATIENCE, ..configuration },
        Err(error) => return vec![Finding::new(Level::Error, "etcd", format!("{error:#}"))],
    };
    let list = match Members::connect(configuration.clone()).await {
        Ok(members) => members.list().await,
        Err(error) => Err(error),
    };
    let members = match list {
        Ok(members) => members,
        Err(error) => {
            let subject = format!("etcd {}", configuration.endpoints.join(", "));
            let message = format!("{error}; is it running? See `journalctl -u capstan-etcd`");
            return vec![Finding::new(Level::Error, subject, message)];
        }
    };
    let mut findings = vec![cluster(&members)];
    for member in members {
        let Some(endpoint) = member.client_urls.first() else {
            findings.push(not_started(&member));
            continue;
        };
        let subject = format!("etcd {} at {endpoint}", member.name);
        findings.push(match member_status(&configuration, endpoint).await {
            Ok(status) => judge(subject, &member, &status),
            Err(error) => Finding::new(Level::Error, subject, error.to_string()),
        });
    }
    let problems = Box::pin(storage_maintenance::problems(configuration)).await;
    findings.extend(problems.into_iter().map(|(is_error, text)| {
        Finding::new(if is_error { Level::Error } else { Level::Warning }, "etcd", text)
    }));
    findings
}

/// Judges the number of members: two are worse than one, because both must run.
pub(super) fn cluster(members: &[Member]) -> Finding {
    let voters = members.iter().filter(|member| !member.is_learner).count();
    let tolerated = voters.saturating_sub(1) / 2;
    let message = format!("members with a vote: {voters}, of which {tolerated} may fail");
    if voters.is_multiple_of(2) {
        return Finding::new(
            Level::Warning,
            "etcd",
            format!("{message}. Add or remove a node: an odd number is safer"),
        );
    }
    Finding::new(Level::Ok, "etcd", message)
}

fn not_started(member: &Member) -> Finding {
    let subject = format!("etcd {}", member.peer_urls.join(", "));
    let message = "has never started; run `capstan join` on that node again, or remove the member";
    Finding::new(Level::Warning, subject, message)
}

/// Judges the status of one member.
pub(super) fn judge(subject: String, member: &Member, status: &MemberStatus) -> Finding {
    if !status.has_leader {
        return Finding::new(Level::Error, subject, "knows no leader; do most of the members run?");
    }
    if !status.errors.is_empty() {
        let message =
            format!("reports {}; see the documentation of etcd about alarms", status.errors.join(", "));
        return Finding::new(Level::Error, subject, message);
    }
    if member.is_learner {
        return Finding::new(Level::Warning, subject, "is a learner; run `capstan join` on its node again");
    }
    let mib = status.size >> 20;
    if status.size > LARGE {
        let message = format!("has a database of {mib} MiB; defragment it with `capstan storage defrag`");
        return Finding::new(Level::Warning, subject, message);
    }
    if !status.has_sound_progress {
        let message = format!(
            "has version {}; with 3.5.13 or later, consistent reads come from memory",
            status.version
        );
        return Finding::new(Level::Warning, subject, message);
    }
    Finding::new(Level::Ok, subject, format!("version {}, {mib} MiB", status.version))
}
