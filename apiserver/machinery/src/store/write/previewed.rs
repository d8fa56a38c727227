//! Preview of a dry run: it adds warnings, and neither fails the dry run nor delays it for long.

use std::sync::Arc;
use std::time::Duration;

use apiserver_executor::spawn_joined;
use apiserver_structured_merge::parse_sets;
use serde_json::Value;
use tokio::time::timeout;

use super::current_object::CurrentObject;
use super::update::{Modification, Target};
use crate::admission::Permissions;
use crate::object;
use crate::preview::{Preview, PreviewedChange};
use crate::store::{Kind, Written, WrittenObject};

/// Longest time of a preview. One that reads no cloud takes about a second for a large cluster. Tools send a dry run for
/// each object of a commit, and many of them give a request 10 seconds or more.
const LONGEST: Duration = Duration::from_secs(5);

/// Change that is being made, of a kind with a preview.
#[derive(Debug)]
pub(crate) struct Previewed {
    preview: Arc<dyn Preview>,
    permissions: Arc<dyn Permissions>,
    old: Value,
    longest: Duration,
}

impl Previewed {
    /// Returns the change of `current` if it has a preview: if it is a client's dry run. The server's own controllers read
    /// no warnings, and a preview may send dry runs itself.
    pub(crate) fn of(kind: Kind<'_>, how: Modification<'_>, current: &CurrentObject) -> Option<Self> {
        let (old, options) = (&current.object, how.options);
        if !options.dry_run || how.target != Target::Object || object::is_deleting(old) {
            return None;
        }
        let preview = kind.stored.preview.clone()?;
        let permissions = options.permissions.clone().filter(|caller| !caller.is_internal())?;
        // A client that waits for a short time gets its response, too.
        let longest = options.timeout.map_or(LONGEST, |timeout| LONGEST.min(timeout / 2));
        Some(Self { preview, permissions, old: old.clone(), longest })
    }

    /// Adds the warnings about the effects to the result.
    pub(crate) async fn complete(self, kind: Kind<'_>, mut written: Written) -> Written {
        let (preview, longest) = (Arc::clone(&self.preview), self.longest);
        // The result of a dry run is a tree.
        let WrittenObject::Tree(new) = &written.object else { return written };
        let Some(change) = self.change(kind, new) else { return written };
        let unknown = |why: &str| {
            let (kind, name) = (&kind.resource.kind, object::name(new));
            vec![format!("{kind} {name}: the effects of this change on other objects are not known: {why}")]
        };
        // A task of its own: a preview computes for long, and all requests of a connection share a task.
        let making = spawn_joined(timeout(longest, preview.warnings(change)));
        let warnings = match timeout(longest, making).await {
            Ok(Ok(Ok(warnings))) => warnings,
            Ok(Err(_)) => unknown("the server failed to determine them"),
            Err(_) | Ok(Ok(Err(_))) => unknown(&format!("they were not determined within {longest:?}")),
        };
        written.warnings.extend(warnings);
        written
    }

    /// Returns the change in the stored version, if something changes.
    fn change(self, kind: Kind<'_>, new: &Value) -> Option<PreviewedChange> {
        let Self { permissions, mut old, .. } = self;
        if is_same(&old, new) {
            return None;
        }
        parse_sets(&mut old);
        let stored = |object: &Value| Some(kind.as_stored(object).ok()?.into_owned());
        Some(PreviewedChange { old: stored(&old)?, new: stored(new)?, permissions })
    }
}

/// Returns true if two objects differ at most in the records that the server keeps about its writes, and in their status.
fn is_same(old: &Value, new: &Value) -> bool {
    let bare = |full: &Value| {
        let mut bare = object::without(full, &["status"]);
        for field in ["generation", "resourceVersion"] {
            object::remove_meta(&mut bare, field);
        }
        bare
    };
    bare(old) == bare(new)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn records_of_writes_and_the_status_are_no_change() {
        let old = json!({"metadata": {"name": "a", "resourceVersion": "1", "generation": 1, "managedFields": "[]"},
            "spec": {"size": 1}, "status": {"phase": "Up"}});
        let mut new = old.clone();
        new["metadata"] = json!({"name": "a", "resourceVersion": "2", "generation": 2, "managedFields": []});
        new["status"] = json!({"phase": "Down"});
        assert!(is_same(&old, &new));
        for (pointer, value) in [("/spec/size", json!(2)), ("/metadata/labels", json!({"a": "b"}))] {
            let mut other = new.clone();
            let (parent, field) = pointer.rsplit_once('/').unwrap();
            other.pointer_mut(parent).unwrap()[field] = value;
            assert!(!is_same(&old, &other), "{pointer}");
        }
    }
}
