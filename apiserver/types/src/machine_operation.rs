//! MachineOperation: something done to a Machine, once, with its steps and result; and the bodies
//! of the verbs that start one.

use serde_json::Value;

use crate::descriptor::{AGE, Column, Descriptor, column};
use crate::object::{kind, wire};
use crate::openstack_machine::ImageParam;
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
    /// What was asked for. Immutable but for `cancelRequested`, which can only be set.
    MachineOperationSpec {
        required {
            /// What is done.
            action: MachineAction,
            /// The Machine, in the same namespace.
            #[schemars(length(min = 1, max = 253))]
            machine_name: String,
        }
        optional {
            /// Stop at the next safe point.
            cancel_requested: bool,
            /// The same key for the same request gets the same operation.
            #[schemars(length(max = 128))]
            idempotency_key: String,
            /// For `Reboot`.
            reboot: RebootParameters,
            /// Who asked; written by the server.
            requested_by: RequestedBy,
            /// For `Upgrade`.
            upgrade: UpgradeParameters,
        }
    }

    /// How to reboot.
    RebootParameters {
        optional {
            /// A soft reboot that has not finished by then becomes a hard one. Unit: seconds.
            #[schemars(range(min = 1, max = 3600), extend("default" = 120))]
            soft_timeout_seconds: i32,
            /// Ask the guest, or cut the power.
            #[serde(rename = "type")]
            #[schemars(extend("default" = "Soft"))]
            kind: RebootType,
        }
    }

    /// How to upgrade.
    UpgradeParameters {
        required {
            /// The Kubernetes version to go to, with a leading v.
            #[schemars(length(min = 1, max = 256))]
            version: String,
        }
        optional {
            /// The image to go to; when unset, the current image's name with the new version in it.
            #[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
            image: ImageParam,
            /// In which way.
            #[schemars(extend("default" = "Auto"))]
            strategy: UpgradeStrategy,
        }
    }

    /// Somebody.
    RequestedBy {
        optional {
            /// Groups.
            #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
            groups: Vec<String>,
            /// Name.
            username: String,
        }
    }

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

    /// Body of `machines/reboot`.
    MachineReboot {
        optional {
            /// `capstan.dev/v1alpha1`, or unset.
            api_version: String,
            /// The same key for the same request gets the same operation.
            #[schemars(length(max = 128))]
            idempotency_key: String,
            /// `MachineReboot`, or unset.
            kind: String,
            /// A soft reboot that has not finished by then becomes a hard one. Unit: seconds.
            #[schemars(range(min = 1, max = 3600), extend("default" = 120))]
            soft_timeout_seconds: i32,
            /// Ask the guest, or cut the power.
            #[serde(rename = "type")]
            #[schemars(extend("default" = "Soft"))]
            reboot_type: RebootType,
        }
    }

    /// Body of `machines/upgrade`.
    MachineUpgrade {
        required {
            /// The Kubernetes version to go to, with a leading v.
            #[schemars(length(min = 1, max = 256))]
            version: String,
        }
        optional {
            /// `capstan.dev/v1alpha1`, or unset.
            api_version: String,
            /// The same key for the same request gets the same operation.
            #[schemars(length(max = 128))]
            idempotency_key: String,
            /// The image to go to.
            #[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
            image: ImageParam,
            /// `MachineUpgrade`, or unset.
            kind: String,
            /// In which way.
            #[schemars(extend("default" = "Auto"))]
            strategy: UpgradeStrategy,
        }
    }
}

words! {
    /// What is done to a Machine.
    MachineAction {
        /// It is restarted.
        #[default]
        Reboot,
        /// It gets another version.
        Upgrade,
    }

    /// How to restart.
    RebootType {
        /// Ask the guest.
        #[default]
        Soft,
        /// Cut the power.
        Hard,
    }

    /// How to get another version.
    UpgradeStrategy {
        /// The least disruptive way that works.
        #[default]
        Auto,
        /// Nova's rebuild: same server, new image.
        Rebuild,
        /// A new server for the same Machine.
        Replace,
    }

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
