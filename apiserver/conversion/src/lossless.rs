//! Conversion that loses nothing.
//!
//! Either version can say things that the other cannot. What the stored version alone can say is
//! shown to clients of the older one in the annotation that Cluster API uses for it, and is taken
//! from there when they write. What the older version alone can say is kept with the stored object
//! in an annotation of ours. Both hold the whole other form, and are merged with what was changed
//! since: a field that is as a plain conversion would have made it was not touched, and gets its full
//! value back; a field that is not was changed by the writer, who wins.

use serde_json::{Map, Value, json};

use crate::Rules;

/// Where clients of an older version find what only the stored one can say: Cluster API's own name.
const STORED_DATA: &str = "cluster.x-k8s.io/conversion-data";

/// Where the stored object keeps what only an older version can say; the version is appended.
const OLDER_DATA: &str = "conversion.capstan.dev/";

/// What tells items of a list apart, the first that all items have and in which all differ.
const ITEM_KEYS: [&str; 7] = ["name", "class", "type", "conditionType", "key", "uid", "topic"];

/// A kind's rules with nothing lost.
#[derive(Debug, Clone, Copy)]
pub struct Lossless {
    rules: Rules,
}

impl Lossless {
    /// These rules with nothing lost.
    pub fn new(rules: Rules) -> Self {
        Self { rules }
    }

    /// The object of the older version in the stored one.
    pub fn stored(&self, mut older: Value) -> Value {
        let kept = take_annotation(&mut older, STORED_DATA);
        let mut stored = self.plain_stored(older.clone());
        if let Some(kept) = kept.map(|kept| with_metadata(kept, &stored)) {
            let base = self.plain_stored(self.plain_served(kept.clone()));
            merge(Some(&base), Some(&kept), &mut stored);
            self.set_version(&mut stored, self.rules.stored);
        }
        (self.rules.default)(&mut older);
        if !is_same(&self.plain_served(stored.clone()), &older) {
            annotate(&mut stored, &self.older_data(), &older);
        }
        stored
    }

    /// The stored object in the older version.
    pub fn served(&self, mut stored: Value) -> Value {
        let kept = take_annotation(&mut stored, &self.older_data());
        let mut older = self.plain_served(stored.clone());
        if let Some(kept) = kept.map(|kept| with_metadata(kept, &older)) {
            let base = self.plain_served(self.plain_stored(kept.clone()));
            merge(Some(&base), Some(&kept), &mut older);
            self.set_version(&mut older, self.rules.version);
        }
        if !is_same(&self.plain_stored(older.clone()), &stored) {
            annotate(&mut older, STORED_DATA, &stored);
        }
        older
    }

    /// The object of the older version with what that version fills in by itself.
    pub fn defaulted(&self, mut older: Value) -> Value {
        (self.rules.default)(&mut older);
        older
    }

    fn older_data(&self) -> String {
        format!("{OLDER_DATA}{}", self.rules.version)
    }

    fn plain_stored(&self, mut object: Value) -> Value {
        (self.rules.default)(&mut object);
        (self.rules.to_stored)(&mut object);
        self.set_version(&mut object, self.rules.stored);
        object
    }

    fn plain_served(&self, mut object: Value) -> Value {
        (self.rules.from_stored)(&mut object);
        self.set_version(&mut object, self.rules.version);
        object
    }

    fn set_version(&self, object: &mut Value, version: &str) {
        if let Some(root) = object.as_object_mut() {
            root.insert("apiVersion".to_owned(), format!("{}/{version}", self.rules.group).into());
        }
    }
}

/// Whether two objects of one version say the same, `metadata` aside, which no rule touches.
fn is_same(one: &Value, other: &Value) -> bool {
    let part = |object: &Value| -> Map<String, Value> {
        let fields = object.as_object().into_iter().flatten();
        fields
            .filter(|(name, _)| *name != "metadata")
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect()
    };
    part(one) == part(other)
}

/// Writes all of `object` but its `metadata` into an annotation of `to`.
fn annotate(to: &mut Value, annotation: &str, object: &Value) {
    let mut kept = object.clone();
    if let Some(kept) = kept.as_object_mut() {
        kept.remove("metadata");
    }
    let Some(root) = to.as_object_mut() else { return };
    let Some(metadata) = root.entry("metadata").or_insert_with(|| json!({})).as_object_mut() else { return };
    let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
    if let Some(annotations) = annotations.as_object_mut() {
        annotations.insert(annotation.to_owned(), kept.to_string().into());
    }
}

/// Takes an annotation away and reads it. One that cannot be read says nothing.
fn take_annotation(object: &mut Value, annotation: &str) -> Option<Value> {
    let metadata = object.get_mut("metadata")?.as_object_mut()?;
    let annotations = metadata.get_mut("annotations")?.as_object_mut()?;
    let text = annotations.remove(annotation)?;
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
    serde_json::from_str::<Value>(text.as_str()?).ok().filter(Value::is_object)
}

/// The kept form with the object's own `metadata`: rules may look at its namespace.
fn with_metadata(mut kept: Value, object: &Value) -> Value {
    if let (Some(kept), Some(metadata)) = (kept.as_object_mut(), object.get("metadata")) {
        kept.insert("metadata".to_owned(), metadata.clone());
    }
    kept
}

