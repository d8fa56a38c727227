//! Table of the actions on a Machine: one entry per POST subresource such as `machines/reboot`.
//!
//! An entry defines the variant of [`MachineAction`], the subresource, the request body and the parameters field
//! of a MachineOperation's spec. Routes, discovery, OpenAPI, admission and validation follow from [`ACTIONS`].

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::object::wire;
use crate::openstack_machine::ImageParam;
use crate::schema::structural;
use crate::shared::words;

/// One action on a Machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActionDescriptor {
    /// Value of `spec.action` of a MachineOperation.
    pub action: MachineAction,
    /// Text form of `action`.
    pub name: &'static str,
    /// Subresource of `machines`, which is the last segment of the path.
    pub subresource: &'static str,
    /// Kind of the request body, in the group and version of MachineOperation.
    pub body_kind: &'static str,
    /// Field of a MachineOperation's spec that holds the parameters, if the action has parameters.
    pub parameters: Option<ParametersField>,
}

/// Field of a MachineOperation's spec that holds the parameters of one action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ParametersField {
    /// JSON name of the field.
    pub name: &'static str,
    /// Rule for an operation without the field.
    pub presence: Presence,
}

/// Rule for an operation that lacks the parameters of its action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Presence {
    /// The server adds an empty object, and the schema's defaults fill it.
    Defaulted,
    /// The server rejects the operation with this error detail.
    Required(&'static str),
}

/// Request body of an action: the fields that all actions share, and the action's parameters beside them.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ActionBody<P> {
    /// `capstan.dev/v1alpha1`, or unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub api_version: Option<String>,
    /// Key for safe retries: the same key with the same request returns the same operation.
    #[schemars(length(max = 128))]
    #[serde(skip_serializing_if = "Option::is_none")]
    pub idempotency_key: Option<String>,
    /// Kind of this body, or unset.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Parameters of the action.
    #[serde(flatten)]
    pub parameters: P,
}

