//! Descendants of a Cluster: the objects that are deleted before it, and their order.
//!
//! The order is Cluster API's: first everything that makes or is a worker, then the control plane
//! object, then the control plane Machines. A stage begins when nothing of the one before is left.
//! Control plane Machines without a controller go with the control plane object, which waits for them.

use apiserver_types::protection::is_protected;
use apiserver_types::{Cluster, KubeadmControlPlane, Machine, MachineDeployment, MachinePool, MachineSet};
use controllers_runtime::ReconcileError;
use kube::api::{ApiResource, DynamicObject, ListParams, ObjectMeta};
use kube::{Api, Client, ResourceExt};

use crate::object_refs::is_of;
use crate::{CLUSTER_NAME_LABEL, ownership, protection};

/// Maximum number of names of one kind in a message: as many as upstream lists.
const NAMES: usize = 5;

/// Stage of a Cluster's deletion.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// MachinePools, MachineDeployments, MachineSets and worker Machines.
    Workers,
    /// The object that `spec.controlPlaneRef` names, and control plane Machines without a controller.
    ControlPlane,
    /// The other Machines of the control plane.
    ControlPlaneMachines,
}

impl Stage {
    /// All stages, in order.
    pub(super) const ALL: [Self; 3] = [Self::Workers, Self::ControlPlane, Self::ControlPlaneMachines];

    /// CamelCase word for the condition `Deleting`.
    pub(super) const fn reason(self) -> &'static str {
        match self {
            Self::Workers => "WaitingForWorkersDeletion",
            Self::ControlPlane | Self::ControlPlaneMachines => "WaitingForControlPlaneDeletion",
        }
    }
}

/// Kind of a descendant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    MachinePool,
    MachineDeployment,
    MachineSet,
    Worker,
    ControlPlane,
    ControlPlaneMachine,
}

impl Kind {
    /// All kinds, in the order in which upstream lists them.
    const ALL: [Self; 6] = [
        Self::ControlPlaneMachine,
        Self::MachineDeployment,
        Self::MachineSet,
        Self::MachinePool,
        Self::Worker,
        Self::ControlPlane,
    ];

    const fn stage(self) -> Stage {
        match self {
            Self::MachinePool | Self::MachineDeployment | Self::MachineSet | Self::Worker => Stage::Workers,
            Self::ControlPlane => Stage::ControlPlane,
            Self::ControlPlaneMachine => Stage::ControlPlaneMachines,
        }
    }

    /// Plural for people.
    const fn title(self) -> &'static str {
        match self {
            Self::MachinePool => "MachinePools",
            Self::MachineDeployment => "MachineDeployments",
            Self::MachineSet => "MachineSets",
            Self::Worker => "Worker Machines",
            Self::ControlPlane => "KubeadmControlPlanes",
            Self::ControlPlaneMachine => "Control plane Machines",
        }
    }

    /// Resource by which objects of this kind are listed and deleted.
    pub(super) fn resource(self) -> ApiResource {
        match self {
            Self::MachinePool => ApiResource::erase::<MachinePool>(&()),
            Self::MachineDeployment => ApiResource::erase::<MachineDeployment>(&()),
            Self::MachineSet => ApiResource::erase::<MachineSet>(&()),
            Self::Worker | Self::ControlPlaneMachine => ApiResource::erase::<Machine>(&()),
            Self::ControlPlane => ApiResource::erase::<KubeadmControlPlane>(&()),
        }
    }
}

/// An object that is deleted before its Cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Descendant {
    pub kind: Kind,
    pub name: String,
    pub uid: Option<String>,
    pub deleting: bool,
    /// Another object owns it, which deletes it when it goes itself.
    pub of_another: bool,
    /// No object controls it.
    pub standalone: bool,
    /// The server refuses to delete it.
    pub protected: bool,
}

impl Descendant {
    fn new(kind: Kind, metadata: &ObjectMeta, cluster: &Cluster) -> Self {
        let is_worker = kind.stage() == Stage::Workers;
        let owned = metadata.owner_references.as_ref().is_some_and(|owners| !owners.is_empty());
        Self {
            of_another: is_worker && owned && !ownership::refers_to(metadata, cluster),
            standalone: !metadata.owner_references.iter().flatten().any(|it| it.controller == Some(true)),
            kind,
            name: metadata.name.clone().unwrap_or_default(),
            uid: metadata.uid.clone(),
            deleting: metadata.deletion_timestamp.is_some(),
            protected: kind != Kind::MachinePool && is_protected(metadata),
        }
    }

