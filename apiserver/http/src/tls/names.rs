//! Which certificate is shown to whom.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// A certificate for those who ask for a name, and one for everybody else.
#[derive(Debug)]
pub(super) struct ByName {
    /// By name in lower case; one may begin with `*.` for one label.
    pub(super) named: BTreeMap<String, Arc<CertifiedKey>>,
    pub(super) default: Arc<CertifiedKey>,
}

impl ByName {
    fn of(&self, name: &str) -> &Arc<CertifiedKey> {
        let name = name.trim_end_matches('.').to_ascii_lowercase();
        let wildcard = name.split_once('.').map(|(_, parent)| format!("*.{parent}"));
        let found = self.named.get(&name);
        found.or_else(|| self.named.get(&wildcard?)).unwrap_or(&self.default)
    }
}

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(self.of(hello.server_name().unwrap_or_default())))
    }
}
