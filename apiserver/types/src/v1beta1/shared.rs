//! Structures that several kinds use in v1beta1 and that v1beta2 has in another shape.

use crate::object::wire;
use crate::shared::{Any, Condition, ConditionStatus, Gate, MachineTaint, TemplateMeta};

wire! {
    /// Another object, wherever it is.
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    ObjectReference {
        optional {
            /// Group and version.
            api_version: String,
            /// A part of the object.
            field_path: String,
            /// Kind.
            kind: String,
            /// Name.
            name: String,
            /// Namespace.
            namespace: String,
            /// The state that was meant.
            resource_version: String,
            /// UID.
            uid: String,
        }
    }

    /// Conditions as v1beta2 reports them.
    V1Beta2Conditions {
        optional {
            /// Conditions.
            #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
            conditions: Vec<Condition>,
        }
    }

    /// Conditions and counts as v1beta2 reports them of a kind that has replicas.
    V1Beta2Replicas {
        optional {
            /// Available ones.
            available_replicas: i32,
            /// Conditions.
            #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
            conditions: Vec<Condition>,
            /// Ready ones.
            ready_replicas: i32,
            /// Those that are as wanted.
            up_to_date_replicas: i32,
        }
    }

    /// Where bootstrap data comes from: one of the two.
    Bootstrap {
        optional {
            /// An object that makes it.
            config_ref: ObjectReference,
            /// A Secret that has it ready.
            #[schemars(length(min = 0, max = 253))]
            data_secret_name: String,
        }
    }

    /// What is wanted of a Machine.
    MachineSpec {
        required {
            /// Where the data comes from that makes a server a node.
            bootstrap: Bootstrap,
            /// The Cluster it belongs to. Immutable.
            #[schemars(length(min = 1, max = 63))]
            cluster_name: String,
            /// The object that stands for the server.
            infrastructure_ref: ObjectReference,
        }
        optional {
            /// Where it is to be.
            #[schemars(length(min = 1, max = 256))]
            failure_domain: String,
            /// Retry deleting the Node for so long, e.g. `10s`; `0s` is for ever.
            node_deletion_timeout: String,
            /// Drain for at most so long; `0s` is without limit.
            node_drain_timeout: String,
            /// Wait for volumes to be detached for at most so long; `0s` is without limit.
            node_volume_detach_timeout: String,
            /// The cloud's id of the server; the Node has the same.
            #[serde(rename = "providerID")]
            #[schemars(length(min = 1, max = 512))]
            provider_id: String,
            /// Conditions that Ready needs beside the standard ones.
            #[schemars(length(max = 32), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["conditionType"]))]
            readiness_gates: Vec<Gate>,
            /// Taints of its Node.
            #[schemars(length(min = 1, max = 64), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["key", "effect"]))]
            taints: Vec<MachineTaint>,
            /// Kubernetes version, with a leading v.
            #[schemars(length(min = 1, max = 256))]
            version: String,
        }
    }

    /// What Machines are made from.
    MachineTemplateSpec {
        optional {
            /// Labels and annotations of the Machines.
            metadata: TemplateMeta,
            /// What is wanted of them.
            spec: MachineSpec,
        }
    }

    /// A Node condition that, held for long enough, means unhealthy. Its words are the Node's own.
    UnhealthyCondition {
        required {
            /// The status that is bad.
            #[schemars(length(min = 1))]
            status: String,
            /// For how long, e.g. `5m`.
            timeout: String,
            /// The condition's type.
            #[serde(rename = "type")]
            #[schemars(length(min = 1))]
            kind: String,
        }
    }

    /// A Machine condition that, held for long enough, means unhealthy.
    UnhealthyMachineCondition {
        required {
            /// The status that is bad.
            status: ConditionStatus,
            /// For how long, e.g. `5m`.
            timeout: String,
            /// The condition's type.
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

    /// A value for a variable of a ClusterClass.
    ClusterVariable {
        required {
            /// The variable.
            #[schemars(length(min = 1, max = 256))]
            name: String,
            /// Its value.
            value: Any,
        }
        optional {
            /// Where the variable is defined; nothing reads it any more.
            #[schemars(length(max = 256))]
            definition_from: String,
        }
    }
}
