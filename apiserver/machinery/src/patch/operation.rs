//! One operation of a JSON patch.
//!
//! RFC 6902 with upstream's deviations, on which clients rely: an absent value equals null, indices may count from the
//! end, and a missing `value` is null.

use serde_json::{Map, Value};

use super::effort::{Effort, TooMuch};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Add,
    Remove,
    Replace,
    Move,
    Test,
    Copy,
}

/// A decoded operation. A missing field is an error only when the operation is carried out.
#[derive(Debug, Clone)]
pub(super) struct Operation {
    /// The name as it was sent.
    name: String,
    kind: Option<Kind>,
    path: Option<String>,
    from: Option<String>,
    /// Null if there is none.
    value: Value,
}

impl Operation {
    pub(super) fn new(mut fields: Map<String, Value>) -> Self {
        let text = |name: &str| fields.get(name).and_then(Value::as_str).map(str::to_owned);
        let name = text("op").unwrap_or_default();
        let kind = match name.as_str() {
            "add" => Some(Kind::Add),
            "remove" => Some(Kind::Remove),
            "replace" => Some(Kind::Replace),
            "move" => Some(Kind::Move),
            "test" => Some(Kind::Test),
            "copy" => Some(Kind::Copy),
            _ => None,
        };
        let (path, from) = (text("path"), text("from"));
        Self { name, kind, path, from, value: fields.remove("value").unwrap_or_default() }
    }

    /// Returns true if there is an operation with its name.
    pub(super) fn is_known(&self) -> bool {
        self.kind.is_some()
    }

    /// Returns true if it is a test that this document fails: the place is there, with another value.
    pub(super) fn is_failed_test(&self, document: &mut Value) -> bool {
        let (Some(Kind::Test), Some(path)) = (self.kind, self.path.as_deref()) else { return false };
        path.is_empty() || locate(document, path).is_some_and(|(holder, key)| present(holder, &key).is_some())
    }

    /// Returns true if it reads or writes this field of the document, or the whole document.
    pub(super) fn is_of(&self, field: &str) -> bool {
        let paths = [&self.path, &self.from].into_iter().flatten();
        // Text before the first slash is ignored. A pointer without a slash is the document.
        paths.map(|path| path.split('/').nth(1)).any(|first| first.is_none_or(|first| first == field))
    }

    /// Counts the effort of the operation.
    ///
    /// # Errors
    /// Returns an error if it exceeds a limit.
    pub(super) fn weigh(&self, document: &mut Value, effort: &mut Effort) -> Result<(), TooMuch> {
        let (path, from) =
            (self.path.as_deref().unwrap_or_default(), self.from.as_deref().unwrap_or_default());
        match self.kind {
            Some(Kind::Add | Kind::Replace) => effort.put(path, &self.value)?,
            Some(Kind::Move) => {
                if let Some(value) = at(document, from) {
                    effort.put(path, value)?;
                }
                effort.shift(items_beside(document, from))?;
            }
            Some(Kind::Copy) => {
                if let Some(value) = at(document, from) {
                    effort.put(path, value)?;
                    effort.copy(value)?;
                }
            }
            Some(Kind::Remove) => {}
            Some(Kind::Test) | None => return Ok(()),
        }
        effort.shift(items_beside(document, path))
    }

    /// Changes the document; returns `None` if that is impossible. The document may then be changed in part.
    pub(super) fn carry_out(&self, document: &mut Value) -> Option<()> {
        let path = self.path.as_deref();
        match self.kind? {
            Kind::Add => add(document, path?, self.value.clone()),
            Kind::Remove => remove(document, path?).map(|_| ()),
            Kind::Replace => replace(document, path?, &self.value),
            Kind::Test => test(document, path?, &self.value),
            Kind::Move => {
                let moved = remove(document, self.from.as_deref()?)?;
                add(document, path?, moved)
            }
            Kind::Copy => {
                let (holder, key) = locate(document, self.from.as_deref()?)?;
                let copied = present(holder, &key)?.cloned().unwrap_or_default();
                add(document, path?, copied)
            }
        }
    }
}

