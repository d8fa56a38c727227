//! Settings of a login, from clouds.yaml or from the variables of an openrc file.

use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::file_failure;
use crate::error::{ExitCode, Failure};

/// Variable with the path of clouds.yaml.
const CLOUDS_FILE: &str = "OS_CLIENT_CONFIG_FILE";

/// Settings by the names of clouds.yaml's section `auth`. A variable `OS_USERNAME` is the setting `username`.
pub(super) struct Settings {
    values: BTreeMap<String, String>,
    /// Place that they come from, for people.
    place: String,
}

/// Not derived: the values are credentials.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Settings").field("place", &self.place).finish_non_exhaustive()
    }
}

impl Settings {
    /// Reads the entry of a cloud, or the variables.
    ///
    /// # Errors
    /// There is no such entry, or a file cannot be read.
    pub(super) fn find(cloud: Option<&str>) -> Result<Self, Failure> {
        match cloud.filter(|cloud| !cloud.is_empty()) {
            Some(cloud) => {
                Self::of_cloud(cloud, &files("clouds.yaml", CLOUDS_FILE), &files("secure.yaml", ""))
            }
            None => {
                let variables = std::env::vars_os();
                let text = |value: std::ffi::OsString| value.into_string().ok();
                Ok(Self::of_variables(
                    variables.filter_map(|(name, value)| Some((text(name)?, text(value)?))),
                ))
            }
        }
    }

    fn of_variables(variables: impl Iterator<Item = (String, String)>) -> Self {
        let setting = |(name, value): (String, String)| {
            let key = name.strip_prefix("OS_")?.to_ascii_lowercase();
            (!value.is_empty()).then_some((key, value))
        };
        Self { values: variables.filter_map(setting).collect(), place: "the OS_* variables".to_owned() }
    }

    /// Reads an entry of the first of these files. `secure` are files with secrets of the same entry.
    fn of_cloud(cloud: &str, files: &[PathBuf], secure: &[PathBuf]) -> Result<Self, Failure> {
        let names = || files.iter().map(|file| file.display().to_string()).collect::<Vec<_>>().join(", ");
        let Some(file) = files.iter().find(|file| file.exists()) else {
            return Err(Failure::new(ExitCode::Failed, format!("cloud {cloud:?}: there is no clouds.yaml"))
                .detail("searched", names())
                .next(format!("set {CLOUDS_FILE}, or leave out --cloud and set the OS_* variables")));
        };
        let mut values = BTreeMap::new();
        if !read(file, cloud, &mut values)? {
            let summary = format!("{} has no cloud {cloud:?}", file.display());
            return Err(
                Failure::new(ExitCode::Failed, summary).next(format!("grep -A1 clouds: {}", file.display()))
            );
        }
        if let Some(file) = secure.iter().find(|file| file.exists()) {
            read(file, cloud, &mut values)?;
        }
        Ok(Self { values, place: format!("cloud {cloud:?} in {}", file.display()) })
    }

    #[cfg(test)]
    pub(super) fn of(place: &str, pairs: &[(&str, &str)]) -> Self {
        let values = pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        Self { values: values.collect(), place: place.to_owned() }
    }

    pub(super) fn get(&self, key: &str) -> Option<&str> {
        self.values.get(key).map(String::as_str)
    }

    pub(super) fn has(&self, key: &str) -> bool {
        self.values.contains_key(key)
    }

    /// Returns a setting that the login needs. `meaning` says what it is.
    pub(super) fn required(&self, key: &str, meaning: &str) -> Result<&str, Failure> {
        self.get(key).ok_or_else(|| {
            let summary =
                format!("cannot log in to Keystone: there is no {key} in {}: {meaning}", self.place);
            Failure::new(ExitCode::Failed, summary)
                .next("give --cloud NAME with an entry of clouds.yaml, or source an openrc file")
        })
    }

    /// Returns the URL of Keystone.
    pub(super) fn auth_url(&self) -> Result<String, Failure> {
        self.required("auth_url", "the URL of Keystone").map(str::to_owned)
    }

    /// Returns the file with the CA of Keystone.
    pub(super) fn ca_file(&self) -> Option<PathBuf> {
        self.get("cacert").map(PathBuf::from)
    }
}

