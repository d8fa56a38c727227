//! Structures that several kinds use.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::object::wire;

/// What a condition may be called: a name that may be qualified.
pub(crate) const CONDITION_TYPE: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";

/// A Machine is not unhealthy for what follows from its being so.
pub(crate) const UNHEALTHY_TYPE_RULE: &str =
    "!(self in ['Ready','Available','HealthCheckSucceeded','OwnerRemediated','ExternallyRemediated'])";

/// What a client is told that breaks this rule.
pub(crate) const UNHEALTHY_TYPE_MESSAGE: &str =
    "type must not be one of: Ready, Available, HealthCheckSucceeded, OwnerRemediated, ExternallyRemediated";

/// An integer, or a text such as `25%`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum IntOrString {
    /// A number.
    Int(i32),
    /// A text.
    String(String),
}

impl JsonSchema for IntOrString {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "IntOrString".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"x-kubernetes-int-or-string": true})
    }
}

/// Any JSON.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct Any(pub Value);

impl JsonSchema for Any {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Any".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"x-kubernetes-preserve-unknown-fields": true})
    }
}

/// An object of any fields.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct AnyObject(pub serde_json::Map<String, Value>);

impl JsonSchema for AnyObject {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "AnyObject".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
    }
}

/// A moment.
///
/// Shape: RFC 3339 in UTC with whole seconds, e.g. `2026-11-21T06:00:00Z`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
pub struct Time(pub String);

impl JsonSchema for Time {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Time".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "format": "date-time"})
    }
}

