//! The directory that holds all state, for one at a time.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// A directory that nobody else uses while this lives.
pub(crate) struct Home {
    directory: PathBuf,
    _lock: File,
}

impl Home {
    /// Takes the directory, making it where it is absent. `fresh`: empties it first.
    pub(crate) fn take(directory: &Path, fresh: bool) -> anyhow::Result<Self> {
        let shown = directory.display();
        std::fs::create_dir_all(directory).with_context(|| format!("{shown} cannot be made"))?;
        let path = directory.join("lock");
        let lock = File::create(&path).with_context(|| format!("{shown} cannot be written to"))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                bail!("another `cargo xtask dev` runs in {shown}. End it first; one directory holds one")
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

    /// A file in it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// A file in it, as one would type it from the checkout.
    pub(crate) fn shown(&self, name: &str) -> String {
        let path = self.path(name);
        let here = std::env::current_dir().unwrap_or_default();
        path.strip_prefix(here).unwrap_or(&path).display().to_string()
    }
}

/// Removes everything but the lock.
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

/// Fails when somebody serves on an address already.
pub(crate) fn is_free(address: &str, advice: &str) -> anyhow::Result<()> {
    match std::net::TcpListener::bind(address) {
        Ok(_) => Ok(()),
        Err(error) => bail!("{address} cannot be served on: {error}. Stop what has the port; {advice}"),
    }
}
