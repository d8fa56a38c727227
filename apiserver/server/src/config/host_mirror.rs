//! Settings of the mirror of the host's permissions.

use std::time::Duration;

use anyhow::{anyhow, bail};
use apiserver_host::Bounds;
use jiff::Timestamp;
use serde::Deserialize;

use crate::cli;

/// Difference of two clocks that is no error.
const CLOCK_DIFFERENCE: Duration = Duration::from_secs(5 * 60);

/// Source of the permissions of the host's users.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum Permissions {
    /// The host decides about each request.
    #[default]
    Ask,
    /// The host decides, and a copy of its RBAC does while the host does not answer.
    Mirror,
}

/// Use of the admission configurations of the host: its webhooks and policies.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum HostAdmission {
    /// They do not apply to Capstan's kinds.
    #[default]
    Ignore,
    /// They apply, and copies of them do while the host does not answer.
    Mirror,
}

/// Settings of the mirror.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub(crate) struct MirrorSettings {
    /// Longest age of the permissions that allow reads. Default: 24h.
    pub(crate) read: Option<String>,
    /// Longest age of the permissions that allow writes. Default: 4h.
    pub(crate) write: Option<String>,
    /// Longest age of the permissions that allow verbs of machines. Default: 4h.
    pub(crate) act: Option<String>,
    /// Time before which disagreements with the host do not count. Default: none.
    pub(crate) accepted_at: Option<String>,
}

impl MirrorSettings {
    pub(super) fn check(&self) -> anyhow::Result<()> {
        for (name, given) in [("read", &self.read), ("write", &self.write), ("act", &self.act)] {
            if let Some(text) = given {
                let bound =
                    cli::duration_or_none(text).map_err(|error| anyhow!("host.mirror.{name}: {error}"))?;
                if bound > Bounds::default().read {
                    bail!(
                        "host.mirror.{name}: must be at most 24h: permissions that old are not those of the host"
                    );
                }
            }
        }
        let Some(text) = &self.accepted_at else { return Ok(()) };
        let Ok(accepted) = text.parse::<Timestamp>() else {
            bail!("host.mirror.acceptedAt: {text:?} is not a time such as 2026-01-31T12:00:00Z");
        };
        if accepted > Timestamp::now() + CLOCK_DIFFERENCE {
            bail!(
                "host.mirror.acceptedAt: {text:?} is in the future, so that no disagreement would count: set it to now"
            );
        }
        Ok(())
    }

    /// Returns the bounds.
    pub(crate) fn bounds(&self) -> Bounds {
        let defaults = Bounds::default();
        let of = |given: &Option<String>, default: Duration| {
            given.as_deref().and_then(|text| cli::duration_or_none(text).ok()).unwrap_or(default)
        };
        let [read, write, act] =
            [(&self.read, defaults.read), (&self.write, defaults.write), (&self.act, defaults.act)]
                .map(|(given, default)| of(given, default));
        Bounds { read, write, act }
    }

    /// Returns the time before which disagreements do not count.
    pub(crate) fn accepted_at(&self) -> Timestamp {
        self.accepted_at.as_deref().and_then(|text| text.parse().ok()).unwrap_or(Timestamp::UNIX_EPOCH)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_can_be_shorter_and_not_longer() {
        let read = |text: &str| serde_saphyr::from_str::<MirrorSettings>(text).unwrap();
        let short = read("{read: 1h, act: 0s, acceptedAt: '2026-01-31T12:00:00Z'}");
        short.check().unwrap();
        let expected = [3600, 4 * 3600, 0].map(Duration::from_secs);
        let Bounds { read: reads, write, act } = short.bounds();
        assert_eq!([reads, write, act], expected);
        assert!(short.accepted_at() > Timestamp::UNIX_EPOCH);
        for (bad, field) in [
            ("read: 25h", "host.mirror.read: "),
            ("write: soon", "host.mirror.write: "),
            ("acceptedAt: now", "host.mirror.acceptedAt: "),
            ("acceptedAt: '2999-01-31T12:00:00Z'", "host.mirror.acceptedAt: "),
        ] {
            let error = read(bad).check().unwrap_err().to_string();
            assert!(error.starts_with(field), "{error}");
        }
    }
}