impl std::fmt::Display for Operation {
    /// Formats the operation without its value.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let path = self.path.as_deref().unwrap_or_default();
        match (self.kind, self.from.as_deref()) {
            (Some(Kind::Move | Kind::Copy), Some(from)) => write!(f, "{} {from:?} to {path:?}", self.name),
            _ => write!(f, "{} {path:?}", self.name),
        }
    }
}

fn add(document: &mut Value, path: &str, value: Value) -> Option<()> {
    match locate(document, path)? {
        (Value::Object(fields), key) => {
            fields.insert(key, value);
        }
        (Value::Array(items), key) if key == "-" => items.push(value),
        (Value::Array(items), key) => {
            // There is one more index than there are items.
            let at = index(&key, items.len() + 1)?;
            items.insert(at, value);
        }
        _ => return None,
    }
    Some(())
}

fn remove(document: &mut Value, path: &str) -> Option<Value> {
    match locate(document, path)? {
        (Value::Object(fields), key) => fields.remove(&key),
        (Value::Array(items), key) => {
            let at = index(&key, items.len())?;
            Some(items.remove(at))
        }
        _ => None,
    }
}

fn replace(document: &mut Value, path: &str, value: &Value) -> Option<()> {
    if path.is_empty() {
        *document = Some(value).filter(|value| value.is_object() || value.is_array())?.clone();
        return Some(());
    }
    match locate(document, path)? {
        // An absent value is added.
        (Value::Object(fields), key) => {
            fields.insert(key, value.clone());
        }
        (Value::Array(items), key) => {
            let at = index(&key, items.len())?;
            *items.get_mut(at)? = value.clone();
        }
        _ => return None,
    }
    Some(())
}

fn test(document: &mut Value, path: &str, value: &Value) -> Option<()> {
    if path.is_empty() {
        return (document == value).then_some(());
    }
    let (holder, key) = locate(document, path)?;
    (present(holder, &key)?.unwrap_or(&Value::Null) == value).then_some(())
}

/// Returns the object or list that a pointer leads into, and the last part of the pointer.
fn locate<'a>(document: &'a mut Value, pointer: &str) -> Option<(&'a mut Value, String)> {
    // Text before the first slash is ignored.
    let (_, pointer) = pointer.split_once('/')?;
    let (parents, key) =
        pointer.rsplit_once('/').map_or((None, pointer), |(parents, key)| (Some(parents), key));
    let mut holder = document;
    for part in parents.into_iter().flat_map(|parents| parents.split('/')) {
        let part = unescape(part);
        holder = match holder {
            Value::Object(fields) => fields.get_mut(&part)?,
            Value::Array(items) => {
                let at = index(&part, items.len())?;
                items.get_mut(at)?
            }
            _ => return None,
        };
    }
    (holder.is_object() || holder.is_array()).then(|| (holder, unescape(key)))
}

/// Returns the value of a key: nothing if an object does not have the field, `None` if a list has no such item.
fn present<'a>(holder: &'a Value, key: &str) -> Option<Option<&'a Value>> {
    match holder {
        Value::Object(fields) => Some(fields.get(key)),
        Value::Array(items) => Some(Some(items.get(index(key, items.len())?)?)),
        _ => None,
    }
}

/// Parses an index below `places`. A negative one counts from the end.
fn index(text: &str, places: usize) -> Option<usize> {
    let number: i64 = text.parse().ok()?;
    let distance = usize::try_from(number.unsigned_abs()).ok()?;
    let at = if number < 0 { places.checked_sub(distance)? } else { distance };
    (at < places).then_some(at)
}

fn unescape(part: &str) -> String {
    part.replace("~1", "/").replace("~0", "~")
}

/// Returns the value at a pointer.
fn at<'a>(document: &'a mut Value, pointer: &str) -> Option<&'a Value> {
    let (holder, key) = locate(document, pointer)?;
    present(holder, &key)?
}

