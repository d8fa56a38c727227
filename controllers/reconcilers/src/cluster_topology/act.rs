//! Pass over a topology: decisions, and the writes in their order.

use apiserver_types::Cluster;
use controllers_extensions::{ExtensionServers, Extensions};
use controllers_runtime::{ControllerContext, ReconcileError};
use kube::api::{Patch, PatchParams};
use kube::{Api, ResourceExt};
use serde_json::{Value, json};

use super::blueprint::{self, Blueprint, FAILED, topology, value};
use super::current::{self, Current};
use super::desired::{self, Desired, DesiredGroup, name};
use super::external::{self, External, Plans};
use super::lifecycle::Lifecycle;
use super::upgrade::hooks::{Hook, PENDING_HOOKS};
use super::upgrade::plan::Source;
use super::upgrade::{self, Upgrade};
use super::write::Writer;
use super::{UPGRADE_STEP, naming, revision, sweep, variables};

/// Result of a pass.
#[derive(Debug, Clone, Default)]
pub(super) struct Outcome {
    pub upgrade: Upgrade,
    /// Kind of the control plane, for texts.
    pub control_plane_kind: String,
    /// The Cluster is not made yet, because a hook holds it up.
    pub is_held: bool,
}

/// Error of a decision. For people.
fn failed(message: String) -> ReconcileError {
    ReconcileError::waiting(FAILED, message)
}

/// Makes a pass.
///
/// # Errors
/// Something is missing or refused, or the API's own failure.
pub(super) async fn work(
    context: &ControllerContext,
    (servers, lifecycle, plans): (&ExtensionServers, &Lifecycle, &Plans),
    api: &Api<Cluster>,
    cluster: &mut Cluster,
) -> Result<Outcome, ReconcileError> {
    let blueprint = blueprint::read(context, cluster).await?;
    check_pools(cluster)?;
    let settled = variables::settled(cluster, &blueprint.class).map_err(failed)?;
    let current = current::read(context, cluster, &blueprint).await?;
    let listed = blueprint.class.spec.kubernetes_versions.clone().unwrap_or_default();
    let extensions = Extensions::read(context, servers).await?;
    let external = External::new(&extensions, plans);
    let (state, groups) = (current.control_plane_state(), current.groups(cluster));
    let chosen = external::upgrade_plan(&external, cluster, &blueprint.class, state.as_ref(), &groups);
    let chosen = Box::pin(chosen).await?;
    let source = Source::of(chosen.as_ref(), &listed);
    let decision = |hooks| upgrade::decide_topology(hooks, cluster, source, state.as_ref(), &groups);
    let decided = Box::pin(lifecycle.decide(&extensions, cluster, decision)).await.map_err(failed)?;
    let upgrade = decided.upgrade;
    if decided.has_called {
        // At once: what follows may fail, and servers that have agreed need not be called again then.
        annotate_with(api, cluster, [(PENDING_HOOKS, upgrade.hooks.pending_before())]).await?;
    }
    if let Some(failure) = decided.failure {
        return Err(failure.waiting(FAILED));
    }
    let control_plane_kind = blueprint.control_plane.kind_of_object().to_owned();
    if upgrade.hooks.blocking.iter().any(|(hook, _)| *hook == Hook::BeforeClusterCreate) {
        return Ok(Outcome { upgrade, control_plane_kind, is_held: true });
    }
    let parts = desired::parts(&settled, &blueprint, &current, &upgrade).map_err(failed)?;
    let patched = Box::pin(external::patch(&external, &settled, &blueprint, &parts)).await?;
    let desired = desired::desired(&settled, &blueprint, &parts, &patched).map_err(failed)?;
    drop(parts);
    if decided.has_called || external::names_servers(&blueprint.class) {
        revision::check(api, cluster).await?;
    }
    annotate(api, cluster, &upgrade).await?;
    let actor = Actor { context, api, blueprint: &blueprint, current: &current, upgrade: &upgrade };
    actor.write(cluster, &desired).await?;
    Ok(Outcome { upgrade, control_plane_kind, is_held: false })
}

