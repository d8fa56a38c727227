//! Users of the host with their roles and tokens.

use anyhow::ensure;

use super::endpoint::{Ask, Endpoint};
use super::webhooks::OF_ALICE;
use crate::e2e::lab::Lab;

const NAMESPACE: &str = "team";

/// Tokens of the users.
pub(super) struct Users {
    /// Service account that may read and write, and read Secrets.
    pub(super) bot: String,
    /// Another token of the same account, which no server gets to see while the host is up.
    pub(super) fresh: String,
    /// Service account without a role.
    pub(super) nobody: String,
    /// Service account that its roles let read, and that the webhook denies everything.
    pub(super) mallory: String,
    /// Token of an account that was deleted before the outage.
    pub(super) gone: String,
    /// Token of the account with a forged signature.
    pub(super) forged: String,
    /// Token for the host's own API, and so for another audience.
    pub(super) of_host: String,
    /// User alice, whom a webhook identifies.
    pub(super) alice: String,
}

impl Users {
    /// Creates the users in the host, with their roles and bindings.
    pub(super) fn create(lab: &Lab) -> anyhow::Result<Self> {
        let admin = |arguments: &[&str]| lab.kubectl("admin", arguments);
        let in_team = |arguments: &[&str]| admin(&[arguments, &["-n", NAMESPACE]].concat());
        admin(&["create", "namespace", NAMESPACE])?;
        let secrets = ["create", "role", "secrets", "--verb=get,list", "--resource=secrets"];
        in_team(&secrets)?;
        for account in ["bot", "nobody", "mallory", "gone"] {
            in_team(&["create", "serviceaccount", account])?;
        }
        for (binding, role, subject) in [
            ("bot", "--clusterrole=capstan:edit", "--serviceaccount=team:bot"),
            ("gone", "--clusterrole=capstan:edit", "--serviceaccount=team:gone"),
            ("mallory", "--clusterrole=capstan:view", "--serviceaccount=team:mallory"),
            ("alice", "--clusterrole=capstan:edit", "--user=alice"),
            ("bot-secrets", "--role=secrets", "--serviceaccount=team:bot"),
        ] {
            in_team(&["create", "rolebinding", binding, role, subject])?;
        }
        let token = |account: &str, options: &[&str]| -> anyhow::Result<String> {
            let create = ["create", "token", account, "--duration=30m"];
            Ok(in_team(&[&create[..], options].concat())?.trim().to_owned())
        };
        let ours = ["--audience=capstan"];
        let (bot, fresh) = (token("bot", &ours)?, token("bot", &ours)?);
        let gone = token("gone", &ours)?;
        in_team(&["delete", "serviceaccount", "gone"])?;
        Ok(Self {
            nobody: token("nobody", &ours)?,
            mallory: token("mallory", &ours)?,
            of_host: token("bot", &["--audience=https://kubernetes.default.svc"])?,
            forged: forged(&bot)?,
            alice: OF_ALICE.to_owned(),
            bot,
            fresh,
            gone,
        })
    }

    /// Compares the answers of a server with what each user must get.
    pub(super) fn check(&self, endpoint: &Endpoint, expected: &Expected) -> anyhow::Result<()> {
        let Expected { read, write, secrets, no_right, gone, of_other_audience, is_copy } = *expected;
        for (case, token, ask, code) in [
            ("a read", &self.bot, Ask::RULES, read),
            ("a read with a token that was never shown", &self.fresh, Ask::RULES, read),
            ("a write", &self.bot, Ask::WRITE, write),
            ("a read of Secrets", &self.bot, Ask::Secrets, secrets),
            ("a read in another namespace", &self.bot, Ask::ReadElsewhere, no_right),
            ("a read without a role", &self.nobody, Ask::RULES, no_right),
            ("a read of a deleted account", &self.gone, Ask::RULES, gone),
            ("a forged token", &self.forged, Ask::RULES, 401),
            ("a token for another audience", &self.of_host, Ask::RULES, of_other_audience),
            ("a read of a user of the webhook", &self.alice, Ask::RULES, read),
            ("a write of a user of the webhook", &self.alice, Ask::WRITE, write),
        ] {
            let found = endpoint.ask(token, ask)?;
            let (name, text) = (endpoint.name, &found.text);
            ensure!(
                found.code == code,
                "{case} at the {name} server: {} instead of {code}: {text}",
                found.code
            );
            let has_warning = text.lines().any(|line| line.to_ascii_lowercase().starts_with("warning:"));
            let is_allowed = code < 300;
            ensure!(has_warning == (is_copy && is_allowed), "{case} at the {name} server, warning: {text}");
        }
        Ok(())
    }
}

/// Codes that the users must get.
#[derive(Clone, Copy)]
pub(super) struct Expected {
    pub(super) read: u16,
    pub(super) write: u16,
    pub(super) secrets: u16,
    pub(super) no_right: u16,
    pub(super) gone: u16,
    pub(super) of_other_audience: u16,
    /// True if a warning must say that old permissions have decided.
    pub(super) is_copy: bool,
}

/// Returns a token whose signature does not belong to it.
fn forged(token: &str) -> anyhow::Result<String> {
    let (signed, signature) = token.rsplit_once('.').unwrap_or_default();
    let mut other: Vec<char> = signature.chars().collect();
    ensure!(other.len() > 20, "the host's token has no signature");
    other.reverse();
    Ok(format!("{signed}.{}", other.into_iter().collect::<String>()))
}
