//! Steps of a command: each prints one line, and is skipped if its result is there.

use std::path::Path;

use anyhow::Context;

use super::rendered;
use crate::{output, pki};

/// Steps of one command.
#[derive(Debug, Default)]
pub(crate) struct Steps {
    /// Number of steps that changed something.
    pub(crate) changes: usize,
}

impl Steps {
    /// Prints that a step has changed something.
    pub(crate) fn changed(&mut self, verb: &str, text: &str) -> anyhow::Result<()> {
        self.changes += 1;
        line(verb, text)
    }

    /// Prints that the result of a step was there.
    pub(crate) fn kept(text: &str) -> anyhow::Result<()> {
        line("kept", text)
    }

    /// Creates something, unless it exists.
    ///
    /// # Errors
    /// The error of `create`.
    pub(crate) fn create(
        &mut self,
        path: &Path,
        purpose: &str,
        create: impl FnOnce() -> anyhow::Result<()>,
    ) -> anyhow::Result<bool> {
        let text = format!("{}  {purpose}", path.display());
        if path.exists() {
            Self::kept(&text)?;
            return Ok(false);
        }
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)
                .with_context(|| format!("{}: cannot be created; run this as root", parent.display()))?;
        }
        create()?;
        self.changed("created", &text)?;
        Ok(true)
    }

    /// Writes a file that only its owner can read, unless it exists: an administrator may have changed it.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(crate) fn file(&mut self, path: &Path, purpose: &str, text: &str) -> anyhow::Result<bool> {
        self.create(path, purpose, || pki::write_private(path, text))
    }

    /// Writes the configuration, also over that of the package, which no administrator has changed.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(crate) fn configuration(&mut self, path: &Path, purpose: &str, text: &str) -> anyhow::Result<bool> {
        let is_default = std::fs::read_to_string(path).is_ok_and(|found| found == rendered::DEFAULT);
        if !is_default {
            return self.file(path, purpose, text);
        }
        pki::write_private(path, text)?;
        self.changed("replaced", &format!("{}  {purpose}", path.display()))?;
        Ok(true)
    }

    /// Writes a file that all users can read, unless it exists.
    ///
    /// # Errors
    /// A file that cannot be written.
    pub(crate) fn public_file(&mut self, path: &Path, purpose: &str, text: &str) -> anyhow::Result<bool> {
        let write =
            || std::fs::write(path, text).with_context(|| format!("{}: cannot be written", path.display()));
        self.create(path, purpose, write)
    }

    /// Removes a file or a directory, if it exists.
    ///
    /// # Errors
    /// A file that cannot be removed.
    pub(crate) fn remove(&mut self, path: &Path) -> anyhow::Result<()> {
        let removed = match std::fs::symlink_metadata(path) {
            Err(_) => return Ok(()),
            Ok(found) if found.is_dir() => std::fs::remove_dir_all(path),
            Ok(_) => std::fs::remove_file(path),
        };
        removed.with_context(|| format!("{}: cannot be removed", path.display()))?;
        self.changed("removed", &path.display().to_string())
    }
}

/// Prints a line of a step.
pub(crate) fn line(verb: &str, text: &str) -> anyhow::Result<()> {
    Ok(output::print(&format!("{verb:<9} {text}\n"))?)
}