    /// Reports whether the Cluster's controller still has to delete it.
    pub(super) const fn is_due(&self) -> bool {
        !self.deleting && !self.of_another && !self.protected
    }

    /// Stage in which it is deleted.
    pub(super) fn stage(&self) -> Stage {
        match self.kind {
            Kind::ControlPlaneMachine if self.standalone => Stage::ControlPlane,
            kind => kind.stage(),
        }
    }
}

/// Returns the descendants among `control_plane` and `workers`, which the pass has listed already.
pub(super) fn of_machines(
    cluster: &Cluster,
    control_plane: &[Machine],
    workers: &[Machine],
) -> Vec<Descendant> {
    let of = |kind, machines: &[Machine]| -> Vec<Descendant> {
        machines.iter().map(|machine| Descendant::new(kind, &machine.metadata, cluster)).collect()
    };
    [of(Kind::Worker, workers), of(Kind::ControlPlaneMachine, control_plane)].concat()
}

/// Lists the descendants that are no Machines: those with the Cluster's label or owner reference,
/// and the control plane object that the Cluster names.
pub(super) async fn list(client: &Client, cluster: &Cluster) -> Result<Vec<Descendant>, ReconcileError> {
    let mut found = Vec::new();
    for kind in [Kind::MachinePool, Kind::MachineDeployment, Kind::MachineSet] {
        let objects = api(client, cluster, kind).list_metadata(&ListParams::default()).await?;
        let ours = objects.iter().filter(|object| belongs(&object.metadata, cluster));
        found.extend(ours.map(|object| Descendant::new(kind, &object.metadata, cluster)));
    }
    let reference = cluster.spec.control_plane_ref.as_ref().filter(|it| is_of::<KubeadmControlPlane>(it));
    if let Some(reference) = reference {
        let control_plane =
            api(client, cluster, Kind::ControlPlane).get_metadata_opt(&reference.name).await?;
        let ours = control_plane.filter(|object| !is_of_another(&object.metadata, cluster));
        found.extend(ours.map(|object| Descendant::new(Kind::ControlPlane, &object.metadata, cluster)));
    }
    Ok(found)
}

/// Returns the API of one kind in the Cluster's namespace.
pub(super) fn api(client: &Client, cluster: &Cluster, kind: Kind) -> Api<DynamicObject> {
    Api::namespaced_with(client.clone(), &cluster.namespace().unwrap_or_default(), &kind.resource())
}

/// Returns true if an object has the Cluster's label or refers to it as an owner.
fn belongs(object: &ObjectMeta, cluster: &Cluster) -> bool {
    label(object) == Some(&cluster.name_any()) || ownership::refers_to(object, cluster)
}

/// Returns true if an object has the label of another Cluster, or another one is its owner. An object
/// with neither is one that no controller has adopted yet.
fn is_of_another(object: &ObjectMeta, cluster: &Cluster) -> bool {
    let owned = object.owner_references.iter().flatten().any(|owner| owner.kind == "Cluster");
    !belongs(object, cluster) && (owned || label(object).is_some())
}

fn label(object: &ObjectMeta) -> Option<&String> {
    object.labels.as_ref()?.get(CLUSTER_NAME_LABEL)
}

/// Describes descendants for the condition `Deleting`: a line for each kind, with the first names.
pub(super) fn describe(descendants: &[Descendant]) -> String {
    let lines = Kind::ALL.into_iter().filter_map(|kind| {
        let names = descendants.iter().filter(|it| it.kind == kind).map(|it| it.name.as_str());
        let mut names: Vec<&str> = names.collect();
        names.sort_unstable();
        let more = names.len().saturating_sub(NAMES);
        names.truncate(NAMES);
        let rest = if more > 0 { format!(", ... ({more} more)") } else { String::new() };
        (!names.is_empty()).then(|| format!("* {}: {}{rest}", kind.title(), names.join(", ")))
    });
    lines.chain(protected(descendants).map(|note| format!("* {note}"))).collect::<Vec<_>>().join("\n")
}

