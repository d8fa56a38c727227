//! Server groups that keep the machines of one owner on different hosts.
//!
//! Nova has neither tags nor descriptions of server groups, so the name says to which cluster and owner a group belongs.

use std::sync::Arc;

use apiserver_types::{Machine, OpenStackCluster, OpenStackMachine};
use controllers_infrastructure::{Cloud, CloudError, ErrorClass, FailedStep, ServerGroup};
use controllers_runtime::ReconcileError;
use jiff::Timestamp;
use kube::ResourceExt;

use super::OpenStackMachineReconciler;
use crate::names;

/// Labels of a Machine with the name of its owner of many.
const OWNERS: [&str; 2] = ["cluster.x-k8s.io/deployment-name", "cluster.x-k8s.io/control-plane-name"];

/// Server group that a machine is to be in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct GroupWish {
    pub name: String,
    pub policy: &'static str,
}

/// Returns the server group that the annotation of a machine requests. One that the spec names precedes it. Pure.
pub(super) fn wish(
    object: &OpenStackMachine,
    machine: &Machine,
    cluster: &OpenStackCluster,
) -> Option<GroupWish> {
    if object.spec.server_group.is_some() {
        return None;
    }
    let policy = match object.annotations().get(names::ANTI_AFFINITY).map(String::as_str) {
        Some("hard") => "anti-affinity",
        Some("soft") => "soft-anti-affinity",
        _ => return None,
    };
    let owner = OWNERS.iter().find_map(|label| machine.labels().get(*label))?;
    Some(GroupWish { name: names::server_group(cluster, &machine.spec.cluster_name, owner), policy })
}

/// Returns the group of a name. Of several, which two processes can have created, all machines take the same.
pub(super) fn group_of_name(groups: Vec<ServerGroup>, name: &str) -> Option<ServerGroup> {
    groups.into_iter().filter(|group| group.name == name).min_by(|a, b| a.id.cmp(&b.id))
}

/// Returns a server group without a server, if its servers must not share a host and it has others. Nova only says that
/// there is no host, and without others the group is not the cause.
pub(super) async fn strict_group(cloud: &Arc<dyn Cloud>, id: &str, server: &str) -> Option<ServerGroup> {
    // Best effort: the error of the server is reported in any case.
    let groups = cloud.server_groups().await.unwrap_or_default();
    let mut group = groups.into_iter().find(|group| group.id == id)?;
    group.members.retain(|member| member != server);
    is_strict(&group).then_some(group)
}

fn is_strict(group: &ServerGroup) -> bool {
    group.policy == "anti-affinity" && !group.members.is_empty()
}

/// Returns the error of a server that no host can take beside the others of its group.
pub(super) fn unsatisfiable(attempt: String, fault: &str, group: &ServerGroup) -> CloudError {
    let (name, count) = (&group.name, group.members.len());
    let message = format!(
        "{}. Its server group {name:?} has {count} servers, which must not share a host. Free another host, or set the \
         annotation {} of the OpenStackMachineTemplate to soft",
        fault.trim_end_matches(['.', ' ']),
        names::ANTI_AFFINITY
    );
    CloudError::new(ErrorClass::AntiAffinity, attempt, message)
}

impl OpenStackMachineReconciler {
    /// Returns the id of a server group, which is created if it does not exist.
    pub(super) async fn server_group(
        &self,
        cloud: &Arc<dyn Cloud>,
        wish: &GroupWish,
    ) -> Result<String, ReconcileError> {
        // The machines of an owner are created at the same moment, and Nova accepts one name twice.
        let mut lost_calls = self.groups.lock().await;
        if let Some(group) = group_of_name(cloud.server_groups().await?, &wish.name) {
            return Ok(group.id);
        }
        let attempt = format!("create server group {:?}", wish.name);
        lost_calls.check(&attempt, Timestamp::now())?;
        let created = cloud.create_server_group(&wish.name, wish.policy).await;
        let created = lost_calls.note(&attempt, created.map_err(ReconcileError::from), Timestamp::now());
        let failure = FailedStep::new("InstanceCreateFailed", "FailedCreateServerGroup");
        created.map(|group| group.id).map_err(|error| error.during(|| attempt).of_step(Some(failure)))
    }
}

#[cfg(test)]
mod tests {
    use apiserver_types::{MachineSpec, OpenStackClusterSpec, OpenStackMachineSpec, ServerGroupParam};

    use super::*;

    #[test]
    fn a_machine_is_in_the_group_of_its_owner_with_the_policy_of_the_annotation() {
        let mut object = OpenStackMachine::new("m", OpenStackMachineSpec::default());
        let mut machine = Machine::new("m", MachineSpec::default());
        machine.spec.cluster_name = "c".to_owned();
        let mut cluster = OpenStackCluster::new("c", OpenStackClusterSpec::default());
        cluster.metadata.namespace = Some("n".to_owned());
        cluster.metadata.uid = Some("0123456789abcdef".to_owned());
        assert_eq!(wish(&object, &machine, &cluster), None);
        object.annotations_mut().insert(names::ANTI_AFFINITY.to_owned(), "soft".to_owned());
        assert_eq!(wish(&object, &machine, &cluster), None, "a machine without an owner of many");
        machine.labels_mut().insert("cluster.x-k8s.io/deployment-name".to_owned(), "workers".to_owned());
        let found = wish(&object, &machine, &cluster).unwrap();
        assert_eq!((found.name.as_str(), found.policy), ("n-c-workers-01234567", "soft-anti-affinity"));
        object.annotations_mut().insert(names::ANTI_AFFINITY.to_owned(), "hard".to_owned());
        assert_eq!(wish(&object, &machine, &cluster).unwrap().policy, "anti-affinity");
        object.spec.server_group = Some(ServerGroupParam::default());
        assert_eq!(wish(&object, &machine, &cluster), None);
    }

    #[test]
    fn a_server_without_a_host_beside_the_others_of_its_group_is_told_how_to_go_on() {
        let group = |policy: &str, members: &[&str]| ServerGroup {
            name: "n-c-workers-01234567".to_owned(),
            policy: policy.to_owned(),
            members: members.iter().map(|id| (*id).to_owned()).collect(),
            ..ServerGroup::default()
        };
        assert!(is_strict(&group("anti-affinity", &["a"])));
        assert!(!is_strict(&group("anti-affinity", &[])), "it would be the first on its host");
        assert!(!is_strict(&group("soft-anti-affinity", &["a"])));
        let fault = "server s went into ERROR: No valid host was found.";
        let error = unsatisfiable("build server m".to_owned(), fault, &group("anti-affinity", &["a", "b"]));
        assert_eq!(error.class.reason(), "AntiAffinityUnsatisfiable");
        let expected = "build server m: server s went into ERROR: No valid host was found. Its server group \
            \"n-c-workers-01234567\" has 2 servers, which must not share a host.";
        assert!(error.to_string().starts_with(expected), "{error}");
        assert!(
            error.to_string().ends_with("capstan.dev/anti-affinity of the OpenStackMachineTemplate to soft")
        );
    }

    #[test]
    fn machines_take_the_same_one_of_two_groups_of_a_name() {
        let group = |id: &str, name: &str| ServerGroup {
            id: id.to_owned(),
            name: name.to_owned(),
            ..ServerGroup::default()
        };
        let groups = vec![group("2", "g"), group("1", "g"), group("0", "other")];
        assert_eq!(group_of_name(groups, "g").unwrap().id, "1");
    }
}
