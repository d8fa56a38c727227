//! Certificates by server name.

use std::collections::BTreeMap;
use std::sync::Arc;

use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;

/// Resolver with certificates by name, and a default one.
#[derive(Debug)]
pub(super) struct ByName {
    /// Certificates by name in lower case; one may begin with `*.` for one label.
    pub(super) named: BTreeMap<String, Arc<CertifiedKey>>,
    pub(super) default: Arc<CertifiedKey>,
}

/// Finds the value of a name: its own, else that of a wildcard for its first label.
fn find<'a, T>(named: &'a BTreeMap<String, T>, name: &str) -> Option<&'a T> {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    named.get(&name).or_else(|| {
        let (_, parent) = name.split_once('.')?;
        named.get(&format!("*.{parent}"))
    })
}

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let named = hello.server_name().and_then(|name| find(&self.named, name));
        Some(Arc::clone(named.unwrap_or(&self.default)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_has_its_own_certificate_or_a_wildcard_one() {
        let named = ["one.example", "*.two.example"].map(|name| (name.to_owned(), name));
        let named = BTreeMap::from(named);
        for (name, expected) in [
            ("one.example", Some("one.example")),
            ("ONE.example.", Some("one.example")),
            ("a.two.example", Some("*.two.example")),
            ("a.b.two.example", None),
            ("two.example", None),
            ("", None),
        ] {
            assert_eq!(find(&named, name).copied(), expected, "{name}");
        }
    }
}
