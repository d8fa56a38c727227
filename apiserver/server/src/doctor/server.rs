//! Checks of the running server: its readiness, the host cluster, and its backups.

use jiff::Timestamp;

use super::{Finding, Level, Node, files};
use crate::local_server::LocalServer;

/// User of the command. Its certificate is made for the moment, with the CA of the node.
const USER: &str = "capstan-doctor";

/// Group that may read the metrics and the health checks, by a default binding.
const MONITORING: &str = "system:monitoring";

/// Age of the newest backup in intervals of the schedule, beyond which one is missing.
const INTERVALS: i64 = 2;

/// Age of a copy of the host's permissions that is worth a look: the default bound of writes is four hours. The alert
/// `CapstanHostMirrorOld` has the same. Unit: seconds.
const OLD_PERMISSIONS: i64 = 3 * 3600;

/// The same of the other copies of the host, whose bound is 24 hours. The alert `CapstanMirrorNearBound` has the same.
const OLD_COPY: i64 = 20 * 3600;

/// Runs the checks.
pub(super) async fn check(node: &Node) -> Vec<Finding> {
    let client = match LocalServer::new(&node.configuration, &node.data, USER, MONITORING) {
        Ok(client) => client,
        Err(error) => return vec![Finding::new(Level::Error, "server", format!("{error:#}"))],
    };
    let ready = match client.get("/readyz?verbose").await {
        Ok((code, text)) => readiness(client.url(), code, &text),
        Err(error) => {
            let message = format!("does not answer ({error:#}); is it running? See `journalctl -u capstan`");
            return vec![Finding::new(Level::Error, client.url(), message)];
        }
    };
    let mut findings = ready;
    match client.get("/metrics").await {
        Ok((200, text)) => findings.extend(metrics(&text, interval(node), Timestamp::now().as_second())),
        Ok((code, _)) => {
            findings.push(Finding::new(Level::Warning, "metrics", format!("cannot be read: code {code}")));
        }
        Err(error) => {
            findings.push(Finding::new(Level::Warning, "metrics", format!("cannot be read: {error:#}")));
        }
    }
    findings
}

/// Judges the response of `/readyz?verbose`. A failed check has a line of its own.
pub(super) fn readiness(url: &str, code: u16, text: &str) -> Vec<Finding> {
    if code == 200 {
        return vec![Finding::new(Level::Ok, url, "is ready")];
    }
    let failed: Vec<&str> =
        text.lines().filter_map(|line| line.strip_prefix("[-]")?.split_whitespace().next()).collect();
    let message = match (code, failed.is_empty()) {
        (401 | 403, _) => format!(
            "refuses a certificate of this machine's CA: code {code}; does it use another CA, or another clock?"
        ),
        (_, true) => format!("is not ready: code {code}; see its log"),
        (_, false) => format!("is not ready: {}; see docs/running.md", failed.join(", ")),
    };
    vec![Finding::new(Level::Error, url, message)]
}

/// Returns the age of a copy of the host that is worth a look, in seconds, and the consequence of a higher one.
fn limit(what: &str) -> (i64, &'static str) {
    match what {
        "permissions" => (OLD_PERMISSIONS, "after `host.mirror.write` users cannot write"),
        _ => (OLD_COPY, "after 24 hours it is not used, and requests that need it get 503"),
    }
}

/// Judges the copies of the host: its permissions, keys, webhooks and policies, quotas, and parameters. A server without a
/// mirror has none.
fn mirror(text: &str) -> Vec<Finding> {
    let ages = text.lines().filter_map(|line| {
        let (what, age) = line.strip_prefix("capstan_host_mirror_age_seconds{what=\"")?.split_once("\"} ")?;
        Some((what, age.split('.').next()?.trim().parse::<i64>().ok()?))
    });
    let judge = |(what, age): (&str, i64)| {
        let (subject, (limit, consequence)) = (format!("mirror of the host's {what}"), limit(what));
        match age {
            age if age < 0 => {
                Finding::new(Level::Warning, subject, "was never complete; is the host reachable?")
            }
            age if age > limit => {
                let message = format!("is {} min old; {consequence}", age / 60);
                Finding::new(Level::Warning, subject, message)
            }
            age => Finding::new(Level::Ok, subject, format!("is {age} s old")),
        }
    };
    ages.map(judge).collect()
}

