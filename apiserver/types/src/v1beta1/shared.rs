//! Structures that several kinds share in v1beta1 and that have another shape in v1beta2.

use crate::object::wire;
use crate::shared::{Any, Condition, ConditionStatus, Gate, MachineTaint, TemplateMeta};

wire! {
    /// Reference to an object.
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    ObjectReference {
        optional {
            /// API group and version of the object.
            api_version: String,
            /// Path of a part of the object, e.g. `spec.containers[0]`.
            field_path: String,
            /// Kind of the object.
            kind: String,
            /// Name of the object.
            name: String,
            /// Namespace of the object.
            namespace: String,
            /// Resource version of the referenced object.
            resource_version: String,
            /// UID of the object.
            uid: String,
        }
    }

    /// Conditions in the form of v1beta2.
    V1Beta2Conditions {
        optional {
            /// Conditions, at most one per type.
            #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
            conditions: Vec<Condition>,
        }
    }

    /// Conditions and numbers of Machines in the form of v1beta2.
    V1Beta2Replicas {
        optional {
            /// Number of Machines whose Available condition is True.
            available_replicas: i32,
            /// Conditions, at most one per type.
            #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
            conditions: Vec<Condition>,
            /// Number of Machines whose Ready condition is True.
            ready_replicas: i32,
            /// Number of Machines whose UpToDate condition is True.
            up_to_date_replicas: i32,
        }
    }

    /// Source of the bootstrap data: a bootstrap object or a Secret.
    Bootstrap {
        optional {
            /// Reference to a bootstrap object that generates the data, e.g. a KubeadmConfig.
            config_ref: ObjectReference,
            /// Name of the Secret with the bootstrap data. If unset, the bootstrap object supplies it.
            #[schemars(length(min = 0, max = 253))]
            data_secret_name: String,
        }
    }

    /// Desired state of a Machine.
    MachineSpec {
        required {
            /// Source of the bootstrap data, which turns the server into a Node.
            bootstrap: Bootstrap,
            /// Name of the Cluster that the object belongs to, in the same namespace. Immutable.
            #[schemars(length(min = 1, max = 63))]
            cluster_name: String,
            /// Reference to the object that manages the server, e.g. an OpenStackMachine.
            infrastructure_ref: ObjectReference,
        }
        optional {
            /// Name of the failure domain in which the server is created.
            #[schemars(length(min = 1, max = 256))]
            failure_domain: String,
            /// Maximum time for deleting the Node, from the start of the Machine's deletion, as a Go
            /// duration. `0s` means no limit. Default: `10s`.
            node_deletion_timeout: String,
            /// Maximum time for draining the Node before deletion continues, as a Go duration. `0s` means no
            /// limit. Default: `0s`.
            node_drain_timeout: String,
            /// Maximum wait until the Node's volumes are detached, as a Go duration. `0s` means no limit.
            /// Default: `0s`.
            node_volume_detach_timeout: String,
            /// Id of the server at the cloud provider. The Node has the same id. The infrastructure provider
            /// sets it.
            #[serde(rename = "providerID")]
            #[schemars(length(min = 1, max = 512))]
            provider_id: String,
            /// Additional Machine conditions that the Ready condition depends on.
            #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"]))]
            readiness_gates: Vec<Gate>,
            /// Taints that are added to the Node of the Machine.
            #[schemars(length(min = 1, max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"]))]
            taints: Vec<MachineTaint>,
            /// Kubernetes version of the Machine, with a leading v.
            #[schemars(length(min = 1, max = 256))]
            version: String,
        }
    }

    /// Template of Machines.
    MachineTemplateSpec {
        optional {
            /// Labels and annotations of the created Machines.
            metadata: TemplateMeta,
            /// Spec of the created Machines.
            spec: MachineSpec,
        }
    }

    /// Node condition that marks a Machine as unhealthy after a timeout. Type and status are those of the
    /// Node.
    UnhealthyCondition {
        required {
            /// Status of the condition that marks the Machine as unhealthy: True, False or Unknown.
            #[schemars(length(min = 1))]
            status: String,
            /// Time for which the condition has this status before the Machine is unhealthy, as a Go
            /// duration, e.g. `5m`.
            timeout: String,
            /// Type of the condition.
            #[serde(rename = "type")]
            #[schemars(length(min = 1))]
            kind: String,
        }
    }

    /// Machine condition that marks a Machine as unhealthy after a timeout.
    UnhealthyMachineCondition {
        required {
            /// Status of the condition that marks the Machine as unhealthy: True, False or Unknown.
            status: ConditionStatus,
            /// Time for which the condition has this status before the Machine is unhealthy, as a Go
            /// duration, e.g. `5m`.
            timeout: String,
            /// Type of the condition.
            #[serde(rename = "type")]
            #[schemars(
                length(min = 1, max = 316),
                regex(pattern = crate::shared::CONDITION_TYPE),
                extend("x-kubernetes-validations" = [{
                    "rule": crate::shared::UNHEALTHY_TYPE_RULE, "message": crate::shared::UNHEALTHY_TYPE_MESSAGE,
                }])
            )]
            kind: String,
        }
    }

    /// Value of a ClusterClass variable.
    ClusterVariable {
        required {
            /// Name of the variable.
            #[schemars(length(min = 1, max = 256))]
            name: String,
            /// Value of the variable. It matches the schema of the variable.
            value: Any,
        }
        optional {
            /// Source of the variable's definition. Deprecated, without effect.
            #[schemars(length(max = 256))]
            definition_from: String,
        }
    }
}
