//! MachineOperation: one action on a Machine, with its parameters, steps and result.

use serde_json::Value;

use crate::descriptor::{AGE, Column, Descriptor, column};
use crate::machine_action::MachineOperationSpec;
use crate::object::{kind, wire};
use crate::schema::{object, structural};
use crate::shared::{Condition, Time, words};

const COLUMNS: &[Column] = &[
    column("Machine", "string", ".spec.machineName"),
    column("Action", "string", ".spec.action"),
    column("Phase", "string", ".status.phase"),
    column("Step", "string", ".status.currentStep"),
    column("Requested-By", "string", ".spec.requestedBy.username"),
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
    /// Something done to a Machine, once.
    MachineOperation, MachineOperationSpec, MachineOperationStatus, schema, Descriptor {
        group: "capstan.dev", version: "v1alpha1", kind: "MachineOperation", plural: "machineoperations",
        singular: "machineoperation", short_names: &["mop"], categories: &["cluster-api"], namespaced: true,
        status_subresource: true, scale: None, deprecation: None, columns: COLUMNS,
    }
}

wire! {
    /// How an operation goes.
    MachineOperationStatus {
        optional {
            /// When it ended.
            completion_time: Time,
            /// Progressing, Complete, Failed, Cancelled.
            #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["type"]))]
            conditions: Vec<Condition>,
            /// The step under way.
            current_step: String,
            /// The generation that was last acted on.
            observed_generation: i64,
            /// Where it is.
            phase: OperationPhase,
            /// What came of it.
            result: OperationResult,
            /// When it began.
            start_time: Time,
            /// Its steps, in order.
            #[schemars(extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["name"]))]
            steps: Vec<OperationStep>,
        }
    }

    /// A step.
    OperationStep {
        required {
            /// Its name.
            #[schemars(length(min = 1))]
            name: String,
            /// How far it is.
            state: StepState,
        }
        optional {
            /// When it ended.
            finish_time: Time,
            /// What was observed.
            message: String,
            /// The cloud's request id of the call it made.
            #[serde(rename = "requestID")]
            request_id: String,
            /// When it began.
            start_time: Time,
        }
    }

    /// What came of an operation.
    OperationResult {
        optional {
            /// The image now.
            #[serde(rename = "imageID")]
            image_id: String,
            /// For people.
            message: String,
            /// The server before, when it was replaced.
            #[serde(rename = "previousServerID")]
            previous_server_id: String,
            /// The server now.
            #[serde(rename = "serverID")]
            server_id: String,
            /// The way that was taken.
            strategy: String,
        }
    }
}

words! {
    /// Where an operation is.
    OperationPhase {
        /// Waiting.
        #[default]
        Pending,
        /// Under way.
        Running,
        /// Done.
        Complete,
        /// Not done, and it will not be.
        Failed,
        /// Stopped by request.
        Cancelled,
    }

    /// How far a step is.
    StepState {
        /// To come.
        #[default]
        Pending,
        /// Under way.
        Running,
        /// Done.
        Done,
        /// Not needed.
        Skipped,
        /// Failed.
        Failed,
    }
}
