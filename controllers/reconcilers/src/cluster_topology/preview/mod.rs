//! Preview of a topology: what its next passes would write. Nothing is written.
//!
//! The decisions are those of a pass. The writes are dry runs, so that the API checks them like those of a pass. Servers that
//! patch templates or plan upgrades are called, because their calls have no effects. Those that hold a Cluster up are not.

mod draft;

use apiserver_types::{Cluster, MachineDeployment};
use controllers_runtime::{ControllerContext, ReconcileError};
use kube::ResourceExt;
use kube::core::Status;
use serde_json::Value;

use super::act::{annotations, check_pools};
use super::blueprint::Blueprint;
use super::current::Current;
use super::external::Previewed;
use super::upgrade::hooks::{Hook, Hooks};
use super::upgrade::order::{self, Order};
use super::upgrade::plan::{Plan, Source};
use super::upgrade::workers::Progress;
use super::{blueprint, classless, current, external, report, variables};
use draft::Draft;

/// Field of the version that a topology demands.
const VERSION: &str = "spec.topology.version";

/// Effect on an object of a topology.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ObjectEffect {
    /// It is made.
    Create,
    /// Some of its fields change.
    Change,
    /// A template is made under another name, and takes the place of this one.
    Rotate,
    /// It is deleted.
    Delete,
}

/// Object that changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PreviewedObject {
    pub effect: ObjectEffect,
    pub kind: String,
    /// Name; of a rotated template, that of the present one.
    pub name: String,
    /// Paths of the fields that differ.
    pub fields: Vec<String>,
}

/// Object that owns Machines, before and after.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Owner {
    /// `None` if it does not exist yet.
    pub stored: Option<Value>,
    pub planned: Value,
}

/// Change of the version of an object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct VersionStep {
    pub kind: String,
    pub name: String,
    pub version: String,
}

/// Change of the version of an object in an upgrade.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct UpgradeStep {
    pub step: VersionStep,
    /// Name of the image of new Machines, if it follows from the version.
    pub image: Option<String>,
}

/// Plan of an upgrade.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct UpgradePreview {
    /// Version at the end; empty if no upgrade is requested.
    pub target: String,
    /// Versions that remain for the control plane and for the workers, whatever holds up the upgrade.
    pub versions: (Vec<String>, Vec<String>),
    /// Changes of versions that nothing holds up, in their order.
    pub steps: Vec<UpgradeStep>,
    /// Reasons for which a part, or all, waits.
    pub obstacles: Vec<String>,
    /// Further facts about the steps.
    pub notes: Vec<String>,
}

/// Result of the next passes over a topology, as they would write it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Preview {
    /// Objects that change, in the order of a pass. Others are left out.
    pub objects: Vec<PreviewedObject>,
    /// Versions that remain for the control plane and for the workers, whatever holds up the upgrade.
    pub versions: (Vec<String>, Vec<String>),
    /// Changes of versions that nothing holds up, in their order.
    pub steps: Vec<VersionStep>,
    pub control_plane: Option<Owner>,
    /// MachineDeployments, in the order of the topology.
    pub deployments: Vec<Owner>,
    /// MachineDeployments that are deleted.
    pub deleted: Vec<MachineDeployment>,
    /// Templates that would be made.
    pub templates: Vec<Value>,
    /// Infrastructure of the Cluster, if it would be made.
    pub infrastructure: Option<Value>,
    /// The Cluster, as the pass that writes the control plane leaves it.
    pub cluster: Cluster,
    /// Reasons for which a part, or all, waits.
    pub obstacles: Vec<String>,
}

