//! OpenStackServer reconciler: a Nova server without Cluster API objects.
//!
//! Its passes are those of OpenStackMachines. A server that an upstream OpenStackMachine made for itself is left alone.

mod watch;

use apiserver_types::OpenStackServer;
use controllers_runtime::{ControllerContext, ControllerSpec, PolicyRule, Requeue};

use crate::openstack_machine::OpenStackMachineReconciler;

/// Specification of this controller.
pub const CONTROLLER: ControllerSpec = ControllerSpec {
    identity: "openstackserver-controller",
    rules: &[
        PolicyRule {
            groups: &["infrastructure.cluster.x-k8s.io"],
            resources: &["openstackservers", "openstackservers/status"],
            verbs: PolicyRule::CHANGE,
        },
        PolicyRule {
            groups: &["infrastructure.cluster.x-k8s.io"],
            resources: &["openstackmachines"],
            verbs: PolicyRule::READ,
        },
        // Their free addresses, which need no quota.
        PolicyRule {
            groups: &["infrastructure.cluster.x-k8s.io"],
            resources: &["openstackfloatingippools"],
            verbs: &["get"],
        },
        PolicyRule {
            groups: &["ipam.cluster.x-k8s.io"],
            resources: &["ipaddressclaims"],
            verbs: PolicyRule::WRITE,
        },
        PolicyRule { groups: &["ipam.cluster.x-k8s.io"], resources: &["ipaddresses"], verbs: &["get"] },
        PolicyRule { groups: &["capstan.dev"], resources: &["machineoperations"], verbs: &["get"] },
        PolicyRule { groups: &["openstack.k-orc.cloud"], resources: &["images"], verbs: PolicyRule::READ },
        PolicyRule::CREDENTIALS,
    ],
    run: |context, shutdown| Box::pin(watch::run(context, shutdown)),
};

/// Reconciler of OpenStackServers.
#[derive(Debug)]
pub struct OpenStackServerReconciler {
    passes: OpenStackMachineReconciler,
}

impl OpenStackServerReconciler {
    /// Creates a reconciler.
    pub fn new(context: ControllerContext) -> Self {
        Self { passes: OpenStackMachineReconciler::new(context) }
    }

    /// Makes one pass. Returns when the next one is due.
    ///
    /// # Errors
    /// The API's own failure; errors of the cloud are in the status.
    pub async fn reconcile(&self, object: &OpenStackServer) -> Result<Requeue, kube::Error> {
        self.passes.reconcile_server(object).await
    }
}
