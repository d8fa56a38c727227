//! Blueprint of a Cluster: its ClusterClass, and the templates of the class.

use std::collections::BTreeMap;

use apiserver_types::{
    Cluster, ClusterClass, ConditionStatus, MachineDeploymentClass, MachineDeploymentTopology,
    RemediationTemplateRef, Topology,
};
use controllers_runtime::{ControllerContext, ReconcileError};
use kube::api::{ApiResource, DynamicObject};
use kube::{Api, ResourceExt};
use serde_json::Value;

/// Reason of a failure that is none of the others.
pub(super) const FAILED: &str = "ReconcileFailed";

/// Reason of a class whose controller has not seen its newest generation.
pub(super) const CLASS_NOT_RECONCILED: &str = "ClusterClassNotReconciled";

/// Template of a class, in the version that the class names.
#[derive(Debug, Clone)]
pub(super) struct Template {
    pub resource: ApiResource,
    pub object: Value,
}

impl Template {
    /// Returns the name of the template.
    pub(super) fn name(&self) -> String {
        self.object.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default().to_owned()
    }

    /// Returns the kind of the objects that are made from the template.
    pub(super) fn kind_of_object(&self) -> &str {
        self.resource.kind.strip_suffix("Template").unwrap_or(&self.resource.kind)
    }
}

/// Templates of a class of workers.
#[derive(Debug, Clone)]
pub(super) struct WorkerTemplates {
    pub bootstrap: Template,
    pub infrastructure: Template,
}

/// Class of a Cluster with its templates.
#[derive(Debug, Clone)]
pub(super) struct Blueprint {
    pub class: ClusterClass,
    pub infrastructure: Template,
    pub control_plane: Template,
    /// Infrastructure of control plane Machines.
    pub control_plane_machine: Option<Template>,
    /// By the name of the class of workers.
    pub deployments: BTreeMap<String, WorkerTemplates>,
}

impl Blueprint {
    /// Returns the class of a worker group and its templates.
    ///
    /// # Errors
    /// The ClusterClass has no such class. For people.
    pub(super) fn of_group(
        &self,
        group: &MachineDeploymentTopology,
    ) -> Result<(&MachineDeploymentClass, &WorkerTemplates), String> {
        let mut classes = classes(&self.class).iter();
        let class = classes.find(|class| class.class == group.class);
        class.zip(self.deployments.get(&group.class)).ok_or_else(|| {
            let (class, name) = (&group.class, self.class.name_any());
            format!(
                "MachineDeploymentClass {class} of worker group {} does not exist in ClusterClass {name}. Correct \
                 spec.topology.workers.machineDeployments[{}].class",
                group.name, group.name
            )
        })
    }
}

fn classes(class: &ClusterClass) -> &[MachineDeploymentClass] {
    class.spec.workers.as_ref().and_then(|it| it.machine_deployments.as_deref()).unwrap_or_default()
}

/// Returns the topology of a Cluster. A pass is made over Clusters that have one only.
pub(super) fn topology(cluster: &Cluster) -> Topology {
    cluster.spec.topology.clone().unwrap_or_default()
}

/// Returns the worker groups of a topology.
pub(super) fn groups(cluster: &Cluster) -> &[MachineDeploymentTopology] {
    let workers = cluster.spec.topology.as_ref().and_then(|topology| topology.workers.as_ref());
    workers.and_then(|workers| workers.machine_deployments.as_deref()).unwrap_or_default()
}

/// Reads the class of a Cluster and all its templates.
///
/// # Errors
/// Something is missing or not ready, or the API's own failure.
pub(super) async fn read(
    context: &ControllerContext,
    cluster: &Cluster,
) -> Result<Blueprint, ReconcileError> {
    let reference = topology(cluster).class_ref;
    let namespace = reference.namespace.unwrap_or_else(|| cluster.namespace().unwrap_or_default());
    let api: Api<ClusterClass> = Api::namespaced(context.client.clone(), &namespace);
    let Some(class) = api.get_opt(&reference.name).await? else {
        let message = format!("ClusterClass {namespace}/{} does not exist", reference.name);
        return Err(ReconcileError::waiting(FAILED, message));
    };
    check(&class).map_err(|(reason, message)| ReconcileError::waiting(reason, message))?;
    let read = |reference: RemediationTemplateRef| template(context, namespace.clone(), reference);
    let infrastructure = read(class.spec.infrastructure.template_ref.clone()).await?;
    let control_plane = read(class.spec.control_plane.template_ref.clone()).await?;
    let control_plane_machine = match &class.spec.control_plane.machine_infrastructure {
        Some(holder) => Some(read(holder.template_ref.clone()).await?),
        None => None,
    };
    let mut deployments = BTreeMap::new();
    for workers in classes(&class) {
        let templates = WorkerTemplates {
            bootstrap: read(workers.bootstrap.template_ref.clone()).await?,
            infrastructure: read(workers.infrastructure.template_ref.clone()).await?,
        };
        deployments.insert(workers.class.clone(), templates);
    }
    Ok(Blueprint { class, infrastructure, control_plane, control_plane_machine, deployments })
}