/// Reason for which there is no preview.
#[derive(Debug)]
pub(crate) enum Refusal {
    /// A field of the Cluster does not lead to objects that can be written. For people.
    Field(&'static str, String),
    /// The objects around the Cluster cannot be read.
    Failed(ReconcileError),
}

impl From<ReconcileError> for Refusal {
    fn from(error: ReconcileError) -> Self {
        match &error {
            ReconcileError::Api(kube::Error::Api(status)) if is_refusal(status) => {
                Self::Field("spec.topology", status.message.clone())
            }
            _ => Self::Failed(error),
        }
    }
}

/// Returns true if the API refuses an object for what it has. Upstream's error of an apply with a value of the wrong
/// type has the code 500 and no reason.
fn is_refusal(status: &Status) -> bool {
    let is_of_type = status.code == 500 && status.reason.is_empty();
    is_of_type || ((400..500).contains(&status.code) && ![401, 409, 429].contains(&status.code))
}

/// Returns what the next passes over the topology of a Cluster would write.
///
/// # Errors
/// The topology leads to objects that the API refuses, or that cannot be made; or the API's own failure.
pub(crate) async fn preview(context: &ControllerContext, cluster: &Cluster) -> Result<Preview, Refusal> {
    match Box::pin(examined(context, cluster)).await {
        // An object is missing, or not ready. A pass reports it in the same words.
        Err(Refusal::Failed(ReconcileError::Waiting { message, .. })) => {
            let cluster = cluster.clone();
            Ok(Preview { cluster, obstacles: vec![message], ..Preview::default() })
        }
        result => result,
    }
}

async fn examined(context: &ControllerContext, cluster: &Cluster) -> Result<Preview, Refusal> {
    let observed = Box::pin(observed(context, cluster)).await?;
    let (obstacles, annotated) = (observed.obstacles(cluster), annotated(cluster, &observed.order));
    let Observed { settled, blueprint, servers, current, order } = &observed;
    let draft = Draft::new(context, settled, (blueprint, servers.external()), current, order);
    let preview = Box::pin(draft.preview()).await?;
    let (versions, steps) = (versions(order), observed.steps());
    Ok(Preview { versions, steps, cluster: annotated, obstacles, ..preview })
}

/// Returns the plan of the upgrade of a Cluster, with a topology or without. Nothing is written, not even in a dry run.
///
/// # Errors
/// The target cannot be reached; or the API's own failure.
pub(crate) async fn upgrade_preview(
    context: &ControllerContext,
    cluster: &Cluster,
) -> Result<UpgradePreview, Refusal> {
    let Some(topology) = &cluster.spec.topology else {
        return Box::pin(classless::preview(context, cluster)).await;
    };
    let target = topology.version.clone();
    match Box::pin(observed(context, cluster)).await {
        Ok(observed) => {
            let steps = observed.steps().into_iter().map(|step| UpgradeStep { step, image: None });
            Ok(UpgradePreview {
                target,
                versions: versions(&observed.order),
                steps: steps.collect(),
                obstacles: observed.obstacles(cluster),
                notes: Vec::new(),
            })
        }
        Err(Refusal::Failed(ReconcileError::Waiting { message, .. })) => {
            Ok(UpgradePreview { target, obstacles: vec![message], ..UpgradePreview::default() })
        }
        Err(refusal) => Err(refusal),
    }
}

/// Present state of a topology, and the passes that are to come.
struct Observed {
    /// Cluster with the defaults of its variables.
    settled: Cluster,
    blueprint: Blueprint,
    servers: Previewed,
    current: Current,
    order: Order,
}

async fn observed(context: &ControllerContext, cluster: &Cluster) -> Result<Observed, Refusal> {
    let blueprint = blueprint::read(context, cluster).await?;
    check_pools(cluster)?;
    let settled = variables::settled(cluster, &blueprint.class)
        .map_err(|message| Refusal::Field("spec.topology.variables", message))?;
    let current = current::read(context, cluster, &blueprint).await?;
    let listed = blueprint.class.spec.kubernetes_versions.clone().unwrap_or_default();
    let (state, groups) = (current.control_plane_state(), current.groups(cluster));
    let servers = Previewed::read(context, &blueprint.class).await?;
    let external = servers.external();
    let chosen = external::upgrade_plan(&external, cluster, &blueprint.class, state.as_ref(), &groups);
    let chosen = Box::pin(chosen).await.map_err(|obstacle| obstacle.of_preview(VERSION))?;
    let order = order::order(cluster, Source::of(chosen.as_ref(), &listed), state, groups)
        .map_err(|message| Refusal::Field(VERSION, message))?;
    Ok(Observed { settled, blueprint, servers, current, order })
}

impl Observed {
    fn kind(&self) -> &str {
        self.blueprint.control_plane.kind_of_object()
    }

