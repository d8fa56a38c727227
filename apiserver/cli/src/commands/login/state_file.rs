//! Files of the user in which logins keep credentials for the next command.

use std::fs::{DirBuilder, File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use serde::Serialize;

use super::file_failure;
use super::random::hash;
use crate::error::{ExitCode, Failure};
use crate::output;

/// Returns the path of the file of a login. `of` are the settings by which it differs from other logins of `command`.
pub(super) fn path(command: &str, of: &[&str]) -> Result<PathBuf, Failure> {
    let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
    let state = variable("XDG_STATE_HOME").map(PathBuf::from);
    let state = state.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".local/state")));
    let state = state.ok_or_else(|| {
        let summary =
            format!("login {command}: HOME is not set, so there is no place to keep the credential");
        Failure::new(ExitCode::Failed, summary)
    })?;
    Ok(state.join("capstan").join(command).join(hash(&of.join("\n"))))
}

/// Waits until no other command logs in with this file, and takes its lock.
///
/// # Errors
/// The directory of the file cannot be written.
pub(super) fn locked(file: &Path) -> Result<File, Failure> {
    lock(file).map_err(|error| file_failure("lock", file, &error))
}

/// Writes the file, which only its user can read. Another command reads the old content or the new one.
pub(super) fn write(file: &Path, content: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_vec(content).map_err(|error| file_failure("write", file, &error))?;
    let new = file.with_extension("new");
    let written = output::write_private(&new, &text).and_then(|()| std::fs::rename(&new, file));
    written.map_err(|error| file_failure("write", file, &error))
}

/// Creates the directory of a file for this user alone, and takes the lock of the file. A file system without locks has
/// none to wait for.
fn lock(file: &Path) -> io::Result<File> {
    if let Some(directory) = file.parent() {
        DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    }
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false).mode(0o600);
    let lock = options.open(file.with_extension("lock"))?;
    if let Err(TryLockError::WouldBlock) = lock.try_lock() {
        output::note("Another command logs in already. Waiting for it.\n");
        let _ = lock.lock();
    }
    Ok(lock)
}
