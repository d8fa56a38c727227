//! Users of the direct endpoint: by their client certificates, by their tokens, or anonymous.

use std::net::IpAddr;
use std::sync::Arc;

use super::token::Credential;
use super::{Authenticator, Unauthenticated, finished};
use crate::peer::{Peer, PeerIdentity};
use crate::user::{self, MASTERS, Realm, User};

/// Begin of the names of the service accounts that a server with a host has itself.
const OWN_ACCOUNTS: &str = "system:serviceaccount:capstan-system:";

impl Authenticator {
    /// Returns the user of a request that no front proxy has sent.
    pub(super) async fn direct_user(
        &self,
        peer: &Peer,
        address: Option<IpAddr>,
        credential: Credential,
    ) -> Result<Arc<User>, Unauthenticated> {
        if let Some(client) = peer.identity() {
            if client.is_of_host {
                return self.user_of_host(client);
            }
            if let Some(observer) = self.certificates.as_ref().filter(|_| client.last_report.is_due()) {
                observer.used(client);
            }
            let realm = if client.is_machine() { Realm::Machine } else { Realm::Own };
            let user = client.user.get_or_init(|| self.direct(user_of_certificate(client), realm));
            self.check_machine(user).await?;
            return Ok(Arc::clone(user));
        }
        match credential {
            Credential::None if peer.is_refused() => Err(Unauthenticated::Refused),
            Credential::None => Ok(Arc::new(User::anonymous())),
            shown => self.user_of_token(shown, address).await,
        }
    }

    /// Returns the user of a client certificate of the host cluster.
    fn user_of_host(&self, client: &PeerIdentity) -> Result<Arc<User>, Unauthenticated> {
        let trust = self.host_certificates.as_ref().filter(|trust| trust.are_valid());
        let trust = trust.ok_or(Unauthenticated::Refused)?;
        let user = client.user.get_or_init(|| {
            let mut user = user_of_certificate(client);
            user.groups.retain(|group| group != MASTERS || trust.trust_masters());
            self.direct(user, Realm::Host)
        });
        if self.has_account(&user.name) { Err(Unauthenticated::Refused) } else { Ok(Arc::clone(user)) }
    }

    /// Checks that the Machine of a machine's user exists.
    async fn check_machine(&self, user: &User) -> Result<(), Unauthenticated> {
        if user.realm != Realm::Machine {
            return Ok(());
        }
        let (Some((namespace, name)), Some(uid), Some(machines)) =
            (user.machine(), &user.uid, &self.machines)
        else {
            return Err(Unauthenticated::Refused);
        };
        match machines.has(namespace, name, uid).await? {
            true => Ok(()),
            false => Err(Unauthenticated::Refused),
        }
    }

    /// Returns the user of a credential of the direct endpoint.
    pub(super) fn direct(&self, mut user: User, realm: Realm) -> Arc<User> {
        if !self.masters.admit(&realm) {
            user.groups.retain(|group| group != MASTERS);
            user.extra.remove(user::BREAK_GLASS);
        }
        finished(user, realm)
    }

    /// Returns true for a service account of the namespace in which the server has its own. The host's account of the
    /// same name is another identity, which would get the permissions of ours.
    pub(super) fn has_account(&self, name: &str) -> bool {
        self.issuers.has_own() && name.starts_with(OWN_ACCOUNTS)
    }
}

fn user_of_certificate(peer: &PeerIdentity) -> User {
    let mut user = User::authenticated(&peer.common_name, peer.organizations.clone());
    user.uid = peer.uid.as_deref().filter(|_| peer.is_machine()).map(str::to_owned);
    let credential = format!("X509SHA256={}", peer.fingerprint);
    user.extra.insert(user::CREDENTIAL_ID.to_owned(), vec![credential]);
    if let Some(reason) = peer.break_glass_reason() {
        user.extra.insert(user::BREAK_GLASS.to_owned(), vec![reason.to_owned()]);
    }
    user
}
