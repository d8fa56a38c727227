//! Tags of the spec that earlier passes have applied, so that those of other tools stay when the spec changes.

use apiserver_types::OpenStackCluster;
use kube::ResourceExt;

use super::desired::Desired;
use super::observe::Observed;

/// Annotation with the tags of the spec that the resources may have: a JSON array.
pub(super) const ANNOTATION: &str = "capstan.dev/applied-tags";

/// Returns the tags that earlier passes have applied and that the spec does not name any more.
pub(super) fn former(object: &OpenStackCluster) -> Vec<String> {
    let wanted = object.spec.tags.as_deref().unwrap_or_default();
    let text = object.annotations().get(ANNOTATION).map(String::as_str).unwrap_or_default();
    let applied: Vec<String> = serde_json::from_str(text).unwrap_or_default();
    applied.into_iter().filter(|tag| !wanted.contains(tag)).collect()
}

/// Returns the value of the annotation; `None` without tags. Former tags stay in it until no resource has them.
pub(super) fn text(desired: &Desired, observed: &Observed) -> Option<String> {
    let former = desired.former_tags.iter().filter(|_| !observed.tagged);
    let all: Vec<&String> = desired.tags.iter().chain(former).collect();
    (!all.is_empty()).then(|| serde_json::to_string(&all).unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn r5_8_a_former_tag_is_known_until_no_resource_has_it() {
        let spec = json!({"identityRef": {"name": "s", "cloudName": "c"}, "tags": ["blue", "green"]});
        let mut object = OpenStackCluster::new("c", serde_json::from_value(spec).unwrap());
        assert!(former(&object).is_empty());
        object.annotations_mut().insert(ANNOTATION.to_owned(), r#"["red","blue"]"#.to_owned());
        assert_eq!(former(&object), ["red"]);
        let desired = Desired::read(&object, "c");
        let mut observed = Observed::default();
        assert_eq!(text(&desired, &observed).as_deref(), Some(r#"["blue","green","red"]"#));
        observed.tagged = true;
        assert_eq!(text(&desired, &observed).as_deref(), Some(r#"["blue","green"]"#));
        let bare = Desired { tags: Vec::new(), ..desired };
        assert_eq!(text(&bare, &observed), None);
    }
}
