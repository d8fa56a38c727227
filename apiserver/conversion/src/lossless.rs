//! Conversion that loses nothing.
//!
//! Either version can say things that the other cannot. What the stored version alone can say is
//! shown to clients of the older one in the annotation that Cluster API uses for it, whole, and is
//! taken from there when they write. What the older version alone can say is kept with the stored
//! object in an annotation of ours, and nothing else of it. Both are merged with what was changed
//! since: a field that is as a plain conversion would have made it was not touched, and gets its full
//! value back; a field that is not was changed by the writer, who wins.

use serde_json::{Map, Value, json};

use crate::Rules;
use crate::fields::put;
use crate::round_trip::{Note, merge};
use crate::unconvertible::{self, Unconvertible};

/// Where clients of an older version find what only the stored one can say: Cluster API's own name.
const STORED_DATA: &str = "cluster.x-k8s.io/conversion-data";

/// Where the stored object keeps what only an older version can say; the version is appended.
const OLDER_DATA: &str = "conversion.capstan.dev/";

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
        let shown = take_annotation(&mut older, STORED_DATA);
        (self.rules.default)(&mut older);
        let plain = self.plain_stored(older.clone());
        let mut stored = plain.clone();
        if let Some(text) = shown {
            let kept = read(&text).map(|kept| with_metadata(kept, &plain));
            let base = kept.as_ref().map(|kept| self.plain_stored(self.plain_served(kept.clone())));
            merge(base.as_ref(), kept.as_ref(), &mut stored);
            self.set_version(&mut stored, self.rules.stored);
            // Not something of ours but somebody's own text, which says nothing to us.
            if base.zip(kept).is_none_or(|(base, kept)| Note::of(&base, &kept).is_none()) {
                set_annotation(&mut stored, STORED_DATA, text);
            }
        }
        if let Some(note) = Note::of(&self.plain_served(plain), &older) {
            set_annotation(&mut stored, &self.older_data(), note.to_text().into());
        }
        stored
    }

    /// The stored object in the older version.
    pub fn served(&self, mut stored: Value) -> Value {
        let note = take_annotation(&mut stored, &self.older_data());
        let mut older = self.plain_served(stored.clone());
        if let Some(note) = note.as_ref().and_then(Value::as_str).and_then(Note::read) {
            note.add_to(&mut older);
            self.show_unsayable(&note, &mut older);
            self.set_version(&mut older, self.rules.version);
        }
        if !is_same(&self.plain_stored(older.clone()), &stored) {
            annotate(&mut older, STORED_DATA, &stored);
        }
        older
    }

    /// What an object of the older version says that cannot be stored in any way that means the same.
    pub fn unconvertible(&self, older: &Value) -> Vec<Unconvertible> {
        match self.rules.version {
            "v1beta1" => unconvertible::unconvertible(self.rules.kind, older),
            _ => Vec::new(),
        }
    }

    /// What a kind fills in where nothing could be stored does not hide why: whoever judges the object
    /// sees what was written. In lists nothing is filled in.
    fn show_unsayable(&self, note: &Note, older: &mut Value) {
        for one in self.unconvertible(note.written()) {
            if !one.field.contains('[') {
                put(older, &one.field, one.value);
            }
        }
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

/// Takes an annotation away.
fn take_annotation(object: &mut Value, annotation: &str) -> Option<Value> {
    let metadata = object.get_mut("metadata")?.as_object_mut()?;
    let annotations = metadata.get_mut("annotations")?.as_object_mut()?;
    let text = annotations.remove(annotation)?;
    if annotations.is_empty() {
        metadata.remove("annotations");
    }
    Some(text)
}

/// Reads an annotation. One that cannot be read says nothing.
fn read(text: &Value) -> Option<Value> {
    serde_json::from_str::<Value>(text.as_str()?).ok().filter(Value::is_object)
}

/// The kept form with the object's own `metadata`: rules may look at its namespace.
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
        let mut expected = stored(&json!({"waitSeconds": 5}));
        expected["metadata"]["annotations"] = json!({STORED_DATA: "{"});
        assert_eq!(toy().stored(one), expected);
    }

    #[test]
    fn what_somebody_else_wrote_into_the_annotation_stays() {
        for text in ["garbage", "{}", r#"{"spec":{}}"#, r#"{"spec":{"waitSeconds":5}}"#, "[1]"] {
            let mut one = older(&json!({"wait": "5s"}));
            one["metadata"]["annotations"] = json!({STORED_DATA: text});
            let two = toy().stored(one.clone());
            assert_eq!(two["metadata"]["annotations"], json!({STORED_DATA: text}), "{text}");
            assert_eq!(toy().served(two), one, "{text}");
        }
        // What we said ourselves is used and goes.
        let full = stored(&json!({"new": 1, "waitSeconds": 5}));
        assert_eq!(toy().stored(toy().served(full.clone())), full);
    }

    #[test]
    fn of_the_older_version_only_what_differs_is_kept() {
        let files = json!(["x".repeat(1000)]);
        let two = toy().stored(older(&json!({"old": 1, "wait": "60s", "files": files})));
        let note = two["metadata"]["annotations"]["conversion.capstan.dev/v1"].as_str().unwrap();
        assert_eq!(
            serde_json::from_str::<Value>(note).unwrap(),
            json!({"plain": {"spec": {"wait": "1m0s"}}, "written": {"spec": {"old": 1, "wait": "60s"}}})
        );
    }
}
