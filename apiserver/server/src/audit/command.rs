//! Commands `capstan audit verify` and `capstan audit key`.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;

use anyhow::{Context, bail};
use apiserver_http::ChainKey;

use super::checkpoints::{self, StoredLinks};
use super::key::{self, AuditKey};
use super::verifier::{Verified, Verifier};
use crate::backup::{self, Setup};
use crate::cli::{AuditCommand, AuditVerifyArguments};
use crate::output;

/// Most lines of one sort that are printed. After many, the first ones say the most.
const SHOWN: usize = 100;

/// Runs a command about the audit log.
///
/// # Errors
/// A file or a store that cannot be read; lines that were changed, removed or inserted.
pub(crate) fn run(command: &AuditCommand) -> anyhow::Result<()> {
    match command {
        AuditCommand::Verify(arguments) => verify(arguments),
        AuditCommand::Key(arguments) => key::create(&arguments.file),
    }
}

fn verify(arguments: &AuditVerifyArguments) -> anyhow::Result<()> {
    let setup = Setup::load(&arguments.store)?;
    let configured = setup.configuration.audit.chain.key_file.as_deref();
    let path = AuditKey::path(arguments.key_file.as_deref().or(configured), &setup.data);
    let key = AuditKey::read(&path)?;
    // Before the files: these then have the line of each checkpoint.
    let stored = if arguments.without_checkpoints {
        StoredLinks::default()
    } else {
        backup::block_on(read(&setup, &key, &arguments.replica))?
    };
    let verified = verify_files(key.chain(), &stored, &arguments.files)?;
    output::print(&describe(&verified, &stored, arguments.files.len()))?;
    match verified.findings.len() + stored.forged.len() {
        0 => Ok(()),
        count => bail!("the audit log is not as the server wrote it; findings: {count}"),
    }
}

/// Reads the checkpoints of the replicas, or of the only one with this key.
async fn read(setup: &Setup, key: &AuditKey, given: &[String]) -> anyhow::Result<StoredLinks> {
    let store = setup.open().await.map_err(name_other_way)?;
    let store = store.as_ref();
    let replicas = if given.is_empty() { checkpoints::replicas(store, key).await? } else { given.to_vec() };
    if given.is_empty() && replicas.len() > 1 {
        bail!(
            "several replicas have checkpoints of this audit key: {}. Name the one that wrote the files with --replica",
            replicas.join(", ")
        );
    }
    let mut stored = StoredLinks::default();
    for replica in &replicas {
        stored.read(store, key, replica, 0).await?;
    }
    Ok(stored)
}

/// Names the way without the store in the error about one that a server has open.
fn name_other_way(error: anyhow::Error) -> anyhow::Error {
    let way = "the checkpoints are in the store: stop the server, or give --without-checkpoints, which does not find \
               lines that are missing at the end";
    if backup::is_in_use(&error) { error.context(way) } else { error }
}

/// Verifies files, the oldest first.
fn verify_files(key: &ChainKey, stored: &StoredLinks, files: &[PathBuf]) -> anyhow::Result<Verified> {
    let mut verifier = Verifier::new(key, &stored.links);
    for path in files {
        let unreadable = || format!("{}: cannot be read", path.display());
        let mut reader = BufReader::new(File::open(path).with_context(unreadable)?);
        verifier.begin(&path.display().to_string());
        let mut line = Vec::new();
        while reader.read_until(b'\n', &mut line).with_context(unreadable)? > 0 {
            verifier.line(&line);
            line.clear();
        }
    }
    Ok(verifier.end())
}

/// Returns the findings and a summary, for people.
fn describe(verified: &Verified, stored: &StoredLinks, files: usize) -> String {
    let mut text = String::new();
    add(&mut text, verified.notes.iter().map(|note| format!("note: {note}")));
    let forged = |key: &String| format!("{key}: is no checkpoint of this replica with this audit key");
    add(&mut text, stored.forged.iter().map(forged));
    add(&mut text, verified.findings.iter().map(ToString::to_string));
    let _ = write!(text, "lines: {}, files: {files}, ", verified.lines);
    let _ = match verified.newest {
        Some(time) => {
            writeln!(text, "checkpoints that agree: {}, the newest of {time}", verified.agreed)
        }
        None => writeln!(text, "no checkpoint: lines that are missing at the end are not found"),
    };
    text
}

/// Adds the first of these lines, and the number of the others.
fn add(text: &mut String, lines: impl ExactSizeIterator<Item = String>) {
    let more = lines.len().saturating_sub(SHOWN);
    for line in lines.take(SHOWN) {
        let _ = writeln!(text, "{line}");
    }
    if more > 0 {
        let _ = writeln!(text, "and {more} more");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn am_12_of_many_findings_the_first_and_the_number_of_the_others_are_printed() {
        let forged = (0..SHOWN + 5).map(|number| format!("/capstan/audit/a/{number}")).collect();
        let text = describe(&Verified::default(), &StoredLinks { forged, ..StoredLinks::default() }, 1);
        assert_eq!(text.matches("is no checkpoint").count(), SHOWN);
        assert!(
            text.contains("/99: is no checkpoint") && text.contains("\nand 5 more\nlines: 0, "),
            "{text}"
        );
    }
}
