//! Values that kubeadm refuses on the machine, where only the console shows it. A machine with one never becomes a node.
//!
//! The rules are a part of kubeadm's own. Each one is tested with real programs, so a value that is refused here would be
//! refused there.

mod cluster;
mod network;
mod node;
mod values;

use std::fmt::{Display, Formatter};

use apiserver_types::{JoinConfiguration, KubeadmConfigSpec};

use super::Init;

/// Value that kubeadm refuses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Path of the field, from the spec of its object on.
    pub field: String,
    /// Reason in the words of a rule, with the value unless it is secret.
    pub cause: String,
}

impl Refusal {
    fn new(field: impl Into<String>, cause: impl Into<String>) -> Self {
        Self { field: field.into(), cause: cause.into() }
    }
}

impl Display for Refusal {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {}", self.field, self.cause)
    }
}

/// Files that kubeadm reads, in the formats of cloud-init and Ignition.
const FILES: [&str; 2] = ["/run/kubeadm", "/etc/kubeadm.yml"];

/// Reports whether commands of the user change the file before kubeadm reads it. Its values are not final then.
pub fn is_changed_by_commands(spec: &KubeadmConfigSpec) -> bool {
    let mut commands = spec.pre_kubeadm_commands.iter().chain(&spec.boot_commands).flatten();
    commands.any(|command| FILES.iter().any(|file| command.contains(file)))
}

/// Returns what `kubeadm init` refuses.
pub fn refusals_of_init(input: &Init<'_>) -> Vec<Refusal> {
    let mut refusals = cluster::refusals(input.cluster);
    refusals.extend(network::refusals(input));
    refusals.extend(node::of_init(input.node));
    refusals
}

/// Returns what `kubeadm join` refuses.
pub fn refusals_of_join(join: &JoinConfiguration) -> Vec<Refusal> {
    node::of_join(join)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_file_that_commands_change_is_not_judged() {
        for (command, expected) in [
            ("sed -i s/IP/192.0.2.1/ /run/kubeadm/kubeadm.yaml", true),
            ("envsubst < /etc/kubeadm.yml > /tmp/a && mv /tmp/a /etc/kubeadm.yml", true),
            ("systemctl restart containerd", false),
        ] {
            let spec = json!({"preKubeadmCommands": ["true", command]});
            assert_eq!(is_changed_by_commands(&serde_json::from_value(spec).unwrap()), expected, "{command}");
        }
    }
}
