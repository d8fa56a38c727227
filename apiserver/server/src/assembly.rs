//! Assembly of a server: additions to its kinds, namespaces and controllers, made in code and not by its configuration.

use std::sync::Arc;

use apiserver_machinery::action::ActionHandler;
use apiserver_machinery::resource::{Registry, Resource};

/// Namespaces that a kube-apiserver creates at startup. A host cluster has them, too.
const KUBERNETES: [&str; 3] = ["kube-node-lease", "kube-public", "kube-system"];

/// Additions to the kinds of the product, and the parts that run.
#[derive(Debug, Clone)]
pub struct Assembly {
    /// Kinds in addition to those of the product.
    pub kinds: Vec<Resource>,
    /// Namespaces that the server creates at startup.
    pub namespaces: Vec<String>,
    /// True if the controllers run. Default: true.
    pub controllers: bool,
}

impl Default for Assembly {
    /// Returns the assembly of the product.
    fn default() -> Self {
        let namespaces = ["default", "capstan-system"].map(str::to_owned).to_vec();
        Self { kinds: Vec::new(), namespaces, controllers: true }
    }
}

impl Assembly {
    /// Returns all namespaces that the server creates at startup.
    pub(crate) fn namespaces(&self) -> Vec<String> {
        let mut all = self.namespaces.clone();
        for name in KUBERNETES {
            if !all.iter().any(|known| known == name) {
                all.push(name.to_owned());
            }
        }
        all
    }

    /// Returns the registry of all kinds that are served, with one more action of the core kind `plural`. Actions with
    /// state of the process are added here; the others belong to their kinds.
    pub(crate) fn registry_with(&self, plural: &str, action: &Arc<dyn ActionHandler>) -> Registry {
        let with_action = |resource: &Arc<Resource>| {
            let mut resource = Resource::clone(resource);
            if resource.group.is_empty() && resource.plural == plural {
                resource.verbs.push(Arc::clone(action));
            }
            resource
        };
        Registry::new(self.registry().resources().iter().map(with_action).collect())
    }

    /// Returns the registry of all kinds that are served.
    pub(crate) fn registry(&self) -> Registry {
        let own = apiserver_registry::registry();
        if self.kinds.is_empty() {
            return own;
        }
        let own = own.resources().iter().map(|resource| Resource::clone(resource));
        Registry::new(own.chain(self.kinds.iter().cloned()).collect())
    }
}
