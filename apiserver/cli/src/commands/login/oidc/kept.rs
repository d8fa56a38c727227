//! Tokens that a login keeps in a file of the user.

use std::fs::File;
use std::path::PathBuf;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::endpoints::Granted;
use crate::commands::login::{Token, state_file};
use crate::error::Failure;

/// File with the tokens of one issuer, one client and one server.
pub(super) struct Kept {
    file: PathBuf,
    content: Content,
    /// Lock of the file, until this value is dropped.
    _lock: Option<File>,
}

#[derive(Default, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Content {
    token: String,
    renew_at: Option<Timestamp>,
    refresh_token: Option<String>,
}

impl Kept {
    /// Finds the file. A file that cannot be read is as good as none.
    pub(super) fn find(of: [&str; 3]) -> Result<Self, Failure> {
        Ok(Self::at(state_file::path("oidc", &of)?))
    }

    pub(super) fn at(file: PathBuf) -> Self {
        let text = std::fs::read(&file).unwrap_or_default();
        Self { content: serde_json::from_slice(&text).unwrap_or_default(), file, _lock: None }
    }

    /// Waits until no other command logs in with this file, and reads it again: the token of that command serves this one,
    /// too. An issuer may accept a refresh token once, and end the login if two commands present it.
    ///
    /// # Errors
    /// The directory of the file cannot be written.
    pub(super) fn locked(self) -> Result<Self, Failure> {
        let lock = state_file::locked(&self.file)?;
        Ok(Self { _lock: Some(lock), ..Self::at(self.file) })
    }

    /// Returns the token if it is not at its end.
    pub(super) fn token(&self, now: Timestamp) -> Option<Token> {
        let renew_at = self.content.renew_at.filter(|end| now < *end)?;
        Some(Token { secret: self.content.token.clone(), renew_at: Some(renew_at) })
    }

    pub(super) fn refresh_token(&self) -> Option<String> {
        self.content.refresh_token.clone()
    }

    /// Writes the file, which only its user can read. Another command reads the old content or the new one.
    pub(super) fn write(&self, granted: &Granted) -> Result<(), Failure> {
        let content = Content {
            token: granted.token.secret.clone(),
            renew_at: granted.token.renew_at,
            refresh_token: granted.refresh.clone(),
        };
        state_file::write(&self.file, &content)
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
        let granted = Granted { token, refresh: Some("r".to_owned()) };
        Kept::at(file.clone()).locked().unwrap().write(&granted).unwrap();
        let kept = Kept::at(file.clone());
        assert_eq!(kept.token(now).unwrap().secret, "t");
        assert!(kept.token(later).is_none() && kept.refresh_token().as_deref() == Some("r"));
        assert_eq!(std::fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        std::fs::write(&file, "{").unwrap();
        assert!(Kept::at(file).refresh_token().is_none());
    }

    #[test]
    fn a_command_waits_for_the_login_of_another_one_and_uses_its_token() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("oidc").join("a");
        let first = Kept::at(file.clone()).locked().unwrap();
        let second = std::thread::spawn(move || Kept::at(file).locked().unwrap().token(Timestamp::now()));
        std::thread::sleep(std::time::Duration::from_millis(100));
        let token = Token { secret: "t".to_owned(), renew_at: Some(Timestamp::MAX) };
        first.write(&Granted { token, refresh: None }).unwrap();
        drop(first);
        assert_eq!(second.join().unwrap().unwrap().secret, "t");
    }
}
