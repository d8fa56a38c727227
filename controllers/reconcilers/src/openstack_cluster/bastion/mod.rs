//! Bastion of a cluster: an OpenStackServer in the cluster's network, with a floating IP.
//!
//! The bastion never holds up the cluster. It is worked on after everything else, and has a condition of its own.

mod act;
mod decide;
mod observe;
pub(super) mod report;
#[cfg(test)]
mod tests;
mod wish;

use apiserver_types::OpenStackServer;
use controllers_infrastructure::{FloatingIp, SecurityGroup};
use controllers_runtime::OwnershipTag;
use jiff::Timestamp;

use super::desired::Desired;
use super::observe::Observed;

pub(super) use observe::find;
pub(super) use wish::{BastionWish, is_wanted};

/// Name of the bastion's floating IP in the journal. It has no name in the cloud.
pub(super) const FLOATING_IP: &str = "bastion";

/// Annotation of the OpenStackServer with the hash of the spec that it was created from.
const HASH: &str = "capstan.dev/bastion-hash";

/// Annotation of the cluster with the times at which a bastion in ERROR was replaced.
const REPLACED: &str = "capstan.dev/bastion-replaced";

/// Reason of a bastion that is being deleted.
const DELETING: &str = "BastionDeleting";

/// State of a bastion at the end of a pass.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) enum Progress {
    /// Nothing is left to do.
    #[default]
    Settled,
    /// It waits, or failed: reason and message.
    Waiting(&'static str, String),
}

/// Observed bastion.
#[derive(Debug, Clone, PartialEq, Default)]
pub(super) struct BastionView {
    /// The OpenStackServer with the bastion's name.
    pub server: Option<OpenStackServer>,
    /// The OpenStackServer has another owner than this cluster.
    pub foreign: bool,
    /// Id and address of its port on the cluster's network.
    pub port: Option<(String, Option<String>)>,
    pub floating_ip: Option<FloatingIp>,
    /// Address of its floating IP in an earlier pass.
    pub last_floating_ip: Option<String>,
    /// Group that is left of a bastion that is not desired any more.
    pub retired_group: Option<SecurityGroup>,
    /// Times at which a bastion in ERROR was replaced.
    pub replaced: Vec<Timestamp>,
    pub now: Timestamp,
    pub progress: Progress,
}

impl BastionView {
    /// Returns the addresses from which the bastion connects.
    pub(super) fn addresses(&self) -> impl Iterator<Item = &String> {
        let fixed = self.port.iter().filter_map(|(_, address)| address.as_ref());
        fixed.chain(self.floating_ip.iter().map(|ip| &ip.address))
    }
}

/// Returns true if nothing is to do for the bastion.
pub(super) fn is_settled(desired: &Desired, tag: &OwnershipTag, observed: &Observed) -> bool {
    decide::next_step(desired, tag, observed) == decide::Step::Nothing
}