/// Refuses MachinePools: no kind of this server can be their infrastructure.
///
/// # Errors
/// The topology has one.
pub(super) fn check_pools(cluster: &Cluster) -> Result<(), ReconcileError> {
    let workers = topology(cluster).workers.unwrap_or_default();
    match workers.machine_pools.unwrap_or_default().first() {
        Some(pool) => Err(failed(format!(
            "worker group {} is a MachinePool, and no infrastructure of MachinePools is served here. Use \
             spec.topology.workers.machineDeployments",
            pool.name
        ))),
        None => Ok(()),
    }
}

/// Returns the annotations of a Cluster during an upgrade. `None` removes one.
pub(super) fn annotations(upgrade: &Upgrade) -> [(&'static str, Option<String>); 2] {
    [(PENDING_HOOKS, upgrade.hooks.pending()), (UPGRADE_STEP, upgrade.step().map(str::to_owned))]
}

/// Writes the annotations of an upgrade. This comes before the control plane gets a version, so that no hook of the step
/// is lost.
///
/// # Errors
/// A conflict, if another client has written more than the status of the Cluster since.
pub(super) async fn annotate(
    api: &Api<Cluster>,
    cluster: &mut Cluster,
    upgrade: &Upgrade,
) -> Result<(), ReconcileError> {
    annotate_with(api, cluster, annotations(upgrade)).await
}

/// Writes annotations, unless the Cluster has them.
async fn annotate_with<const N: usize>(
    api: &Api<Cluster>,
    cluster: &mut Cluster,
    annotations: [(&'static str, Option<String>); N],
) -> Result<(), ReconcileError> {
    let changes =
        annotations.into_iter().filter(|(key, value)| cluster.annotations().get(*key) != value.as_ref());
    let changes: serde_json::Map<String, Value> =
        changes.map(|(key, value)| (key.to_owned(), json!(value))).collect();
    if changes.is_empty() {
        return Ok(());
    }
    let written = match change(api, cluster, &changes).await {
        Err(error) if error.is_conflict() => match revision::newer(api, cluster).await? {
            Some(newer) => change(api, &newer, &changes).await,
            None => Err(error),
        },
        written => written,
    };
    *cluster = written?;
    Ok(())
}

/// Changes annotations of a Cluster at its revision.
async fn change(
    api: &Api<Cluster>,
    cluster: &Cluster,
    changes: &serde_json::Map<String, Value>,
) -> Result<Cluster, ReconcileError> {
    let metadata =
        json!({"uid": cluster.uid(), "resourceVersion": cluster.resource_version(), "annotations": changes});
    let (name, params) = (cluster.name_any(), PatchParams::default());
    Ok(api.patch(&name, &params, &Patch::Merge(&json!({"metadata": metadata}))).await?)
}

/// Actor of a pass.
struct Actor<'a> {
    context: &'a ControllerContext,
    api: &'a Api<Cluster>,
    blueprint: &'a Blueprint,
    current: &'a Current,
    upgrade: &'a Upgrade,
}

impl Actor<'_> {
    async fn write(&self, cluster: &mut Cluster, desired: &Desired) -> Result<(), ReconcileError> {
        let of_pass = cluster.clone();
        let writer = Writer::new(self.context, &of_pass);
        let infrastructure =
            writer.bring(&desired.infrastructure, self.current.infrastructure.as_ref()).await?;
        let control_plane = self.control_plane(&writer, desired).await;
        let made = control_plane.as_ref().ok().map(String::as_str);
        // Even if the control plane failed: the deletion of the Cluster finds the infrastructure by this reference.
        self.refer(cluster, &infrastructure, made).await?;
        control_plane?;
        let mut used = Vec::new();
        for group in &desired.groups {
            used.extend(self.group(&writer, group).await?);
        }
        self.remove_groups(&writer, cluster).await?;
        self.remove_checks(&writer, desired).await?;
        sweep::sweep(self.context, &writer, &of_pass, self.blueprint, &used).await
    }

    /// Writes health check, template and object of the control plane, in this order. Returns the name of the object.
    async fn control_plane(&self, writer: &Writer<'_>, desired: &Desired) -> Result<String, ReconcileError> {
        let current = self.current.control_plane.as_ref();
        writer.ensure_accepted(&desired.control_plane, current).await?;
        self.check(writer, desired.control_plane_check.as_ref()).await?;
        if self.upgrade.control_plane.is_pending {
            return Ok(name(&desired.control_plane));
        }
        let mut object = desired.control_plane.clone();
        let mut made = None;
        if let Some(template) = &desired.control_plane_machine {
            let prefix = naming::prefix_of(template);
            let known = self.current.control_plane_machine.as_ref();
            let brought = writer.bring_template(template, known, &prefix).await?;
            desired::refer_to_machine_template(&mut object, &brought.name);
            made = brought.made;
        }
        match (writer.bring(&object, current).await, made) {
            (Err(error), Some(made)) => {
                writer.delete(&made).await?;
                Err(error)
            }
            (result, _) => result,
        }
    }

    /// Writes the references of the Cluster.
    async fn refer(
        &self,
        cluster: &mut Cluster,
        infrastructure: &str,
        control_plane: Option<&str>,
    ) -> Result<(), ReconcileError> {
        let reference = |template: &blueprint::Template, name: &str| json!({"apiGroup": template.resource.group, "kind": template.kind_of_object(), "name": name});
        let mut spec = serde_json::Map::new();
        if cluster.spec.infrastructure_ref.is_none() {
            let reference = reference(&self.blueprint.infrastructure, infrastructure);
            spec.insert("infrastructureRef".to_owned(), reference);
        }
        if let Some(name) = control_plane.filter(|_| cluster.spec.control_plane_ref.is_none()) {
            spec.insert("controlPlaneRef".to_owned(), reference(&self.blueprint.control_plane, name));
        }
        if spec.is_empty() {
            return Ok(());
        }
        let change = json!({"metadata": {"uid": cluster.uid()}, "spec": spec});
        let (name, params) = (cluster.name_any(), PatchParams::default());
        *cluster = self.api.patch(&name, &params, &Patch::Merge(&change)).await?;
        Ok(())
    }

    /// Writes health check, templates and object of a worker group. Returns the names of its templates.
    async fn group(&self, writer: &Writer<'_>, group: &DesiredGroup) -> Result<Vec<String>, ReconcileError> {
        let current = self.current.group(&group.topology_name);
        let known = current.map(|it| value(&it.object));
        writer.ensure_accepted(&group.object, known.as_ref()).await?;
        self.check(writer, group.check.as_ref()).await?;
        if !group.is_written {
            return Ok(vec![name(&group.bootstrap), name(&group.infrastructure)]);
        }
        let templates = [
            (&group.bootstrap, current.and_then(|it| it.bootstrap.as_ref()), desired::BOOTSTRAP),
            (
                &group.infrastructure,
                current.and_then(|it| it.infrastructure.as_ref()),
                desired::INFRASTRUCTURE,
            ),
        ];
        let (mut object, mut used, mut made) = (group.object.clone(), Vec::new(), Vec::new());
        let mut result = Ok(());
        for (intent, known, field) in templates {
            match writer.bring_template(intent, known, &naming::prefix_of(intent)).await {
                Ok(brought) => {
                    desired::refer_to_template(&mut object, field, &brought.name);
                    used.push(brought.name);
                    made.extend(brought.made);
                }
                Err(error) => {
                    result = Err(error);
                    break;
                }
            }
        }
        let result = match result {
            Ok(()) => writer.bring(&object, known.as_ref()).await.map(|_| ()),
            error => error,
        };
        if result.is_err() {
            for template in &made {
                writer.delete(template).await?;
            }
        }
        result.map(|()| used)
    }

    /// Deletes the MachineDeployments of groups that left the topology.
    async fn remove_groups(&self, writer: &Writer<'_>, cluster: &Cluster) -> Result<(), ReconcileError> {
        for gone in self.current.unwanted_groups(cluster) {
            writer.delete(&value(&gone.object)).await?;
        }
        Ok(())
    }

    async fn check(&self, writer: &Writer<'_>, intent: Option<&Value>) -> Result<(), ReconcileError> {
        let Some(intent) = intent else { return Ok(()) };
        let current = self.current.health_check(&name(intent)).map(value);
        writer.bring(intent, current.as_ref()).await.map(|_| ())
    }

    /// Deletes the health checks that are no longer wanted.
    async fn remove_checks(&self, writer: &Writer<'_>, desired: &Desired) -> Result<(), ReconcileError> {
        let wanted = desired.groups.iter().filter_map(|group| group.check.as_ref());
        let wanted: Vec<String> = wanted.chain(&desired.control_plane_check).map(name).collect();
        for check in self.current.unwanted_checks(&wanted) {
            writer.delete(&value(check)).await?;
        }
        Ok(())
    }
}
