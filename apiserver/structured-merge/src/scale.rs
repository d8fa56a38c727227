//! Owners of an object as the owners of its `Scale`, and back.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::element::Path;
use crate::entries::{Entries, Entry};
use crate::manager::Manager;
use crate::set::Set;

/// The version of `Scale`.
const SCALE: &str = "autoscaling/v1";

/// What is scaled.
#[derive(Debug, Clone)]
pub struct ScalePaths<'a> {
    /// Where the number of replicas stands, by version of the kind.
    pub replicas: &'a BTreeMap<String, Path>,
    /// The version that the object is in.
    pub api_version: &'a str,
}

/// Where `Scale` has the number.
fn in_scale() -> Path {
    Path::of_fields(["spec", "replicas"])
}

/// The owners of the number, as owners of the number in the `Scale`. The others cannot be said
/// there.
pub fn to_scale(parent: &Entries, paths: &ScalePaths<'_>) -> Entries {
    let mut scale = Entries::default();
    for entry in parent.iter().filter(|entry| owns(entry, paths)) {
        let owner = Manager { api_version: SCALE.to_owned(), ..entry.owner.clone() };
        scale.remove(&owner);
        scale.push(Entry { owner, time: entry.time, fields: Arc::new(Set::of([in_scale()])) });
    }
    scale
}

/// The owners of the object after those of its `Scale` have become `scale`: who is no longer among
/// these has lost the number, and who is new owns it through the subresource.
pub fn from_scale(parent: &Entries, scale: &Entries, paths: &ScalePaths<'_>) -> Entries {
    let mut entries = Entries::default();
    let mut fresh: Vec<&Entry> = scale.iter().filter(|entry| entry.fields.has(&in_scale().0)).collect();
    for entry in parent.iter().filter(|entry| paths.replicas.contains_key(&entry.owner.api_version)) {
        let mut entry = entry.clone();
        if owns(&entry, paths) {
            let same = |owner: &Manager| {
                let is = Manager { api_version: SCALE.to_owned(), ..entry.owner.clone() };
                is.is(owner)
            };
            match fresh.iter().position(|kept| same(&kept.owner)) {
                Some(at) => drop(fresh.remove(at)),
                None => lose(&mut entry, paths),
            }
        }
        entries.push(entry);
    }
    for entry in fresh {
        let owner = Manager { api_version: paths.api_version.to_owned(), ..entry.owner.clone() };
        let number = paths.replicas.get(paths.api_version).cloned();
        match entries.get_mut(&owner) {
            Some(same) => same.gain(Set::of(number)),
            None => entries.push(Entry { owner, time: None, fields: Arc::new(Set::of(number)) }),
        }
    }
    entries.drop_empty();
    entries
}

fn owns(entry: &Entry, paths: &ScalePaths<'_>) -> bool {
    paths.replicas.get(&entry.owner.api_version).is_some_and(|path| entry.fields.has(&path.0))
}

fn lose(entry: &mut Entry, paths: &ScalePaths<'_>) {
    if let Some(path) = paths.replicas.get(&entry.owner.api_version) {
        entry.lose(&Set::of([path.clone()]));
    }
}
