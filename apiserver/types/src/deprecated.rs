//! What `status.deprecated` has: status in the words of v1beta1, for clients of that version.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::object::wire;
use crate::shared::Time;

/// Status in the words of older versions.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
pub struct Deprecated<T> {
    /// Of v1beta1.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub v1beta1: Option<T>,
}

wire! {
    /// A condition of v1beta1, which has a severity and need not give reasons.
    DeprecatedCondition {
        required {
            /// When the status last changed.
            last_transition_time: Time,
            /// `True`, `False` or `Unknown`.
            status: String,
            /// What this is about.
            #[serde(rename = "type")]
            #[schemars(length(min = 1, max = 256))]
            kind: String,
        }
        optional {
            /// For people.
            #[schemars(length(min = 1, max = 10240))]
            message: String,
            /// For machines, CamelCase.
            #[schemars(length(min = 1, max = 256))]
            reason: String,
            /// How bad `False` is: `Error`, `Warning` or `Info`.
            #[schemars(length(max = 32))]
            severity: String,
        }
    }

    /// Conditions of v1beta1.
    DeprecatedConditions {
        optional {
            /// Conditions.
            conditions: Vec<DeprecatedCondition>,
        }
    }

    /// Conditions of v1beta1, and a failure nothing can mend.
    DeprecatedFailure {
        optional {
            /// Conditions.
            conditions: Vec<DeprecatedCondition>,
            /// The failure, for people.
            #[schemars(length(min = 1, max = 10240))]
            failure_message: String,
            /// The failure, for machines.
            failure_reason: String,
        }
    }
}
