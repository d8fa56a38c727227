//! Structures of `status.deprecated`: status in the form of v1beta1, for clients of that version.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::object::wire;
use crate::shared::Time;

/// Status in the form of older API versions.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Deprecated<T> {
    /// Status in the form of v1beta1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub v1beta1: Option<T>,
}

wire! {
    /// Condition in the form of v1beta1. It has a severity, and its reason is optional.
    DeprecatedCondition {
        required {
            /// Time of the last change of `status`.
            last_transition_time: Time,
            /// Status of the condition: `True`, `False` or `Unknown`.
            status: String,
            /// Type of the condition, in CamelCase.
            #[serde(rename = "type")]
            #[schemars(length(min = 1, max = 256))]
            kind: String,
        }
        optional {
            /// Human-readable details of the last transition.
            #[schemars(length(min = 1, max = 10240))]
            message: String,
            /// Machine-readable reason of the last transition, in CamelCase.
            #[schemars(length(min = 1, max = 256))]
            reason: String,
            /// Severity of a `False` status: `Error`, `Warning` or `Info`. Empty for `True`.
            #[schemars(length(max = 32))]
            severity: String,
        }
    }

    /// Conditions in the form of v1beta1.
    DeprecatedConditions {
        optional {
            /// Conditions in the form of v1beta1, at most one per type.
            conditions: Vec<DeprecatedCondition>,
        }
    }

    /// Conditions and terminal error in the form of v1beta1.
    DeprecatedFailure {
        optional {
            /// Conditions in the form of v1beta1, at most one per type.
            conditions: Vec<DeprecatedCondition>,
            /// Human-readable message of a terminal error. It needs a manual change.
            #[schemars(length(min = 1, max = 10240))]
            failure_message: String,
            /// Machine-readable reason of a terminal error, in CamelCase.
            failure_reason: String,
        }
    }
}
