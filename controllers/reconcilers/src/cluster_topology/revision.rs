//! Revision of a Cluster within a pass.

use apiserver_types::Cluster;
use controllers_runtime::{ReconcileError, paused};
use kube::core::Status;
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

/// Checks that a pass may write what it has decided. Extension servers may take seconds to answer, and in that time a user may
/// pause, delete or change the Cluster.
///
/// # Errors
/// A conflict, if the pass must begin again; or the API's own failure.
pub(super) async fn check(api: &Api<Cluster>, known: &Cluster) -> Result<(), ReconcileError> {
    let found = api.get_opt(&known.name_any()).await?;
    if found.is_some_and(|found| may_be_written(&found, known)) {
        return Ok(());
    }
    let conflict = Status::failure("the Cluster has changed during the pass", "Conflict").with_code(409);
    Err(kube::Error::Api(conflict.boxed()).into())
}

/// Labels and annotations do not count: another program may write them all the time.
fn may_be_written(found: &Cluster, known: &Cluster) -> bool {
    found.uid() == known.uid()
        && found.metadata.deletion_timestamp.is_none()
        && !paused(found, Some(found))
        && found.spec == known.spec
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

    #[test]
    fn a_cluster_that_is_paused_deleted_or_changed_during_a_pass_is_not_written() {
        let known = Cluster::new("c", ClusterSpec::default());
        let mut found = known.clone();
        found.annotations_mut().insert("a".to_owned(), String::new());
        found.labels_mut().insert("a".to_owned(), String::new());
        assert!(may_be_written(&found, &known));
        let changes: [fn(&mut Cluster); 5] = [
            |it| it.metadata.uid = Some("another".to_owned()),
            |it| it.metadata.deletion_timestamp = serde_json::from_str("\"2026-12-01T06:00:00Z\"").unwrap(),
            |it| it.spec.paused = Some(true),
            |it| drop(it.annotations_mut().insert("cluster.x-k8s.io/paused".to_owned(), String::new())),
            |it| it.spec.topology = Some(Default::default()),
        ];
        for change in changes {
            let mut changed = found.clone();
            change(&mut changed);
            assert!(!may_be_written(&changed, &known), "{changed:?}");
        }
    }
}
