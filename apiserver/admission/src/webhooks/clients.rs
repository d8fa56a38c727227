//! HTTP clients of webhooks. Webhooks with the same CAs share a client, and so its connections.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::{Certificate, Client, Identity, redirect};

/// Time after which an idle connection is closed.
const IDLE: Duration = Duration::from_secs(90);

/// Clients by the CAs that they trust. Clones share them.
#[derive(Debug, Clone, Default)]
pub struct Clients(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    clients: HashMap<String, Client>,
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

    /// Returns the client for a `caBundle`, in base64. An empty one trusts the CAs of the system.
    ///
    /// # Errors
    /// The text says why there is no client.
    pub(super) fn of(&self, bundle: &str) -> Result<Client, String> {
        let mut state = self.state();
        if let Some(known) = state.clients.get(bundle) {
            return Ok(known.clone());
        }
        let client = create(bundle, state.identity.clone())?;
        state.clients.insert(bundle.to_owned(), client.clone());
        Ok(client)
    }

    /// Forgets the clients for other bundles than these.
    pub(crate) fn keep(&self, bundles: &[&str]) {
        self.state().clients.retain(|bundle, _| bundles.contains(&bundle.as_str()));
    }
}

fn create(bundle: &str, identity: Option<Identity>) -> Result<Client, String> {
    // A redirect would send the object to an address that no administrator has named.
    let builder = Client::builder().redirect(redirect::Policy::none()).https_only(true);
    let mut builder = builder.pool_idle_timeout(IDLE).no_proxy();
    if let Some(identity) = identity {
        builder = builder.identity(identity);
    }
    if !bundle.is_empty() {
        let pem = STANDARD.decode(bundle).map_err(|error| format!("caBundle is not base64: {error}"))?;
        let found = Certificate::from_pem_bundle(&pem).ok().filter(|found| !found.is_empty());
        let found = found.ok_or("unable to load root certificates: caBundle holds no certificate in PEM")?;
        builder = builder.tls_certs_only(found);
    }
    builder.build().map_err(|error| format!("could not get REST client: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn webhooks_with_the_same_cas_share_a_client() {
        let clients = Clients::default();
        assert!(clients.of("").is_ok() && clients.of("").is_ok());
        assert_eq!(clients.state().clients.len(), 1);
        assert!(clients.of("%").unwrap_err().contains("not base64"));
        assert!(clients.of(&STANDARD.encode("no PEM")).unwrap_err().contains("no certificate"));
        clients.keep(&["other"]);
        assert!(clients.state().clients.is_empty());
        assert!(clients.set_certificate("no PEM").unwrap_err().contains("no certificate with a key"));
    }
}
