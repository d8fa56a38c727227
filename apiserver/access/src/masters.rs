//! Special permissions of the group `system:masters`.

use crate::user::{MASTERS, Realm, User};

/// Users to whom the group `system:masters` gives all permissions, whatever the roles say. Default: all of them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum SystemMasters {
    /// Users of each realm that can have the group.
    #[default]
    All,
    /// Users with a certificate of the server's own CAs of clients.
    OwnOnly,
    /// No users.
    Off,
}

impl SystemMasters {
    /// Returns true if the group gives this user all permissions.
    pub fn include(self, user: &User) -> bool {
        user.is_in(MASTERS) && self.admit(&user.realm)
    }

    /// Returns true if the group gives permissions to users of this realm.
    pub fn admit(self, realm: &Realm) -> bool {
        match self {
            Self::All => true,
            Self::OwnOnly => *realm == Realm::Own,
            Self::Off => false,
        }
    }
}
