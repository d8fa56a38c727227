//! Lossless conversion: annotations keep the fields that one of the versions cannot represent.
//!
//! Clients of an older version see the whole stored object in Cluster API's annotation, and send it back when they
//! write. Fields that only the older version can represent are kept with the stored object, in an annotation of
//! Capstan. Both are merged with later changes. If a field equals the result of the plain conversion, the client did
//! not change it, and it gets its full value back. If it differs, the client has changed it, and the change wins.

use serde_json::{Map, Value, json};

use crate::Rules;
use crate::fields::put;
use crate::round_trip::{Note, merge};
use crate::unconvertible::{self, Unconvertible};

/// Annotation of an older object with the stored object. The name is Cluster API's.
const STORED_DATA: &str = "cluster.x-k8s.io/conversion-data";

/// Prefix of the annotation of a stored object with the fields of an older version. The version follows.
const OLDER_DATA: &str = "conversion.capstan.dev/";

/// Lossless conversion by the rules of one kind.
#[derive(Debug, Clone, Copy)]
pub struct Lossless {
    rules: Rules,
}

impl Lossless {
    /// Creates the lossless conversion by these rules.
    pub fn new(rules: Rules) -> Self {
        Self { rules }
    }

    /// Converts an object of the older version to the stored one.
    pub fn stored(&self, mut older: Value) -> Value {
        let shown = take_annotation(&mut older, STORED_DATA);
        (self.rules.default)(&mut older);
        let plain = self.plain_stored(older.clone());
        let mut stored = plain.clone();
        if let Some(text) = shown {
            let kept = read(&text).map(|kept| with_metadata(kept, &plain));
            let base = kept.as_ref().map(|kept| self.plain_stored(self.plain_served(kept.clone())));
            merge(base.as_ref(), kept.as_ref(), &mut stored);
            self.set_version(&mut stored, self.rules.stored);
            // The annotation is not from Capstan, and has no meaning here.
            if base.zip(kept).is_none_or(|(base, kept)| Note::of(&base, &kept).is_none()) {
                set_annotation(&mut stored, STORED_DATA, text);
            }
        }
        if let Some(note) = Note::of(&self.plain_served(plain), &older) {
            set_annotation(&mut stored, &self.older_data(), note.to_text().into());
        }
        stored
    }

    /// Converts a stored object to the older version.
    pub fn served(&self, mut stored: Value) -> Value {
        let note = take_annotation(&mut stored, &self.older_data());
        let mut older = self.plain_served(stored.clone());
        if let Some(note) = note.as_ref().and_then(Value::as_str).and_then(Note::read) {
            note.add_to(&mut older);
            self.restore_unconvertible(&note, &mut older);
            self.set_version(&mut older, self.rules.version);
        }
        if !is_same(&self.plain_stored(older.clone()), &stored) {
            annotate(&mut older, STORED_DATA, &stored);
        }
        older
    }

    /// Returns the values of an object of the older version that cannot be stored without a change of their meaning.
    pub fn unconvertible(&self, older: &Value) -> Vec<Unconvertible> {
        match self.rules.version {
            "v1beta1" => unconvertible::unconvertible(self.rules.kind, older),
            _ => Vec::new(),
        }
    }

    /// Writes the unconvertible values back, so that a default does not hide them from validation. Lists have no
    /// defaults.
    fn restore_unconvertible(&self, note: &Note, older: &mut Value) {
        for one in self.unconvertible(note.written()) {
            if !one.field.contains('[') {
                put(older, &one.field, one.value);
            }
        }
    }

