//! Revision of a Cluster within a pass.

use apiserver_types::Cluster;
use controllers_runtime::ReconcileError;
use kube::{Api, ResourceExt};

/// Returns a Cluster as it is stored now, if only its status was written since a pass has read it. Then the decisions of the pass
/// still hold, and it may write with the present revision.
///
/// Extension servers may take seconds to answer, and other controllers write the status in that time. A pass that ended with a
/// conflict would call the servers again, and so on while the status changes.
///
/// # Errors
/// The API's own failure.
pub(super) async fn newer(api: &Api<Cluster>, known: &Cluster) -> Result<Option<Cluster>, ReconcileError> {
    let found = api.get_opt(&known.name_any()).await?;
    Ok(found.filter(|found| differs_in_status_alone(found, known)))
}

fn differs_in_status_alone(found: &Cluster, known: &Cluster) -> bool {
    let of = |it: &Cluster| (it.uid(), it.metadata.deletion_timestamp.is_some());
    of(found) == of(known)
        && found.labels() == known.labels()
        && found.annotations() == known.annotations()
        && found.spec == known.spec
}

#[cfg(test)]
mod tests {
    use apiserver_types::ClusterSpec;

    use super::*;

    #[test]
    fn a_decision_holds_only_if_nothing_but_the_status_was_written_since() {
        let known = Cluster::new("c", ClusterSpec::default());
        let mut found = known.clone();
        found.metadata.resource_version = Some("2".to_owned());
        found.status = Some(Default::default());
        assert!(differs_in_status_alone(&found, &known));
        let changes: [fn(&mut Cluster); 5] = [
            |it| it.metadata.uid = Some("another".to_owned()),
            |it| it.metadata.deletion_timestamp = serde_json::from_str("\"2026-12-01T06:00:00Z\"").unwrap(),
            |it| it.spec.paused = Some(true),
            |it| drop(it.annotations_mut().insert("a".to_owned(), String::new())),
            |it| drop(it.labels_mut().insert("a".to_owned(), String::new())),
        ];
        for change in changes {
            let mut changed = found.clone();
            change(&mut changed);
            assert!(!differs_in_status_alone(&changed, &known), "{changed:?}");
        }
    }
}
