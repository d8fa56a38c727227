//! Planner of rollouts: plans for changed objects of the kinds that own Machines, and for Clusters.

mod cluster;
mod cluster_plan;
mod context;

use apiserver_types::{KubeadmControlPlane, MachineDeployment};
use controllers_runtime::{ControllerContext, PolicyRule, ReconcileError};
use kube::ResourceExt;
use serde::de::DeserializeOwned;
use serde_json::Value;

pub use context::{context, with_clouds};

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
    // Credentials of the cloud, whose quotas decide on a forecast. They are not watched.
    PolicyRule::SECRETS,
    PolicyRule { groups: &[""], resources: &["namespaces"], verbs: &["get"] },
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

/// Returns the plan for a changed object: a Cluster, or of a kind that owns Machines. `stored` is the object before the
/// change, and `context` comes from [`context()`].
///
/// # Errors
/// The change cannot be made, the kind has no plan, or the objects around it cannot be read.
pub async fn plan(
    context: &ControllerContext,
    kind: &str,
    changed: Value,
    stored: Value,
) -> Result<Value, PlanError> {
    let forecaster = Forecaster::default();
    match kind {
        "Cluster" => Box::pin(cluster::plan(context, &forecaster, decoded(changed)?)).await,
        "MachineDeployment" => {
            let changed: MachineDeployment = decoded(changed)?;
            let (namespace, name) = (changed.namespace().unwrap_or_default(), changed.name_any());
            let stored = decoded(stored)?;
            let plan = Box::pin(machine_deployment::plan(context, &forecaster, changed, &stored)).await?;
            Ok(plan.object(&namespace, &name))
        }
        "KubeadmControlPlane" => {
            let changed: KubeadmControlPlane = decoded(changed)?;
            let stored = decoded(stored)?;
            let plan = Box::pin(kubeadm_control_plane::plan(context, &forecaster, &changed, &stored)).await?;
            Ok(plan.object(&changed.namespace().unwrap_or_default(), &changed.name_any()))
        }
        other => Err(PlanError::Unavailable(format!("there is no plan for {other}"))),
    }
}

fn decoded<T: DeserializeOwned>(object: Value) -> Result<T, PlanError> {
    serde_json::from_value(object).map_err(|error| PlanError::Unavailable(error.to_string()))
}
