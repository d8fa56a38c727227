//! HTTP clients of webhooks. Webhooks with the same CAs share a client, and so its connections; those behind a Service of
//! the host cluster share one by its port.

use std::collections::{HashMap, HashSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::{Certificate, Client, ClientBuilder, Identity, redirect};

use crate::host::HostService;

/// Time after which an idle connection is closed.
const IDLE: Duration = Duration::from_secs(90);

/// Longest time for a connection to all endpoints of a Service together. One of them may be on a machine that is off.
const CONNECT: Duration = Duration::from_secs(5);

/// Properties that webhooks with the same client have in common.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct ClientKey {
    /// `caBundle`, in base64. An empty one trusts the CAs of the system.
    pub(crate) bundle: String,
    pub(crate) service: Option<HostService>,
}

/// Clients by the CAs that they trust, and by their Services. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Clients(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    /// Clients with the addresses that they dial. Those of URLs have none.
    clients: HashMap<ClientKey, (Vec<SocketAddr>, Client)>,
    /// Client certificate, if webhooks get one.
    identity: Option<Identity>,
}

impl Clients {
    /// Sets the client certificate with its key, in PEM. Clients that exist do not use it.
    ///
    /// # Errors
    /// The text says why the certificate cannot be used.
    pub fn set_certificate(&self, pem: &str) -> Result<(), String> {
        let identity = Identity::from_pem(pem.as_bytes())
            .map_err(|error| format!("it is no certificate with a key in PEM: {error}"))?;
        let mut state = self.state();
        state.identity = Some(identity);
        state.clients.clear();
        Ok(())
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the client for a key. That of a Service dials `addresses`, and is replaced when they change: its
    /// connections lead to servers that are gone.
    ///
    /// # Errors
    /// The text says why there is no client.
    pub(super) fn of(&self, key: &ClientKey, addresses: &[SocketAddr]) -> Result<Client, String> {
        let mut state = self.state();
        if let Some((known, client)) = state.clients.get(key)
            && known == addresses
        {
            return Ok(client.clone());
        }
        let client = create(key, addresses, state.identity.clone())?;
        state.clients.insert(key.clone(), (addresses.to_vec(), client.clone()));
        Ok(client)
    }

    /// Forgets the clients for other keys than these.
    pub(crate) fn keep<'k>(&self, keys: impl IntoIterator<Item = &'k ClientKey>) {
        let keys: HashSet<&ClientKey> = keys.into_iter().collect();
        self.state().clients.retain(|key, _| keys.contains(key));
    }
}

fn create(key: &ClientKey, addresses: &[SocketAddr], identity: Option<Identity>) -> Result<Client, String> {
    // A redirect would send the object to an address that no administrator has named.
    let builder = Client::builder().redirect(redirect::Policy::none()).https_only(true);
    let mut builder = builder.pool_idle_timeout(IDLE).no_proxy();
    if let Some(identity) = identity {
        builder = builder.identity(identity);
    }
    if let Some(service) = &key.service {
        builder = builder.resolve_to_addrs(&service.server_name(), addresses).connect_timeout(CONNECT);
    }
    let builder = trusting(builder, &key.bundle)?;
    builder.build().map_err(|error| format!("could not get REST client: {error}"))
}

fn trusting(builder: ClientBuilder, bundle: &str) -> Result<ClientBuilder, String> {
    if bundle.is_empty() {
        return Ok(builder);
    }
    let pem = STANDARD.decode(bundle).map_err(|error| format!("caBundle is not base64: {error}"))?;
    let found = Certificate::from_pem_bundle(&pem).ok().filter(|found| !found.is_empty());
    let found = found.ok_or("unable to load root certificates: caBundle holds no certificate in PEM")?;
    Ok(builder.tls_certs_only(found))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(bundle: &str, service: Option<&str>) -> ClientKey {
        let service = service.map(|name| HostService {
            namespace: "tools".to_owned(),
            name: name.to_owned(),
            port: 443,
        });
        ClientKey { bundle: bundle.to_owned(), service }
    }

    #[test]
    fn webhooks_with_the_same_cas_share_a_client() {
        let clients = Clients::default();
        assert!(clients.of(&key("", None), &[]).is_ok() && clients.of(&key("", None), &[]).is_ok());
        assert_eq!(clients.state().clients.len(), 1);
        assert!(clients.of(&key("%", None), &[]).unwrap_err().contains("not base64"));
        let text = key(&STANDARD.encode("no PEM"), None);
        assert!(clients.of(&text, &[]).unwrap_err().contains("no certificate"));
        clients.keep(&[key("other", None)]);
        assert!(clients.state().clients.is_empty());
        assert!(clients.set_certificate("no PEM").unwrap_err().contains("no certificate with a key"));
    }

    #[test]
    fn a_service_has_a_client_of_its_own_which_follows_its_addresses() {
        let clients = Clients::default();
        let (gate, first): (_, [SocketAddr; 1]) = (key("", Some("gate")), [([192, 0, 2, 1], 9443).into()]);
        assert!(clients.of(&key("", None), &[]).is_ok() && clients.of(&gate, &first).is_ok());
        let second: [SocketAddr; 1] = [([192, 0, 2, 2], 9443).into()];
        assert!(clients.of(&gate, &second).is_ok());
        let state = clients.state();
        assert_eq!(state.clients.len(), 2);
        assert_eq!(state.clients[&gate].0, second);
    }
}
