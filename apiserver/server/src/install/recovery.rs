//! Recovery key: the key that encrypts Secrets, as a text for paper or a safe.

use std::path::Path;

use anyhow::{Context, bail};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

use crate::{encryption, pki};

/// First part of a recovery key: the version of its form.
const FORM: &str = "capr1.";

/// Creates the file with the encryption key, from a recovery key or with a new key. Returns the recovery key.
///
/// # Errors
/// A file that has no recovery key, or that cannot be written.
pub(super) fn create(data: &Path, given: Option<&Path>) -> anyhow::Result<String> {
    let key = match given {
        Some(path) => parse(&pki::read(path)?).with_context(|| path.display().to_string())?,
        None => encryption::new_key()?,
    };
    pki::write_private(&data.join("encryption.yaml"), &encryption::with_key(&key))?;
    Ok(format!("{FORM}{}", URL_SAFE_NO_PAD.encode(key)))
}

/// Checks that the file with the encryption key has the key of a recovery key: it stays as it is.
///
/// # Errors
/// Another key, or a file that has no recovery key.
pub(super) fn check(data: &Path, given: &Path) -> anyhow::Result<()> {
    let key = parse(&pki::read(given)?).with_context(|| given.display().to_string())?;
    let path = data.join("encryption.yaml");
    if !pki::read(&path)?.contains(&STANDARD.encode(key)) {
        bail!(
            "--recovery-key-file: {} has another key that encrypts Secrets. `capstan reset` removes it, with all objects",
            path.display()
        );
    }
    Ok(())
}

/// Parses a recovery key. The error does not repeat it.
///
/// # Errors
/// A text that is no recovery key.
pub(crate) fn parse(text: &str) -> anyhow::Result<[u8; 32]> {
    let decoded = text.trim().strip_prefix(FORM).and_then(|rest| URL_SAFE_NO_PAD.decode(rest).ok());
    match decoded.and_then(|bytes| bytes.try_into().ok()) {
        Some(key) => Ok(key),
        None => bail!("has no recovery key, which begins with {FORM}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_recovery_key_makes_the_same_encryption_key_again() {
        let directory = tempfile::tempdir().unwrap();
        let [one, other] = ["one", "other"].map(|name| directory.path().join(name));
        for data in [&one, &other] {
            std::fs::create_dir(data).unwrap();
        }
        let key = create(&one, None).unwrap();
        let file = directory.path().join("key");
        std::fs::write(&file, format!("{key}\n")).unwrap();
        assert_eq!(create(&other, Some(&file)).unwrap(), key);
        let read = |data: &Path| pki::read(&data.join("encryption.yaml")).unwrap();
        assert_eq!(read(&one), read(&other));
        encryption::load(None, &other).unwrap();
        check(&other, &file).unwrap();
        let third = directory.path().join("third");
        std::fs::create_dir(&third).unwrap();
        create(&third, None).unwrap();
        let error = check(&third, &file).unwrap_err().to_string();
        assert!(error.starts_with("--recovery-key-file: "), "{error}");
        std::fs::write(&file, "capr1.hunter2").unwrap();
        let error = format!("{:#}", create(&other, Some(&file)).unwrap_err());
        assert!(error.contains("recovery key") && !error.contains("hunter2"), "{error}");
    }
}