/// Returns the number of items in the list that a pointer leads into.
fn items_beside(document: &mut Value, pointer: &str) -> usize {
    locate(document, pointer).and_then(|(holder, _)| holder.as_array()).map_or(0, Vec::len)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns the value of `o` after the operation, or `None` if it cannot be carried out.
    fn after(operation: Value) -> Option<Value> {
        let mut document = json!({"o": {"l": [1, 2, 3], "n": null, "m": {"x": 1}}});
        let Value::Object(fields) = operation else { return None };
        Operation::new(fields).carry_out(&mut document)?;
        Some(document["o"].take())
    }

    #[test]
    fn a_missing_field_equals_null() {
        let same = json!({"l": [1, 2, 3], "n": null, "m": {"x": 1}});
        for path in ["/o/nope", "/o/n"] {
            assert_eq!(after(json!({"op": "test", "path": path, "value": null})), Some(same.clone()));
            assert_eq!(after(json!({"op": "test", "path": path})), Some(same.clone()));
            assert_eq!(after(json!({"op": "test", "path": path, "value": 1})), None);
        }
        for path in ["/o/nope/deeper", "/o/l/3", "/o/l/x", "/o/l", "/o/m", "", "o"] {
            assert_eq!(after(json!({"op": "test", "path": path, "value": null})), None, "{path}");
        }
        let copied = after(json!({"op": "copy", "from": "/o/nope", "path": "/o/l"}));
        assert_eq!(copied, Some(json!({"l": null, "n": null, "m": {"x": 1}})));
        assert_eq!(after(json!({"op": "move", "from": "/o/nope", "path": "/o/l"})), None);
        let added = after(json!({"op": "add", "path": "/o/l/0"}));
        assert_eq!(added.as_ref().and_then(|o| o.pointer("/l")), Some(&json!([null, 1, 2, 3])));
    }

    #[test]
    fn negative_indices_count_from_the_end() {
        let table = [
            ("add", "-1", Some(json!([1, 2, 3, 9]))),
            ("add", "-4", Some(json!([9, 1, 2, 3]))),
            ("add", "-5", None),
            ("add", "3", Some(json!([1, 2, 3, 9]))),
            ("add", "4", None),
            ("add", "-", Some(json!([1, 2, 3, 9]))),
            ("remove", "-1", Some(json!([1, 2]))),
            ("remove", "01", Some(json!([1, 3]))),
            ("remove", "+1", Some(json!([1, 3]))),
            ("remove", "-", None),
            ("remove", "3", None),
            ("remove", "-9223372036854775808", None),
            ("replace", "-3", Some(json!([9, 2, 3]))),
            ("replace", "3", None),
        ];
        for (op, key, expected) in table {
            let found = after(json!({"op": op, "path": format!("/o/l/{key}"), "value": 9}));
            assert_eq!(found.map(|mut o| o["l"].take()), expected, "{op} {key}");
        }
    }

    #[test]
    fn a_pointer_starts_at_its_first_slash() {
        let without = json!({"n": null, "m": {"x": 1}});
        assert_eq!(after(json!({"op": "remove", "path": "anything/o/l"})), Some(without));
        let odd = after(json!({"op": "add", "path": "/o/a~1b~01~2", "value": 1}));
        assert_eq!(odd.and_then(|o| o.get("a/b~1~2").cloned()), Some(json!(1)));
        for path in ["/o/m/x/y", "/o/n/x", ""] {
            assert_eq!(after(json!({"op": "add", "path": path, "value": {}})), None, "{path}");
        }
        assert_eq!(after(json!({"op": "copy", "from": "", "path": "/o/c"})), None);
        assert_eq!(after(json!({"op": "replace", "path": "", "value": 1})), None);
        assert_eq!(after(json!({"op": "replace", "path": "", "value": {"o": 1}})), Some(json!(1)));
        assert_eq!(after(json!({"op": "move", "from": "/o/m", "path": "/o/m/x"})), None);
    }
}
