//! Plan of an upgrade that an extension server makes.

use std::time::Duration;

use apiserver_types::{Cluster, ClusterClass};
use controllers_extensions::{
    Caching, Call, GenerateUpgradePlanRequest, NO_SETTINGS, UpgradeStep, without_state,
};
use kube::ResourceExt;

use super::super::upgrade::plan::{self, Plan};
use super::super::upgrade::{self, control_plane, workers};
use super::{External, Obstacle};

/// Time for which a plan is kept. Upstream's.
const KEPT: Duration = Duration::from_mins(10);

/// Returns the handler that plans the upgrades of a class; `None` if the class names none.
pub(super) fn handler(class: &ClusterClass) -> Option<&str> {
    let external = class.spec.upgrade.as_ref()?.external.as_ref()?;
    external.generate_upgrade_plan_extension.as_deref().filter(|handler| !handler.is_empty())
}

/// Returns the plan of the server that the class names, from the present versions. `None` if it names none, or if there is
/// nothing to upgrade.
///
/// # Errors
/// The server refuses or cannot be called, or its plan does not lead to the version of the topology.
pub(in crate::cluster_topology) async fn upgrade_plan(
    external: &External<'_>,
    cluster: &Cluster,
    class: &ClusterClass,
    current: Option<&control_plane::State>,
    groups: &[workers::Group],
) -> Result<Option<Plan>, Obstacle> {
    let (Some(handler), Some(current)) = (handler(class), current) else { return Ok(None) };
    let versions = upgrade::versions(cluster, current, groups);
    if versions.are_reached() {
        return Ok(None);
    }
    let of_workers = versions.workers.unwrap_or_default();
    let request = GenerateUpgradePlanRequest {
        cluster: without_state(cluster),
        from_control_plane_kubernetes_version: versions.control_plane.to_owned(),
        from_workers_kubernetes_version: of_workers.to_owned(),
        to_kubernetes_version: versions.target.to_owned(),
    };
    let uid = cluster.uid().unwrap_or_default();
    let key = format!("{uid}/{}/{of_workers}/{}", versions.control_plane, versions.target);
    let caching = Caching { cache: external.plans, key: &key, time: KEPT };
    let namespace = cluster.namespace().unwrap_or_default();
    let call = Call { handler, namespace: &namespace, settings: &NO_SETTINGS };
    let answer = external.extensions.call_cached(&caching, &call, &request);
    let answer = external.answer(("upgrade plan", handler), answer).await?;
    let steps = |steps: &[UpgradeStep]| steps.iter().map(|step| step.version.clone()).collect();
    let (control_plane, workers) = (steps(&answer.control_plane_upgrades), steps(&answer.workers_upgrades));
    plan::given(versions, Plan { control_plane, workers }).map(Some).map_err(|problem| {
        Obstacle::unusable(&format!("the plan of extension handler {handler} cannot be used: {problem}"))
    })
}
