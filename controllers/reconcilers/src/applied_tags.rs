//! Tags of a spec that earlier passes gave to cloud resources, so that those that the spec does not name any more are
//! removed, and tags of other tools stay.

use std::collections::BTreeSet;

use kube::{Resource, ResourceExt};

/// Annotation with the tags that passes have applied: a JSON array.
pub(crate) const ANNOTATION: &str = "capstan.dev/applied-tags";

/// Reads the tags that passes have applied.
pub(crate) fn of<K: Resource>(object: &K) -> BTreeSet<String> {
    let text = object.annotations().get(ANNOTATION);
    text.and_then(|text| serde_json::from_str(text).ok()).unwrap_or_default()
}

/// Returns the value of the annotation: the tags of earlier passes, and those that this one applies. `None` without any.
pub(crate) fn text<'a>(
    applied: &'a BTreeSet<String>,
    wanted: impl IntoIterator<Item = &'a String>,
) -> Option<String> {
    let all: BTreeSet<&String> = applied.iter().chain(wanted).collect();
    (!all.is_empty()).then(|| serde_json::to_string(&all).unwrap_or_default())
}

/// Change of the tags of a resource. The tags of other tools stay.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TagChange {
    pub added: Vec<String>,
    pub removed: Vec<String>,
}

impl TagChange {
    /// Applies the change to the known tags of the resource.
    pub(crate) fn apply(&self, tags: &mut Vec<String>) {
        tags.retain(|tag| !self.removed.contains(tag));
        tags.extend_from_slice(&self.added);
    }
}

/// Returns the change of a resource's tags, if they are not those that it has.
pub(crate) fn changed(required: &[String], applied: &BTreeSet<String>, held: &[String]) -> Option<TagChange> {
    let is_stale = |tag: &&String| applied.contains(*tag) && !required.contains(tag);
    let removed: Vec<String> = held.iter().filter(is_stale).cloned().collect();
    let added: Vec<String> = required.iter().filter(|tag| !held.contains(tag)).cloned().collect();
    (!added.is_empty() || !removed.is_empty()).then_some(TagChange { added, removed })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn r5_8_only_tags_that_were_applied_before_are_removed() {
        let of = |tags: &[&str]| -> Vec<String> { tags.iter().map(|tag| (*tag).to_owned()).collect() };
        let applied: BTreeSet<String> = of(&["blue", "old"]).into_iter().collect();
        let required = of(&["capstan-1", "blue", "new"]);
        let table = [
            (vec![], Some(vec!["capstan-1", "blue", "new"])),
            (vec!["theirs", "capstan-1", "old", "blue"], Some(vec!["theirs", "capstan-1", "blue", "new"])),
            (vec!["new", "blue", "capstan-1", "theirs"], None),
        ];
        for (held, expected) in table {
            let mut tags = of(&held);
            let change = changed(&required, &applied, &tags);
            change.iter().for_each(|change| change.apply(&mut tags));
            assert_eq!(change.map(|_| tags), expected.map(|tags| of(&tags)), "{held:?}");
        }
        assert_eq!(text(&applied, &required).unwrap(), r#"["blue","capstan-1","new","old"]"#);
        assert_eq!(text(&BTreeSet::new(), []), None);
    }
}
