//! Planner of rollouts: plans for changed objects of the kinds that own Machines, for Clusters, and for templates.

mod cluster;
mod cluster_plan;
mod context;
mod drains;
mod template;
mod upgrade;

use std::collections::BTreeSet;
use std::time::Duration;

use apiserver_types::{KubeadmControlPlane, Machine, MachineDeployment};
use controllers_extensions::{READ_HANDLERS, READ_NAMESPACES};
use controllers_runtime::{ControllerContext, PolicyRule, ReconcileError};
use kube::ResourceExt;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use context::{context, with_clouds, with_workloads};

use crate::quota_forecast::Forecaster;
use crate::{kubeadm_control_plane, machine_deployment};

/// Identity that reads the objects around a planned change, and makes the dry runs.
pub const IDENTITY: &str = "rollout-planner";

/// Permissions of the identity. The client of [`context()`] uses those to write for dry runs alone.
pub const RULES: &[PolicyRule] = &[
    PolicyRule { groups: &["cluster.x-k8s.io"], resources: &["*"], verbs: PolicyRule::READ },
    PolicyRule {
        groups: &["cluster.x-k8s.io"],
        resources: &["machinedeployments", "machinehealthchecks"],
        verbs: &["create", "patch"],
    },
    PolicyRule {
        groups: &[
            "bootstrap.cluster.x-k8s.io",
            "controlplane.cluster.x-k8s.io",
            "infrastructure.cluster.x-k8s.io",
        ],
        resources: &["*"],
        verbs: &["get", "list", "watch", "create", "patch"],
    },
    PolicyRule {
        groups: &["capstan.dev"],
        resources: &["machinedeploymentrevisions"],
        verbs: PolicyRule::READ,
    },
    PolicyRule::USE_IDENTITIES,
    // Credentials of the cloud, whose quotas decide on a forecast, and of the workload cluster. They are not watched.
    PolicyRule::SECRETS,
    READ_NAMESPACES,
    // Extension servers that patch templates, or plan upgrades.
    READ_HANDLERS,
];

/// Reason for which there is no plan.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PlanError {
    /// The change cannot be made: path of the field, and why. For people.
    Invalid(String, String),
    /// The plan cannot be made now. For people.
    Unavailable(String),
}

impl From<ReconcileError> for PlanError {
    fn from(error: ReconcileError) -> Self {
        Self::Unavailable(error.to_string())
    }
}

/// Longest times of the reads of a plan outside the API. Without a time, there are no such reads.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// Time of all reads in clouds, for the forecasts of quotas.
    pub clouds: Duration,
    /// Time of all reads in workload clusters, for the budgets that drains meet.
    pub workloads: Duration,
}

/// Returns the plan for a changed object: a Cluster, one of a kind that owns Machines, or a template whose edits have
/// revisions. `stored` is the object before the change, and `context` comes from [`context()`]. The plan of a template has
/// the form of that of a Cluster. With the kind `ClusterUpgrade`, the object is a Cluster, and the plan has the versions of
/// its upgrade, and no Machines.
///
/// # Errors
/// The change cannot be made, the kind has no plan, or the objects around it cannot be read.
pub async fn plan(
    context: &ControllerContext,
    kind: &str,
    changed: Value,
    stored: Value,
    limits: Limits,
) -> Result<Value, PlanError> {
    let forecaster = Forecaster::within(limits.clouds);
    let drained = limits.workloads;
    match kind {
        "Cluster" => Box::pin(cluster::plan(context, &forecaster, drained, decoded(changed)?)).await,
        "MachineDeployment" => {
            let changed: MachineDeployment = decoded(changed)?;
            let (namespace, name) = (changed.namespace().unwrap_or_default(), changed.name_any());
            let stored = decoded(stored)?;
            let checks = machine_deployment::preflight(context, &changed).await?;
            let mut plan = Box::pin(machine_deployment::plan(context, &forecaster, changed, &stored)).await?;
            if plan.creates() {
                plan.obstacles.extend(checks);
            }
            plan.drains = of_names(context, drained, &namespace, &plan.going()).await;
            Ok(plan.object(&namespace, &name))
        }
        "KubeadmControlPlane" => {
            let changed: KubeadmControlPlane = decoded(changed)?;
            let stored = decoded(stored)?;
            let plan = Box::pin(kubeadm_control_plane::plan(context, &forecaster, &changed, &stored));
            let (mut plan, namespace) = (plan.await?, changed.namespace().unwrap_or_default());
            plan.drains = of_names(context, drained, &namespace, &plan.going()).await;
            Ok(plan.object(&namespace, &changed.name_any()))
        }
        "OpenStackMachineTemplate" | "KubeadmConfigTemplate" => {
            Box::pin(template::plan(context, &forecaster, drained, &changed)).await
        }
        "ClusterUpgrade" => Box::pin(upgrade::plan(context, drained, decoded(changed)?)).await,
        other => Err(PlanError::Unavailable(format!("there is no plan for {other}"))),
    }
}

/// Returns the sentences about the drains of the Machines of these names.
async fn of_names(
    context: &ControllerContext,
    longest: Duration,
    namespace: &str,
    names: &BTreeSet<String>,
) -> Vec<String> {
    if names.is_empty() {
        return Vec::new();
    }
    let selects = |machine: &Machine| names.contains(&machine.name_any());
    Box::pin(drains::blocked(context, longest, namespace, &selects)).await
}

fn decoded<T: DeserializeOwned>(object: Value) -> Result<T, PlanError> {
    serde_json::from_value(object).map_err(|error| PlanError::Unavailable(error.to_string()))
}
