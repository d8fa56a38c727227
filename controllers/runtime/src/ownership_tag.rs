//! Ownership tag: identifies the object to which a cloud resource belongs.

use kube::{Resource, ResourceExt};

/// Longest description that Neutron accepts. Unit: bytes.
const LONGEST: usize = 255;

/// Ownership tag of one object, which is on every cloud resource that is created for it.
///
/// In Neutron and Nova it is the tag `capstan-<id>`. The id is the object's first uid, which an annotation
/// keeps: an object that was moved to another server has another uid and the same resources. Neutron accepts tags only after a resource exists,
/// so its description, which is part of the create call, contains the same. In Cinder it is in the
/// metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnershipTag {
    uid: String,
    description: String,
}

impl OwnershipTag {
    /// Prefix of every ownership tag.
    pub const PREFIX: &'static str = "capstan-";

    /// Key in the metadata of volumes, and start of a tag of all other resources, that names the cluster of a machine.
    pub const CLUSTER_KEY: &'static str = "capstan-cluster";

    /// Annotation with the id in the tag. It is written with the finalizer, before the first resource.
    pub const ANNOTATION: &'static str = "capstan.dev/mark";

    /// Key of the tag in the metadata of resources that have no tags.
    pub const METADATA_KEY: &'static str = "capstan";

    /// Returns the tag of an object that the API has stored.
    pub fn of<K: Resource<DynamicType = ()>>(object: &K) -> Self {
        let uid = Self::id(object);
        let namespace = object.namespace().unwrap_or_default();
        let mut named = format!("capstan: {} {namespace}/{}", K::kind(&()), object.name_any());
        // The uid identifies the object; the name is for people and may be cut.
        while named.len() + 1 + uid.len() > LONGEST {
            named.pop();
        }
        let description = format!("{named} {uid}");
        Self { uid, description }
    }

    /// Returns the id in the tag of an object: that of the annotation, else its uid.
    pub fn id<K: Resource>(object: &K) -> String {
        let kept = object.annotations().get(Self::ANNOTATION).filter(|id| !id.is_empty());
        kept.cloned().or_else(|| object.uid()).unwrap_or_default()
    }

    /// Returns the text of the tag.
    pub fn text(&self) -> String {
        format!("{}{}", Self::PREFIX, self.uid)
    }

    /// Returns the description of a resource.
    pub fn description(&self) -> String {
        self.description.clone()
    }

    /// Returns true if a resource with these tags and this description belongs to the object.
    pub fn is_on(&self, tags: &[String], description: &str) -> bool {
        description == self.description || tags.contains(&self.text())
    }

    /// Returns the tags of a resource: the ownership tag, and the requested ones.
    pub fn tags(&self, more: Option<&[String]>) -> Vec<String> {
        let mut tags = vec![self.text()];
        for tag in more.unwrap_or_default() {
            if !tags.contains(tag) {
                tags.push(tag.clone());
            }
        }
        tags
    }
}

#[cfg(test)]
mod tests {
    use apiserver_types::{OpenStackCluster, OpenStackClusterSpec};

    use super::*;

    #[test]
    fn an_object_with_the_same_name_and_another_uid_is_another_owner() {
        let mut cluster = OpenStackCluster::new("prod", OpenStackClusterSpec::default());
        cluster.metadata.namespace = Some("team".to_owned());
        cluster.metadata.uid = Some("1".to_owned());
        let first = OwnershipTag::of(&cluster);
        cluster.metadata.uid = Some("2".to_owned());
        let second = OwnershipTag::of(&cluster);
        assert_eq!(first.description(), "capstan: OpenStackCluster team/prod 1");
        assert!(first.is_on(&[], &first.description()));
        assert!(first.is_on(&["x".to_owned(), "capstan-1".to_owned()], "renamed by hand"));
        assert!(!second.is_on(&[first.text()], &first.description()));
        assert!(!second.is_on(&[], ""));
        cluster.metadata.annotations = Some([(OwnershipTag::ANNOTATION.to_owned(), "1".to_owned())].into());
        assert_eq!(OwnershipTag::of(&cluster), first, "R2.1: a moved object keeps its resources");
        assert_eq!(first.tags(Some(&["a".to_owned(), "capstan-1".to_owned()])), ["capstan-1", "a"]);
    }
}
