//! Who asks.

use std::collections::BTreeMap;

/// Group of everybody who was authenticated.
pub(crate) const AUTHENTICATED: &str = "system:authenticated";

/// Group of everybody who was not.
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";

/// Name of everybody who was not.
const ANONYMOUS: &str = "system:anonymous";

/// Group that may do everything.
pub(crate) const MASTERS: &str = "system:masters";

/// Prefix of the names of the server's own identities.
const CONTROLLER_PREFIX: &str = "system:capstan:";

/// Group of the server's own identities; no certificate or token can bring it.
const CONTROLLERS: &str = "system:capstan:controllers";

/// An identity.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    /// Name.
    pub name: String,
    /// Id, when the authenticator knows one.
    pub uid: Option<String>,
    /// Groups.
    pub groups: Vec<String>,
    /// Whatever else the authenticator says.
    pub extra: BTreeMap<String, Vec<String>>,
}

impl User {
    /// A user known by name and groups; `system:authenticated` is added, but to nobody who is said to be nobody, as a
    /// host passes on who showed it nothing.
    pub fn authenticated(name: impl Into<String>, groups: impl IntoIterator<Item = String>) -> Self {
        let (name, mut groups): (String, Vec<String>) = (name.into(), groups.into_iter().collect());
        if name != ANONYMOUS && !groups.iter().any(|group| group == AUTHENTICATED || group == UNAUTHENTICATED)
        {
            groups.push(AUTHENTICATED.to_owned());
        }
        Self { name, groups, ..Self::default() }
    }

    /// One of the server's own identities, such as a controller.
    pub fn controller(identity: &str) -> Self {
        Self::authenticated(format!("{CONTROLLER_PREFIX}{identity}"), [CONTROLLERS.to_owned()])
    }

    /// Returns the name of a user that is one of the server's own identities.
    pub(crate) fn controller_identity(&self) -> Option<&str> {
        self.name.strip_prefix(CONTROLLER_PREFIX).filter(|_| self.is_in(CONTROLLERS))
    }

    /// Somebody who showed nothing.
    pub fn anonymous() -> Self {
        Self { name: ANONYMOUS.to_owned(), groups: vec![UNAUTHENTICATED.to_owned()], ..Self::default() }
    }

    /// Whether nobody knows who it is.
    pub fn is_anonymous(&self) -> bool {
        self.is_in(UNAUTHENTICATED)
    }

    /// Whether the user is in a group.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }
}
