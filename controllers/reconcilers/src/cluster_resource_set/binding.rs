//! Record of a set in the ClusterResourceSetBinding of a Cluster. Pure.

use apiserver_types::{
    ClusterResourceSet, ClusterResourceSetBinding, ClusterResourceSetBindingSpec, ResourceBinding,
    ResourceRef, ResourceSetBinding, Time,
};
use kube::ResourceExt;

use super::notes;
use crate::ownership;

/// Returns the binding of a Cluster, without entries.
pub(super) fn new(namespace: &str, cluster: &str) -> ClusterResourceSetBinding {
    let spec = ClusterResourceSetBindingSpec { cluster_name: cluster.to_owned(), bindings: None };
    let mut binding = ClusterResourceSetBinding::new(cluster, spec);
    binding.metadata.namespace = Some(namespace.to_owned());
    binding
}

/// Makes the set an owner of the binding, and gives it an entry with its resources. Entries of resources that have left
/// the set are removed.
pub(super) fn claim(binding: &mut ClusterResourceSetBinding, set: &ClusterResourceSet) {
    if !ownership::is_owned(binding, set) {
        let own = ownership::shared(set);
        let owners = binding.metadata.owner_references.get_or_insert_default();
        owners.retain(|it| (it.kind.as_str(), it.name.as_str()) != (own.kind.as_str(), own.name.as_str()));
        owners.push(own);
    }
    change(binding, set, |resources| {
        resources.retain(|known| set.spec.resources.iter().any(|it| is_of(known, it)));
    });
}

/// Removes everything about the set. Returns true if no entry is left.
pub(super) fn release(binding: &mut ClusterResourceSetBinding, set: &ClusterResourceSet) -> bool {
    let name = set.name_any();
    let bindings = binding.spec.bindings.get_or_insert_default();
    bindings.retain(|known| known.cluster_resource_set_name != name);
    let is_empty = bindings.is_empty();
    if let Some(owners) = &mut binding.metadata.owner_references {
        owners.retain(|owner| Some(&owner.uid) != set.metadata.uid.as_ref());
    }
    notes::forget(binding, &name);
    is_empty
}

/// Returns true if the binding has an entry of the set, or the set as an owner.
pub(super) fn concerns(binding: &ClusterResourceSetBinding, set: &ClusterResourceSet) -> bool {
    let mut bindings = binding.spec.bindings.iter().flatten();
    ownership::is_owned(binding, set) || bindings.any(|it| it.cluster_resource_set_name == set.name_any())
}

/// Returns the record of a resource.
pub(super) fn record<'a>(
    binding: &'a ClusterResourceSetBinding,
    set: &str,
    resource: &ResourceRef,
) -> Option<&'a ResourceBinding> {
    let mut bindings = binding.spec.bindings.iter().flatten();
    let entry = bindings.find(|known| known.cluster_resource_set_name == set)?;
    entry.resources.iter().flatten().find(|known| is_of(known, resource))
}

/// Records an attempt to apply a resource. `hash` is that of the applied values; `None` before the result is known, or
/// after a failure.
pub(super) fn put(
    binding: &mut ClusterResourceSetBinding,
    set: &ClusterResourceSet,
    resource: &ResourceRef,
    hash: Option<String>,
    now: &Time,
) {
    let new = ResourceBinding {
        applied: hash.is_some(),
        kind: resource.kind,
        name: resource.name.clone(),
        hash,
        last_applied_time: Some(now.clone()),
    };
    change(binding, set, |resources| match resources.iter_mut().find(|known| is_of(known, resource)) {
        Some(known) => *known = new,
        None => resources.push(new),
    });
}

/// Changes the records of a set. An entry is added if there is none.
fn change(
    binding: &mut ClusterResourceSetBinding,
    set: &ClusterResourceSet,
    change: impl FnOnce(&mut Vec<ResourceBinding>),
) {
    let name = set.name_any();
    let bindings = binding.spec.bindings.get_or_insert_default();
    if !bindings.iter().any(|known| known.cluster_resource_set_name == name) {
        let new =
            ResourceSetBinding { cluster_resource_set_name: name.clone(), ..ResourceSetBinding::default() };
        bindings.push(new);
    }
    if let Some(entry) = bindings.iter_mut().find(|known| known.cluster_resource_set_name == name) {
        change(entry.resources.get_or_insert_default());
    }
}

fn is_of(known: &ResourceBinding, resource: &ResourceRef) -> bool {
    known.kind == resource.kind && known.name == resource.name
}

#[cfg(test)]
mod tests {
    use apiserver_types::{ClusterResourceSetSpec, ResourceSetKind};

    use super::*;

    fn resource(kind: ResourceSetKind, name: &str) -> ResourceRef {
        ResourceRef { kind, name: name.to_owned() }
    }

    fn set(name: &str, resources: Vec<ResourceRef>) -> ClusterResourceSet {
        let spec = ClusterResourceSetSpec { resources, ..ClusterResourceSetSpec::default() };
        let mut set = ClusterResourceSet::new(name, spec);
        set.metadata.uid = Some(format!("uid-{name}"));
        set
    }

    #[test]
    fn a_secret_and_a_config_map_of_one_name_have_records_of_their_own() {
        let (map, secret) =
            (resource(ResourceSetKind::ConfigMap, "a"), resource(ResourceSetKind::Secret, "a"));
        let both = set("both", vec![map.clone(), secret.clone()]);
        let mut binding = new("n", "blue");
        claim(&mut binding, &both);
        put(&mut binding, &both, &map, Some("sha256:0".to_owned()), &Time::default());
        put(&mut binding, &both, &secret, None, &Time::default());
        assert!(record(&binding, "both", &map).unwrap().applied);
        assert!(!record(&binding, "both", &secret).unwrap().applied);
        let less = set("both", vec![secret.clone()]);
        claim(&mut binding, &less);
        assert!(record(&binding, "both", &map).is_none(), "it has left the set");
        assert!(record(&binding, "both", &secret).is_some());
    }

    #[test]
    fn two_sets_share_a_binding_and_the_last_one_leaves_it_empty() {
        let (one, two) = (set("one", Vec::new()), set("two", Vec::new()));
        let mut binding = new("n", "blue");
        claim(&mut binding, &one);
        claim(&mut binding, &two);
        claim(&mut binding, &two);
        assert_eq!(binding.owner_references().len(), 2);
        assert!(!release(&mut binding, &one), "the other set has an entry");
        assert!(concerns(&binding, &two) && !concerns(&binding, &one));
        assert!(release(&mut binding, &two));
        assert!(binding.owner_references().is_empty());
    }
}
