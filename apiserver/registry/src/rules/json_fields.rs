//! Access to fields of objects that have not been validated.

pub(crate) use apiserver_machinery::object::at as get;
use serde_json::{Map, Value};

/// Returns the object at a dotted path, and creates it with its parents if it is absent. Returns `None` for a value of
/// another type.
pub(crate) fn object<'a>(root: &'a mut Value, path: &str) -> Option<&'a mut Map<String, Value>> {
    path.split('.').try_fold(root.as_object_mut()?, |parent, name| {
        parent.entry(name.to_owned()).or_insert_with(|| Value::Object(Map::new())).as_object_mut()
    })
}

/// Sets the field at a dotted path if it is absent or an empty text.
pub(crate) fn default(root: &mut Value, path: &str, value: impl Into<Value>) {
    let Some((parent, name)) = path.rsplit_once('.') else { return };
    if get(root, path).is_some_and(|found| found != "") {
        return;
    }
    if let Some(parent) = object(root, parent) {
        parent.insert(name.to_owned(), value.into());
    }
}

/// Returns the text at a dotted path.
pub(crate) fn text<'a>(root: &'a Value, path: &str) -> Option<&'a str> {
    get(root, path)?.as_str()
}

/// Returns the items of the list at a dotted path, with their indices.
pub(crate) fn items<'a>(root: &'a Value, path: &str) -> impl Iterator<Item = (usize, &'a Value)> + use<'a> {
    get(root, path).and_then(Value::as_array).into_iter().flatten().enumerate()
}

/// Returns an annotation.
pub(crate) fn annotation<'a>(object: &'a Value, key: &str) -> Option<&'a str> {
    get(object, "metadata.annotations")?.get(key)?.as_str()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn defaults_replace_only_absent_or_empty_values() {
        let mut value = json!({"a": {"b": 1, "e": ""}, "c": "text"});
        default(&mut value, "a.b", 2);
        default(&mut value, "a.d.e", 3);
        default(&mut value, "c.d", 4);
        default(&mut value, "a.e", "x");
        assert_eq!(value, json!({"a": {"b": 1, "e": "x", "d": {"e": 3}}, "c": "text"}));
    }
}
