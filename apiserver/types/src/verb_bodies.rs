//! Request bodies of the verbs of Clusters, MachineDeployments and control planes.

use serde_json::Value;

use crate::object::wire;
use crate::schema::structural;
use crate::shared::AnyObject;

wire! {
    /// Request for a rollout that replaces all Machines, as if their template had changed.
    RolloutRestart {
        optional {
            /// `capstan.dev/v1alpha1`, or unset.
            api_version: String,
            /// Kind of this body, or unset.
            kind: String,
            /// Reason, for the history.
            #[schemars(length(max = 256))]
            reason: String,
        }
    }

    /// Request for the history of a MachineDeployment. It has no fields of its own.
    RolloutHistory {
        optional {
            /// `capstan.dev/v1alpha1`, or unset.
            api_version: String,
            /// Kind of this body, or unset.
            kind: String,
        }
    }

    /// Request for the first cause that holds up a Cluster. It has no fields of its own.
    ClusterWhyRequest {
        optional {
            /// `capstan.dev/v1alpha1`, or unset.
            api_version: String,
            /// Kind of this body, or unset.
            kind: String,
        }
    }

    /// Request for an upgrade of a Cluster to another version of Kubernetes, or for its end at the next safe point.
    ClusterUpgradeRequest {
        optional {
            /// `capstan.dev/v1alpha1`, or unset.
            api_version: String,
            /// If true, the upgrade in progress ends at the version that the control plane has taken last. `version` is
            /// unset then. Default: false.
            cancel: bool,
            /// If true, nothing changes, and the response is the plan. Default: false.
            dry_run: bool,
            /// Kind of this body, or unset.
            kind: String,
            /// Reason, for the annotation `kubernetes.io/change-cause` of the Cluster.
            #[schemars(length(max = 256))]
            reason: String,
            /// Versions on the way to `version`, one of each minor version between, in their order. For a Cluster without a
            /// topology; the class of a topology lists its versions. Default: none.
            #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "atomic"))]
            through: Vec<String>,
            /// Target version of Kubernetes, with a leading v, for example `v1.35.2`. Required, unless `cancel` is true.
            #[schemars(length(min = 1, max = 256))]
            version: String,
        }
    }

    /// Request for the plan of a change. The change is a part of the object, to be merged into it; with
    /// `metadata.resourceVersion`, it is the whole object. Without a change, the plan is that of the present object.
    RolloutPlanRequest {
        optional {
            /// Stored version of the object, for example `cluster.x-k8s.io/v1beta2`, or unset.
            api_version: String,
            /// Kind of the object, or unset.
            kind: String,
            /// Metadata of the changed object.
            metadata: AnyObject,
            /// Spec of the changed object.
            spec: AnyObject,
            /// Status of the object. It is ignored.
            status: AnyObject,
        }
    }

    /// Request for an earlier template of a MachineDeployment.
    RolloutRollback {
        optional {
            /// `capstan.dev/v1alpha1`, or unset.
            api_version: String,
            /// If true, nothing changes, and the response is the MachineDeployment as it would be. Default: false.
            dry_run: bool,
            /// Kind of this body, or unset.
            kind: String,
            /// Reason, for the history.
            #[schemars(length(max = 256))]
            reason: String,
            /// Number of the revision. 0 is the one before the present one. Default: 0.
            #[schemars(range(min = 0), extend("default" = 0))]
            to_revision: i64,
        }
    }
}

/// Schemas of the request bodies of all verbs, by their kinds.
pub fn verb_bodies() -> Vec<(&'static str, Value)> {
    vec![
        ("RolloutRestart", structural::<RolloutRestart>()),
        ("RolloutHistory", structural::<RolloutHistory>()),
        ("RolloutRollback", structural::<RolloutRollback>()),
        ("ClusterWhyRequest", structural::<ClusterWhyRequest>()),
        ("ClusterUpgradeRequest", structural::<ClusterUpgradeRequest>()),
        ("RolloutPlanRequest", structural::<RolloutPlanRequest>()),
    ]
}
