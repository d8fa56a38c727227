//! What may differ between clusters of a ClusterClass.

use crate::object::wire;
use crate::shared::{Any, TemplateMeta, words};

wire! {
    /// Something that may differ between clusters of a class.
    ClusterClassVariable {
        required {
            /// Its name.
            #[schemars(length(min = 1, max = 256))]
            name: String,
            /// Whether each cluster must give it a value.
            required: bool,
            /// What its values look like.
            schema: VariableSchema,
        }
        optional {
            /// Labels and annotations that v1beta1 can give it.
            #[schemars(extend("minProperties" = 1))]
            #[serde(rename = "deprecatedV1Beta1Metadata")]
            deprecated_v1_beta1_metadata: TemplateMeta,
        }
    }

    /// What values of a variable look like.
    VariableSchema {
        required {
            /// A part of OpenAPI v3.
            #[schemars(extend("minProperties" = 1))]
            #[serde(rename = "openAPIV3Schema")]
            open_api_v3_schema: JsonSchemaProps,
        }
    }

    /// A schema in a part of OpenAPI v3.
    JsonSchemaProps {
        optional {
            /// Schema of the values of a map.
            additional_properties: Any,
            /// Schemas that must all hold.
            all_of: Any,
            /// Schemas of which one or more must hold.
            any_of: Any,
            /// What it is when unset.
            default: Any,
            /// For people.
            #[schemars(length(min = 1, max = 4096))]
            description: String,
            /// The values there are.
            #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "atomic"))]
            #[serde(rename = "enum")]
            allowed: Vec<Any>,
            /// A value, for people.
            example: Any,
            /// `maximum` itself is too much.
            exclusive_maximum: bool,
            /// `minimum` itself is too little.
            exclusive_minimum: bool,
            /// What kind of text or number, e.g. `ipv4`.
            #[schemars(length(min = 1, max = 32))]
            format: String,
            /// Schema of the items of a list.
            items: Any,
            /// At most so many items.
            max_items: i64,
            /// At most so many characters.
            max_length: i64,
            /// At most so many fields.
            max_properties: i64,
            /// At most this.
            maximum: i64,
            /// At least so many items.
            min_items: i64,
            /// At least so many characters.
            min_length: i64,
            /// At least so many fields.
            min_properties: i64,
            /// At least this.
            minimum: i64,
            /// A schema that must not hold.
            not: Any,
            /// Schemas of which exactly one must hold.
            one_of: Any,
            /// Regular expression that a text must match.
            #[schemars(length(min = 1, max = 512))]
            pattern: String,
            /// Schemas of the fields of an object.
            properties: Any,
            /// Fields an object must have.
            #[schemars(length(min = 1, max = 1000), inner(length(min = 1, max = 256)), extend("x-kubernetes-list-type" = "atomic"))]
            required: Vec<String>,
            /// What kind of value.
            #[serde(rename = "type")]
            kind: VariableType,
            /// No item twice.
            unique_items: bool,
            /// An integer or a text.
            #[serde(rename = "x-kubernetes-int-or-string")]
            int_or_string: bool,
            /// Fields that no schema names are kept.
            #[serde(rename = "x-kubernetes-preserve-unknown-fields")]
            preserve_unknown_fields: bool,
            /// CEL rules.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["rule"]))]
            #[serde(rename = "x-kubernetes-validations")]
            validations: Vec<ValidationRule>,
            /// Labels and annotations.
            #[schemars(extend("minProperties" = 1))]
            #[serde(rename = "x-metadata")]
            metadata: TemplateMeta,
        }
    }

    /// A rule in CEL.
    ValidationRule {
        required {
            /// The rule.
            #[schemars(length(min = 1, max = 4096))]
            rule: String,
        }
        optional {
            /// The field to name when it does not hold.
            #[schemars(length(min = 1, max = 512))]
            field_path: String,
            /// What to say then.
            #[schemars(length(min = 1, max = 512))]
            message: String,
            /// What to say then, in CEL.
            #[schemars(length(min = 1, max = 1024))]
            message_expression: String,
            /// What kind of error it is.
            #[schemars(extend("default" = "FieldValueInvalid"))]
            reason: ValidationReason,
        }
    }

    /// A variable, from wherever it is defined.
    ClusterClassStatusVariable {
        required {
            /// Each definition.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
            definitions: Vec<ClusterClassVariableDefinition>,
            /// Its name.
            #[schemars(length(min = 1, max = 256))]
            name: String,
        }
        optional {
            /// Whether definitions contradict each other.
            definitions_conflict: bool,
        }
    }

    /// One definition of a variable.
    ClusterClassVariableDefinition {
        required {
            /// Where it is: `inline`, or a patch's name.
            #[schemars(length(min = 1, max = 256))]
            from: String,
            /// Whether each cluster must give it a value.
            required: bool,
            /// What its values look like.
            schema: VariableSchema,
        }
        optional {
            /// Labels and annotations that v1beta1 can give it.
            #[schemars(extend("minProperties" = 1))]
            #[serde(rename = "deprecatedV1Beta1Metadata")]
            deprecated_v1_beta1_metadata: TemplateMeta,
        }
    }
}

words! {
    /// What kind of value.
    VariableType {
        /// An object or a map.
        #[default]
        #[serde(rename = "object")]
        Object,
        /// A list.
        #[serde(rename = "array")]
        Array,
        /// A text.
        #[serde(rename = "string")]
        String,
        /// A whole number.
        #[serde(rename = "integer")]
        Integer,
        /// A number.
        #[serde(rename = "number")]
        Number,
        /// True or false.
        #[serde(rename = "boolean")]
        Boolean,
    }

    /// What kind of error a broken rule is.
    ValidationReason {
        /// A bad value.
        #[default]
        FieldValueInvalid,
        /// A value where there may be none.
        FieldValueForbidden,
        /// No value where there must be one.
        FieldValueRequired,
        /// A value that is there already.
        FieldValueDuplicate,
    }
}