/// Returns the consequence of a host without a mirror. That is a choice of the operator, and no defect.
fn unmirrored(text: &str) -> Option<Finding> {
    let message = "are not mirrored, so its users and the tokens of its service accounts get 503 on the direct endpoint \
        while it does not answer; see host.permissions in docs/configuration.md";
    let is_mirrored = text.contains("capstan_host_mirror_age_seconds{what=\"permissions\"}");
    (!is_mirrored).then(|| Finding::new(Level::Ok, "permissions of the host cluster", message))
}

/// Judges the clock of the machine by the times in the store.
fn clock(text: &str) -> Option<Finding> {
    let behind = value(text, "capstan_clock_behind_seconds").filter(|behind| *behind > 0)?;
    let message = format!(
        "is {behind} s behind a time in the store, so the server signs nothing; synchronize it with NTP, or see \
         clock.acceptedAt in docs/configuration.md"
    );
    Some(Finding::new(Level::Error, "clock", message))
}

/// Judges the certificates that the server uses, its CAs, and its client certificate in the host cluster.
fn certificates(text: &str, now: i64) -> Vec<Finding> {
    let of_server = text.lines().filter_map(|line| {
        let prefix = "capstan_certificate_end_timestamp_seconds{certificate=\"";
        let (name, end) = line.strip_prefix(prefix)?.split_once("\"} ")?;
        Some((format!("certificate {name} of the server"), end.trim().parse::<i64>().ok()?))
    });
    let in_host = value(text, "capstan_host_credential_end_timestamp_seconds").filter(|end| *end > 0);
    let in_host = in_host.map(|end| ("client certificate in the host cluster".to_owned(), end));
    let mut ends: Vec<(String, i64)> = of_server.chain(in_host).collect();
    ends.sort_unstable();
    ends.into_iter().map(|(subject, end)| files::of_end(subject, end, now)).collect()
}

/// Judges the metrics of the clock, of the certificates, of the host cluster and of the backups.
pub(super) fn metrics(text: &str, interval: Option<i64>, now: i64) -> Vec<Finding> {
    let mut findings = Vec::from_iter(clock(text));
    findings.extend(certificates(text, now));
    let state = text.lines().find_map(|line| {
        let (label, value) = line.strip_prefix("capstan_host_state{state=\"")?.split_once("\"} ")?;
        (value.trim() == "1").then_some(label)
    });
    if let Some(state) = state {
        let level = if state == "up" { Level::Ok } else { Level::Warning };
        findings.push(Finding::new(level, "host cluster", format!("is in the state {state}")));
        findings.extend(unmirrored(text));
    }
    findings.extend(mirror(text));
    findings.push(backups(text, interval, now));
    findings
}

/// Judges the age of the newest backup. The leader writes the backups. The other replicas have no time, or an old one of
/// their own term.
fn backups(text: &str, interval: Option<i64>, now: i64) -> Finding {
    let finding = |level, message: &str| Finding::new(level, "backups", message);
    let Some(interval) = interval else {
        return finding(Level::Warning, "are not scheduled; set backup.schedule in the configuration");
    };
    let leader = value(text, "capstan_leader");
    if leader == Some(0) {
        return finding(
            Level::Ok,
            "are scheduled; the leader writes them, and this server is not the leader",
        );
    }
    match value(text, "capstan_backup_last_success_timestamp_seconds").unwrap_or_default() {
        0 if leader == Some(1) => finding(
            Level::Warning,
            "this leader knows of none in at least one destination of the schedule; see its log",
        ),
        0 => finding(Level::Ok, "are scheduled; this server has written none since its start"),
        last if now - last > INTERVALS * interval => {
            let (age, unit) = match now - last {
                seconds if seconds < 2 * 3600 => (seconds / 60, "min"),
                seconds => (seconds / 3600, "h"),
            };
            finding(Level::Error, &format!("the newest one is {age} {unit} old; see the log of the leader"))
        }
        last => finding(Level::Ok, &format!("the newest one is {} min old", (now - last) / 60)),
    }
}

/// Returns the whole number of a metric without labels.
fn value(text: &str, name: &str) -> Option<i64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    line.split('.').next()?.trim().parse().ok()
}

/// Returns the interval of scheduled backups, in seconds.
fn interval(node: &Node) -> Option<i64> {
    let schedule = node.configuration.backup.schedule.as_ref()?;
    i64::try_from(schedule.interval().ok()?.as_secs()).ok()
}