wire! {
    /// A condition that must hold beside the standard ones.
    Gate {
        required {
            /// The condition's type.
            #[schemars(length(min = 1, max = 316), regex(pattern = "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"))]
            condition_type: String,
        }
        optional {
            /// Whether True is good (`Positive`) or bad (`Negative`).
            polarity: Polarity,
        }
    }

    /// An object in the same namespace, whose version is for the server to choose.
    ContractVersionedObjectReference {
        required {
            /// API group.
            #[schemars(length(min = 1, max = 253), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"))]
            api_group: String,
            /// Kind.
            #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$"))]
            kind: String,
            /// Name.
            #[schemars(length(min = 1, max = 253), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"))]
            name: String,
        }
    }

    /// How long the steps of a Machine's deletion may take.
    MachineDeletionSpec {
        optional {
            /// Retry deleting the Node for so long; 0 is for ever. Unit: seconds.
            #[schemars(range(min = 0))]
            node_deletion_timeout_seconds: i32,
            /// Drain for at most so long; 0 is without limit. Unit: seconds.
            #[schemars(range(min = 0))]
            node_drain_timeout_seconds: i32,
            /// Wait for volumes to be detached for at most so long; 0 is without limit. Unit: seconds.
            #[schemars(range(min = 0))]
            node_volume_detach_timeout_seconds: i32,
        }
    }

    /// What counts as unhealthy.
    HealthChecks {
        optional {
            /// The Node must appear within so long; 0 switches this off. Unit: seconds.
            #[schemars(range(min = 0))]
            node_startup_timeout_seconds: i32,
            /// Machine conditions that mean unhealthy.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
            unhealthy_machine_conditions: Vec<UnhealthyMachineCondition>,
            /// Node conditions that mean unhealthy.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
            unhealthy_node_conditions: Vec<UnhealthyNodeCondition>,
        }
    }

    /// A Machine condition that, held for long enough, means unhealthy.
    UnhealthyMachineCondition {
        required {
            /// The condition's type.
            #[serde(rename = "type")]
            #[schemars(
                length(min = 1, max = 316),
                regex(pattern = CONDITION_TYPE),
                extend("x-kubernetes-validations" = [{
                    "rule": UNHEALTHY_TYPE_RULE, "message": UNHEALTHY_TYPE_MESSAGE,
                }])
            )]
            kind: String,
            /// The status that is bad.
            status: ConditionStatus,
            /// For how long. Unit: seconds.
            #[schemars(range(min = 0))]
            timeout_seconds: i32,
        }
    }

    /// A Node condition that, held for long enough, means unhealthy. Its words are the Node's own.
    UnhealthyNodeCondition {
        required {
            /// The condition's type.
            #[serde(rename = "type")]
            #[schemars(length(min = 1))]
            kind: String,
            /// The status that is bad.
            #[schemars(length(min = 1))]
            status: String,
            /// For how long. Unit: seconds.
            #[schemars(range(min = 0))]
            timeout_seconds: i32,
        }
    }

    /// An object that says how to remediate.
    RemediationTemplateRef {
        required {
            /// Group and version.
            #[schemars(length(min = 1, max = 317), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/[a-z]([-a-z0-9]*[a-z0-9])?$"))]
            api_version: String,
            /// Kind.
            #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$"))]
            kind: String,
            /// Name.
            #[schemars(length(min = 1, max = 253), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"))]
            name: String,
        }
    }

    /// How many may be unhealthy for remediation to go on.
    RemediationTriggerIf {
        optional {
            /// A range of unhealthy machines, e.g. `[1-3]`.
            #[schemars(length(min = 1, max = 32), regex(pattern = "^\\[[0-9]+-[0-9]+\\]$"))]
            unhealthy_in_range: String,
            /// At most so many, as a number or share.
            unhealthy_less_than_or_equal_to: IntOrString,
        }
    }

    /// Labels and annotations that are handed down.
    TemplateMeta {
        optional {
            /// Annotations.
            annotations: BTreeMap<String, String>,
            /// Labels.
            labels: BTreeMap<String, String>,
        }
    }

    /// A taint handed down to the Node.
    MachineTaint {
        required {
            /// Effect.
            effect: TaintEffect,
            /// Key.
            #[schemars(length(min = 1, max = 317), regex(pattern = "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$"))]
            key: String,
            /// When it is set.
            propagation: TaintPropagation,
        }
        optional {
            /// Value.
            #[schemars(length(min = 1, max = 63), regex(pattern = "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"))]
            value: String,
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
    }

    /// `metav1.Condition`.
    Condition {
        required {
            /// When the status last changed.
            last_transition_time: Time,
            /// For people.
            #[schemars(length(max = 32768))]
            message: String,
            /// For machines, CamelCase.
            #[schemars(length(min = 1, max = 1024), regex(pattern = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"))]
            reason: String,
            /// What is seen.
            status: ConditionStatus,
            /// What this is about.
            #[serde(rename = "type")]
            #[schemars(length(max = 316), regex(pattern = "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"))]
            kind: String,
        }
        optional {
            /// The generation it refers to.
            #[schemars(range(min = 0))]
            observed_generation: i64,
        }
    }

    /// How many machines run a version.
    StatusVersion {
        required {
            /// Kubernetes version.
            #[schemars(length(min = 1, max = 256))]
            version: String,
        }
        optional {
            /// Machines.
            #[schemars(range(min = 1))]
            replicas: i32,
        }
    }

    /// A place that fails as one.
    FailureDomain {
        required {
            /// Name.
            #[schemars(length(min = 1, max = 256))]
            name: String,
        }
        optional {
            /// Whatever else there is to say.
            attributes: BTreeMap<String, String>,
            /// Whether control planes may be there.
            control_plane: bool,
        }
    }

    /// Where an API answers.
    ApiEndpoint {
        optional {
            /// Host name or address.
            #[schemars(length(min = 1, max = 512))]
            host: String,
            /// TCP port.
            #[schemars(range(min = 1, max = 65535))]
            port: i32,
        }
    }
}

/// Defines enums that are words on the wire.
macro_rules! words {
    ($($(#[$doc:meta])* $name:ident { $($(#[$word_doc:meta])* $word:ident,)* })*) => {$(
        $(#[$doc])*
        #[derive(
            Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize, schemars::JsonSchema,
        )]
        pub enum $name { $($(#[$word_doc])* $word,)* }
    )*};
}
pub(crate) use words;

words! {
    /// Which status of a condition is good.
    Polarity {
        /// True is good.
        #[default]
        Positive,
        /// True is bad.
        Negative,
    }

    /// What is known of a condition.
    ConditionStatus {
        /// It holds.
        True,
        /// It does not.
        False,
        /// It is not known.
        #[default]
        Unknown,
    }

    /// What a taint does.
    TaintEffect {
        /// Nothing new is scheduled.
        #[default]
        NoSchedule,
        /// Nothing new is scheduled if it can be avoided.
        PreferNoSchedule,
        /// What is there is evicted.
        NoExecute,
    }

    /// When a taint is set.
    TaintPropagation {
        /// Kept in step.
        #[default]
        Always,
        /// Once.
        OnInitialization,
    }
}