/// Adds the settings of an entry. Returns false if the file has no such entry.
fn read(file: &Path, cloud: &str, values: &mut BTreeMap<String, String>) -> Result<bool, Failure> {
    let text = std::fs::read_to_string(file).map_err(|error| file_failure("read", file, &error))?;
    // The error of the parser may quote a secret: only the file is named.
    let found: Value = serde_saphyr::from_str(&text)
        .map_err(|_| Failure::new(ExitCode::Failed, format!("{} is not valid YAML", file.display())))?;
    let Some(entry) = found.get("clouds").and_then(|clouds| clouds.get(cloud)) else { return Ok(false) };
    let fields = entry.as_object().into_iter().flatten();
    let of_auth = entry.get("auth").and_then(Value::as_object).into_iter().flatten();
    for (key, value) in fields.chain(of_auth) {
        let text = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => continue,
        };
        values.insert(key.clone(), text);
    }
    Ok(true)
}

/// Returns the paths of a file of OpenStack's clients, in their order.
fn files(name: &str, variable: &str) -> Vec<PathBuf> {
    if let Some(path) = std::env::var_os(variable).filter(|path| !path.is_empty()) {
        return vec![PathBuf::from(path)];
    }
    let home = std::env::var_os("HOME").map(PathBuf::from);
    let of_user =
        std::env::var_os("XDG_CONFIG_HOME").map(PathBuf::from).or_else(|| Some(home?.join(".config")));
    let directories =
        [Some(PathBuf::from(".")), of_user.map(|it| it.join("openstack")), Some("/etc/openstack".into())];
    directories.into_iter().flatten().map(|directory| directory.join(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cloud_has_its_fields_and_the_secrets_of_the_other_file() {
        let directory = tempfile::tempdir().unwrap();
        let [clouds, secure] = ["clouds.yaml", "secure.yaml"].map(|name| directory.path().join(name));
        let text = "clouds:\n  a:\n    cacert: /ca.pem\n    auth: {auth_url: https://k, username: alice, project_id: 7}\n";
        std::fs::write(&clouds, text).unwrap();
        std::fs::write(&secure, "clouds: {a: {auth: {password: p}}}").unwrap();
        let found =
            Settings::of_cloud("a", &[directory.path().join("none"), clouds.clone()], &[secure]).unwrap();
        assert_eq!(found.auth_url().unwrap(), "https://k");
        assert_eq!((found.get("password"), found.get("project_id")), (Some("p"), Some("7")));
        assert_eq!(found.ca_file(), Some(PathBuf::from("/ca.pem")));
        let failure = Settings::of_cloud("b", &[clouds], &[]).unwrap_err().to_string();
        assert!(failure.contains("has no cloud \"b\""), "{failure}");
        let failure = Settings::of_cloud("a", &[directory.path().join("none")], &[]).unwrap_err().to_string();
        assert!(failure.contains("there is no clouds.yaml"), "{failure}");
    }

    #[test]
    fn an_error_of_a_file_does_not_quote_it() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("clouds.yaml");
        std::fs::write(&file, "clouds: {a: {auth: {password: 'secret").unwrap();
        let failure = Settings::of_cloud("a", &[file], &[]).unwrap_err().to_string();
        assert!(failure.contains("not valid YAML") && !failure.contains("secret"), "{failure}");
    }

    #[test]
    fn a_variable_is_the_setting_of_its_name() {
        let variables =
            [("OS_AUTH_URL", "https://k"), ("OS_USERNAME", "alice"), ("OS_TOKEN", ""), ("PATH", "/bin")];
        let found = Settings::of_variables(variables.map(|(a, b)| (a.to_owned(), b.to_owned())).into_iter());
        assert_eq!(
            (found.get("username"), found.get("token"), found.get("path")),
            (Some("alice"), None, None)
        );
        let failure = found.required("password", "a password").unwrap_err().to_string();
        assert!(failure.contains("there is no password in the OS_* variables: a password"), "{failure}");
        let secret = Settings::of("here", &[("password", "s3cret")]);
        assert!(!format!("{secret:?}").contains("s3cret"), "no credential in a log");
    }
}
