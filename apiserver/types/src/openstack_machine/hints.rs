//! What Nova's scheduler is told beside what a server needs.

use crate::object::wire;
use crate::shared::words;

wire! {
    /// A scheduler hint.
    SchedulerHintAdditionalProperty {
        required {
            /// Its name.
            #[schemars(length(min = 1))]
            name: String,
            /// Its value.
            value: SchedulerHintValue,
        }
    }

    /// A scheduler hint's value: the one that `type` names.
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
            /// Which of the others.
            #[serde(rename = "type")]
            kind: SchedulerHintType,
        }
        optional {
            /// For `Bool`.
            bool: bool,
            /// For `Number`.
            number: i32,
            /// For `String`.
            #[schemars(length(min = 1, max = 255))]
            string: String,
        }
    }
}

words! {
    /// The type of a scheduler hint.
    SchedulerHintType {
        /// True or false.
        #[default]
        Bool,
        /// A text.
        String,
        /// A number.
        Number,
    }
}
