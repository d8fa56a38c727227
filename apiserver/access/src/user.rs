//! User of a request.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::limits::TokenLimits;

/// Group of all authenticated users.
pub(crate) const AUTHENTICATED: &str = "system:authenticated";

/// Group of all callers who are not authenticated.
pub(crate) const UNAUTHENTICATED: &str = "system:unauthenticated";

/// Name of every caller who is not authenticated.
const ANONYMOUS: &str = "system:anonymous";

/// Group that may do everything.
pub(crate) const MASTERS: &str = "system:masters";

/// Group of machines. Only a certificate of the CA of machines gives it.
pub const MACHINES: &str = "system:machines";

/// Begin of the name of a machine's user, before the namespace, a colon and the name of its Machine.
const MACHINE: &str = "system:machine:";

/// Prefix of the names of the server's own identities.
const CONTROLLER_PREFIX: &str = "system:capstan:";

/// Group of the server's own identities; no certificate or token can add it.
const CONTROLLERS: &str = "system:capstan:controllers";

/// Name of the administrator in the kubeconfig of some distributions of Kubernetes.
const ADMIN: &str = "system:admin";

/// Prefix of the names and groups that Kubernetes reserves.
const RESERVED: &str = "system:";

/// Begin of the name of an issuer's realm, before the URL of the issuer.
const ISSUER: &str = "issuer/";

/// Prefix of the extra attributes that only this server sets.
pub const OWN_EXTRA: &str = "capstan.dev/";

/// Extra attribute with the realm.
pub const REALM: &str = "capstan.dev/realm";

/// Extra attribute with the id of the credential, as upstream has it.
pub const CREDENTIAL_ID: &str = "authentication.kubernetes.io/credential-id";

/// Extra attribute with the reason of a certificate for emergencies.
pub const BREAK_GLASS: &str = "capstan.dev/break-glass";

/// Extra attribute that names the objects of a token which could not be verified. It takes permissions, and gives none.
pub const UNVERIFIED: &str = "capstan.dev/unverified";

/// Extra attribute of a user of Keystone while Keystone does not answer: the age of its last answer about the token, in
/// seconds.
pub const IDENTITY_STALE: &str = "capstan.dev/identity-stale";

/// Extra attribute of a user of Keystone whose token has no scope. It takes permissions, and gives none.
pub const UNSCOPED: &str = "capstan.dev/unscoped";

/// Origin of an identity. A name of one realm is another person than the same name of another realm.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Realm {
    /// Certificates of our own client CAs, and the server itself.
    #[default]
    Own,
    /// Headers of the host cluster's front proxy, and tokens that the host cluster has reviewed.
    Host,
    /// Certificates of our own CA of machines. Only the Machine of the user decides what it may do.
    Machine,
    /// Tokens of Keystone. All names and groups have its prefix, so that bindings can name them.
    Keystone,
    /// Tokens of this issuer, which the authentication file names.
    Issuer(Arc<str>),
    /// Tokens that a webhook has reviewed.
    Webhook,
}

impl Realm {
    /// Returns the realm as the extra attribute [`REALM`] names it.
    pub fn name(&self) -> String {
        match self {
            Self::Own => "own".to_owned(),
            Self::Host => "host".to_owned(),
            Self::Machine => "machine".to_owned(),
            Self::Keystone => "keystone".to_owned(),
            Self::Issuer(url) => format!("{ISSUER}{url}"),
            Self::Webhook => "webhook".to_owned(),
        }
    }

    /// Returns the realm of this name; `None` for a name that no realm has.
    pub fn of_name(name: &str) -> Option<Self> {
        match name {
            "own" => Some(Self::Own),
            "host" => Some(Self::Host),
            "machine" => Some(Self::Machine),
            "keystone" => Some(Self::Keystone),
            "webhook" => Some(Self::Webhook),
            _ => name.strip_prefix(ISSUER).map(|url| Self::Issuer(url.into())),
        }
    }
}

