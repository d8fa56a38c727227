//! References to the objects in a reflector's store that a change of another object concerns.

use std::fmt::Debug;

use kube::runtime::reflector::{ObjectRef, Store};
use kube::{Resource, ResourceExt};

/// Returns references to the objects in the namespace of `other` for which `concerns` returns true.
pub(crate) fn concerned<K, O>(store: &Store<K>, other: &O, concerns: impl Fn(&K) -> bool) -> Vec<ObjectRef<K>>
where
    K: Resource<DynamicType = ()> + Clone + Debug + 'static,
    O: Resource,
{
    let objects = store.state();
    let matching =
        objects.iter().filter(|object| object.namespace() == other.namespace() && concerns(object));
    matching.map(|object| ObjectRef::from_obj(&**object)).collect()
}
