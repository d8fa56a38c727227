//! Files of certificates and keys.

use std::io::{ErrorKind, Write};
use std::path::Path;

use anyhow::Context;

/// Reads a text file. The error names the file.
pub(crate) fn read(path: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(path).map_err(|error| unreadable(path, error))
}

/// Returns the error of a file that cannot be read, with its name, and what to do if the user may not read it.
pub(crate) fn unreadable(path: &Path, error: std::io::Error) -> anyhow::Error {
    let advice = match error.kind() {
        ErrorKind::PermissionDenied => "; run the command as root, or as the owner of the file",
        _ => "",
    };
    anyhow::Error::new(error).context(format!("{}: cannot be read{advice}", path.display()))
}

/// Adds a text to the error of a file that does not exist. Another error says by itself what is wrong.
pub(crate) fn if_missing(error: anyhow::Error, text: impl FnOnce() -> String) -> anyhow::Error {
    let cause = error.downcast_ref::<std::io::Error>();
    let is_missing = cause.is_some_and(|cause| cause.kind() == ErrorKind::NotFound);
    if is_missing { error.context(text()) } else { error }
}

/// Creates a directory that only its owner can access.
pub(crate) fn private_directory(path: &Path) -> anyhow::Result<()> {
    let mut builder = std::fs::DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(path).with_context(|| {
        format!(
            "{}: cannot create the directory; run the command as root, or give a directory that you may write to",
            path.display()
        )
    })
}

/// Writes a file atomically. Only its owner can read it. A file that exists keeps its owner and the mode 0640: an
/// administrator may write one of the server.
pub(crate) fn write_private(path: &Path, text: &str) -> anyhow::Result<()> {
    let mut temporary = path.as_os_str().to_owned();
    temporary.push(".new");
    let write = || -> std::io::Result<()> {
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create(true).truncate(true);
        #[cfg(unix)]
        std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        let mut file = options.open(&temporary)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        keep_owner(&file, path)?;
        std::fs::rename(&temporary, path)
    };
    write().with_context(|| format!("{}: cannot be written", path.display()))
}

/// Gives a new file the owner of the one that it replaces. If the group of that one could read it, and no other user, so it
/// is with the new one: the server may be a member of the group.
fn keep_owner(new: &std::fs::File, replaced: &Path) -> std::io::Result<()> {
    use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
    let Ok(old) = std::fs::metadata(replaced) else { return Ok(()) };
    let own = new.metadata()?;
    if (own.uid(), own.gid()) != (old.uid(), old.gid()) {
        fchown(new, Some(old.uid()), Some(old.gid()))?;
    }
    if old.mode() & 0o777 == 0o640 {
        new.set_permissions(std::fs::Permissions::from_mode(0o640))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn a_replaced_file_stays_readable_for_its_group_and_for_no_other_user() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("encryption.yaml");
        for (before, after) in [(0o640, 0o640), (0o644, 0o600), (0o600, 0o600)] {
            std::fs::write(&path, "old").unwrap();
            std::fs::set_permissions(&path, std::fs::Permissions::from_mode(before)).unwrap();
            write_private(&path, "new").unwrap();
            assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, after, "{before:o}");
        }
    }

    #[test]
    fn a_file_that_exists_but_cannot_be_read_is_not_called_missing() {
        let path = Path::new("/data/installation.yaml");
        let error = |kind: ErrorKind| {
            let error = unreadable(path, std::io::Error::from(kind)).context("the record");
            format!("{:#}", if_missing(error, || "there is none".to_owned()))
        };
        let missing = error(ErrorKind::NotFound);
        assert!(missing.starts_with("there is none: the record: /data/installation.yaml: "), "{missing}");
        let denied = error(ErrorKind::PermissionDenied);
        assert!(denied.starts_with("the record: ") && denied.contains("run the command as root"), "{denied}");
    }
}
