//! Tokens that a login keeps in a file of the user.

use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::endpoints::Granted;
use super::random::hash;
use crate::commands::login::{Token, file_failure};
use crate::error::{ExitCode, Failure};
use crate::output;

/// File with the tokens of one issuer, one client and one server.
#[derive(Debug)]
pub(super) struct Kept {
    file: PathBuf,
    content: Content,
}

#[derive(Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Content {
    token: String,
    renew_at: Option<Timestamp>,
    refresh_token: Option<String>,
}

impl Kept {
    /// Finds the file. A file that cannot be read is as good as none.
    pub(super) fn find(of: [&str; 3]) -> Result<Self, Failure> {
        let variable = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let state = variable("XDG_STATE_HOME").map(PathBuf::from);
        let state = state.or_else(|| Some(PathBuf::from(variable("HOME")?).join(".local/state")));
        let state = state.ok_or_else(|| {
            Failure::new(ExitCode::Failed, "--keep: HOME is not set, so there is no place for the tokens")
        })?;
        Ok(Self::at(state.join("capstan").join("oidc").join(hash(&of.join("\n")))))
    }

    pub(super) fn at(file: PathBuf) -> Self {
        let text = std::fs::read(&file).unwrap_or_default();
        Self { content: serde_json::from_slice(&text).unwrap_or_default(), file }
    }

    /// Returns the token if it is not at its end.
    pub(super) fn token(&self, now: Timestamp) -> Option<Token> {
        let renew_at = self.content.renew_at.filter(|end| now < *end)?;
        Some(Token { secret: self.content.token.clone(), renew_at: Some(renew_at) })
    }

    pub(super) fn refresh_token(&self) -> Option<String> {
        self.content.refresh_token.clone()
    }

    /// Writes the file, which only its user can read.
    pub(super) fn write(&self, granted: &Granted) -> Result<(), Failure> {
        use std::os::unix::fs::DirBuilderExt;

        let content = Content {
            token: granted.token.secret.clone(),
            renew_at: granted.token.renew_at,
            refresh_token: granted.refresh.clone(),
        };
        let failed = |error: &dyn std::fmt::Display| file_failure("write", &self.file, error);
        if let Some(directory) = self.file.parent() {
            let mut builder = std::fs::DirBuilder::new();
            builder.recursive(true).mode(0o700).create(directory).map_err(|error| failed(&error))?;
        }
        let text = serde_json::to_vec(&content).map_err(|error| failed(&error))?;
        output::write_private(&self.file, &text).map_err(|error| failed(&error))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn the_file_belongs_to_its_user_and_a_token_is_used_until_its_end() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("a").join("b");
        let now: Timestamp = "2030-01-01T00:00:00Z".parse().unwrap();
        let later: Timestamp = "2030-01-01T00:10:00Z".parse().unwrap();
        assert!(Kept::at(file.clone()).token(now).is_none());
        let token = Token { secret: "t".to_owned(), renew_at: Some(later) };
        Kept::at(file.clone()).write(&Granted { token, refresh: Some("r".to_owned()) }).unwrap();
        let kept = Kept::at(file.clone());
        assert_eq!(kept.token(now).unwrap().secret, "t");
        assert!(kept.token(later).is_none() && kept.refresh_token().as_deref() == Some("r"));
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::write(&file, "{").unwrap();
        assert!(Kept::at(file).refresh_token().is_none());
    }
}