/// Describes the protected descendants. `None` if there are none.
pub(super) fn protected(descendants: &[Descendant]) -> Option<String> {
    let protected = descendants.iter().filter(|descendant| descendant.protected);
    protection::note_of(protected.map(|descendant| descendant.name.clone()))
}

#[cfg(test)]
mod tests {
    use apiserver_types::ClusterSpec;

    use super::*;

    fn cluster() -> Cluster {
        let mut cluster = Cluster::new("c", ClusterSpec::default());
        cluster.metadata.uid = Some("u".to_owned());
        cluster
    }

    #[test]
    fn only_labelled_or_owned_objects_belong_to_a_cluster() {
        let cluster = cluster();
        let labelled = |name: &str| ObjectMeta {
            labels: Some([(CLUSTER_NAME_LABEL.to_owned(), name.to_owned())].into()),
            ..ObjectMeta::default()
        };
        let owned = |uid: &str| {
            let mut owner = ownership::reference(&cluster, false);
            owner.uid = uid.to_owned();
            ObjectMeta { owner_references: Some(vec![owner]), ..ObjectMeta::default() }
        };
        let table = [
            (labelled("c"), true, false),
            (labelled("d"), false, true),
            (owned("u"), true, false),
            (owned("another"), false, true),
            (ObjectMeta::default(), false, false),
        ];
        for (object, expected, of_another) in table {
            assert_eq!(belongs(&object, &cluster), expected, "{object:?}");
            assert_eq!(is_of_another(&object, &cluster), of_another, "{object:?}");
        }
    }

    /// Upstream's rule: what another object owns is awaited, because that object deletes it.
    #[test]
    fn worker_objects_of_another_owner_are_awaited_and_those_without_an_owner_are_deleted() {
        let cluster = cluster();
        let owned = |uid: &str| {
            let mut owner = ownership::reference(&cluster, false);
            owner.uid = uid.to_owned();
            ObjectMeta { owner_references: Some(vec![owner]), ..ObjectMeta::default() }
        };
        let due = |kind, metadata| Descendant::new(kind, &metadata, &cluster).is_due();
        assert!(due(Kind::MachineDeployment, owned("u")));
        assert!(due(Kind::MachineDeployment, ObjectMeta::default()));
        assert!(!due(Kind::MachineDeployment, owned("another")));
        assert!(!due(Kind::Worker, owned("of-a-set")));
        assert!(
            due(Kind::ControlPlaneMachine, owned("of-a-control-plane")),
            "nothing else is left to delete it"
        );
    }

    /// The control plane object waited for such a Machine, and the Cluster for the control plane object.
    #[test]
    fn a_control_plane_machine_without_a_controller_goes_with_the_control_plane() {
        let cluster = cluster();
        let owned = |controller: bool| {
            let owners = Some(vec![ownership::reference(&cluster, controller)]);
            ObjectMeta { owner_references: owners, ..ObjectMeta::default() }
        };
        let stage = |kind, controller| Descendant::new(kind, &owned(controller), &cluster).stage();
        assert_eq!(stage(Kind::ControlPlaneMachine, false), Stage::ControlPlane);
        assert_eq!(stage(Kind::ControlPlaneMachine, true), Stage::ControlPlaneMachines);
        assert_eq!(stage(Kind::Worker, false), Stage::Workers);
    }

    #[test]
    fn every_kind_has_a_line_and_long_lists_are_truncated() {
        let of = |kind, name: &str| Descendant {
            kind,
            name: name.to_owned(),
            uid: None,
            deleting: false,
            of_another: false,
            standalone: false,
            protected: false,
        };
        let mut all = vec![of(Kind::Worker, "w"), of(Kind::MachinePool, "p")];
        all.extend((0..7).map(|index| of(Kind::MachineDeployment, &format!("md-{index}"))));
        let lines = "* MachineDeployments: md-0, md-1, md-2, md-3, md-4, ... (2 more)\n* MachinePools: p\n\
                     * Worker Machines: w";
        assert_eq!(describe(&all), lines);
        let kept = Descendant { protected: true, ..of(Kind::Worker, "w") };
        assert!(!kept.is_due(), "the server refuses it");
        let expected = "* Worker Machines: w\n* Not deleted because of the annotation or label capstan.dev/protected: w. \
                        Remove it to go on";
        assert_eq!(describe(&[kept]), expected);
    }
}
