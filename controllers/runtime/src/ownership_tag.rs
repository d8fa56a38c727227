//! Whose a thing in the cloud is.

use kube::{Resource, ResourceExt};

/// What every tag of ours begins with.
pub const PREFIX: &str = "capstan-";

/// Longest description that Neutron takes, in bytes at most.
const LONGEST: usize = 255;

/// The mark that an object leaves on all it makes.
///
/// Neutron and Nova take the tag `capstan-<uid>`. Neutron takes tags only after a thing exists, so
/// its description, which is part of the create call, says the same; Cinder has it in metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OwnershipTag {
    uid: String,
    description: String,
}

impl OwnershipTag {
    /// Key of the mark in the metadata of things that have no tags.
    pub const METADATA_KEY: &'static str = "capstan";

    /// The mark of an object that the API has stored.
    pub fn of<K: Resource<DynamicType = ()>>(object: &K) -> Self {
        let uid = object.uid().unwrap_or_default();
        let namespace = object.namespace().unwrap_or_default();
        let mut named = format!("capstan: {} {namespace}/{}", K::kind(&()), object.name_any());
        // The uid says whose it is; the name is for people and may be cut.
        while named.len() + 1 + uid.len() > LONGEST {
            named.pop();
        }
        let description = format!("{named} {uid}");
        Self { uid, description }
    }

    /// The tag.
    pub fn tag(&self) -> String {
        format!("{PREFIX}{}", self.uid)
    }

    /// The description.
    pub fn description(&self) -> String {
        self.description.clone()
    }

    /// Whether something that bears these is this object's.
    pub fn is_on(&self, tags: &[String], description: &str) -> bool {
        description == self.description || tags.contains(&self.tag())
    }

    /// The tags something of ours is to have: the mark, and what is asked for.
    pub fn tags(&self, more: Option<&[String]>) -> Vec<String> {
        let mut tags = vec![self.tag()];
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
    fn an_object_of_the_same_name_is_another_owner() {
        let mut cluster = OpenStackCluster::new("prod", OpenStackClusterSpec::default());
        cluster.metadata.namespace = Some("team".to_owned());
        cluster.metadata.uid = Some("1".to_owned());
        let first = OwnershipTag::of(&cluster);
        cluster.metadata.uid = Some("2".to_owned());
        let second = OwnershipTag::of(&cluster);
        assert_eq!(first.description(), "capstan: OpenStackCluster team/prod 1");
        assert!(first.is_on(&[], &first.description()));
        assert!(first.is_on(&["x".to_owned(), "capstan-1".to_owned()], "renamed by hand"));
        assert!(!second.is_on(&[first.tag()], &first.description()));
        assert!(!second.is_on(&[], ""));
        assert_eq!(first.tags(Some(&["a".to_owned(), "capstan-1".to_owned()])), ["capstan-1", "a"]);
    }
}
