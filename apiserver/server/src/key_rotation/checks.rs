//! Conditions of the steps of a rotation. They are pure: each gets the replicas and the records.

use anyhow::bail;

use crate::replicas::Replica;

/// Checks that each live replica opens values of a key. Otherwise it could not read what others seal.
///
/// # Errors
/// Names the replicas.
pub(super) fn all_open(live: &[Replica], key: &str) -> anyhow::Result<()> {
    let lacking = named(live, |replica| !replica.keys.contains(key));
    if lacking.is_empty() {
        return Ok(());
    }
    bail!(
        "these replicas do not have the encryption key {key} yet: {lacking}. Copy the encryption configuration with the \
         key to them, and wait 40 seconds: they read it again while they run"
    )
}

/// Checks that each live replica seals new values with a key.
///
/// # Errors
/// Names the replicas.
pub(super) fn all_seal(live: &[Replica], key: &str) -> anyhow::Result<()> {
    let lagging = named(live, |replica| !replica.seals.contains(key));
    if lagging.is_empty() {
        return Ok(());
    }
    bail!(
        "these replicas do not seal new values with the encryption key {key} yet: {lagging}. A replica does so at most 40 \
         seconds after `capstan encryption promote`. One of an older release never does: upgrade it first"
    )
}

fn named(live: &[Replica], is_meant: impl Fn(&Replica) -> bool) -> String {
    let names: Vec<String> =
        live.iter().filter(|it| is_meant(it)).map(|it| format!("{} ({})", it.id, it.address)).collect();
    names.join(", ")
}

/// Selects the key to promote: the given one, or the only one that seals no value yet.
///
/// # Errors
/// A key that the configuration lacks; no key or several keys to select.
pub(super) fn select(
    given: Option<&str>,
    configured: &std::collections::BTreeSet<String>,
    recorded: &[String],
) -> anyhow::Result<String> {
    if let Some(given) = given {
        if !configured.contains(given) {
            bail!("the encryption configuration has no key {given}; it has: {}", list(configured.iter()));
        }
        return Ok(given.to_owned());
    }
    let new: Vec<&String> = configured.iter().filter(|key| !recorded.contains(key)).collect();
    match new.as_slice() {
        [only] => Ok((*only).clone()),
        [] => bail!(
            "the encryption configuration has no key that is new to the store. Run `capstan encryption add` first, or name \
             a key"
        ),
        several => bail!("name the key to promote: one of {}", list(several.iter().copied())),
    }
}

fn list<'a>(keys: impl Iterator<Item = &'a String>) -> String {
    keys.map(String::as_str).collect::<Vec<_>>().join(", ")
}
