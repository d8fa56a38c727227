//! State directory of one running instance.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// State directory, locked against other instances until this is dropped.
pub(crate) struct Home {
    directory: PathBuf,
    _lock: File,
}

impl Home {
    /// Locks the directory, and creates it if it is absent. With `fresh`, all earlier state is removed.
    pub(crate) fn take(directory: &Path, fresh: bool) -> anyhow::Result<Self> {
        let shown = directory.display();
        std::fs::create_dir_all(directory).with_context(|| format!("{shown} cannot be created"))?;
        let path = directory.join("lock");
        let lock = File::create(&path).with_context(|| format!("{shown} cannot be written to"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                bail!(
                    "another `cargo xtask dev` uses {shown}. Stop it first: each instance needs a directory of its own"
                )
            }
            Err(TryLockError::Error(error)) => {
                return Err(error).with_context(|| format!("{} cannot be locked", path.display()));
            }
        }
        if fresh {
            empty(directory, &path)?;
        }
        Ok(Self { directory: directory.to_owned(), _lock: lock })
    }

    /// Returns the path of a file in the directory.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Returns the path of a file as a user types it in the checkout.
    pub(crate) fn shown(&self, name: &str) -> String {
        let path = self.path(name);
        let here = std::env::current_dir().unwrap_or_default();
        path.strip_prefix(here).unwrap_or(&path).display().to_string()
    }
}

/// Removes everything except the lock file.
fn empty(directory: &Path, lock: &Path) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(directory)? {
        let path = entry?.path();
        if path == lock {
            continue;
        }
        let removed =
            if path.is_dir() { std::fs::remove_dir_all(&path) } else { std::fs::remove_file(&path) };
        removed.with_context(|| format!("{} cannot be removed", path.display()))?;
    }
    Ok(())
}

/// Fails if the address is in use.
pub(crate) fn is_free(address: &str, advice: &str) -> anyhow::Result<()> {
    match std::net::TcpListener::bind(address) {
        Ok(_) => Ok(()),
        Err(error) => bail!(
            "the server cannot listen on {address}: {error}. Stop the process that uses the port; {advice}"
        ),
    }
}
