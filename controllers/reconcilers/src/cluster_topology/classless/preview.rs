//! Plan of an upgrade of a Cluster without a topology: its steps in their order, and what holds it. Nothing is written.

use std::collections::{BTreeMap, VecDeque};

use apiserver_types::{Cluster, ContractVersionedObjectReference};
use controllers_runtime::{ControllerContext, ReconcileError};
use kube::ResourceExt;

use super::super::preview::{self, Refusal, UpgradePreview, UpgradeStep, VersionStep};
use super::super::upgrade::order::{self, Order};
use super::super::upgrade::plan::Source;
use super::observe::{self, Observed};
use super::{CONTROL_PLANE, Request, image};

/// Field of the request with the target.
const TARGET: &str = "version";

/// Names of the images of the steps of each object, in their order. `None` is the control plane.
type Images = BTreeMap<Option<String>, VecDeque<String>>;

/// Returns the plan of the upgrade that a Cluster requests. Without a request, it is empty.
///
/// # Errors
/// The target cannot be reached, or the Cluster has no control plane that can be upgraded; or the API's own failure.
pub(in crate::cluster_topology) async fn preview(
    context: &ControllerContext,
    cluster: &Cluster,
) -> Result<UpgradePreview, Refusal> {
    let refused = |message: String| Refusal::Field(TARGET, message);
    let Some(request) = Request::of(cluster) else { return Ok(UpgradePreview::default()) };
    let request = request.map_err(refused)?;
    let observed = match observe::read(context, cluster).await {
        Err(ReconcileError::Waiting { message, .. }) => {
            return Err(Refusal::Field("spec.controlPlaneRef", message));
        }
        result => result?,
    };
    observed.check().map_err(refused)?;
    let demanded = request.demanded(cluster);
    let (state, groups) = (observed.state(), observed.groups());
    let source = Source::Listed(&request.versions);
    let order = order::order(&demanded, source, Some(state), groups).map_err(refused)?;
    let mut notes = Vec::new();
    let namespace = cluster.namespace().unwrap_or_default();
    let images = images(context, &namespace, (&observed, &order), &mut notes).await?;
    Ok(UpgradePreview {
        versions: preview::versions(&order),
        steps: steps(&observed, &order, images),
        obstacles: preview::obstacles(&demanded, &order, CONTROL_PLANE),
        notes,
        target: request.target,
    })
}

/// Returns the steps with the names of the objects and of their images.
fn steps(observed: &Observed, order: &Order, mut images: Images) -> Vec<UpgradeStep> {
    let step = |step: &order::Step| {
        let (kind, name) = match &step.group {
            None => (CONTROL_PLANE, observed.control_plane.name_any()),
            Some(name) => ("MachineDeployment", name.clone()),
        };
        let image = images.get_mut(&step.group).and_then(VecDeque::pop_front);
        let step = VersionStep { kind: kind.to_owned(), name, version: step.version.clone() };
        UpgradeStep { step, image }
    };
    order.steps.iter().map(step).collect()
}

/// Returns the images of all steps. An object whose image does not follow from the version has a note instead.
async fn images(
    context: &ControllerContext,
    namespace: &str,
    (observed, order): (&Observed, &Order),
    notes: &mut Vec<String>,
) -> Result<Images, Refusal> {
    let mut images = Images::new();
    for group in order.steps.iter().map(|step| &step.group) {
        let Some((from, reference)) = part(observed, group.as_deref()) else { continue };
        if images.contains_key(group) {
            continue;
        }
        let own = order.steps.iter().filter(|step| step.group == *group);
        let versions: Vec<&str> = [from].into_iter().chain(own.map(|step| step.version.as_str())).collect();
        let names = image::names(context, namespace, reference, &versions).await?;
        if names.is_empty() {
            notes.push(format!(
                "{} {} does not name an image of version {from}. New Machines get the image that it has",
                reference.kind, reference.name
            ));
        }
        images.insert(group.clone(), names.into());
    }
    Ok(images)
}

/// Returns the version of an object, and the reference to the template of its Machines.
fn part<'a>(
    observed: &'a Observed,
    group: Option<&str>,
) -> Option<(&'a str, &'a ContractVersionedObjectReference)> {
    let Some(name) = group else {
        let spec = &observed.control_plane.spec;
        return Some((&spec.version, &spec.machine_template.spec.infrastructure_ref));
    };
    let deployment = observed.deployment(name)?;
    Some((deployment.version(), &deployment.object.spec.template.spec.infrastructure_ref))
}