/// User, as authenticated.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct User {
    /// Name.
    pub name: String,
    /// Id, if the authenticator knows it.
    pub uid: Option<String>,
    /// Groups.
    pub groups: Vec<String>,
    /// Further attributes from the authenticator.
    pub extra: BTreeMap<String, Vec<String>>,
    /// Realm. The authenticator sets it; no header, claim or group does.
    pub realm: Realm,
    /// Limits of the token that has named the user. `None` for a credential without limits.
    pub limits: Option<Arc<TokenLimits>>,
}

impl User {
    /// Creates a user with this name and groups. `system:authenticated` is added, except to the anonymous user, whom a
    /// host passes on by that name.
    pub fn authenticated(name: impl Into<String>, groups: impl IntoIterator<Item = String>) -> Self {
        let (name, mut groups): (String, Vec<String>) = (name.into(), groups.into_iter().collect());
        if name != ANONYMOUS && !groups.iter().any(|group| group == AUTHENTICATED || group == UNAUTHENTICATED)
        {
            groups.push(AUTHENTICATED.to_owned());
        }
        Self { name, groups, ..Self::default() }
    }

    /// Returns the user as one of a realm, which an extra attribute names.
    #[must_use]
    pub fn in_realm(mut self, realm: Realm) -> Self {
        if !self.is_anonymous() {
            self.extra.insert(REALM.to_owned(), vec![realm.name()]);
        }
        self.realm = realm;
        self
    }

    /// Creates one of the server's own identities, such as a controller.
    pub fn controller(identity: &str) -> Self {
        Self::authenticated(format!("{CONTROLLER_PREFIX}{identity}"), [CONTROLLERS.to_owned()])
    }

    /// Returns the namespace and the name of the Machine whose user this is; `None` for any other user.
    pub fn machine(&self) -> Option<(&str, &str)> {
        let name = self.name.strip_prefix(MACHINE).filter(|_| self.realm == Realm::Machine)?;
        name.split_once(':').filter(|(namespace, name)| !namespace.is_empty() && !name.is_empty())
    }

    /// Returns true for one of the server's own identities.
    pub fn is_internal(&self) -> bool {
        self.controller_identity().is_some()
    }

    /// Returns true for a person. Programs are the server's own identities, machines, service accounts, and other users
    /// whose names Kubernetes reserves, such as `system:kube-controller-manager`. The user `system:admin` is a person.
    pub fn is_person(&self) -> bool {
        !self.name.starts_with(RESERVED) || self.name == ADMIN
    }

    /// Returns the name of a user that is one of the server's own identities.
    pub(crate) fn controller_identity(&self) -> Option<&str> {
        self.name.strip_prefix(CONTROLLER_PREFIX).filter(|_| self.is_in(CONTROLLERS))
    }

    /// Creates the user of a request without credentials.
    pub fn anonymous() -> Self {
        Self { name: ANONYMOUS.to_owned(), groups: vec![UNAUTHENTICATED.to_owned()], ..Self::default() }
    }

    /// Returns true for the anonymous user.
    pub fn is_anonymous(&self) -> bool {
        self.is_in(UNAUTHENTICATED)
    }

    /// Returns the user without the groups that Kubernetes reserves, or `None` if its name is reserved. The issuer of the
    /// user is not part of the cluster, and chooses names and groups freely.
    pub(crate) fn without_reserved_names(mut self) -> Option<Self> {
        if self.name.is_empty() || self.name.starts_with(RESERVED) {
            return None;
        }
        self.groups.retain(|group| !group.starts_with(RESERVED));
        self.groups.push(AUTHENTICATED.to_owned());
        Some(self)
    }

    /// Returns true for a user of Keystone whose token has no scope. Bindings give such a user only what they give to all
    /// authenticated users.
    pub fn is_unscoped(&self) -> bool {
        self.extra.contains_key(UNSCOPED)
    }

    /// Returns true if the user is in a group.
    pub fn is_in(&self, group: &str) -> bool {
        self.groups.iter().any(|own| own == group)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_no_persons() {
        for (name, expected) in [
            ("alice", true),
            ("system:admin", true),
            ("system:serviceaccount:ns:flux", false),
            ("system:kube-controller-manager", false),
            ("system:machine:ns:m", false),
        ] {
            assert_eq!(User::authenticated(name, []).is_person(), expected, "{name}");
        }
        assert!(!User::controller("machine").is_person());
    }
}
