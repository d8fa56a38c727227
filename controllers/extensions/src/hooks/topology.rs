//! Hooks for external patches: patches of templates, their validation, and variables.

use apiserver_types::ClusterClassVariable;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{PlainResponse, requests, responses};

/// Variable with its value.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Variable {
    /// Name of the variable. `builtin` is the one of the built-in variables.
    pub name: String,
    /// Value, any JSON.
    pub value: Value,
}

/// Reference to the object that uses a template.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct HolderReference {
    /// Group and version of the object.
    pub api_version: String,
    /// Kind of the object.
    pub kind: String,
    /// Namespace of the object.
    pub namespace: String,
    /// Name of the object.
    pub name: String,
    /// Path of the field that references the template, e.g. `spec.infrastructureRef`.
    pub field_path: String,
}

/// Template that can be patched.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct GeneratePatchesItem {
    /// Identifier of the template within the request. Patches name it.
    pub uid: String,
    /// User of the template.
    pub holder_reference: HolderReference,
    /// Template, as an object.
    pub object: Value,
    /// Variables of this template alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<Variable>,
}

/// Patched template.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ValidateTopologyItem {
    /// User of the template.
    pub holder_reference: HolderReference,
    /// Template, as an object.
    pub object: Value,
    /// Variables of this template alone.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub variables: Vec<Variable>,
}

requests! {
    /// Request of patches of the templates of a topology.
    GeneratePatchesRequest for GeneratePatches -> GeneratePatchesResponse {
        /// Variables of all templates.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        variables: Vec<Variable>,
        /// Templates.
        items: Vec<GeneratePatchesItem>,
    }

    /// Request of the validation of the patched templates.
    ValidateTopologyRequest for ValidateTopology -> PlainResponse {
        /// Variables of all templates.
        #[serde(skip_serializing_if = "Vec::is_empty")]
        variables: Vec<Variable>,
        /// Templates.
        items: Vec<ValidateTopologyItem>,
    }

    /// Request of the variables of an external patch.
    DiscoverVariablesRequest for DiscoverVariables -> DiscoverVariablesResponse {}
}

responses! {
    /// Patches of templates.
    GeneratePatchesResponse {
        /// Patches, in the order in which they apply.
        items: Vec<GeneratedPatch>,
    }

    /// Variables of an external patch.
    DiscoverVariablesResponse {
        /// Variables with their schemas.
        variables: Vec<ClusterClassVariable>,
    }
}

/// Patch of a template.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct GeneratedPatch {
    /// Identifier of the template in the request.
    pub uid: String,
    /// Form of the patch: `JSONPatch` or `JSONMergePatch`.
    pub patch_type: String,
    /// Patch, in base64.
    pub patch: String,
}

/// Patch, decoded.
#[derive(Debug, Clone, PartialEq)]
pub enum PatchDocument {
    /// List of the operations of a JSON patch (RFC 6902).
    Json(Value),
    /// Fields of a JSON merge patch (RFC 7386).
    Merge(Value),
}

impl PatchDocument {
    /// Decodes a patch.
    ///
    /// # Errors
    /// The text says what is wrong.
    pub(crate) fn read(patch_type: &str, patch: &str) -> Result<Self, String> {
        let bytes = STANDARD.decode(patch).map_err(|error| format!("the patch is not base64: {error}"))?;
        let document: Value =
            serde_json::from_slice(&bytes).map_err(|error| format!("the patch is no JSON: {error}"))?;
        match patch_type {
            "JSONPatch" => match document.is_array() {
                true => Ok(Self::Json(document)),
                false => Err("the JSONPatch is no list of operations".to_owned()),
            },
            "JSONMergePatch" => Ok(Self::Merge(document)),
            other => Err(format!("patchType is {other:?}, and neither JSONPatch nor JSONMergePatch")),
        }
    }
}

impl GeneratedPatch {
    /// Decodes the patch.
    ///
    /// # Errors
    /// The text says what is wrong.
    pub fn document(&self) -> Result<PatchDocument, String> {
        PatchDocument::read(&self.patch_type, &self.patch)
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_request_of_patches_has_upstreams_fields() {
        let holder = HolderReference {
            kind: "Cluster".to_owned(),
            field_path: "spec.x".to_owned(),
            ..HolderReference::default()
        };
        let item = GeneratePatchesItem {
            uid: "1".to_owned(),
            holder_reference: holder,
            object: json!({"kind": "T"}),
            variables: vec![Variable { name: "v".to_owned(), value: json!(3) }],
        };
        let request = GeneratePatchesRequest { items: vec![item], variables: Vec::new() };
        let sent = serde_json::to_value(request).unwrap();
        let expected = json!({"items": [{
            "uid": "1", "object": {"kind": "T"}, "variables": [{"name": "v", "value": 3}],
            "holderReference": {
                "apiVersion": "", "kind": "Cluster", "namespace": "", "name": "", "fieldPath": "spec.x",
            },
        }]});
        assert_eq!(sent, expected);
        assert_eq!(serde_json::to_value(DiscoverVariablesRequest {}).unwrap(), json!({}));
    }

    #[test]
    fn a_patch_is_decoded_by_its_type() {
        let patch = |patch_type: &str, text: &str| PatchDocument::read(patch_type, &STANDARD.encode(text));
        assert_eq!(patch("JSONPatch", "[]"), Ok(PatchDocument::Json(json!([]))));
        assert_eq!(patch("JSONMergePatch", "{\"a\":1}"), Ok(PatchDocument::Merge(json!({"a": 1}))));
        for (patch_type, text, expected) in [
            ("JSONPatch", "{}", "no list of operations"),
            ("JSONMergePatch", "x", "no JSON"),
            ("YAML", "{}", "patchType is \"YAML\""),
        ] {
            assert!(patch(patch_type, text).unwrap_err().contains(expected), "{patch_type}");
        }
        assert!(PatchDocument::read("JSONPatch", "%").unwrap_err().contains("not base64"));
    }

    #[test]
    fn variables_of_a_server_are_those_of_v1beta2() {
        let answer = json!({"status": "Success", "variables": [
            {"name": "size", "required": true, "schema": {"openAPIV3Schema": {"type": "integer"}}},
        ]});
        let answer: DiscoverVariablesResponse = serde_json::from_value(answer).unwrap();
        assert_eq!((answer.variables.len(), answer.variables[0].name.as_str()), (1, "size"));
    }
}
