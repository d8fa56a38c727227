//! Checks of the host cluster, by the metrics of the running server: its state, the credential for it, and the copy of its
//! permissions.

use super::{Finding, Level, files};
use crate::config::Host;

/// Age of a copy above which something prevents its updates while the host is up: the keys of tokens are read each hour.
/// Unit: seconds.
const OLD: i64 = 2 * 3600;

const PERMISSIONS: &str = "permissions of the host cluster";

/// Judges the host cluster of a server with these metrics.
pub(super) fn judge(text: &str, host: Option<&Host>, now: i64) -> Vec<Finding> {
    let Some(host) = host else { return Vec::new() };
    let mut findings = vec![state(text)];
    let end = value(text, "capstan_host_credential_end_timestamp_seconds").unwrap_or_default();
    if end > 0 {
        findings.push(files::of_end("client certificate in the host cluster".to_owned(), end, now));
    }
    if host.is_mirrored() {
        findings.extend(["permissions", "keys"].map(|what| copy(text, what)));
        findings.extend(disagreements(text));
    } else {
        let message = "are not copied; while the host is down, its users get 503 on the direct endpoint. Set \
            host.permissions: mirror to keep their rights";
        findings.push(Finding::new(Level::Ok, PERMISSIONS, message));
    }
    findings
}

fn state(text: &str) -> Finding {
    let state = text.lines().find_map(|line| {
        let (label, value) = line.strip_prefix("capstan_host_state{state=\"")?.split_once("\"} ")?;
        (value.trim() == "1").then_some(label)
    });
    let remedy = match state {
        Some("up") => return Finding::new(Level::Ok, "host cluster", "is in the state up"),
        Some("other") => ": its kube-system namespace has another uid; see host.acceptNewIdentity",
        Some("down") => ": check its kube-apiserver, and the kubeconfig host.kubeconfig",
        _ => "",
    };
    let state = state.unwrap_or("unknown");
    Finding::new(Level::Warning, "host cluster", format!("is in the state {state}{remedy}"))
}

/// Judges the age of a copy.
fn copy(text: &str, what: &str) -> Finding {
    let subject = format!("copy of the host cluster's {what}");
    let age = value(text, &format!("capstan_host_mirror_age_seconds{{what=\"{what}\"}}"));
    match age.filter(|age| *age >= 0) {
        None => {
            let message = "was never made; apply the output of `capstan host manifests --mirror` to the host";
            Finding::new(Level::Warning, subject, message)
        }
        Some(age) if age > OLD => {
            let hours = age / 3600;
            Finding::new(Level::Warning, subject, format!("is {hours} h old; see the log of the server"))
        }
        Some(age) => Finding::new(Level::Ok, subject, format!("is {age} s old")),
    }
}

/// Reports a host that denies what its roles allow.
fn disagreements(text: &str) -> Option<Finding> {
    let wider = value(text, "capstan_host_mirror_disagreements_total{kind=\"wider\"}").unwrap_or_default();
    (wider > 0).then(|| {
        let message = format!(
            "do not say all: the host has denied {wider} requests that they allow. The copy is not used for these users, \
             and after more than ten in an hour for no user; see host.mirror.acceptedAt"
        );
        Finding::new(Level::Warning, PERMISSIONS, message)
    })
}

/// Returns the whole number of a metric.
pub(super) fn value(text: &str, name: &str) -> Option<i64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    line.split('.').next()?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(text: &str) -> Host {
        serde_saphyr::from_str(text).unwrap()
    }

    fn levels(text: &str, host: &Host, now: i64) -> Vec<Level> {
        judge(text, Some(host), now).into_iter().map(|it| it.level).collect()
    }

    #[test]
    fn a_host_that_is_not_up_and_a_credential_that_ends_are_reported() {
        let asking = host("kubeconfig: a");
        let state = |name: &str| format!("capstan_host_state{{state=\"{name}\"}} 1\n");
        assert_eq!(levels(&state("up"), &asking, 0), [Level::Ok, Level::Ok]);
        for name in ["slow", "down", "probation", "other"] {
            assert_eq!(levels(&state(name), &asking, 0), [Level::Warning, Level::Ok], "{name}");
        }
        assert_eq!(levels("", &asking, 0)[0], Level::Warning);
        let text = state("up") + "capstan_host_credential_end_timestamp_seconds 1000\n";
        assert_eq!(levels(&text, &asking, 1001), [Level::Ok, Level::Error, Level::Ok]);
        assert!(judge(&text, None, 0).is_empty(), "a server without a host");
        let found = judge(&text, Some(&asking), 0);
        assert!(found[2].message.contains("host.permissions: mirror"), "{found:?}");
    }

    #[test]
    fn a_copy_that_is_missing_old_or_too_wide_is_reported() {
        let mirrored = host("{kubeconfig: a, permissions: mirror}");
        let text = |permissions: i64, keys: i64, wider: i64| {
            format!(
                "capstan_host_state{{state=\"up\"}} 1\n\
                 capstan_host_mirror_age_seconds{{what=\"permissions\"}} {permissions}\n\
                 capstan_host_mirror_age_seconds{{what=\"keys\"}} {keys}\n\
                 capstan_host_mirror_disagreements_total{{kind=\"wider\"}} {wider}\n"
            )
        };
        let (good, bad) = (Level::Ok, Level::Warning);
        for (permissions, keys, wider, expected) in [
            (0, 3600, 0, vec![good, good, good]),
            (-1, -1, 0, vec![good, bad, bad]),
            (OLD + 1, 0, 0, vec![good, bad, good]),
            (0, 0, 1, vec![good, good, good, bad]),
        ] {
            assert_eq!(
                levels(&text(permissions, keys, wider), &mirrored, 0),
                expected,
                "{permissions} {keys}"
            );
        }
    }
}
