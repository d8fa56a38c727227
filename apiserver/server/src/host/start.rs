//! Start with a host cluster: the copies of an earlier process, and the first answers of the host.

use std::sync::atomic::Ordering;
use std::time::Duration;

use apiserver_access::Authenticator;
use apiserver_host::FrontProxy;

use super::Host;
use crate::pki;

/// Longest wait for the host at the start. The direct endpoint does not need the host.
const PATIENCE: Duration = Duration::from_secs(2);

/// The same, if the front proxy is known from a copy.
const SHORT_PATIENCE: Duration = Duration::from_millis(500);

/// Pause before the copies are read again, if the store did not answer.
const PAUSE: Duration = Duration::from_millis(50);

/// Reads the front proxy of the host. If it cannot be read, no client is a front proxy until it can: a host that starts
/// may refuse everybody, and the direct endpoint does not need the host.
async fn front_proxy(client: &kube::Client) -> Result<FrontProxy, String> {
    let found = apiserver_host::front_proxy(client).await;
    let found = found.map_err(|error| format!("{:#}", anyhow::Error::new(error)))?;
    match pki::certificates(&found.ca, "the host's front-proxy CA") {
        Ok(_) => Ok(found),
        Err(error) => Err(format!("{error:#}")),
    }
}

/// Reads copies, until the store answers.
async fn patiently<T, F: Future<Output = anyhow::Result<T>>>(read: impl Fn() -> F) -> T {
    loop {
        match read().await {
            Ok(read) => return read,
            Err(_) => tokio::time::sleep(PAUSE).await,
        }
    }
}

impl Host {
    /// Reads the copies of an earlier process, and then the host itself, as far as both answer in time.
    pub(super) async fn begin(&self) {
        let restored = tokio::time::timeout(PATIENCE, self.restore()).await;
        if let Ok(Some(proxy)) = restored {
            self.proxy.send_replace(proxy);
        }
        let is_known = !self.proxy.borrow().ca.is_empty();
        let patience = if is_known { SHORT_PATIENCE } else { PATIENCE };
        let client = self.connection.client();
        let asking = async {
            self.prober.pass().await;
            front_proxy(&client).await
        };
        let why = match tokio::time::timeout(patience, asking).await {
            Ok(Ok(proxy)) => {
                self.proxy.send_replace(proxy);
                return;
            }
            Ok(Err(why)) => why,
            Err(_) => "no answer in time".to_owned(),
        };
        if is_known {
            tracing::warn!(why, "the host cluster does not answer; the copies of its data are used");
        } else {
            tracing::warn!(
                why,
                "the front proxy of the host cluster is unknown; the direct endpoint is served, and requests through the host get 401 until it is known"
            );
        }
    }

    /// Applies the copies of an earlier process, once the store answers. Returns the front proxy, if a copy of it is
    /// usable.
    async fn restore(&self) -> Option<FrontProxy> {
        let restored = patiently(|| self.copies.restore()).await;
        if restored.is_replaced {
            tracing::warn!(
                pinned = restored.uid,
                accepted = self.pin.accepted(),
                "host.acceptNewIdentity names another host cluster than the known one; the copies of the known one are not used"
            );
        }
        if let Some(mirror) = &self.mirror {
            mirror.restore(patiently(|| self.copies.restore_mirror()).await);
        }
        if let Some(admission) = &self.admission {
            patiently(|| self.copies.restore_admission())
                .await
                .into_iter()
                .for_each(|restored| admission.restore(restored));
        }
        self.is_restored.store(true, Ordering::Release);
        if let Some(uid) = restored.uid {
            self.pin.restore(uid);
        }
        if let Some(version) = restored.version {
            self.pin.restore_version(version);
        }
        if let Some(contact) = restored.contact {
            self.connection.health().restore_contact(contact);
        }
        self.namespaces.restore(restored.namespaces);
        restored.proxy.filter(|proxy| {
            let usable = pki::valid_certificates(&proxy.ca, "the copy of the host's front-proxy CA");
            usable.inspect_err(|error| tracing::warn!("{error:#}; it is not used")).is_ok()
        })
    }

    /// Applies the copies if the store did not answer at the start. What the host has said since stays.
    pub(super) async fn restore_later(&self, authenticator: &Authenticator) {
        if self.is_restored.load(Ordering::Acquire) {
            return;
        }
        if let Some(proxy) = self.restore().await
            && self.proxy.borrow().ca.is_empty()
        {
            self.apply(proxy, authenticator);
        }
    }
}
