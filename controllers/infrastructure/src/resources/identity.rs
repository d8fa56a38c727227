//! Keystone: application credentials.

use std::fmt;

use super::plain;

plain! {
    /// Application credential of a user in a project.
    ApplicationCredential {
        /// Id.
        id: String,
        /// Name, unique among those of the user.
        name: String,
        /// End of its life in RFC 3339, UTC.
        expires_at: Option<String>,
    }
}

/// Application credential to create. It is restricted: it cannot create others.
#[derive(Clone, PartialEq, Eq, Default)]
pub struct NewApplicationCredential {
    /// Name, unique among those of the user.
    pub name: String,
    /// Secret, chosen by the caller: a lost response loses nothing.
    pub secret: String,
    /// Description for people.
    pub description: String,
    /// End of its life in RFC 3339, UTC.
    pub expires_at: String,
    /// Names of its roles; empty for all roles of the user.
    pub roles: Vec<String>,
}

impl fmt::Debug for NewApplicationCredential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the secret.
        f.debug_struct("NewApplicationCredential").field("name", &self.name).finish_non_exhaustive()
    }
}
