//! References: to the objects in a reflector's store that a change of another object concerns, and from spec to spec.

use std::fmt::Debug;

use apiserver_types::ContractVersionedObjectReference;
use kube::Resource;
use kube::runtime::reflector::{ObjectRef, Store};

/// Returns references to the objects in the namespace of `other` for which `concerns` returns true.
pub(crate) fn concerned<K, O>(store: &Store<K>, other: &O, concerns: impl Fn(&K) -> bool) -> Vec<ObjectRef<K>>
where
    K: Resource<DynamicType = ()> + Clone + Debug + 'static,
    O: Resource,
{
    // Most objects are in other namespaces. So a look at one copies neither its namespace nor a reference to it.
    let namespace = &other.meta().namespace;
    let within = store.state_filter(|object| object.meta().namespace == *namespace);
    within.iter().filter(|object| concerns(object)).map(|object| ObjectRef::from_obj(&**object)).collect()
}

/// Returns true if a reference names an object of this kind and group. The version is always the one that is stored.
pub(crate) fn is_of<K: Resource<DynamicType = ()>>(reference: &ContractVersionedObjectReference) -> bool {
    reference.kind == K::kind(&()) && reference.api_group == K::group(&())
}

/// Describes a reference of a kind that is not served, and the kind that is. `field` is the path of the reference.
pub(crate) fn unknown_kind<K: Resource<DynamicType = ()>>(
    field: &str,
    reference: &ContractVersionedObjectReference,
) -> String {
    let (kind, group) = (K::kind(&()), K::group(&()));
    format!(
        "{field} names {} {} of group {}, and that kind is not served here. Name an object of kind {kind} of group \
         {group}",
        reference.kind, reference.name, reference.api_group
    )
}

#[cfg(test)]
mod tests {
    use apiserver_types::OpenStackMachine;

    use super::*;

    #[test]
    fn a_reference_of_another_kind_or_group_is_told_with_the_right_one() {
        let of = |group: &str, kind: &str| ContractVersionedObjectReference {
            api_group: group.to_owned(),
            kind: kind.to_owned(),
            name: "m".to_owned(),
        };
        let group = "infrastructure.cluster.x-k8s.io";
        assert!(is_of::<OpenStackMachine>(&of(group, "OpenStackMachine")));
        assert!(!is_of::<OpenStackMachine>(&of("example.com", "OpenStackMachine")));
        let wrong = of(group, "OpenStackServer");
        assert!(!is_of::<OpenStackMachine>(&wrong));
        assert_eq!(
            unknown_kind::<OpenStackMachine>("spec.infrastructureRef", &wrong),
            "spec.infrastructureRef names OpenStackServer m of group infrastructure.cluster.x-k8s.io, and that kind is \
             not served here. Name an object of kind OpenStackMachine of group infrastructure.cluster.x-k8s.io"
        );
    }
}
