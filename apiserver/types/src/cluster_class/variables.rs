//! Variables of a ClusterClass: names, schemas and validation rules of the values that Clusters set.

use crate::object::wire;
use crate::shared::{Any, TemplateMeta, words};

wire! {
    /// Variable that a Cluster of the class can set.
    ClusterClassVariable {
        required {
            /// Name of the variable. It is unique within the ClusterClass.
            #[schemars(length(min = 1, max = 256))]
            name: String,
            /// Requirement for a value. If true, each Cluster of the class sets a value.
            required: bool,
            /// Schema of the values.
            schema: VariableSchema,
        }
        optional {
            /// Labels and annotations of the variable, as v1beta1 defines them. Deprecated, without effect.
            #[schemars(extend("minProperties" = 1))]
            #[serde(rename = "deprecatedV1Beta1Metadata")]
            deprecated_v1_beta1_metadata: TemplateMeta,
        }
    }

    /// Schema of the values of a variable.
    VariableSchema {
        required {
            /// Schema in a subset of OpenAPI v3.
            #[schemars(extend("minProperties" = 1))]
            #[serde(rename = "openAPIV3Schema")]
            open_api_v3_schema: JsonSchemaProps,
        }
    }

    /// Schema in a subset of OpenAPI v3.
    JsonSchemaProps {
        optional {
            /// Schema of the values of a map. Mutually exclusive with `properties`.
            additional_properties: Any,
            /// Schemas that the value matches all of.
            all_of: Any,
            /// Schemas that the value matches at least one of.
            any_of: Any,
            /// Value that is used if the field is unset.
            default: Any,
            /// Human-readable description of the field.
            #[schemars(length(min = 1, max = 4096))]
            description: String,
            /// List of the allowed values.
            #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "atomic"))]
            #[serde(rename = "enum")]
            allowed: Vec<Any>,
            /// Example of a value, for documentation.
            example: Any,
            /// Exclusive upper limit. If true, the value is less than `maximum`. Default: false.
            exclusive_maximum: bool,
            /// Exclusive lower limit. If true, the value is greater than `minimum`. Default: false.
            exclusive_minimum: bool,
            /// Format of a string or number, e.g. `ipv4`.
            #[schemars(length(min = 1, max = 32))]
            format: String,
            /// Schema of the items of an array.
            items: Any,
            /// Maximum number of items of an array.
            max_items: i64,
            /// Maximum length of a string. Unit: characters.
            max_length: i64,
            /// Maximum number of fields of an object or a map.
            max_properties: i64,
            /// Maximum of a number. Inclusive unless `exclusiveMaximum` is true.
            maximum: i64,
            /// Minimum number of items of an array.
            min_items: i64,
            /// Minimum length of a string. Unit: characters.
            min_length: i64,
            /// Minimum number of fields of an object or a map.
            min_properties: i64,
            /// Minimum of a number. Inclusive unless `exclusiveMinimum` is true.
            minimum: i64,
            /// Schema that the value does not match.
            not: Any,
            /// Schemas that the value matches exactly one of.
            one_of: Any,
            /// Regular expression that a string matches.
            #[schemars(length(min = 1, max = 512))]
            pattern: String,
            /// Schemas of the fields of an object, by field name. Mutually exclusive with
            /// `additionalProperties`.
            properties: Any,
            /// Names of the required fields of an object.
            #[schemars(length(min = 1, max = 1000), inner(length(min = 1, max = 256)), extend("x-kubernetes-list-type" = "atomic"))]
            required: Vec<String>,
            /// Type of the value: `object`, `array`, `string`, `integer`, `number` or `boolean`.
            #[serde(rename = "type")]
            kind: VariableType,
            /// Uniqueness of array items. If true, the items differ from each other.
            unique_items: bool,
            /// Integer-or-string value. If true, the value is an integer or a string.
            #[serde(rename = "x-kubernetes-int-or-string")]
            int_or_string: bool,
            /// Handling of fields that the schema does not define. If true, these fields are kept.
            #[serde(rename = "x-kubernetes-preserve-unknown-fields")]
            preserve_unknown_fields: bool,
            /// Validation rules in CEL.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "map", "x-kubernetes-list-map-keys" = ["rule"]))]
            #[serde(rename = "x-kubernetes-validations")]
            validations: Vec<ValidationRule>,
            /// Labels and annotations of the field.
            #[schemars(extend("minProperties" = 1))]
            #[serde(rename = "x-metadata")]
            metadata: TemplateMeta,
        }
    }

    /// Validation rule in CEL.
    ValidationRule {
        required {
            /// CEL expression. The value is valid if the result is true. `self` is the value.
            #[schemars(length(min = 1, max = 4096))]
            rule: String,
        }
        optional {
            /// JSON path of the field that a validation error reports.
            #[schemars(length(min = 1, max = 512))]
            field_path: String,
            /// Message of the validation error.
            #[schemars(length(min = 1, max = 512))]
            message: String,
            /// CEL expression that generates the message. It takes precedence over `message`.
            #[schemars(length(min = 1, max = 1024))]
            message_expression: String,
            /// Machine-readable reason of the validation error. Default: FieldValueInvalid.
            #[schemars(extend("default" = "FieldValueInvalid"))]
            reason: ValidationReason,
        }
    }

    /// Variable of a ClusterClass with all of its definitions.
    ClusterClassStatusVariable {
        required {
            /// Definitions of the variable, one per source.
            #[schemars(length(min = 1, max = 100), extend("x-kubernetes-list-type" = "atomic"))]
            definitions: Vec<ClusterClassVariableDefinition>,
            /// Name of the variable.
            #[schemars(length(min = 1, max = 256))]
            name: String,
        }
        optional {
            /// Conflict of definitions. True if the definitions of the variable differ.
            definitions_conflict: bool,
        }
    }

    /// One definition of a variable.
    ClusterClassVariableDefinition {
        required {
            /// Source of the definition: `inline` for the ClusterClass itself, otherwise the name of a patch.
            #[schemars(length(min = 1, max = 256))]
            from: String,
            /// Requirement for a value. If true, each Cluster of the class sets a value.
            required: bool,
            /// Schema of the values.
            schema: VariableSchema,
        }
        optional {
            /// Labels and annotations of the variable, as v1beta1 defines them. Deprecated, without effect.
            #[schemars(extend("minProperties" = 1))]
            #[serde(rename = "deprecatedV1Beta1Metadata")]
            deprecated_v1_beta1_metadata: TemplateMeta,
        }
    }
}

words! {
    /// Type of a variable's value.
    VariableType {
        /// Object with fields, or map.
        #[default]
        #[serde(rename = "object")]
        Object,
        /// Array.
        #[serde(rename = "array")]
        Array,
        /// String.
        #[serde(rename = "string")]
        String,
        /// Integer.
        #[serde(rename = "integer")]
        Integer,
        /// Number, with or without a fraction.
        #[serde(rename = "number")]
        Number,
        /// Boolean: true or false.
        #[serde(rename = "boolean")]
        Boolean,
    }

    /// Machine-readable reason of a validation error.
    ValidationReason {
        /// The value is invalid.
        #[default]
        FieldValueInvalid,
        /// The field must be unset.
        FieldValueForbidden,
        /// A required value is missing.
        FieldValueRequired,
        /// The value already exists.
        FieldValueDuplicate,
    }
}