    /// Returns the object of the older version with the defaults of that version.
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

/// Reports whether two objects of one version are equal. `metadata` is ignored, because no rule changes it.
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

/// Writes `object` without its `metadata` into an annotation of `to`.
fn annotate(to: &mut Value, annotation: &str, object: &Value) {
    let mut kept = object.clone();
    if let Some(kept) = kept.as_object_mut() {
        kept.remove("metadata");
    }
    set_annotation(to, annotation, kept.to_string().into());
}

fn set_annotation(to: &mut Value, annotation: &str, text: Value) {
    let Some(root) = to.as_object_mut() else { return };
    let Some(metadata) = root.entry("metadata").or_insert_with(|| json!({})).as_object_mut() else { return };
    let annotations = metadata.entry("annotations").or_insert_with(|| json!({}));
    if let Some(annotations) = annotations.as_object_mut() {
        annotations.insert(annotation.to_owned(), text);
    }
}

/// Removes and returns an annotation.
fn take_annotation(object: &mut Value, annotation: &str) -> Option<Value> {
    let metadata = object.get_mut("metadata")?.as_object_mut()?;
    let annotations = metadata.get_mut("annotations")?.as_object_mut()?;
    let text = annotations.remove(annotation)?;
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
    Some(text)
}

/// Parses an annotation. An invalid one counts as absent.
fn read(text: &Value) -> Option<Value> {
    serde_json::from_str::<Value>(text.as_str()?).ok().filter(Value::is_object)
}

/// Returns the kept object with the object's own `metadata`, because rules can read its namespace.
fn with_metadata(mut kept: Value, object: &Value) -> Value {
    if let (Some(kept), Some(metadata)) = (kept.as_object_mut(), object.get("metadata")) {
        kept.insert("metadata".to_owned(), metadata.clone());
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fields::{duration, rename_as, seconds, take};

    /// Conversion of a toy kind: `wait` is a duration in v1 and seconds in v2; `old` and `new` exist in one version
    /// only.
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
    fn fields_that_both_versions_have_need_no_annotation() {
        let two = toy().stored(older(&json!({"wait": "1m0s"})));
        assert_eq!(two, stored(&json!({"waitSeconds": 60})));
        assert_eq!(toy().served(two), older(&json!({"wait": "1m0s"})));
    }

    #[test]
    fn fields_that_only_one_version_has_survive_a_round_trip() {
        for spec in [json!({"old": 1, "wait": "60s"}), json!({"wait": "1500ms"}), json!({"old": {"a": [1]}})]
        {
            assert_eq!(toy().served(toy().stored(older(&spec))), older(&spec), "{spec}");
        }
        let spec = json!({"new": 1, "waitSeconds": 5, "items": [{"name": "a", "new": 1}, {"name": "b"}]});
        assert_eq!(toy().stored(toy().served(stored(&spec))), stored(&spec));
    }

    #[test]
    fn a_changed_field_wins_over_the_annotation_and_other_fields_are_kept() {
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
    fn an_unreadable_annotation_is_ignored() {
        let mut one = older(&json!({"wait": "5s"}));
        one["metadata"]["annotations"] = json!({STORED_DATA: "{"});
        let mut expected = stored(&json!({"waitSeconds": 5}));
        expected["metadata"]["annotations"] = json!({STORED_DATA: "{"});
        assert_eq!(toy().stored(one), expected);
    }

    #[test]
    fn an_annotation_of_another_writer_is_kept() {
        for text in ["garbage", "{}", r#"{"spec":{}}"#, r#"{"spec":{"waitSeconds":5}}"#, "[1]"] {
            let mut one = older(&json!({"wait": "5s"}));
            one["metadata"]["annotations"] = json!({STORED_DATA: text});
            let two = toy().stored(one.clone());
            assert_eq!(two["metadata"]["annotations"], json!({STORED_DATA: text}), "{text}");
            assert_eq!(toy().served(two), one, "{text}");
        }
        // An annotation from Capstan is used and removed.
        let full = stored(&json!({"new": 1, "waitSeconds": 5}));
        assert_eq!(toy().stored(toy().served(full.clone())), full);
    }

    #[test]
    fn the_annotation_holds_only_the_differences_of_the_older_version() {
        let files = json!(["x".repeat(1000)]);
        let two = toy().stored(older(&json!({"old": 1, "wait": "60s", "files": files})));
        let note = two["metadata"]["annotations"]["conversion.capstan.dev/v1"].as_str().unwrap();
        assert_eq!(
            serde_json::from_str::<Value>(note).unwrap(),
            json!({"plain": {"spec": {"wait": "1m0s"}}, "written": {"spec": {"old": 1, "wait": "60s"}}})
        );
    }
}
