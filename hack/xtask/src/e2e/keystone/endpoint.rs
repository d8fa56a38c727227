//! Direct endpoint of a replica that knows the users of Keystone, and requests with their tokens.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;

use crate::e2e::lab::{Lab, ports, until};
use crate::e2e::openstack::{OpenStack, text};
use crate::e2e::process::Process;

/// Lifetime of an answer of Keystone in the replica. A test with the default of a minute would wait for that time.
pub(super) const CACHE_TTL: Duration = Duration::from_secs(5);

/// Path of a review of the user who sends it.
const REVIEW: &str = "/apis/authentication.k8s.io/v1/selfsubjectreviews";

/// Replica of Capstan with a Keystone. Dropping it stops the replica.
pub(super) struct Endpoint {
    url: String,
    ca: PathBuf,
    _replica: Process,
}

/// Response.
pub(super) struct Answer {
    pub(super) code: String,
    /// Status line and headers.
    pub(super) head: String,
    /// Null if the body is no JSON.
    pub(super) body: Value,
}

impl Endpoint {
    /// Starts the replica beside the lab's own Capstan, on the same store, so that the lab needs no restart.
    pub(super) fn start(lab: &Lab, openstack: &OpenStack) -> anyhow::Result<Self> {
        let clouds: Value = serde_json::from_str(&std::fs::read_to_string(openstack.clouds_yaml())?)?;
        let auth = clouds.pointer("/clouds/lab/auth").context("clouds.yaml has no cloud lab")?;
        let settings = format!(
            "apiVersion: capstan.dev/v1alpha1\nkind: ServerConfiguration\n\
             keystone: {{authURL: '{}', allowInsecureHTTP: true, cacheTTL: {}s}}\n",
            text(auth, "/auth_url"),
            CACHE_TTL.as_secs()
        );
        let [port] = ports()?;
        let replica = lab.replica_with("capstan-keystone", port, &settings)?;
        let url = format!("https://127.0.0.1:{port}");
        let endpoint = Self { url, ca: lab.data().join("pki/ca.crt"), _replica: replica };
        until("the replica is ready", || Ok(endpoint.send("/readyz", &[])?.code == "200"))?;
        Ok(endpoint)
    }

    /// Sends a GET with a bearer token.
    pub(super) fn get(&self, path: &str, token: &str) -> anyhow::Result<Answer> {
        self.send(path, &["--header", &format!("Authorization: Bearer {token}")])
    }

    /// Requests a review of the user of a bearer token.
    pub(super) fn review(&self, token: &str) -> anyhow::Result<Answer> {
        self.review_by(&format!("Authorization: Bearer {token}"))
    }

    /// Requests a review of the user of the token in a header.
    pub(super) fn review_by(&self, header: &str) -> anyhow::Result<Answer> {
        let json = "Content-Type: application/json";
        self.send(REVIEW, &["--header", header, "--header", json, "--data", "{}"])
    }

    fn send(&self, path: &str, options: &[&str]) -> anyhow::Result<Answer> {
        let mut command = Command::new("curl");
        command.args(["--silent", "--show-error", "--include", "--max-time", "20", "--cacert"]);
        command.arg(&self.ca).args(options).arg(format!("{}{path}", self.url));
        let output = command.output().context("curl cannot be run")?;
        // The command line has the token.
        ensure!(output.status.success(), "{path}: {}", String::from_utf8_lossy(&output.stderr));
        let text = String::from_utf8(output.stdout)?;
        let (head, body) = text.split_once("\r\n\r\n").context("the response has no body")?;
        let code = head.split_whitespace().nth(1).unwrap_or_default().to_owned();
        let body = serde_json::from_str(body).unwrap_or_default();
        Ok(Answer { code, head: head.to_lowercase(), body })
    }
}

impl Answer {
    /// Returns the user of a review.
    pub(super) fn user(&self) -> anyhow::Result<&Value> {
        ensure!(self.code == "201", "the review gets {}: {}", self.code, self.body);
        self.body.pointer("/status/userInfo").context("the review names no user")
    }

    /// Returns the age of the answer of Keystone by which the user is known, if it is an old one. Unit: seconds.
    pub(super) fn stale_age(&self) -> Option<&str> {
        self.body.pointer("/status/userInfo/extra/capstan.dev~1identity-stale/0").and_then(Value::as_str)
    }

    /// Returns an error unless the response has this code, and these words in its body.
    pub(super) fn check(&self, code: &str, words: &str) -> anyhow::Result<()> {
        let is_expected = self.code == code && self.body.to_string().contains(words);
        ensure!(is_expected, "{} instead of {code} with {words:?}: {}", self.code, self.body);
        Ok(())
    }
}
