//! Structures that several kinds share.

use std::collections::BTreeMap;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::object::wire;

/// Pattern of a condition's type: a name with an optional prefix.
pub(crate) const CONDITION_TYPE: &str = r"^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$";

/// CEL rule: condition types that follow from the health check itself cannot mark a Machine as unhealthy.
pub(crate) const UNHEALTHY_TYPE_RULE: &str =
    "!(self in ['Ready','Available','HealthCheckSucceeded','OwnerRemediated','ExternallyRemediated'])";

/// Error message for a condition type that breaks the rule.
pub(crate) const UNHEALTHY_TYPE_MESSAGE: &str =
    "type must not be one of: Ready, Available, HealthCheckSucceeded, OwnerRemediated, ExternallyRemediated";

/// Integer, or string such as `25%`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum IntOrString {
    /// Integer.
    Int(i32),
    /// String.
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

/// Any JSON value.
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

/// JSON object with any fields.
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

/// Point in time.
///
/// Format: RFC 3339 in UTC with whole seconds, e.g. `2026-11-21T06:00:00Z`.
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
    /// Additional condition that a summary condition depends on.
    Gate {
        required {
            /// Type of the condition.
            #[schemars(length(min = 1, max = 316), regex(pattern = "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"))]
            condition_type: String,
        }
        optional {
            /// Polarity of the condition: Positive if True is good, Negative if True is bad. Default:
            /// Positive.
            polarity: Polarity,
        }
    }

    /// Reference to an object in the same namespace. The server chooses the API version.
    ContractVersionedObjectReference {
        required {
            /// API group of the object.
            #[schemars(length(min = 1, max = 253), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"))]
            api_group: String,
            /// Kind of the object.
            #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$"))]
            kind: String,
            /// Name of the object.
            #[schemars(length(min = 1, max = 253), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"))]
            name: String,
        }
    }

    /// Time limits for the steps of a Machine's deletion.
    MachineDeletionSpec {
        optional {
            /// Maximum time for deleting the Node, from the start of the Machine's deletion. 0 means no
            /// limit. Unit: seconds. Default: 10.
            #[schemars(range(min = 0))]
            node_deletion_timeout_seconds: i32,
            /// Maximum time for draining the Node before deletion continues. 0 means no limit. Unit: seconds.
            /// Default: 0.
            #[schemars(range(min = 0))]
            node_drain_timeout_seconds: i32,
            /// Maximum wait until the Node's volumes are detached. 0 means no limit. Unit: seconds. Default:
            /// 0.
            #[schemars(range(min = 0))]
            node_volume_detach_timeout_seconds: i32,
        }
    }

    /// Criteria for an unhealthy Machine.
    HealthChecks {
        optional {
            /// Maximum time until the Node of a new Machine appears. 0 disables this check. Unit: seconds.
            /// Default: 600.
            #[schemars(range(min = 0))]
            node_startup_timeout_seconds: i32,
            /// Machine conditions that mark a Machine as unhealthy. One matching entry is enough.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
            unhealthy_machine_conditions: Vec<UnhealthyMachineCondition>,
            /// Node conditions that mark a Machine as unhealthy. One matching entry is enough.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
            unhealthy_node_conditions: Vec<UnhealthyNodeCondition>,
        }
    }

    /// Machine condition that marks a Machine as unhealthy after a timeout.
    UnhealthyMachineCondition {
        required {
            /// Type of the condition.
            #[serde(rename = "type")]
            #[schemars(
                length(min = 1, max = 316),
                regex(pattern = CONDITION_TYPE),
                extend("x-kubernetes-validations" = [{
                    "rule": UNHEALTHY_TYPE_RULE, "message": UNHEALTHY_TYPE_MESSAGE,
                }])
            )]
            kind: String,
            /// Status of the condition that marks the Machine as unhealthy: True, False or Unknown.
            status: ConditionStatus,
            /// Time for which the condition has this status before the Machine is unhealthy. Unit: seconds.
            #[schemars(range(min = 0))]
            timeout_seconds: i32,
        }
    }

    /// Node condition that marks a Machine as unhealthy after a timeout. Type and status are those of the
    /// Node.
    UnhealthyNodeCondition {
        required {
            /// Type of the condition.
            #[serde(rename = "type")]
            #[schemars(length(min = 1))]
            kind: String,
            /// Status of the condition that marks the Machine as unhealthy: True, False or Unknown.
            #[schemars(length(min = 1))]
            status: String,
            /// Time for which the condition has this status before the Machine is unhealthy. Unit: seconds.
            #[schemars(range(min = 0))]
            timeout_seconds: i32,
        }
    }

    /// Reference to a template object.
    RemediationTemplateRef {
        required {
            /// API group and version of the template, in the form `group/version`.
            #[schemars(length(min = 1, max = 317), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\\/[a-z]([-a-z0-9]*[a-z0-9])?$"))]
            api_version: String,
            /// Kind of the template.
            #[schemars(length(min = 1, max = 63), regex(pattern = "^[a-zA-Z]([-a-zA-Z0-9]*[a-zA-Z0-9])?$"))]
            kind: String,
            /// Name of the template.
            #[schemars(length(min = 1, max = 253), regex(pattern = "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$"))]
            name: String,
        }
    }

    /// Limits on the number of unhealthy Machines. Outside these limits, remediation stops.
    RemediationTriggerIf {
        optional {
            /// Range of unhealthy Machines in which remediation runs, e.g. `[1-3]`. Both ends are inclusive.
            #[schemars(length(min = 1, max = 32), regex(pattern = "^\\[[0-9]+-[0-9]+\\]$"))]
            unhealthy_in_range: String,
            /// Upper limit of unhealthy Machines, as a number or a percentage. If more Machines are
            /// unhealthy, remediation stops.
            unhealthy_less_than_or_equal_to: IntOrString,
        }
    }

    /// Labels and annotations of created objects.
    TemplateMeta {
        optional {
            /// Annotations, as key-value pairs.
            annotations: BTreeMap<String, String>,
            /// Labels, as key-value pairs.
            labels: BTreeMap<String, String>,
        }
    }

    /// Taint that is propagated to the Node of a Machine.
    MachineTaint {
        required {
            /// Effect of the taint: NoSchedule, PreferNoSchedule or NoExecute.
            effect: TaintEffect,
            /// Key of the taint.
            #[schemars(length(min = 1, max = 317), regex(pattern = "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*\\/)?([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$"))]
            key: String,
            /// Propagation mode: Always keeps the taint on the Node, OnInitialization adds it once.
            propagation: TaintPropagation,
        }
        optional {
            /// Value of the taint.
            #[schemars(length(min = 1, max = 63), regex(pattern = "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"))]
            value: String,
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
    }

    /// Condition of an object, in the form of `metav1.Condition`.
    Condition {
        required {
            /// Time of the last change of `status`.
            last_transition_time: Time,
            /// Human-readable details of the last transition.
            #[schemars(length(max = 32768))]
            message: String,
            /// Machine-readable reason of the last transition, in CamelCase.
            #[schemars(length(min = 1, max = 1024), regex(pattern = "^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$"))]
            reason: String,
            /// Status of the condition: True, False or Unknown.
            status: ConditionStatus,
            /// Type of the condition, in CamelCase.
            #[serde(rename = "type")]
            #[schemars(length(max = 316), regex(pattern = "^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$"))]
            kind: String,
        }
        optional {
            /// Value of `metadata.generation` that the condition refers to.
            #[schemars(range(min = 0))]
            observed_generation: i64,
        }
    }

    /// Number of Machines with one Kubernetes version.
    StatusVersion {
        required {
            /// Kubernetes version, e.g. `v1.33.2`.
            #[schemars(length(min = 1, max = 256))]
            version: String,
        }
        optional {
            /// Number of Machines with this version.
            #[schemars(range(min = 1))]
            replicas: i32,
        }
    }

    /// Failure domain: a part of the infrastructure that can fail as one unit, e.g. an availability zone.
    FailureDomain {
        required {
            /// Name of the failure domain.
            #[schemars(length(min = 1, max = 256))]
            name: String,
        }
        optional {
            /// Further attributes of the failure domain, as the infrastructure provider defines them.
            attributes: BTreeMap<String, String>,
            /// Suitability for control plane Machines. If false, the failure domain holds only workers.
            control_plane: bool,
        }
    }

    /// Endpoint of an API server.
    ApiEndpoint {
        optional {
            /// Host name or IP address of the API server.
            #[schemars(length(min = 1, max = 512))]
            host: String,
            /// TCP port of the API server. Range: 1 to 65535.
            #[schemars(range(min = 1, max = 65535))]
            port: i32,
        }
    }
}

/// Defines enums whose variants are strings on the wire.
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
    /// Polarity of a condition.
    Polarity {
        /// Status True is good.
        #[default]
        Positive,
        /// Status True is bad.
        Negative,
    }

    /// Status of a condition.
    ConditionStatus {
        /// The condition applies.
        True,
        /// The condition does not apply.
        False,
        /// The state is not known.
        #[default]
        Unknown,
    }

    /// Effect of a taint.
    TaintEffect {
        /// New pods are not scheduled on the Node.
        #[default]
        NoSchedule,
        /// New pods are scheduled on the Node only if no other Node fits.
        PreferNoSchedule,
        /// New pods are not scheduled, and running pods are evicted.
        NoExecute,
    }

    /// Propagation mode of a taint.
    TaintPropagation {
        /// The taint is kept on the Node.
        #[default]
        Always,
        /// The taint is added once, when the Node is initialized.
        OnInitialization,
    }
}