/// Defines the actions. An entry is
///
/// ```text
/// Variant("subresource", BodyKind: Parameters) { rust_field "jsonField": presence }
/// ```
///
/// An action without parameters has `NoParameters` and empty braces.
macro_rules! actions {
    ($(
        $(#[$doc:meta])*
        $action:ident($subresource:literal, $body:ident: $parameters:ty) {
            $($(#[$field_doc:meta])* $field:ident $json:literal: $presence:expr)?
        }
    )*) => {
        words! {
            /// Action on a Machine.
            MachineAction { $($(#[$doc])* $action,)* }
        }

        wire! {
            /// Request of a MachineOperation. Immutable except for `cancelRequested`, which can only be set.
            MachineOperationSpec {
                required {
                    /// Action on the Machine: Reboot, Upgrade, PowerOff, PowerOn, Retire, Cordon, Uncordon or Drain.
                    action: MachineAction,
                    /// Name of the Machine, in the same namespace.
                    #[schemars(length(min = 1, max = 253))]
                    machine_name: String,
                }
                optional {
                    /// Cancel request. If true, the operation stops at the next safe point. Default: false.
                    cancel_requested: bool,
                    /// Key for safe retries: the same key with the same request returns the same operation.
                    #[schemars(length(max = 128))]
                    idempotency_key: String,
                    /// User who requested the operation. The server writes it.
                    requested_by: RequestedBy,
                    $($($(#[$field_doc])* #[serde(rename = $json)] $field: $parameters,)?)*
                }
            }
        }

        $(
            #[doc = concat!("Request body of `machines/", $subresource, "`.")]
            pub type $body = ActionBody<$parameters>;
        )*

        /// Every action on a Machine.
        pub const ACTIONS: &[ActionDescriptor] = &[$(ActionDescriptor {
            action: MachineAction::$action,
            name: stringify!($action),
            subresource: $subresource,
            body_kind: stringify!($body),
            parameters: actions!(@field $($json, $presence)?),
        },)*];

        /// Schemas of the request bodies of all actions, by their kinds.
        pub fn bodies() -> Vec<(&'static str, Value)> {
            vec![$((stringify!($body), body_schema::<$body>($subresource)),)*]
        }
    };
    (@field) => { None };
    (@field $json:literal, $presence:expr) => { Some(ParametersField { name: $json, presence: $presence }) };
}

actions! {
    /// Restarts the server.
    #[default]
    Reboot("reboot", MachineReboot: RebootParameters) {
        /// Parameters of `Reboot`.
        reboot "reboot": Presence::Defaulted
    }
    /// Gives the server an image with another Kubernetes version.
    Upgrade("upgrade", MachineUpgrade: UpgradeParameters) {
        /// Parameters of `Upgrade`.
        upgrade "upgrade": Presence::Required("says to which version")
    }
    /// Stops the server.
    PowerOff("poweroff", MachinePowerOff: NoParameters) {}
    /// Starts the server.
    PowerOn("poweron", MachinePowerOn: NoParameters) {}
    /// Drains the Node, waits for its volumes, and deletes the Machine.
    Retire("retire", MachineRetire: NoParameters) {}
    /// Makes the Node unschedulable.
    Cordon("cordon", MachineCordon: NoParameters) {}
    /// Makes the Node schedulable again.
    Uncordon("uncordon", MachineUncordon: UncordonParameters) {
        /// Parameters of `Uncordon`.
        uncordon "uncordon": Presence::Defaulted
    }
    /// Cordons and drains the Node, which stays cordoned.
    Drain("drain", MachineNodeDrain: DrainParameters) {
        /// Parameters of `Drain`.
        drain "drain": Presence::Defaulted
    }
}

wire! {
    /// Parameters of an action that has none.
    NoParameters {}

    /// Parameters of `Reboot`.
    RebootParameters {
        optional {
            /// Drain the Node first, and make it schedulable again at the end. Default: true if the Machine has a Node.
            drain: bool,
            /// Time after which an unfinished soft reboot becomes a hard reboot. Unit: seconds. Range: 1 to
            /// 3600. Default: 120.
            #[schemars(range(min = 1, max = 3600), extend("default" = 120))]
            soft_timeout_seconds: i32,
            /// Type of reboot: Soft or Hard. Default: Soft.
            #[serde(rename = "type")]
            #[schemars(extend("default" = "Soft"))]
            kind: RebootType,
        }
    }

    /// Parameters of `Upgrade`.
    UpgradeParameters {
        required {
            /// Target Kubernetes version, with a leading v.
            #[schemars(length(min = 1, max = 256))]
            version: String,
        }
        optional {
            /// Drain the Node first, and make it schedulable again at the end. Default: true if the Machine has a Node.
            drain: bool,
            /// Target image. Default: the current image's name with the new version in it.
            #[schemars(extend("minProperties" = 1, "maxProperties" = 1))]
            image: ImageParam,
            /// Upgrade strategy: Auto, Rebuild or Replace. Default: Auto.
            #[schemars(extend("default" = "Auto"))]
            strategy: UpgradeStrategy,
        }
    }

    /// Parameters of `Uncordon`.
    UncordonParameters {
        optional {
            /// End the cordon of another client, too. Default: false.
            #[schemars(extend("default" = false))]
            force: bool,
        }
    }

    /// Parameters of `Drain`.
    DrainParameters {
        optional {
            /// Change nothing, and list in the result the treatment of each Pod. Default: false.
            #[schemars(extend("default" = false))]
            dry_run: bool,
            /// After the time limit, delete the Pods that could not be evicted, against their disruption budgets.
            /// Default: false.
            #[schemars(extend("default" = false))]
            force: bool,
            /// Time limit of the drain. Unit: seconds. Range: 60 to 86400. Default: `nodeDrainTimeoutSeconds` of the
            /// Machine, or else one hour.
            #[schemars(range(min = 60, max = 86400))]
            timeout_seconds: i32,
            /// Make the Node schedulable again if the drain fails. Default: true.
            #[schemars(extend("default" = true))]
            uncordon_on_failure: bool,
        }
    }

    /// User who requested an operation, and the request.
    RequestedBy {
        optional {
            /// Audit id of the request, as in the audit log.
            #[serde(rename = "auditID")]
            audit_id: String,
            /// Groups of the user.
            #[schemars(extend("x-kubernetes-list-type" = "atomic"))]
            groups: Vec<String>,
            /// Name of the user.
            username: String,
        }
    }
}

words! {
    /// Type of reboot.
    RebootType {
        /// The guest operating system restarts.
        #[default]
        Soft,
        /// The server is powered off and on, without a shutdown of the guest operating system.
        Hard,
    }

    /// Strategy of an upgrade.
    UpgradeStrategy {
        /// The least disruptive strategy that works for the Machine.
        #[default]
        Auto,
        /// Nova rebuilds the same server with a new image.
        Rebuild,
        /// A new server replaces the server of the same Machine.
        Replace,
    }
}

fn body_schema<B: JsonSchema>(subresource: &str) -> Value {
    let mut schema = structural::<B>();
    schema["description"] = json!(format!("Request body of `machines/{subresource}`."));
    schema
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Described, MachineOperation};

    #[test]
    fn every_action_has_a_subresource_a_body_and_an_enum_value() {
        let schema = MachineOperation::schema();
        let words: Vec<&str> = ACTIONS.iter().map(|action| action.name).collect();
        assert_eq!(schema["properties"]["spec"]["properties"]["action"]["enum"], json!(words));
        let kinds: Vec<&str> = bodies().into_iter().map(|(kind, _)| kind).collect();
        assert_eq!(ACTIONS.iter().map(|action| action.body_kind).collect::<Vec<_>>(), kinds);
        for action in ACTIONS {
            assert_eq!(json!(action.action), json!(action.name));
            assert!(
                action.subresource.bytes().all(|byte| byte.is_ascii_lowercase()),
                "{}",
                action.subresource
            );
        }
    }

    #[test]
    fn parameters_are_in_the_field_that_the_table_names_and_in_the_body() {
        let spec = &MachineOperation::schema()["properties"]["spec"]["properties"];
        for (action, (_, body)) in ACTIONS.iter().zip(bodies()) {
            let Some(field) = action.parameters else { continue };
            let parameters = &spec[field.name];
            assert!(parameters.is_object(), "{} is no field of the spec", field.name);
            let requires = !parameters["required"].is_null();
            assert_eq!(matches!(field.presence, Presence::Required(_)), requires, "{}", field.name);
            for (name, schema) in parameters["properties"].as_object().into_iter().flatten() {
                assert_eq!(&body["properties"][name], schema, "{name} of {}", action.body_kind);
            }
        }
    }
}
