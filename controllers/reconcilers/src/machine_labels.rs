//! Labels and annotations of the Machines of MachineSets and MachineDeployments. Upstream's names.

/// Label with the name of the MachineSet of a Machine.
pub(crate) const SET_NAME: &str = "cluster.x-k8s.io/set-name";

/// Label with the name of the MachineDeployment of an object.
pub(crate) const DEPLOYMENT_NAME: &str = "cluster.x-k8s.io/deployment-name";

/// Label that distinguishes the Machines of the MachineSets of one MachineDeployment.
pub(crate) const TEMPLATE_HASH: &str = "machine-template-hash";

/// Annotation of a MachineSet that creates no Machines while it is `true`.
pub(crate) const DISABLE_CREATE: &str = "cluster.x-k8s.io/disable-machine-create";

/// Annotation of a Machine that is deleted first at a scale-down.
pub(crate) const DELETE_FIRST: &str = "cluster.x-k8s.io/delete-machine";

/// Annotation of a Machine that a user wants to be replaced.
pub(crate) const REMEDIATE: &str = "cluster.x-k8s.io/remediate-machine";

/// Annotation of a Machine that is being updated in place.
pub(crate) const UPDATING: &str = "in-place-updates.internal.cluster.x-k8s.io/update-in-progress";

/// Annotation with the names of preflight checks that are skipped.
pub(crate) const SKIP_PREFLIGHT: &str = "machineset.cluster.x-k8s.io/skip-preflight-checks";

/// Annotation with the number of a MachineDeployment's template.
pub(crate) const REVISION: &str = "machinedeployment.clusters.x-k8s.io/revision";

/// Annotation with the earlier revisions of a MachineSet.
pub(crate) const REVISION_HISTORY: &str = "machinedeployment.clusters.x-k8s.io/revision-history";

/// Annotation of a MachineSet with the desired Machines of its MachineDeployment.
pub(crate) const DESIRED_REPLICAS: &str = "machinedeployment.clusters.x-k8s.io/desired-replicas";

/// Annotation of a MachineSet with the most Machines that its MachineDeployment may have.
pub(crate) const MAX_REPLICAS: &str = "machinedeployment.clusters.x-k8s.io/max-replicas";
