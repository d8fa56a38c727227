//! Protection of objects against deletion: the annotation or label with which a user protects an object.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Annotation or label of a protected Cluster, MachineDeployment, MachineSet, KubeadmControlPlane or Machine. Any value
/// except [`UNPROTECTED`] protects the object. Absent: the object is not protected.
pub const PROTECTED: &str = "capstan.dev/protected";

/// Value of [`PROTECTED`] that does not protect. On the last control plane Machine of a Cluster, it allows a person to
/// delete the Machine.
pub const UNPROTECTED: &str = "false";

/// Annotation with which clusterctl deletes an object that it has moved to another server.
pub const DELETE_FOR_MOVE: &str = "clusterctl.cluster.x-k8s.io/delete-for-move";

/// Returns true if the value of [`PROTECTED`] protects an object.
pub fn protects(value: Option<&str>) -> bool {
    value.is_some_and(|value| value != UNPROTECTED)
}

/// Returns true if the server refuses to delete an object with these metadata. An object that is being deleted, or that
/// clusterctl has moved, is not protected.
pub fn is_protected(metadata: &ObjectMeta) -> bool {
    let (annotations, labels) = (metadata.annotations.as_ref(), metadata.labels.as_ref());
    let is_moved = annotations.is_some_and(|map| map.contains_key(DELETE_FOR_MOVE));
    let mut maps = [annotations, labels].into_iter().flatten();
    maps.any(|map| protects(map.get(PROTECTED).map(String::as_str)))
        && !is_moved
        && metadata.deletion_timestamp.is_none()
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;
    use k8s_openapi::jiff::Timestamp;

    use super::*;

    #[test]
    fn an_annotation_or_a_label_protects_an_object_that_is_neither_moved_nor_deleted() {
        let with = |key: &str, value: &str| Some(BTreeMap::from([(key.to_owned(), value.to_owned())]));
        let annotated = ObjectMeta { annotations: with(PROTECTED, "true"), ..ObjectMeta::default() };
        let labelled = ObjectMeta { labels: with(PROTECTED, "yes"), ..ObjectMeta::default() };
        let moved = ObjectMeta { annotations: with(DELETE_FOR_MOVE, ""), ..labelled.clone() };
        let table = [
            ("annotated", annotated, true),
            ("labelled", labelled, true),
            ("moved", moved, false),
            ("lifted", ObjectMeta { annotations: with(PROTECTED, "false"), ..ObjectMeta::default() }, false),
            ("bare", ObjectMeta::default(), false),
        ];
        for (case, mut metadata, expected) in table {
            assert_eq!(is_protected(&metadata), expected, "{case}");
            metadata.deletion_timestamp = Some(Time(Timestamp::UNIX_EPOCH));
            assert!(!is_protected(&metadata), "{case}, in deletion");
        }
    }
}
