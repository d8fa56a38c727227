//! Certificate that a login keeps in a file of the user.

use std::fs::File;
use std::path::PathBuf;

use jiff::Timestamp;

use crate::commands::login::{ClientCertificate, state_file};
use crate::error::Failure;

/// File with the certificate of one login, and its key.
pub(super) struct Kept {
    file: PathBuf,
    content: Option<ClientCertificate>,
    /// Lock of the file, until this value is dropped.
    _lock: Option<File>,
}

impl Kept {
    /// Finds the file. A file that cannot be read is as good as none.
    pub(super) fn find(of: &[&str]) -> Result<Self, Failure> {
        Ok(Self::at(state_file::path("cert", of)?))
    }

    fn at(file: PathBuf) -> Self {
        let text = std::fs::read(&file).unwrap_or_default();
        Self { content: serde_json::from_slice(&text).ok(), file, _lock: None }
    }

    /// Waits until no other command requests this certificate, and reads the file again: a person approves one request for
    /// all commands.
    ///
    /// # Errors
    /// The directory of the file cannot be written.
    pub(super) fn locked(self) -> Result<Self, Failure> {
        let lock = state_file::locked(&self.file)?;
        Ok(Self { _lock: Some(lock), ..Self::at(self.file) })
    }

    /// Returns the certificate if it is good until then.
    pub(super) fn certificate(&self, until: Timestamp) -> Option<ClientCertificate> {
        self.content.as_ref().filter(|content| until < content.renew_at).cloned()
    }

    /// Writes the file, which only its user can read.
    pub(super) fn write(&self, certificate: &ClientCertificate) -> Result<(), Failure> {
        state_file::write(&self.file, certificate)
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_key_belongs_to_its_user_and_a_certificate_is_used_until_its_end() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("cert").join("a");
        let [before, end] = ["2030-01-01T00:00:00Z", "2030-01-08T00:00:00Z"]
            .map(|time| -> Timestamp { time.parse().unwrap() });
        assert!(Kept::at(file.clone()).certificate(before).is_none());
        let held = ClientCertificate { certificate: "C".to_owned(), key: "K".to_owned(), renew_at: end };
        Kept::at(file.clone()).locked().unwrap().write(&held).unwrap();
        let kept = Kept::at(file.clone());
        assert_eq!(kept.certificate(before).unwrap().key, "K");
        assert!(kept.certificate(end).is_none());
        for (path, expected) in [(file.as_path(), 0o600), (file.parent().unwrap(), 0o700)] {
            assert_eq!(std::fs::metadata(path).unwrap().permissions().mode() & 0o777, expected);
        }
        std::fs::write(&file, "{").unwrap();
        assert!(Kept::at(file).certificate(before).is_none());
    }
}
