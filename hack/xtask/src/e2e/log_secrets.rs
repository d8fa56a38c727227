//! Search for secrets in the logs of a lab: keys of certificates and of encryption, passwords and tokens.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};

/// Shortest text that counts as a secret. A shorter one may be in a log by chance.
const SHORTEST: usize = 16;

/// Fields of files whose values are secrets: of encryption keys, kubeconfigs and clouds.yaml.
const FIELDS: [&str; 5] = ["secret", "client-key-data", "token", "password", "application_credential_secret"];

/// Folders of data that are no configuration and no log.
const DATA: [&str; 3] = ["etcd", "cache", "member"];

/// Returns an error if a log below a folder has a secret that a file below the folder has.
pub(super) fn absent(home: &Path) -> anyhow::Result<()> {
    let mut files = Vec::new();
    collect(home, &mut files)?;
    let (logs, others): (Vec<PathBuf>, Vec<PathBuf>) =
        files.into_iter().partition(|file| file.extension().is_some_and(|extension| extension == "log"));
    let mut secrets = BTreeMap::new();
    for file in others.iter().filter(|file| is_configuration(file)) {
        // A program may have removed its file since.
        let Ok(text) = fs::read_to_string(file) else { continue };
        secrets.extend(secrets_of(file, &text).into_iter().map(|secret| (secret, file.clone())));
    }
    for log in logs {
        let text = fs::read(&log).with_context(|| format!("{}", log.display()))?;
        let text = String::from_utf8_lossy(&text);
        let found = secrets.iter().find(|(secret, _)| text.contains(secret.as_str()));
        let found = found.map(|(_, file)| file.display().to_string());
        ensure!(found.is_none(), "{} has a secret of {}", log.display(), found.unwrap_or_default());
    }
    Ok(())
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    let Ok(entries) = fs::read_dir(folder) else { return Ok(()) };
    for entry in entries {
        let path = entry?.path();
        let is_data = path.file_name().is_some_and(|name| DATA.iter().any(|data| name == *data));
        if path.is_dir() && !is_data {
            collect(&path, files)?;
        } else if path.is_file() {
            files.push(path);
        }
    }
    Ok(())
}

fn is_configuration(file: &Path) -> bool {
    let extension = file.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
    ["key", "yaml", "kubeconfig", "conf"].contains(&extension)
}

/// Returns the secrets in a file: lines of private keys, and values of fields.
fn secrets_of(file: &Path, text: &str) -> Vec<String> {
    let is_key = file.extension().is_some_and(|extension| extension == "key");
    let lines = text.lines().map(str::trim);
    let found: Vec<&str> = if is_key {
        lines.filter(|line| !line.starts_with("-----")).collect()
    } else {
        lines.filter_map(value).collect()
    };
    found.into_iter().filter(|secret| secret.len() >= SHORTEST).map(str::to_owned).collect()
}

/// Returns the value of a line whose field is a secret.
fn value(line: &str) -> Option<&str> {
    let (field, value) = line.trim_start_matches("- ").split_once(':')?;
    FIELDS.contains(&field.trim_matches('"')).then(|| value.trim().trim_matches(['"', '\'', ',']))
}

#[cfg(test)]
#[allow(clippy::unwrap_used, reason = "a test fails by panicking")]
mod tests {
    use super::*;

    #[test]
    fn a_secret_of_a_file_is_found_in_a_log_and_the_error_does_not_have_it() {
        let home = std::env::temp_dir().join(format!("capstan-log-secrets-{}", std::process::id()));
        fs::create_dir_all(home.join("log")).unwrap();
        let line = "MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQg0123456789abcdef";
        let files = [
            ("pki.key", format!("-----BEGIN PRIVATE KEY-----\n{line}\n-----END PRIVATE KEY-----\n")),
            ("encryption.yaml", "keys:\n- name: k\n  secret: c2VjcmV0c2VjcmV0c2VjcmV0\n".to_owned()),
            (
                "clouds.yaml",
                "password: \"correct horse battery staple\"\nuser: capstan-controllers\n".to_owned(),
            ),
        ];
        for (name, text) in &files {
            fs::write(home.join(name), text).unwrap();
        }
        let log = |text: &str| {
            fs::write(home.join("log/capstan.log"), text).unwrap();
            absent(&home).map_err(|error| error.to_string())
        };
        assert_eq!(log("user capstan-controllers logs in"), Ok(()));
        for secret in [line, "c2VjcmV0c2VjcmV0c2VjcmV0", "correct horse battery staple"] {
            let error = log(&format!("INFO key={secret}")).unwrap_err();
            assert!(error.contains("capstan.log has a secret of") && !error.contains(secret), "{error}");
        }
        fs::remove_dir_all(&home).unwrap();
    }
}
