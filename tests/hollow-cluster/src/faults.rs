//! Errors that tests inject.

use std::collections::BTreeSet;
use std::time::Duration;

/// Step of a boot that can fail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BootStep {
    /// cloud-init finds no usable user data.
    CloudInit,
    /// The preflight checks of kubeadm fail.
    Preflight,
    /// The kubelet does not start.
    Kubelet,
}

/// Injected errors that are in effect.
#[derive(Debug, Default)]
pub(crate) struct Faults {
    /// Servers whose kubelet is dead, by name or id.
    pub(crate) dead_kubelets: BTreeSet<String>,
    pub(crate) refuses_joins: bool,
    /// Replaces the delay of the options.
    pub(crate) boot_delay: Option<Duration>,
    /// Steps that fail, by the prefix of the server's name.
    pub(crate) boot_failures: Vec<(String, BootStep)>,
}

impl Faults {
    /// Returns the text of the failure that applies to a step of a server.
    pub(crate) fn failure(&self, server: &str, step: BootStep) -> Option<String> {
        let applies =
            |(prefix, failing): &(String, BootStep)| *failing == step && server.starts_with(prefix.as_str());
        self.boot_failures.iter().find(|failure| applies(failure)).map(|_| {
            match step {
                BootStep::CloudInit => "no datasource was found: an injected failure",
                BootStep::Preflight => {
                    "error execution phase preflight: [preflight] Some fatal errors occurred:\n\
                     \t[ERROR Injected]: an injected failure"
                }
                BootStep::Kubelet => {
                    "error execution phase kubelet-start: timed out waiting for the kubelet: \
                     an injected failure"
                }
            }
            .to_owned()
        })
    }
}
