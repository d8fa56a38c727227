//! CapstanRemediation: request for the remediation of one unhealthy Machine, step by step. CapstanRemediationTemplate:
//! template of such requests, which a MachineHealthCheck names.

use serde_json::Value;

use crate::descriptor::{AGE, Column, Descriptor, column};
use crate::machine_action::RebootType;
use crate::object::{kind, wire};
use crate::schema::{object, structural};
use crate::shared::words;

const COLUMNS: &[Column] = &[
    column("Phase", "string", ".status.phase", "Pending, Running, Waiting, Replacing or Exhausted."),
    column("Step", "integer", ".status.step", "Number of the present step, from 1."),
    column("Attempt", "integer", ".status.attempt", "Number of the attempt of the step, from 1."),
    column("Operation", "string", ".status.operationName", "MachineOperation of the attempt."),
    AGE,
];

const TEMPLATE_COLUMNS: &[Column] = &[AGE];

fn schema() -> Value {
    let description = "Remediation of the unhealthy Machine that owns this object, step by step.";
    object(
        description,
        Some(structural::<CapstanRemediationSpec>()),
        Some(structural::<CapstanRemediationStatus>()),
        true,
    )
}

fn template_schema() -> Value {
    let description =
        "Template of CapstanRemediations, for spec.remediation.templateRef of a MachineHealthCheck.";
    object(description, Some(structural::<CapstanRemediationTemplateSpec>()), None, true)
}

kind! {
    /// Remediation of one unhealthy Machine, step by step.
    bare CapstanRemediation, CapstanRemediationSpec, CapstanRemediationStatus, schema, Descriptor {
        group: "capstan.dev", version: "v1alpha1", kind: "CapstanRemediation", plural: "capstanremediations",
        singular: "capstanremediation", short_names: &["crem"], categories: &["cluster-api"], namespaced: true,
        status_subresource: true, scale: None, deprecation: None, columns: COLUMNS,
    }
}

kind! {
    /// Template of CapstanRemediations.
    without status CapstanRemediationTemplate, CapstanRemediationTemplateSpec, template_schema, Descriptor {
        group: "capstan.dev", version: "v1alpha1", kind: "CapstanRemediationTemplate",
        plural: "capstanremediationtemplates", singular: "capstanremediationtemplate", short_names: &["cremt"],
        categories: &["cluster-api"], namespaced: true, status_subresource: false, scale: None, deprecation: None,
        columns: TEMPLATE_COLUMNS,
    }
}

wire! {
    /// Content of a CapstanRemediationTemplate.
    CapstanRemediationTemplateSpec {
        required {
            /// Template of the created CapstanRemediations.
            template: CapstanRemediationTemplateResource,
        }
    }

    /// Spec of the created CapstanRemediations.
    CapstanRemediationTemplateResource {
        required {
            /// Spec of the created objects.
            spec: CapstanRemediationSpec,
        }
    }

    /// Steps of a remediation.
    CapstanRemediationSpec {
        required {
            /// Steps, in order: 1 to 16. A step begins if the Machine is still unhealthy after the one before.
            #[schemars(length(min = 1, max = 16), extend("x-kubernetes-list-type" = "atomic"))]
            steps: Vec<RemediationStep>,
        }
    }

    /// One step of a remediation.
    RemediationStep {
        required {
            /// Action of the step: Reboot or Replace.
            action: RemediationAction,
        }
        optional {
            /// Number of times that the action is repeated while the Machine is unhealthy. Replace is not repeated.
            /// Range: 1 to 10. Default: 1.
            #[schemars(range(min = 1, max = 10))]
            attempts: i32,
            /// Type of a Reboot: Soft or Hard. Default: Soft.
            reboot_type: RebootType,
            /// Time for the Machine to become healthy after each attempt. Unit: seconds. Range: 1 to 86400. Default: 300.
            #[schemars(range(min = 1, max = 86400))]
            wait_seconds: i32,
        }
    }

    /// Progress of a remediation.
    CapstanRemediationStatus {
        optional {
            /// Number of the attempt of the present step, from 1.
            attempt: i32,
            /// Explanation of the phase, for people.
            message: String,
            /// Name of the MachineOperation of the present attempt.
            operation_name: String,
            /// Phase of the remediation: Pending, Running, Waiting, Replacing or Exhausted.
            phase: RemediationPhase,
            /// Number of the present step, from 1. After the last step, it is one more than the number of steps.
            step: i32,
        }
    }
}

words! {
    /// Action of a step of a remediation.
    RemediationAction {
        /// A MachineOperation restarts the server. The Node is not drained.
        #[default]
        Reboot,
        /// The owner of the Machine replaces it.
        Replace,
    }

    /// Phase of a remediation.
    RemediationPhase {
        /// The first step has not begun.
        #[default]
        Pending,
        /// A MachineOperation is not finished.
        Running,
        /// A MachineOperation is finished, and the Machine has time to become healthy.
        Waiting,
        /// The owner of the Machine is to replace it.
        Replacing,
        /// All steps are over, and the Machine is still unhealthy.
        Exhausted,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Described;

    #[test]
    fn a_template_holds_the_spec_of_its_requests() {
        let template = CapstanRemediationTemplate::schema();
        let inner = &template["properties"]["spec"]["properties"]["template"]["properties"]["spec"];
        let spec = &CapstanRemediation::schema()["properties"]["spec"];
        assert_eq!(inner["properties"], spec["properties"]);
        let steps = &spec["properties"]["steps"];
        assert_eq!(steps["items"]["properties"]["action"]["enum"], json!(["Reboot", "Replace"]));
        assert_eq!(steps["minItems"], json!(1));
    }
}
