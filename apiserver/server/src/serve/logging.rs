//! Log of the process: level, format and colours.

use std::io::IsTerminal;
use std::str::FromStr;

use anyhow::{Context, bail};
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

use crate::config::ServerConfiguration;

/// Log targets that are limited at any configured level. The name of a target is its begin.
///
/// Some lines can have credentials: the OpenStack SDK logs every request with its headers, and the provider logs the calls
/// itself. The client of Kubernetes logs the bodies of errors: those of a webhook can quote the token that it was sent.
/// It also logs each failed connection as an error, without the address: one line per second while a host is down. The
/// callers log the change of the state, and the reason.
const LIMITED: [(&str, LevelFilter); 3] = [
    ("openstack_sdk", LevelFilter::WARN),
    ("kube_client", LevelFilter::INFO),
    ("kube_client::client::builder", LevelFilter::OFF),
];

/// Starts the log.
///
/// # Errors
/// `logging.level` that is neither a level nor a filter.
pub(super) fn start(configuration: &ServerConfiguration) -> anyhow::Result<()> {
    let filter = filter(configuration.logging.level.as_deref().unwrap_or("info"))?.with_targets(LIMITED);
    let colours = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    let lines = tracing_subscriber::fmt::layer().with_writer(std::io::stderr).with_ansi(colours);
    let log = tracing_subscriber::registry().with(filter);
    match configuration.logging.format.as_deref() {
        Some("json") => log.with(lines.json()).init(),
        _ => log.with(lines).init(),
    }
    Ok(())
}

/// Parses a level, or a filter with levels of targets. A word that is no level is the name of a target. Without a level for
/// the others, all their lines would be lost without an error.
fn filter(text: &str) -> anyhow::Result<Targets> {
    let parts: Vec<&str> = text.split(',').map(str::trim).collect();
    let is_level = |part: &str| LevelFilter::from_str(part).is_ok();
    let has_level = parts.iter().any(|part| is_level(part));
    if let Some(bad) = parts.iter().find(|part| !has_level && !part.contains('=')) {
        bail!(
            "logging.level: {bad:?} is not a level; use error, warn, info, debug or trace, or a filter such as \
             info,apiserver_http=debug"
        );
    }
    Targets::from_str(&parts.join(","))
        .with_context(|| format!("logging.level: {text:?} is not a level or filter"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_no_level_is_refused_instead_of_losing_all_lines() {
        for good in ["info", "WARN", "off", "info,capstan=debug", "kube_client=off", "info,apiserver_http"] {
            assert!(filter(good).is_ok(), "{good}");
        }
        for bad in ["warning", "verbose", "verbose,kube_client=off", "info,apiserver_http=verbose"] {
            let error = filter(bad).unwrap_err().to_string();
            assert!(error.starts_with("logging.level: "), "{error}");
        }
    }

    #[test]
    fn spaces_around_the_parts_of_a_filter_are_not_part_of_names() {
        let expected = filter("info,apiserver_http=debug").unwrap();
        assert_eq!(filter(" info, apiserver_http=debug ").unwrap(), expected);
    }
}
