//! Versions of the etcd members, and their features.

use etcd_client::{Client, Error};
use futures::future::join_all;

use crate::EtcdConfiguration;

/// Returns the versions of the members that answer.
///
/// # Errors
/// The first member's error, when none answers.
pub(crate) async fn of_members(configuration: &EtcdConfiguration) -> Result<Vec<String>, Error> {
    let queries = configuration.endpoints.iter().map(|endpoint| async move {
        let mut client = Client::connect([endpoint], Some(configuration.options())).await?;
        Ok::<_, Error>(client.status().await?.version().to_owned())
    });
    let mut versions = Vec::new();
    let mut failed = Vec::new();
    for (answer, endpoint) in join_all(queries).await.into_iter().zip(&configuration.endpoints) {
        match answer {
            Ok(version) => versions.push(version),
            Err(error) => failed.push((endpoint, error)),
        }
    }
    // When none answers, the caller reports it and retries.
    if !versions.is_empty() {
        for (endpoint, error) in &failed {
            tracing::warn!(%endpoint, %error, "etcd member does not answer");
        }
        return Ok(versions);
    }
    match failed.into_iter().next() {
        Some((_, error)) => Err(error),
        None => Ok(versions),
    }
}

/// Returns true if a progress report never overtakes an event: fixed in 3.4.31 and 3.5.13.
pub(crate) fn has_sound_progress(version: &str) -> bool {
    let mut numbers = version.split(['.', '-']).map(|part| part.parse::<u64>().unwrap_or_default());
    let mut next = || numbers.next().unwrap_or_default();
    match (next(), next(), next()) {
        (3, 4, patch) => patch >= 31,
        (3, 5, patch) => patch >= 13,
        (major, minor, _) => (major, minor) > (3, 5),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_with_faulty_progress_are_recognized() {
        let table = [
            ("3.4.23", false),
            ("3.4.31", true),
            ("3.5.12", false),
            ("3.5.13", true),
            ("3.6.0-rc.1", true),
            ("3.7.2", true),
            ("", false),
        ];
        for (version, expected) in table {
            assert_eq!(has_sound_progress(version), expected, "{version}");
        }
    }
}
