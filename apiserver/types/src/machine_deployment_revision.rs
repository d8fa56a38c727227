//! MachineDeploymentRevision: an earlier or the present template of a MachineDeployment, with copies of the templates
//! that it refers to.

use serde_json::Value;

use crate::descriptor::{AGE, Column, Descriptor, column};
use crate::object::{kind, wire};
use crate::schema::{object, structural};
use crate::shared::{AnyObject, Time};

/// Annotation with the reason of the last change, which the history keeps. kubectl's name.
pub const CHANGE_CAUSE: &str = "kubernetes.io/change-cause";

/// Annotation with the user who changed the object by a verb such as `rollback`.
pub const CHANGED_BY: &str = "capstan.dev/changed-by";

/// Annotation with the time of the last verb, in RFC 3339 with whole seconds. With it, the field manager of the verbs
/// changes a field at each verb. Otherwise the managed fields would keep the time of an earlier verb with the same user
/// and the same reason.
pub const CHANGED_AT: &str = "capstan.dev/changed-at";

const COLUMNS: &[Column] = &[
    column("Deployment", "string", ".spec.deploymentName", "MachineDeployment of the revision."),
    column(
        "Revision",
        "integer",
        ".spec.revision",
        "Number of the revision. The present one is the highest.",
    ),
    column("Changed", "date", ".spec.changedAt", "Time since the change."),
    column("By", "string", ".spec.changedBy", "User or field manager that made the change."),
    column("Cause", "string", ".spec.changeCause", "Reason of the change, as its author gave it."),
    AGE,
];

fn schema() -> Value {
    let description = "Template of a MachineDeployment at a time, kept for its history and for a rollback.";
    let mut schema = object(description, Some(structural::<MachineDeploymentRevisionSpec>()), None, false);
    schema["required"] = serde_json::json!(["metadata", "spec"]);
    schema
}

kind! {
    /// Template of a MachineDeployment at a time.
    without status MachineDeploymentRevision, MachineDeploymentRevisionSpec, schema, Descriptor {
        group: "capstan.dev", version: "v1alpha1", kind: "MachineDeploymentRevision",
        plural: "machinedeploymentrevisions", singular: "machinedeploymentrevision", short_names: &["mdrev"],
        categories: &[], namespaced: true, status_subresource: false, scale: None, deprecation: None,
        columns: COLUMNS,
    }
}

wire! {
    /// Template, its copies, and how it came about. A controller writes it.
    MachineDeploymentRevisionSpec {
        required {
            /// Name of the MachineDeployment, in the same namespace.
            #[schemars(length(min = 1, max = 63))]
            deployment_name: String,
            /// Number of the revision. Each change has the next one.
            #[schemars(range(min = 1))]
            revision: i64,
            /// `spec.template` of the MachineDeployment.
            template: AnyObject,
        }
        optional {
            /// Copy of the bootstrap template: kind, name, labels, annotations and spec.
            bootstrap_template: AnyObject,
            /// Reason of the change, from the annotation `kubernetes.io/change-cause`.
            #[schemars(length(max = 1024))]
            change_cause: String,
            /// Time of the change.
            changed_at: Time,
            /// User or field manager that made the change.
            #[schemars(length(max = 1024))]
            changed_by: String,
            /// Fields that differ from the revision before: `path: old -> new`.
            #[schemars(length(max = 100), extend("x-kubernetes-list-type" = "atomic"))]
            changes: Vec<String>,
            /// Digest of template and copies. Equal revisions have equal digests.
            #[schemars(length(max = 64))]
            digest: String,
            /// Copy of the infrastructure template: kind, name, labels, annotations and spec.
            infrastructure_template: AnyObject,
        }
    }
}
