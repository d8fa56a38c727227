//! MachineOperation: one action on a Machine, with its parameters, steps and result.

use serde_json::Value;

use crate::descriptor::{AGE, Column, Descriptor, column};
use crate::machine_action::MachineOperationSpec;
use crate::object::{kind, wire};
use crate::schema::{object, structural};
use crate::shared::{Condition, Time, words};

const COLUMNS: &[Column] = &[
    column("Machine", "string", ".spec.machineName", "Machine on which the action is performed."),
    column("Action", "string", ".spec.action", "Action, for example Reboot."),
    column("Phase", "string", ".status.phase", "Pending, Running, Complete, Failed or Cancelled."),
    column("Step", "string", ".status.currentStep", "Step in progress."),
    column("Requested-By", "string", ".spec.requestedBy.username", "User who requested the operation."),
    AGE,
];

fn schema() -> Value {
    let description = "Something done to a Machine, once: what was asked for, its steps, and the result.";
    object(
        description,
        Some(structural::<MachineOperationSpec>()),
        Some(structural::<MachineOperationStatus>()),
        true,
    )
}

kind! {
    /// One action on a Machine, which runs once.
    MachineOperation, MachineOperationSpec, MachineOperationStatus, schema, Descriptor {
        group: "capstan.dev", version: "v1alpha1", kind: "MachineOperation", plural: "machineoperations",
        singular: "machineoperation", short_names: &["mop"], categories: &["cluster-api"], namespaced: true,
        status_subresource: true, scale: None, deprecation: None, columns: COLUMNS,
    }
}

wire! {
    /// Progress of an operation.
    MachineOperationStatus {
        optional {
            /// Time at which the operation finished.
            completion_time: Time,
            /// Conditions: Progressing, Complete, Failed and Cancelled.
            #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
            conditions: Vec<Condition>,
            /// Name of the step in flight.
            current_step: String,
            /// Term of the leader that last wrote this status: the revision of the write that took the Lease.
            epoch: i64,
            /// Value of `metadata.generation` that the controller last processed.
            observed_generation: i64,
            /// Phase of the operation: Pending, Running, Complete, Failed or Cancelled.
            phase: OperationPhase,
            /// Result of the operation.
            result: OperationResult,
            /// Time at which the operation started.
            start_time: Time,
            /// Steps of the operation, in order.
            #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            steps: Vec<OperationStep>,
        }
    }

    /// One step of an operation.
    OperationStep {
        required {
            /// Name of the step.
            #[schemars(length(min = 1))]
            name: String,
            /// State of the step: Pending, Running, Done, Skipped or Failed.
            state: StepState,
        }
        optional {
            /// Time at which the step finished.
            finish_time: Time,
            /// Human-readable observation, e.g. the reason of a failure.
            message: String,
            /// Seconds of the pauses of the step that have ended. They do not count for its time limit.
            paused_seconds: i64,
            /// Time at which the present pause of the step began. Unset: the step is not paused.
            paused_since: Time,
            /// Request id that the cloud assigned to the call of this step.
            #[serde(rename = "requestID")]
            request_id: String,
            /// Time at which the step started.
            start_time: Time,
        }
    }

    /// Result of an operation.
    OperationResult {
        optional {
            /// Id of the server's image after the operation.
            #[serde(rename = "imageID")]
            image_id: String,
            /// Human-readable summary of the result.
            message: String,
            /// Treatment of the Pods of the Node by a drain, of which the operation was a dry run. At most 250 Pods.
            #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
            pods: Vec<PodVerdict>,
            /// Id of the former server, if the operation replaced the server.
            #[serde(rename = "previousServerID")]
            previous_server_id: String,
            /// Id of the server after the operation.
            #[serde(rename = "serverID")]
            server_id: String,
            /// Strategy that the operation used.
            strategy: String,
        }
    }

    /// Treatment of one Pod by a drain.
    PodVerdict {
        required {
            /// Name of the Pod.
            name: String,
            /// Namespace of the Pod.
            namespace: String,
            /// Treatment: Evict, Refused, Terminating, WaitCompleted or Skip.
            verdict: PodTreatment,
        }
        optional {
            /// The data of the Pod's emptyDir volumes are lost. Unset: no.
            loses_empty_dir: bool,
            /// Human-readable reason, for example the disruption budget that refuses the eviction.
            message: String,
            /// No controller creates the Pod again. Unset: one does.
            unmanaged: bool,
        }
    }
}

words! {
    /// Treatment of a Pod by a drain.
    PodTreatment {
        /// The Pod is evicted.
        #[default]
        Evict,
        /// The API server refuses the eviction now.
        Refused,
        /// The Pod is being deleted already, and the drain waits for its end.
        Terminating,
        /// The drain waits until the Pod has completed.
        WaitCompleted,
        /// The drain leaves the Pod alone.
        Skip,
    }

    /// Phase of an operation.
    OperationPhase {
        /// The operation waits for its start.
        #[default]
        Pending,
        /// The operation is in flight.
        Running,
        /// The operation succeeded.
        Complete,
        /// The operation failed and is not retried.
        Failed,
        /// The operation was stopped by request.
        Cancelled,
    }

    /// State of a step.
    StepState {
        /// The step has not started.
        #[default]
        Pending,
        /// The step is in flight.
        Running,
        /// The step succeeded.
        Done,
        /// The step is not needed.
        Skipped,
        /// The step failed.
        Failed,
    }
}
