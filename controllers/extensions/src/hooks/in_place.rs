//! Hooks for updates in place.

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{PatchDocument, RetryResponse, or_default, requests, responses};

/// Machine and its objects. Each has version, kind, name, namespace, labels, annotations and spec: see
/// [`desired_part`](crate::desired_part).
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineObjects {
    /// Machine.
    pub machine: Value,
    /// Infrastructure object of the Machine, e.g. its OpenStackMachine.
    pub infrastructure_machine: Value,
    /// Bootstrap configuration of the Machine, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bootstrap_config: Option<Value>,
}

/// MachineSet and its templates. Each has the fields of [`desired_part`](crate::desired_part).
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct MachineSetObjects {
    /// MachineSet.
    pub machine_set: Value,
    /// Template of the infrastructure objects, e.g. an OpenStackMachineTemplate.
    pub infrastructure_machine_template: Value,
    /// Template of the bootstrap configurations, if there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub bootstrap_config_template: Option<Value>,
}

requests! {
    /// Request about the changes of a Machine that the server can make in place.
    CanUpdateMachineRequest for CanUpdateMachine -> CanUpdateMachineResponse {
        /// Present objects.
        current: MachineObjects,
        /// Objects as they are to be.
        desired: MachineObjects,
    }

    /// Request about the changes of a MachineSet that the server can make in place.
    CanUpdateMachineSetRequest for CanUpdateMachineSet -> CanUpdateMachineSetResponse {
        /// Present objects.
        current: MachineSetObjects,
        /// Objects as they are to be.
        desired: MachineSetObjects,
    }

    /// Request of an update. It is repeated until the answer has no interval.
    UpdateMachineRequest for UpdateMachine -> RetryResponse {
        /// Objects as they are to be.
        desired: MachineObjects,
    }
}

responses! {
    /// Changes of a Machine that the server can make in place: patches of the present objects.
    CanUpdateMachineResponse {
        /// Patch of the Machine.
        machine_patch: UpdatePatch,
        /// Patch of the infrastructure object.
        infrastructure_machine_patch: UpdatePatch,
        /// Patch of the bootstrap configuration.
        bootstrap_config_patch: UpdatePatch,
        /// True if the update makes the Machine unavailable. Default: true.
        affects_availability: Option<bool>,
    }

    /// Changes of a MachineSet that the server can make in place: patches of the present objects.
    CanUpdateMachineSetResponse {
        /// Patch of the MachineSet.
        machine_set_patch: UpdatePatch,
        /// Patch of the template of the infrastructure objects.
        infrastructure_machine_template_patch: UpdatePatch,
        /// Patch of the template of the bootstrap configurations.
        bootstrap_config_template_patch: UpdatePatch,
        /// True if the updates make the Machines unavailable. Default: true.
        affects_availability: Option<bool>,
    }
}

/// Patch of an object. Both fields are empty if the server changes nothing in it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct UpdatePatch {
    /// Form of the patch: `JSONPatch` or `JSONMergePatch`.
    #[serde(deserialize_with = "or_default")]
    pub patch_type: String,
    /// Patch, in base64.
    #[serde(deserialize_with = "or_default")]
    pub patch: String,
}

impl UpdatePatch {
    /// Decodes the patch; `None` if the server changes nothing in the object.
    ///
    /// # Errors
    /// The text says what is wrong.
    pub fn document(&self) -> Result<Option<PatchDocument>, String> {
        if self.patch_type.is_empty() && self.patch.is_empty() {
            return Ok(None);
        }
        PatchDocument::read(&self.patch_type, &self.patch).map(Some)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_request_has_upstreams_fields_and_no_bootstrap_configuration_without_one() {
        let set = json!({"kind": "MachineSet"});
        let objects = MachineSetObjects { machine_set: set, ..MachineSetObjects::default() };
        let request = CanUpdateMachineSetRequest { current: objects.clone(), desired: objects };
        let sent = serde_json::to_value(request).unwrap();
        let part = json!({"machineSet": {"kind": "MachineSet"}, "infrastructureMachineTemplate": null});
        assert_eq!(sent, json!({"current": part, "desired": part}));
        let config = Some(json!({"kind": "KubeadmConfig"}));
        let config = MachineObjects { bootstrap_config: config, ..MachineObjects::default() };
        let sent = serde_json::to_value(UpdateMachineRequest { desired: config }).unwrap();
        assert_eq!(sent["desired"]["bootstrapConfig"]["kind"], "KubeadmConfig");
    }

    #[test]
    fn a_server_that_changes_nothing_sends_no_patch() {
        let patch = json!({"patchType": "JSONMergePatch", "patch": "e30="});
        let answer = json!({"status": "Success", "machinePatch": patch});
        let answer: CanUpdateMachineResponse = serde_json::from_value(answer).unwrap();
        assert_eq!(answer.machine_patch.document(), Ok(Some(PatchDocument::Merge(json!({})))));
        assert_eq!(answer.bootstrap_config_patch.document(), Ok(None));
        assert_eq!(answer.affects_availability, None);
        let half = UpdatePatch { patch: "e30=".to_owned(), ..UpdatePatch::default() };
        assert!(half.document().is_err());
    }
}
