//! Hooks of the protocol: their names, and the paths at which servers serve them.

use std::fmt;

/// Group and version of the hooks and of their messages.
pub const API_VERSION: &str = "hooks.runtime.cluster.x-k8s.io/v1alpha1";

/// Defines the hooks, and the list of all.
macro_rules! hooks {
    ($($(#[$doc:meta])* $hook:ident,)*) => {
        /// Point at which an extension server is called.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Hook {
            $($(#[$doc])* $hook,)*
        }

        impl Hook {
            /// Every hook.
            pub const ALL: &'static [Self] = &[$(Self::$hook,)*];
        }
    };
}

hooks! {
    /// List of the handlers of a server. Each server serves it, and no ExtensionConfig lists it.
    Discovery,
    /// Before the objects of a Cluster's topology are created. It can hold that up.
    BeforeClusterCreate,
    /// After the control plane of a Cluster was reachable for the first time.
    AfterControlPlaneInitialized,
    /// Before an upgrade of a Cluster begins. It can hold that up.
    BeforeClusterUpgrade,
    /// Before a step of an upgrade reaches the control plane. It can hold that up.
    BeforeControlPlaneUpgrade,
    /// After the control plane has done a step of an upgrade. It can hold the workers up.
    AfterControlPlaneUpgrade,
    /// Before a step of an upgrade reaches the workers. It can hold that up.
    BeforeWorkersUpgrade,
    /// After the workers have done a step of an upgrade. It can hold the next step up.
    AfterWorkersUpgrade,
    /// After the whole Cluster has the new version. It can hold the next upgrade up.
    AfterClusterUpgrade,
    /// Before the objects of a Cluster are deleted. It can hold that up.
    BeforeClusterDelete,
    /// Patches of the templates of a topology.
    GeneratePatches,
    /// Validation of the patched templates of a topology.
    ValidateTopology,
    /// Variables that an external patch defines.
    DiscoverVariables,
    /// Versions between which an upgrade stops.
    GenerateUpgradePlan,
    /// Changes of a Machine that a server can make in place.
    CanUpdateMachine,
    /// Changes of a MachineSet that a server can make in place.
    CanUpdateMachineSet,
    /// Update of a Machine in place.
    UpdateMachine,
}

impl Hook {
    /// Returns the name, as in a discovery.
    pub fn name(self) -> String {
        format!("{self:?}")
    }

    /// Returns the hook of this version and name, if there is one.
    pub fn of(api_version: &str, name: &str) -> Option<Self> {
        let known = Self::ALL.iter().find(|hook| hook.name() == name);
        known.copied().filter(|_| api_version == API_VERSION)
    }

    /// Returns the path of a handler below the path of its server. A discovery has no handler.
    pub fn path(self, handler: Option<&str>) -> String {
        let hook = format!("/{API_VERSION}/{}", self.name().to_lowercase());
        match handler {
            Some(handler) => format!("{hook}/{}", handler.to_lowercase()),
            None => hook,
        }
    }

    /// Returns the kind of the requests.
    pub(crate) fn request_kind(self) -> String {
        self.name() + "Request"
    }
}

impl fmt::Display for Hook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hook_is_known_by_its_version_and_name() {
        for hook in Hook::ALL {
            assert_eq!(Hook::of(API_VERSION, &hook.name()), Some(*hook));
        }
        assert_eq!(Hook::ALL.len(), 17);
        assert_eq!(Hook::of("hooks.runtime.cluster.x-k8s.io/v1alpha2", "UpdateMachine"), None);
        assert_eq!(Hook::of(API_VERSION, "updatemachine"), None);
    }

    #[test]
    fn paths_are_upstreams() {
        assert_eq!(Hook::Discovery.path(None), "/hooks.runtime.cluster.x-k8s.io/v1alpha1/discovery");
        assert_eq!(
            Hook::BeforeClusterCreate.path(Some("gate")),
            "/hooks.runtime.cluster.x-k8s.io/v1alpha1/beforeclustercreate/gate"
        );
        assert_eq!(Hook::UpdateMachine.request_kind(), "UpdateMachineRequest");
    }
}
