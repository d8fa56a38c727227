//! Pass over an upgrade: the decision, and the writes in their order.

use apiserver_types::{
    Cluster, ContractVersionedObjectReference, KubeadmControlPlane, MachineDeployment, UPGRADE,
};
use controllers_runtime::{ControllerContext, ReconcileError, Severity};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::super::UPGRADE_STEP;
use super::super::act::annotate;
use super::super::upgrade::Upgrade;
use super::super::upgrade::hooks::PENDING_HOOKS;
use super::super::upgrade::workers::Progress;
use super::observe::{self, Deployment, Observed};
use super::report::Report;
use super::{BLOCKED, CONTROL_PLANE, Request, decide, image, is_done};

/// Makes the next step of an upgrade, if nothing holds it.
///
/// # Errors
/// A person must act, or the API's own failure.
pub(super) async fn work(
    context: &ControllerContext,
    api: &Api<Cluster>,
    cluster: &mut Cluster,
    request: &Request,
) -> Result<Report, ReconcileError> {
    let observed = observe::read(context, cluster).await?;
    let upgrade =
        decide(cluster, request, &observed).map_err(|message| ReconcileError::waiting(BLOCKED, message))?;
    if is_done(&upgrade) {
        clear(api, cluster).await?;
        let message = format!("Upgraded to version {}", request.target);
        context.events.record(cluster, Severity::Normal, "UpgradeCompleted", &message).await;
        return Ok(Report::Ended);
    }
    // Before the control plane gets a version: a cancellation then knows which one that is.
    annotate(api, cluster, &upgrade).await?;
    let actor = Actor { context, cluster, observed: &observed };
    actor.write(&upgrade).await?;
    Ok(Report::of(cluster, request, &upgrade))
}

/// Removes the annotations of an upgrade.
///
/// # Errors
/// A conflict, if another client has written the Cluster since: it may have requested another upgrade.
pub(super) async fn clear(api: &Api<Cluster>, cluster: &mut Cluster) -> Result<(), ReconcileError> {
    let keys = [UPGRADE, UPGRADE_STEP, PENDING_HOOKS];
    let found = keys.into_iter().filter(|key| cluster.annotations().contains_key(*key));
    let changes: serde_json::Map<String, Value> = found.map(|key| (key.to_owned(), Value::Null)).collect();
    if changes.is_empty() {
        return Ok(());
    }
    let metadata =
        json!({"uid": cluster.uid(), "resourceVersion": cluster.resource_version(), "annotations": changes});
    let (name, params) = (cluster.name_any(), PatchParams::default());
    *cluster = api.patch(&name, &params, &Patch::Merge(&json!({"metadata": metadata}))).await?;
    Ok(())
}

/// Actor of a pass.
struct Actor<'a> {
    context: &'a ControllerContext,
    cluster: &'a Cluster,
    observed: &'a Observed,
}

impl Actor<'_> {
    /// Writes the versions that begin in this pass.
    async fn write(&self, upgrade: &Upgrade) -> Result<(), ReconcileError> {
        if upgrade.control_plane.is_starting {
            self.control_plane(&upgrade.control_plane.version).await?;
        }
        for decision in upgrade.workers.iter().filter(|it| it.progress == Progress::Starting) {
            if let Some(deployment) = self.observed.deployment(&decision.object) {
                self.deployment(deployment, &decision.version).await?;
            }
        }
        Ok(())
    }

    async fn control_plane(&self, to: &str) -> Result<(), ReconcileError> {
        let object = &self.observed.control_plane;
        let from = &object.spec.version;
        let reference = &object.spec.machine_template.spec.infrastructure_ref;
        let mut spec = json!({"version": to});
        if let Some(template) = self.template(reference, from, to).await? {
            spec["machineTemplate"] = json!({"spec": {"infrastructureRef": {"name": template}}});
        }
        let change = json!({"metadata": guard(object), "spec": spec});
        let api: Api<KubeadmControlPlane> = Api::namespaced(self.context.client.clone(), &self.namespace());
        api.patch(&object.name_any(), &PatchParams::default(), &Patch::Merge(&change)).await?;
        self.event(&format!("{CONTROL_PLANE} {}", object.name_any()), from, to).await;
        Ok(())
    }

    async fn deployment(&self, deployment: &Deployment, to: &str) -> Result<(), ReconcileError> {
        let (object, from) = (&deployment.object, deployment.version());
        let reference = &object.spec.template.spec.infrastructure_ref;
        let mut spec = json!({"version": to});
        if let Some(template) = self.template(reference, from, to).await? {
            spec["infrastructureRef"] = json!({"name": template});
        }
        let change = json!({"metadata": guard(object), "spec": {"template": {"spec": spec}}});
        let api: Api<MachineDeployment> = Api::namespaced(self.context.client.clone(), &self.namespace());
        api.patch(&object.name_any(), &PatchParams::default(), &Patch::Merge(&change)).await?;
        self.event(&format!("MachineDeployment {}", object.name_any()), from, to).await;
        Ok(())
    }

    /// Returns the name of the template with the image of a version, if Machines need another one than before.
    async fn template(
        &self,
        reference: &ContractVersionedObjectReference,
        from: &str,
        to: &str,
    ) -> Result<Option<String>, ReconcileError> {
        image::bring(self.context, &self.namespace(), reference, (from, to)).await
    }

    fn namespace(&self) -> String {
        self.cluster.namespace().unwrap_or_default()
    }

    async fn event(&self, object: &str, from: &str, to: &str) {
        let message = format!("Updated {object} with version {from} to {to}");
        self.context.events.record(self.cluster, Severity::Normal, "UpgradeStep", &message).await;
    }
}

/// Returns the metadata of a change that only applies to the object as it was read.
fn guard<K: kube::Resource>(object: &K) -> Value {
    json!({"uid": object.uid(), "resourceVersion": object.resource_version()})
}
