//! kubeadm: strict reading of its configuration, and what `init` and `join` do.

mod addons;
mod certificates;
mod documents;
pub(crate) mod duration;
mod init;
mod join;
mod registration;
mod schema;
pub(crate) mod token;
mod versions;

use std::sync::Arc;

pub(crate) use registration::Registration;
use tests_openstack_simulator::GuestServer;
use versions::Version;

use crate::boot::{BootPlan, KubeadmVerb, text_file};
use crate::lab::Lab;

/// Versions of the programs of a server. Those that are not known are those of the control plane.
#[derive(Debug, Clone)]
struct Programs {
    kubeadm: Option<Version>,
    kubelet: Option<Version>,
}

/// Runs the call of kubeadm in a plan. The error is the text that kubeadm writes.
pub(crate) async fn run(lab: &Arc<Lab>, server: &GuestServer, plan: &BootPlan) -> Result<(), String> {
    let Some(call) = &plan.kubeadm else { return Ok(()) };
    let config = text_file(plan, &call.config)
        .map_err(|error| format!("unable to read config from {:?}: {error}", call.config))?;
    let documents = documents::Documents::parse(config, &call.config)?;
    let kubelet = versions::of_image(server.image.as_deref());
    let downloaded = plan.commands.iter().find_map(|command| versions::downloaded(command));
    let programs = Programs { kubeadm: downloaded.or_else(|| kubelet.clone()), kubelet };
    documents.check_api(programs.kubeadm.as_ref())?;
    match call.verb {
        KubeadmVerb::Init => init::run(lab, server, plan, &documents, &programs).await,
        KubeadmVerb::Join => join::run(lab, server, plan, &documents, &programs).await,
    }
}
