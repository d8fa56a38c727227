//! Scheduler hints: additional input of Nova's scheduler.

use crate::object::wire;
use crate::shared::words;

wire! {
    /// Scheduler hint that is sent to Nova.
    SchedulerHintAdditionalProperty {
        required {
            /// Name of the hint.
            #[schemars(length(min = 1))]
            name: String,
            /// Value of the hint.
            value: SchedulerHintValue,
        }
    }

    /// Value of a scheduler hint. `type` selects the field that is set.
    #[schemars(extend("x-kubernetes-validations" = [
        {
            "rule": "has(self.type) && self.type == 'Bool' ? has(self.bool) : !has(self.bool)",
            "message": "bool is required when type is Bool, and forbidden otherwise",
        },
        {
            "rule": "has(self.type) && self.type == 'Number' ? has(self.number) : !has(self.number)",
            "message": "number is required when type is Number, and forbidden otherwise",
        },
        {
            "rule": "has(self.type) && self.type == 'String' ? has(self.string) : !has(self.string)",
            "message": "string is required when type is String, and forbidden otherwise",
        },
    ]))]
    SchedulerHintValue {
        required {
            /// Type of the value: Bool, Number or String.
            #[serde(rename = "type")]
            kind: SchedulerHintType,
        }
        optional {
            /// Boolean value. Required if the type is Bool, and forbidden otherwise.
            bool: bool,
            /// Integer value. Required if the type is Number, and forbidden otherwise.
            number: i32,
            /// String value. Required if the type is String, and forbidden otherwise.
            #[schemars(length(min = 1, max = 255))]
            string: String,
        }
    }
}

words! {
    /// Type of a scheduler hint's value.
    SchedulerHintType {
        /// Boolean value.
        #[default]
        Bool,
        /// String value.
        String,
        /// Integer value.
        Number,
    }
}
