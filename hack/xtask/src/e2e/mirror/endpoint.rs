//! Direct endpoint of one server, and requests to it with a token.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, ensure};
use serde_json::json;

use crate::e2e::lab::Lab;
use crate::run;

/// Collection of the objects that the requests read and write.
const RULES: &str = "machinedrainrules";

const GROUP: &str = "/apis/cluster.x-k8s.io/v1beta2";

/// Request of a user.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ask {
    /// Reads a collection in the namespace `team`.
    Read(&'static str),
    /// Reads an object there.
    Get(&'static str),
    /// Reads in another namespace.
    ReadElsewhere,
    /// Creates an object in `team` whose name begins so.
    Write(&'static str),
    /// Reads the Secrets of `team`.
    Secrets,
}

impl Ask {
    /// A read for which the users of the lab have a role.
    pub(super) const RULES: Self = Self::Read(RULES);

    /// A write for which some have a role.
    pub(super) const WRITE: Self = Self::Write("made-");
}

/// Response.
pub(super) struct Answer {
    pub(super) code: u16,
    /// Head and body.
    pub(super) text: String,
}

/// Direct endpoint of one server.
pub(super) struct Endpoint {
    pub(super) name: &'static str,
    port: u16,
    data: PathBuf,
    /// Kubeconfig of an administrator.
    admin: String,
}

impl Endpoint {
    /// Creates the endpoint of a server, and a kubeconfig for an administrator.
    pub(super) fn new(lab: &Lab, name: &'static str, port: u16, data: PathBuf) -> anyhow::Result<Self> {
        let admin = format!("{name}-admin");
        let mut command = Command::new(&lab.tools.capstan);
        command.args([
            "kubeconfig",
            "--user",
            "admin",
            "--expires",
            "1h",
            "--break-glass",
            "--reason",
            "lab",
        ]);
        command.args(["--server", &format!("https://127.0.0.1:{port}"), "--data-dir"]).arg(&data);
        std::fs::write(lab.certificates.path(&format!("{admin}.kubeconfig")), run::output(&mut command)?)?;
        Ok(Self { name, port, data, admin })
    }

    /// Returns the value of a line of the metrics, if it is there.
    pub(super) fn metric(&self, lab: &Lab, name: &str) -> anyhow::Result<Option<f64>> {
        let (_, text, _) = lab.try_kubectl(&self.admin, &["get", "--raw", "/metrics"])?;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.map(|value| value.trim().parse().context("a metric is no number")).transpose()
    }

    /// Returns true if the host is in this state.
    pub(super) fn host_is(&self, lab: &Lab, state: &str) -> anyhow::Result<bool> {
        let name = format!("capstan_host_state{{state=\"{state}\"}}");
        Ok(self.metric(lab, &name)? == Some(1.0))
    }

    /// Returns true if an Event has this reason.
    pub(super) fn has_event(&self, lab: &Lab, reason: &str) -> anyhow::Result<bool> {
        let path = "jsonpath={.items[*].reason}";
        let (_, reasons, _) =
            lab.try_kubectl(&self.admin, &["get", "events", "-n", "default", "-o", path])?;
        Ok(reasons.split_whitespace().any(|found| found == reason))
    }

    /// Returns true if an administrator of the server itself can read and write.
    pub(super) fn serves_its_own(&self, lab: &Lab) -> anyhow::Result<bool> {
        let file = lab.file("own.json", &rule("own-").to_string())?;
        Ok(lab.try_kubectl(&self.admin, &["create", "-f", &file])?.0
            && lab.try_kubectl(&self.admin, &["get", RULES, "-n", "team"])?.0)
    }

    /// Creates the objects of a file as an administrator of the server itself. Returns the error; empty without one.
    pub(super) fn create(&self, lab: &Lab, file: &str) -> anyhow::Result<String> {
        let (is_created, _, error) = lab.try_kubectl(&self.admin, &["create", "-f", file])?;
        Ok(if is_created { String::new() } else { error })
    }

    /// Sends a request with a token.
    pub(super) fn ask(&self, token: &str, ask: Ask) -> anyhow::Result<Answer> {
        let mut command = self.curl();
        command.args(["--header", &format!("Authorization: Bearer {token}")]);
        let path = match ask {
            Ask::Read(kind) => format!("{GROUP}/namespaces/team/{kind}"),
            Ask::Get(kind) => format!("{GROUP}/namespaces/team/{kind}/missing"),
            Ask::ReadElsewhere => format!("{GROUP}/namespaces/default/{RULES}"),
            Ask::Secrets => "/api/v1/namespaces/team/secrets".to_owned(),
            Ask::Write(prefix) => {
                command.args(["--header", "Content-Type: application/json"]);
                command.args(["--data", &rule(prefix).to_string()]);
                format!("{GROUP}/namespaces/team/{RULES}")
            }
        };
        answer(command.arg(format!("https://127.0.0.1:{}{path}", self.port)))
    }

    /// Reads with a certificate of the host's CA for clients.
    pub(super) fn ask_with_certificate(&self, lab: &Lab, user: &str) -> anyhow::Result<Answer> {
        let mut command = self.curl();
        let file = |end: &str| lab.certificates.path(&format!("{user}.{end}"));
        command.args(["--cert", &file("crt"), "--key", &file("key")]);
        answer(command.arg(format!("https://127.0.0.1:{}{GROUP}/namespaces/team/{RULES}", self.port)))
    }

    fn curl(&self) -> Command {
        let mut command = Command::new("curl");
        command.args(["--silent", "--show-error", "--include", "--http1.1", "--max-time", "20"]);
        command.args(["--write-out", "\n%{http_code}", "--cacert"]).arg(self.data.join("pki/ca.crt"));
        command
    }
}

fn answer(command: &mut Command) -> anyhow::Result<Answer> {
    let output = command.output()?;
    ensure!(output.status.success(), "curl: {}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (text, code) = text.rsplit_once('\n').context("curl printed no code")?;
    Ok(Answer { code: code.parse()?, text: text.to_owned() })
}

/// Returns an object whose name begins so.
pub(super) fn rule(prefix: &str) -> serde_json::Value {
    json!({"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDrainRule",
        "metadata": {"generateName": prefix, "namespace": "team"},
        "spec": {"drain": {"behavior": "Skip"}, "pods": [{"selector": {"matchLabels": {"app": "skipped"}}}]}})
}
