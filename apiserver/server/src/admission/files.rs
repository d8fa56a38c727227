//! Files with admission configurations, reloaded while the server runs.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use apiserver_admission::read_directory;
use apiserver_http::Check;
use apiserver_machinery::resource::Registry;
use serde_json::Value;

use crate::reload_health::ReloadHealth;

/// Interval at which the files are read again.
pub(super) const POLL_INTERVAL: Duration = Duration::from_secs(30);

/// Directory with files, and the configurations in force.
#[derive(Debug)]
pub(super) struct AdmissionFiles {
    directory: PathBuf,
    objects: Vec<Value>,
    health: ReloadHealth,
}

impl AdmissionFiles {
    /// Reads all files.
    ///
    /// # Errors
    /// A file cannot be read or is not valid.
    pub(super) fn open(directory: &Path, registry: &Registry) -> anyhow::Result<Self> {
        let objects = read_directory(directory, registry)
            .map_err(|why| anyhow!("admission.manifestsDirectory: {why}"))?;
        Ok(Self { directory: directory.to_owned(), objects, health: ReloadHealth::default() })
    }

    /// Returns the configurations in force.
    pub(super) fn objects(&self) -> &[Value] {
        &self.objects
    }

    /// Returns the readiness check. It fails when a file has been unusable for five minutes.
    pub(super) fn check(&self) -> Check {
        self.health.check("admission-manifests")
    }

    /// Reads the files again. A bad one changes nothing. Returns true if the configurations changed.
    pub(super) fn reload(&mut self, registry: &Registry) -> bool {
        match read_directory(&self.directory, registry) {
            Ok(objects) => {
                self.health.succeed();
                let is_changed = objects != self.objects;
                if is_changed {
                    tracing::info!(
                        directory = %self.directory.display(),
                        configurations = objects.len(),
                        "the admission manifests are reloaded"
                    );
                    self.objects = objects;
                }
                is_changed
            }
            Err(error) => {
                if self.health.fail(&error, Instant::now()) {
                    tracing::error!(
                        error,
                        "the admission manifests are invalid; the last ones stay in force"
                    );
                }
                false
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: &str = "apiVersion: admissionregistration.k8s.io/v1\nkind: ValidatingAdmissionPolicy\nmetadata: {name: p.static.capstan.dev}\nspec:\n  matchConstraints: {resourceRules: [{operations: ['*'], apiGroups: [''], apiVersions: [v1], resources: [configmaps]}]}\n  validations: [{expression: 'true'}]\n";

    #[test]
    fn a_bad_file_is_named_and_changes_nothing() {
        let registry = apiserver_registry::registry();
        let directory = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| std::fs::write(directory.path().join(name), text).unwrap();
        write("policy.yaml", POLICY);
        write("notes.txt", "no YAML: [");
        let mut files = AdmissionFiles::open(directory.path(), &registry).unwrap();
        assert_eq!(files.objects()[0]["spec"]["failurePolicy"], "Fail", "defaults are filled in");
        assert!(!files.reload(&registry));
        for (text, expected) in [
            ("a: [", "bad.yaml: "),
            ("kind: Secret\napiVersion: v1\n", "expected apiVersion admissionregistration.k8s.io/v1"),
            (&POLICY.replace("p.static", "q.other"), "metadata.name must end with \".static.capstan.dev\""),
            (&POLICY.replace("spec:", "spec:\n  speling: 1"), "unknown field \"spec.speling\""),
            (&POLICY.replace("'true'", "'1'"), "spec.validations[0].expression"),
            (POLICY, "exists twice"),
            (
                &POLICY
                    .replace("p.static", "q.static")
                    .replace("spec:", "spec:\n  paramKind: {apiVersion: v1, kind: ConfigMap}"),
                "spec.paramKind is not supported",
            ),
        ] {
            write("bad.yaml", text);
            let error = read_directory(directory.path(), &registry).unwrap_err();
            assert!(error.contains("bad.yaml") || error.contains("policy.yaml"), "{error}");
            assert!(error.contains(expected), "{expected}: {error}");
            assert!(!files.reload(&registry) && files.objects().len() == 1);
            assert!(AdmissionFiles::open(directory.path(), &registry).is_err());
        }
        write("bad.yaml", &POLICY.replace("p.static", "q.static"));
        assert!(files.reload(&registry) && files.objects().len() == 2);
        assert!(AdmissionFiles::open(&directory.path().join("none"), &registry).is_err());
    }
}
