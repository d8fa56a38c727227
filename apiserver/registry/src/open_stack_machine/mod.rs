//! OpenStackMachine.

use apiserver_machinery::field_errors::{FieldError, FieldPath};
use apiserver_machinery::strategy::Strategy;
use serde_json::Value;

use crate::immutable;

/// OpenStackMachine's own rules.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OpenStackMachineStrategy;

impl Strategy for OpenStackMachineStrategy {
    fn validate(&self, new: &Value, old: Option<&Value>) -> Vec<FieldError> {
        let spec = new.get("spec").cloned().unwrap_or_default();
        let mut faults = validate_spec(&spec, &FieldPath::new("spec"));
        if let Some(old) = old {
            faults.extend(immutable::spec(new, old, |now, before| {
                for value in [now, before] {
                    immutable::forget(value, "providerID");
                    immutable::forget(value, "identityRef");
                    for port in value.get_mut("ports").and_then(Value::as_array_mut).into_iter().flatten() {
                        immutable::forget(port, "allowedAddressPairs");
                    }
                }
            }));
            faults.extend(region(new, old, "spec.identityRef"));
        }
        faults
    }
}

/// Credentials (at the dotted path `identity`) may change, but not to another region: what was made
/// is in the old one.
pub(crate) fn region(new: &Value, old: &Value, identity: &str) -> Option<FieldError> {
    let pointer = format!("/{}", identity.replace('.', "/"));
    old.pointer(&pointer)?;
    new.pointer(&pointer)?;
    immutable::field(new, old, &format!("{identity}.region"))
}

/// Rules of a server's spec, also of a bastion's.
pub(crate) fn validate_spec(spec: &Value, path: &FieldPath) -> Vec<FieldError> {
    let mut faults = Vec::new();
    hints(spec, path, &mut faults);
    zone(spec.get("rootVolume"), &path.child("rootVolume"), &mut faults);
    let devices = spec.get("additionalBlockDevices").and_then(Value::as_array);
    for (index, device) in devices.into_iter().flatten().enumerate() {
        let at = path.child("additionalBlockDevices").index(index).child("storage").child("volume");
        zone(device.pointer("/storage/volume"), &at, &mut faults);
    }
    faults
}

/// A scheduler hint has the one value that its type names.
fn hints(spec: &Value, path: &FieldPath, faults: &mut Vec<FieldError>) {
    let hints = spec.get("schedulerHintAdditionalProperties").and_then(Value::as_array);
    for (index, hint) in hints.into_iter().flatten().enumerate() {
        let at = path.child("schedulerHintAdditionalProperties").index(index).child("value");
        let kind = hint.pointer("/value/type").and_then(Value::as_str).unwrap_or_default();
        for (field, owner) in [("bool", "Bool"), ("number", "Number"), ("string", "String")] {
            let present = hint.pointer(&format!("/value/{field}")).is_some();
            let detail = format!("{field} is required when type is {owner}, and forbidden otherwise");
            if kind == owner && !present {
                faults.push(FieldError::required(at.child(field), &detail));
            } else if kind != owner && present {
                faults.push(FieldError::forbidden(at.child(field), &detail));
            }
        }
    }
}

/// A volume's zone has a name, or comes from the Machine: one of the two.
fn zone(volume: Option<&Value>, path: &FieldPath, faults: &mut Vec<FieldError>) {
    let Some(zone) = volume.and_then(|volume| volume.get("availabilityZone")) else { return };
    let from = zone.get("from").and_then(Value::as_str).unwrap_or("Name");
    let at = path.child("availabilityZone").child("name");
    match (from, zone.get("name")) {
        ("Name", None) => {
            faults.push(FieldError::required(at, "name is required when from is 'Name' or default"));
        }
        ("Machine", Some(_)) => faults.push(FieldError::forbidden(at, "only when from is 'Name' or default")),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn faults(new: &Value, old: &Value) -> Vec<String> {
        OpenStackMachineStrategy
            .validate(new, Some(old))
            .iter()
            .map(|fault| fault.field.to_string())
            .collect()
    }

    #[test]
    fn only_what_may_change_changes() {
        let old = json!({"spec": {"flavor": {"id": "1"}, "identityRef": {"name": "a", "region": "r"},
            "ports": [{"description": "x", "allowedAddressPairs": []}]}});
        let with = |pointer: &str, value: Value| {
            let mut new = old.clone();
            *new.pointer_mut(pointer).unwrap() = value;
            new
        };
        assert_eq!(faults(&old, &old), Vec::<String>::new());
        assert_eq!(faults(&with("/spec/identityRef/name", json!("b")), &old), Vec::<String>::new());
        assert_eq!(
            faults(&with("/spec/ports/0/allowedAddressPairs", json!([{"ipAddress": "a"}])), &old),
            Vec::<String>::new()
        );
        assert_eq!(faults(&with("/spec/identityRef/region", json!("s")), &old), ["spec.identityRef.region"]);
        assert_eq!(faults(&with("/spec/flavor/id", json!("2")), &old), ["spec.flavor"]);
        assert_eq!(faults(&with("/spec/ports/0/description", json!("y")), &old), ["spec.ports"]);
    }

    #[test]
    fn values_have_what_their_type_asks_for() {
        let machine = json!({"spec": {
            "schedulerHintAdditionalProperties": [{"name": "a", "value": {"type": "Bool", "number": 1}}],
            "rootVolume": {"sizeGiB": 1, "availabilityZone": {"from": "Name"}},
            "additionalBlockDevices": [
                {"storage": {"volume": {"availabilityZone": {"from": "Machine"}}}},
                {"storage": {"volume": {"availabilityZone": {"from": "Machine", "name": "a"}}}}]}});
        let found: Vec<String> = OpenStackMachineStrategy
            .validate(&machine, None)
            .iter()
            .map(|fault| fault.field.to_string())
            .collect();
        assert_eq!(
            found,
            [
                "spec.schedulerHintAdditionalProperties[0].value.bool",
                "spec.schedulerHintAdditionalProperties[0].value.number",
                "spec.rootVolume.availabilityZone.name",
                "spec.additionalBlockDevices[1].storage.volume.availabilityZone.name",
            ]
        );
    }
}
