//! Label selector: selection of objects by their labels.

use std::collections::BTreeMap;

use crate::object::wire;

wire! {
    /// Selection of objects by their labels. An object matches if all terms match. An empty selector matches
    /// all objects.
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    LabelSelector {
        optional {
            /// Terms that compare a label with a set of values.
            #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
            match_expressions: Vec<LabelSelectorRequirement>,
            /// Labels that an object has with exactly these values.
            match_labels: BTreeMap<String, String>,
        }
    }

    /// Term that compares a label with a set of values.
    LabelSelectorRequirement {
        required {
            /// Key of the label.
            key: String,
            /// Operator: `In`, `NotIn`, `Exists` or `DoesNotExist`.
            operator: String,
        }
        optional {
            /// Set of values. Required for `In` and `NotIn`, empty for `Exists` and `DoesNotExist`.
            #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
            values: Vec<String>,
        }
    }
}