/// Gives `now` what `kept` has beyond `base`, except where `now` was changed.
fn merge(base: Option<&Value>, kept: Option<&Value>, now: &mut Value) {
    if base == Some(&*now) {
        if let Some(kept) = kept {
            now.clone_from(kept);
        }
        return;
    }
    match (base, kept, now) {
        (base, Some(Value::Object(kept)), Value::Object(now)) => {
            let none = Map::new();
            merge_fields(base.and_then(Value::as_object).unwrap_or(&none), kept, now);
        }
        (Some(Value::Array(base)), Some(Value::Array(kept)), Value::Array(now)) => {
            merge_items(base, kept, now)
        }
        _ => {}
    }
}

fn merge_fields(base: &Map<String, Value>, kept: &Map<String, Value>, now: &mut Map<String, Value>) {
    for (name, kept_field) in kept {
        match now.get_mut(name) {
            Some(field) => merge(base.get(name), Some(kept_field), field),
            // Absent now and by plain conversion: the other version cannot say it.
            None if !base.contains_key(name) => {
                now.insert(name.clone(), kept_field.clone());
            }
            None => {}
        }
    }
    // Made by plain conversion out of nothing, and not touched since.
    now.retain(|name, field| kept.contains_key(name) || base.get(name) != Some(&*field));
}

fn merge_items(base: &[Value], kept: &[Value], now: &mut Vec<Value>) {
    let Some(key) =
        ITEM_KEYS.iter().find(|key| [base, kept, now.as_slice()].iter().all(|list| tells_apart(list, key)))
    else {
        if base.len() == now.len() && kept.len() == now.len() {
            for ((base, kept), now) in base.iter().zip(kept).zip(now.iter_mut()) {
                merge(Some(base), Some(kept), now);
            }
        }
        return;
    };
    let find =
        |list: &[Value], item: &Value| list.iter().find(|other| other.get(key) == item.get(key)).cloned();
    for item in now.iter_mut() {
        let (base, kept) = (find(base, item), find(kept, item));
        merge(base.as_ref(), kept.as_ref(), item);
    }
    let unsayable = kept.iter().filter(|item| find(base, item).is_none() && find(now, item).is_none());
    let unsayable: Vec<Value> = unsayable.cloned().collect();
    now.extend(unsayable);
}

/// Whether every item has this key, each another.
fn tells_apart(list: &[Value], key: &str) -> bool {
    let mut seen = std::collections::HashSet::new();
    list.iter().all(|item| item.get(key).and_then(Value::as_str).is_some_and(|text| seen.insert(text)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::{duration, rename_as, seconds, take};

    /// A toy: `wait` is a duration in v1 and seconds in v2; `old` and `new` exist in one alone.
    fn toy() -> Lossless {
        fn to_stored(object: &mut Value) {
            rename_as(object, "spec.wait", "spec.waitSeconds", |wait| seconds(&wait));
            take(object, "spec.old");
        }
        fn from_stored(object: &mut Value) {
            rename_as(object, "spec.waitSeconds", "spec.wait", |wait| duration(&wait));
            take(object, "spec.new");
            crate::fields::each(object, "spec.items", |item| {
                take(item, "new");
            });
        }
        Lossless::new(Rules {
            group: "g",
            kind: "Toy",
            version: "v1",
            stored: "v2",
            default: crate::no_defaults,
            to_stored,
            from_stored,
        })
    }

    fn older(spec: &Value) -> Value {
        json!({"apiVersion": "g/v1", "kind": "Toy", "metadata": {"name": "a"}, "spec": spec})
    }

    fn stored(spec: &Value) -> Value {
        json!({"apiVersion": "g/v2", "kind": "Toy", "metadata": {"name": "a"}, "spec": spec})
    }

    #[test]
    fn what_both_can_say_needs_no_annotation() {
        let two = toy().stored(older(&json!({"wait": "1m0s"})));
        assert_eq!(two, stored(&json!({"waitSeconds": 60})));
        assert_eq!(toy().served(two), older(&json!({"wait": "1m0s"})));
    }

    #[test]
    fn what_one_alone_can_say_comes_back_as_it_was() {
        for spec in [json!({"old": 1, "wait": "60s"}), json!({"wait": "1500ms"}), json!({"old": {"a": [1]}})]
        {
            assert_eq!(toy().served(toy().stored(older(&spec))), older(&spec), "{spec}");
        }
        let spec = json!({"new": 1, "waitSeconds": 5, "items": [{"name": "a", "new": 1}, {"name": "b"}]});
        assert_eq!(toy().stored(toy().served(stored(&spec))), stored(&spec));
    }

    #[test]
    fn who_changes_a_field_wins_and_the_rest_is_kept() {
        let mut one = toy().served(stored(
            &json!({"new": 1, "waitSeconds": 5, "items": [{"name": "a", "new": 1}, {"name": "b", "new": 2}]}),
        ));
        one["spec"]["wait"] = "2m".into();
        one["spec"]["items"] = json!([{"name": "c"}, {"name": "b"}]);
        let two = toy().stored(one.clone());
        assert_eq!(
            two["spec"],
            json!({"new": 1, "waitSeconds": 120, "items": [{"name": "c"}, {"name": "b", "new": 2}]})
        );
        let mut back = two;
        back["spec"]["waitSeconds"] = 7.into();
        assert_eq!(toy().served(back)["spec"]["wait"], "7s");
    }

    #[test]
    fn an_annotation_that_cannot_be_read_says_nothing() {
        let mut one = older(&json!({"wait": "5s"}));
        one["metadata"]["annotations"] = json!({STORED_DATA: "{"});
        assert_eq!(toy().stored(one), stored(&json!({"waitSeconds": 5})));
    }
}
