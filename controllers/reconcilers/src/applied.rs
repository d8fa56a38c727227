//! Memory of applied intents, so that a repetition that would change nothing is not sent.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use kube::Resource;
use serde::Serialize;
use serde_json::Value;

/// Time after which an intent is applied again: upstream's interval of a full resync.
const VALID: Duration = Duration::from_mins(10);

/// Intents that are remembered. When there are more, all are forgotten, which costs one apply each.
const REMEMBERED: usize = 16_384;

/// Memory of applied intents, by a key of the caller's choice. Lost with the process.
#[derive(Debug, Default)]
pub(crate) struct Applied(Mutex<HashMap<String, (u64, Instant)>>);

impl Applied {
    /// Returns true if this intent was applied, and the object is still as it was left then. Its status does not matter.
    pub(crate) fn is_current<K: Resource + Serialize>(&self, key: &str, intent: &Value, object: &K) -> bool {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).get(key).copied();
        known.is_some_and(|(hash, at)| at.elapsed() < VALID && hash == fingerprint(intent, object))
    }

    /// Notes that an intent was applied, with the object that resulted.
    pub(crate) fn note<K: Resource + Serialize>(&self, key: &str, intent: &Value, object: &K) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= REMEMBERED {
            known.clear();
        }
        known.insert(key.to_owned(), (fingerprint(intent, object), Instant::now()));
    }
}

/// Returns a hash of an intent and of the parts of an object that an intent can change.
fn fingerprint<K: Resource + Serialize>(intent: &Value, object: &K) -> u64 {
    let meta = object.meta();
    let spec =
        serde_json::to_value(object).ok().and_then(|mut object| object.get_mut("spec").map(Value::take));
    let mut hasher = DefaultHasher::new();
    intent.to_string().hash(&mut hasher);
    spec.map(|spec| spec.to_string()).hash(&mut hasher);
    (&meta.labels, &meta.annotations, &meta.finalizers).hash(&mut hasher);
    let owners = meta.owner_references.iter().flatten();
    owners
        .map(|owner| (&owner.uid, &owner.api_version, owner.controller))
        .collect::<Vec<_>>()
        .hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use apiserver_types::{Machine, MachineSpec, MachineStatus};
    use kube::ResourceExt;
    use serde_json::json;

    use super::*;

    #[test]
    fn an_intent_is_repeated_only_after_another_change() {
        let applied = Applied::default();
        let mut machine = Machine::new("m", MachineSpec::default());
        let intent = json!({"metadata": {"labels": {"a": "b"}}});
        assert!(!applied.is_current("m", &intent, &machine));
        applied.note("m", &intent, &machine);
        machine.status = Some(MachineStatus::default());
        assert!(applied.is_current("m", &intent, &machine), "only the status is another one");
        assert!(!applied.is_current("m", &json!({}), &machine));
        machine.labels_mut().insert("c".to_owned(), "d".to_owned());
        assert!(!applied.is_current("m", &intent, &machine));
    }
}