/// Checks that the controller of classes has seen the class. Returns reason and text of an obstacle.
fn check(class: &ClusterClass) -> Result<(), (&'static str, String)> {
    let name = format!("ClusterClass {}/{}", class.namespace().unwrap_or_default(), class.name_any());
    let status = class.status.clone().unwrap_or_default();
    if let Some(ready) = class.condition("VariablesReady").filter(|it| it.status == ConditionStatus::False) {
        return Err((FAILED, format!("{name}: its variables are not ready: {}", ready.message)));
    }
    if status.observed_generation != class.metadata.generation {
        let mut message = format!("{name}: its newest generation has not been reconciled yet");
        if let Some(cause) = obstacle(class) {
            message = format!("{message}. {cause}");
        }
        return Err((CLASS_NOT_RECONCILED, message));
    }
    Ok(())
}

/// Returns what keeps the newest generation of a class from being reconciled, in the words of its conditions.
fn obstacle(class: &ClusterClass) -> Option<String> {
    let of = |kind: &str, status: ConditionStatus| {
        let found = class.condition(kind).filter(|it| it.status == status);
        found.filter(|it| it.observed_generation == class.metadata.generation)
    };
    let paused = of("Paused", ConditionStatus::True);
    let found = paused.or_else(|| of("RefVersionsUpToDate", ConditionStatus::Unknown))?;
    Some(found.message.replace('\n', "; "))
}

/// Reads a template in the version of its reference.
async fn template(
    context: &ControllerContext,
    namespace: String,
    reference: RemediationTemplateRef,
) -> Result<Template, ReconcileError> {
    let (kind, name) = (&reference.kind, &reference.name);
    let resource = resource(context, &reference.api_version, kind).ok_or_else(|| {
        let message = format!("kind {kind} of {} is not served here", reference.api_version);
        ReconcileError::waiting(FAILED, message)
    })?;
    let api: Api<DynamicObject> = Api::namespaced_with(context.client.clone(), &namespace, &resource);
    let Some(object) = api.get_opt(name).await? else {
        let message = format!("{kind} {namespace}/{name} of the ClusterClass does not exist");
        return Err(ReconcileError::waiting(FAILED, message));
    };
    Ok(Template { resource, object: value(&object) })
}

/// Returns the resource of a kind in one of its versions, if that is served.
pub(super) fn resource(context: &ControllerContext, api_version: &str, kind: &str) -> Option<ApiResource> {
    let (group, version) = api_version.split_once('/')?;
    let mut kinds = context.kinds.iter();
    let found = kinds.find(|it| it.resource.group == group && it.resource.kind == kind)?;
    found.versions.iter().any(|served| served == version).then(|| ApiResource {
        version: version.to_owned(),
        api_version: api_version.to_owned(),
        ..found.resource.clone()
    })
}

/// Returns an object as JSON.
pub(super) fn value<K: serde::Serialize>(object: &K) -> Value {
    serde_json::to_value(object).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use apiserver_types::{ClusterClassSpec, ClusterClassStatus, Condition, Time};

    use super::*;

    #[test]
    fn a_class_is_used_once_its_controller_has_seen_it() {
        let mut class = ClusterClass::new("c", ClusterClassSpec::default());
        class.metadata.generation = Some(2);
        assert_eq!(check(&class).unwrap_err().0, CLASS_NOT_RECONCILED);
        let ready = |status, reason: &str, message: &str| {
            Some(vec![Condition::new("VariablesReady", status, reason, message, Time::default())])
        };
        let conditions = ready(ConditionStatus::True, "VariablesReady", "");
        let status =
            ClusterClassStatus { observed_generation: Some(2), conditions, ..ClusterClassStatus::default() };
        class.status = Some(status);
        assert_eq!(check(&class), Ok(()));
        let failed = ready(ConditionStatus::False, "VariableDiscoveryFailed", "no answer");
        class.status.as_mut().unwrap().conditions = failed;
        let (reason, message) = check(&class).unwrap_err();
        assert_eq!(reason, FAILED);
        assert!(message.ends_with("its variables are not ready: no answer"), "{message}");
    }

    #[test]
    fn a_class_that_cannot_be_reconciled_says_why() {
        let mut class = ClusterClass::new("c", ClusterClassSpec::default());
        class.metadata.generation = Some(2);
        let mut said = |kind: &str, status, message: &str, generation| {
            let condition = Condition::new(kind, status, "Reason", message, Time::default());
            let conditions = Some(vec![condition.at_generation(Some(generation))]);
            class.status = Some(ClusterClassStatus { conditions, ..ClusterClassStatus::default() });
            let (reason, message) = check(&class).unwrap_err();
            assert_eq!(reason, CLASS_NOT_RECONCILED);
            message.split_once(" reconciled yet").map(|(_, cause)| cause.to_owned())
        };
        let missing = "Foo t does not exist\nFoo u does not exist";
        let found = said("RefVersionsUpToDate", ConditionStatus::Unknown, missing, 2);
        assert_eq!(found.as_deref(), Some(". Foo t does not exist; Foo u does not exist"));
        let found = said("Paused", ConditionStatus::True, "it has the annotation", 2);
        assert_eq!(found.as_deref(), Some(". it has the annotation"));
        let found = said("RefVersionsUpToDate", ConditionStatus::Unknown, missing, 1);
        assert_eq!(found.as_deref(), Some(""), "this was said of an older generation");
    }
}
