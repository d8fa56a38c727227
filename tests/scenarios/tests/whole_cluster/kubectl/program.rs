//! The real kubectl, with one kubeconfig.

use std::path::PathBuf;
use std::process::Stdio;

use serde_json::Value;
use tokio::io::AsyncWriteExt;
use tokio::process::Command;

use super::NAMESPACE;

/// Variable with the path of kubectl.
const PROGRAM: &str = "CAPSTAN_KUBECTL";

/// Returns the path in a variable.
pub(super) fn variable(name: &str) -> PathBuf {
    std::env::var_os(name).unwrap_or_else(|| panic!("{name} is not set")).into()
}

/// kubectl with one kubeconfig.
pub(super) struct Kubectl {
    program: PathBuf,
    kubeconfig: PathBuf,
    /// Folder for what it learns about the server.
    cache: PathBuf,
}

impl Kubectl {
    pub(super) fn new(kubeconfig: PathBuf, cache: PathBuf) -> Self {
        Self { program: variable(PROGRAM), kubeconfig, cache }
    }

    /// Runs kubectl in the namespace of the cluster, with this text on its standard input. Returns its output, or its
    /// messages if it fails.
    pub(super) async fn attempt(&self, arguments: &[&str], input: &str) -> Result<String, String> {
        self.run_in(NAMESPACE, arguments, input).await
    }

    /// Runs kubectl in another namespace.
    pub(super) async fn run_in(
        &self,
        namespace: &str,
        arguments: &[&str],
        input: &str,
    ) -> Result<String, String> {
        let mut command = Command::new(&self.program);
        command.arg("--kubeconfig").arg(&self.kubeconfig).arg("--cache-dir").arg(&self.cache);
        command.args(["--namespace", namespace]).args(arguments).kill_on_drop(true);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut stdin = child.stdin.take().unwrap();
        // A command that fails early does not read it.
        let _ = stdin.write_all(input.as_bytes()).await;
        drop(stdin);
        let output = child.wait_with_output().await.unwrap();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        match output.status.success() {
            true => Ok(text(&output.stdout)),
            false => Err(text(&output.stderr)),
        }
    }

    /// Runs a command that must succeed. Returns its output.
    pub(super) async fn output(&self, arguments: &[&str]) -> String {
        let result = self.attempt(arguments, "").await;
        result.unwrap_or_else(|error| panic!("kubectl {}: {error}", arguments.join(" ")))
    }

    /// Runs a command that prints an object or a list.
    pub(super) async fn json(&self, arguments: &[&str]) -> Result<Value, String> {
        let text = self.attempt(&[arguments, &["-o", "json"]].concat(), "").await?;
        serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))
    }

    /// Posts a body to a path, as `kubectl create --raw` does. Returns the response.
    pub(super) async fn post(&self, path: &str, body: &str) -> Result<Value, String> {
        let text = self.attempt(&["create", "--raw", path, "-f", "-"], body).await?;
        serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))
    }

    /// Reads a path, as `kubectl get --raw` does.
    pub(super) async fn get(&self, path: &str) -> Result<Value, String> {
        let text = self.attempt(&["get", "--raw", path], "").await?;
        serde_json::from_str(&text).map_err(|error| format!("{error}: {text}"))
    }
}