    fn obstacles(&self, cluster: &Cluster) -> Vec<String> {
        obstacles(cluster, &self.order, self.kind())
    }

    /// Returns the changes of versions with the names of the objects.
    fn steps(&self) -> Vec<VersionStep> {
        let named = |kind: &str, name: String, version: &str| VersionStep {
            kind: kind.to_owned(),
            name,
            version: version.to_owned(),
        };
        let plane = self.current.control_plane.as_ref().map(super::desired::name).unwrap_or_default();
        let of_group = |group: &str| self.current.group(group).map(|it| it.object.name_any());
        let step = |step: &order::Step| match &step.group {
            None => named(self.kind(), plane.clone(), &step.version),
            Some(group) => named("MachineDeployment", of_group(group).unwrap_or_default(), &step.version),
        };
        self.order.steps.iter().map(step).collect()
    }
}

/// Returns the Cluster with the annotations of the pass that writes the control plane: its controller waits for them.
fn annotated(cluster: &Cluster, order: &Order) -> Cluster {
    let mut cluster = cluster.clone();
    let written = order.control_plane_turn().and_then(|pass| order.passes.get(pass));
    for (key, value) in written.map(annotations).into_iter().flatten() {
        match value {
            Some(value) => drop(cluster.annotations_mut().insert(key.to_owned(), value)),
            None => drop(cluster.annotations_mut().remove(key)),
        }
    }
    cluster
}

/// Returns the versions that remain.
pub(super) fn versions(order: &Order) -> (Vec<String>, Vec<String>) {
    let first = order.passes.first().map(|pass| pass.plan.clone()).unwrap_or_default();
    let Plan { control_plane, workers } = first;
    (control_plane, workers)
}

/// Returns what holds up the passes, in the words of the condition.
pub(super) fn obstacles(cluster: &Cluster, order: &Order, kind: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let is_new = cluster.spec.infrastructure_ref.is_none() && cluster.spec.control_plane_ref.is_none();
    let mut hooks = Hooks::of(cluster);
    if is_new && hooks.blocks(Hook::BeforeClusterCreate) {
        lines.push(report::creation_blocked(&hooks));
    }
    if let Some(first) = order.passes.first() {
        let plane = &first.control_plane;
        let waits =
            !order.steps.is_empty() || first.workers.iter().any(|it| it.progress == Progress::PendingCreate);
        let state = match (plane.is_provisioning, plane.is_upgrading) {
            (true, _) => Some("being provisioned".to_owned()),
            (_, true) => Some(format!("upgrading to version {}", plane.version)),
            _ => None,
        };
        lines.extend(
            state.filter(|_| waits).map(|state| format!("{kind} is {state}. Other steps wait for it")),
        );
        let rolling = |it: &&super::upgrade::workers::Decision| {
            matches!(it.progress, Progress::Upgrading | Progress::PendingWhileUpgrading)
        };
        let rolling = first.workers.iter().filter(rolling).filter(|_| !order.steps.is_empty());
        lines.extend(
            rolling
                .map(|it| format!("MachineDeployment {} is upgrading. Other steps wait for it", it.object)),
        );
    }
    if let Some(last) = order.passes.last() {
        let target = cluster.spec.topology.as_ref().map(|it| it.version.clone()).unwrap_or_default();
        lines.extend(report::blocked(last));
        lines.extend(report::deferred(last, &target));
    }
    lines
}

impl Owner {
    /// Returns an object that does not change.
    pub(crate) fn unchanged(object: Value) -> Self {
        Self { stored: Some(object.clone()), planned: object }
    }
}

impl PreviewedObject {
    fn of(effect: ObjectEffect, object: &Value, fields: Vec<String>) -> Self {
        let kind = object.get("kind").and_then(Value::as_str).unwrap_or_default();
        Self { effect, kind: kind.to_owned(), name: super::desired::name(object), fields }
    }
}
