//! Conversion between the field managers of an object and those of its `Scale`.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::element::Path;
use crate::entries::{Entries, Entry};
use crate::manager_identifier::ManagerIdentifier;
use crate::set::Set;

/// Version of `Scale`.
const SCALE: &str = "autoscaling/v1";

/// Paths of the replicas in an object that is scaled.
#[derive(Debug, Clone)]
pub struct ScalePaths<'a> {
    /// Path of the number of replicas, by version of the kind.
    pub replicas: &'a BTreeMap<String, Path>,
    /// Version of the object.
    pub api_version: &'a str,
}

/// Returns the path of the number in `Scale`.
fn in_scale() -> Path {
    Path::of_fields(["spec", "replicas"])
}

/// Returns the field managers of the number, as field managers of the number in the `Scale`. The others cannot be
/// expressed there.
pub fn to_scale(parent: &Entries, paths: &ScalePaths<'_>) -> Entries {
    let mut scale = Entries::default();
    for entry in parent.iter().filter(|entry| owns(entry, paths)) {
        let manager = ManagerIdentifier { api_version: SCALE.to_owned(), ..entry.manager.clone() };
        scale.remove(&manager);
        scale.push(Entry { manager, time: entry.time, fields: Arc::new(Set::of([in_scale()])) });
    }
    scale
}

/// Returns the entries of the object after those of its `Scale` have become `scale`: a field manager that is no
/// longer among these has lost the number, and a new one owns it through the subresource.
pub fn from_scale(parent: &Entries, scale: &Entries, paths: &ScalePaths<'_>) -> Entries {
    let mut entries = Entries::default();
    let mut fresh: Vec<&Entry> = scale.iter().filter(|entry| entry.fields.has(&in_scale().0)).collect();
    for entry in parent.iter().filter(|entry| paths.replicas.contains_key(&entry.manager.api_version)) {
        let mut entry = entry.clone();
        if owns(&entry, paths) {
            let same = |manager: &ManagerIdentifier| {
                let is = ManagerIdentifier { api_version: SCALE.to_owned(), ..entry.manager.clone() };
                is.is(manager)
            };
            match fresh.iter().position(|kept| same(&kept.manager)) {
                Some(at) => drop(fresh.remove(at)),
                None => lose(&mut entry, paths),
            }
        }
        entries.push(entry);
    }
    for entry in fresh {
        let manager =
            ManagerIdentifier { api_version: paths.api_version.to_owned(), ..entry.manager.clone() };
        let number = paths.replicas.get(paths.api_version).cloned();
        match entries.get_mut(&manager) {
            Some(same) => same.gain(Set::of(number)),
            None => entries.push(Entry { manager, time: None, fields: Arc::new(Set::of(number)) }),
        }
    }
    entries.drop_empty();
    entries
}

fn owns(entry: &Entry, paths: &ScalePaths<'_>) -> bool {
    paths.replicas.get(&entry.manager.api_version).is_some_and(|path| entry.fields.has(&path.0))
}

fn lose(entry: &mut Entry, paths: &ScalePaths<'_>) {
    if let Some(path) = paths.replicas.get(&entry.manager.api_version) {
        entry.lose(&Set::of([path.clone()]));
    }
}
