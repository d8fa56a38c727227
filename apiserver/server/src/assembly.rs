//! What a server is made of beyond its configuration.

use apiserver_machinery::resource::{Registry, Resource};

/// Namespaces that a real server has from the start, and a host, too.
const KUBERNETES: [&str; 3] = ["kube-node-lease", "kube-public", "kube-system"];

/// What is served beside the product's kinds, and what runs.
#[derive(Debug, Clone)]
pub struct Assembly {
    /// Kinds beside the product's.
    pub kinds: Vec<Resource>,
    /// Namespaces that are there from the start.
    pub namespaces: Vec<String>,
    /// Whether our controllers run.
    pub controllers: bool,
}

impl Default for Assembly {
    /// The product.
    fn default() -> Self {
        let namespaces = ["default", "capstan-system"].map(str::to_owned).to_vec();
        Self { kinds: Vec::new(), namespaces, controllers: true }
    }
}

impl Assembly {
    /// Namespaces that are there from the start.
    pub(crate) fn namespaces(&self) -> Vec<String> {
        let mut all = self.namespaces.clone();
        for name in KUBERNETES {
            if !all.iter().any(|known| known == name) {
                all.push(name.to_owned());
            }
        }
        all
    }

    /// Every kind that is served.
    pub(crate) fn registry(&self) -> Registry {
        let own = apiserver_registry::registry();
        if self.kinds.is_empty() {
            return own;
        }
        let own = own.resources().iter().map(|resource| Resource::clone(resource));
        Registry::new(own.chain(self.kinds.iter().cloned()).collect())
    }
}
