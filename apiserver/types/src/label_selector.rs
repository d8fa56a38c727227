//! Choosing objects by their labels.

use std::collections::BTreeMap;

use crate::object::wire;

wire! {
    /// Chooses objects by their labels: all of it must hold. Empty chooses everything.
    #[schemars(extend("x-kubernetes-map-type" = "atomic"))]
    LabelSelector {
        optional {
            /// Terms about sets of values.
            #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
            match_expressions: Vec<LabelSelectorRequirement>,
            /// Labels that must have just this value.
            match_labels: BTreeMap<String, String>,
        }
    }

    /// A term about a set of values.
    LabelSelectorRequirement {
        required {
            /// The label.
            key: String,
            /// `In`, `NotIn`, `Exists` or `DoesNotExist`.
            operator: String,
        }
        optional {
            /// The set; none for the last two.
            #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
            values: Vec<String>,
        }
    }
}
