//! Settings of one component: its flags and environment, in the form of each API version.

use serde_json::{Map, Value, json};

use super::api_version::ApiVersion;

/// Converts a component's flags and environment in place.
pub(super) fn convert(component: &mut Map<String, Value>, api: ApiVersion) {
    if api == ApiVersion::V1Beta3 {
        component.remove("extraEnvs");
        arguments_to_map(component, "extraArgs");
    }
}

/// Replaces a list of flags by a map, which v1beta3 requires. The last value of a repeated flag remains.
pub(super) fn arguments_to_map(fields: &mut Map<String, Value>, name: &str) {
    let Some(Value::Array(arguments)) = fields.get(name) else { return };
    let text = |argument: &Value, field: &str| {
        argument.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let map: Map<String, Value> =
        arguments.iter().map(|argument| (text(argument, "name"), text(argument, "value").into())).collect();
    fields.insert(name.to_owned(), map.into());
}

/// Replaces a map of flags by a list, which v1beta4 requires.
pub(super) fn arguments_to_list(fields: &mut Map<String, Value>, name: &str) {
    let Some(Value::Object(arguments)) = fields.get(name) else { return };
    let list = arguments.iter().map(|(name, value)| json!({"name": name, "value": value})).collect();
    fields.insert(name.to_owned(), Value::Array(list));
}
