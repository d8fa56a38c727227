//! OpenStackMachineTemplate reconciler: the size of its servers, for an autoscaler that scales up from zero, and the
//! address pairs of the machines that were made from it.
//!
//! A template without an owner Cluster is part of a ClusterClass and has no cloud.

mod address_pairs;
mod capacity;
mod report;
mod watch;

use std::sync::Arc;
use std::time::Duration;

use apiserver_types::{Cluster, OpenStackCluster, OpenStackIdentityReference, OpenStackMachineTemplate};
use controllers_infrastructure::{Cloud, CloudError, ErrorClass, Flavor, ImageQuery};
use controllers_runtime::{
    ControllerContext, ControllerSpec, PolicyRule, ReconcileError, Requeue, RequeuePolicy, now, paused,
    write_status,
};
use kube::{Api, Client, ResourceExt};

use crate::openstack_machine::resolve;
use capacity::Size;
use report::Ending;

/// Specification of this controller.
pub const CONTROLLER: ControllerSpec = ControllerSpec {
    identity: "openstackmachinetemplate-controller",
    rules: &[
        PolicyRule {
            groups: &["infrastructure.cluster.x-k8s.io"],
            resources: &[
                "openstackmachinetemplates",
                "openstackmachinetemplates/status",
                "openstackmachines",
            ],
            verbs: PolicyRule::CHANGE,
        },
        PolicyRule {
            groups: &["infrastructure.cluster.x-k8s.io"],
            resources: &["openstackclusters"],
            verbs: PolicyRule::READ,
        },
        PolicyRule { groups: &["cluster.x-k8s.io"], resources: &["clusters"], verbs: PolicyRule::READ },
        PolicyRule { groups: &["openstack.k-orc.cloud"], resources: &["images"], verbs: PolicyRule::READ },
        PolicyRule::CREDENTIALS,
    ],
    run: |context, shutdown| Box::pin(watch::run(context, shutdown)),
};

/// Interval in which a template is compared with flavor and image of the cloud, which other people change.
const RESYNC: Duration = Duration::from_mins(10);

/// Interval in which a template waits for the OpenStackCluster of its Cluster.
const MISSING: Duration = Duration::from_mins(10);

/// Reconciler of OpenStackMachineTemplates.
#[derive(Debug)]
pub struct OpenStackMachineTemplateReconciler {
    context: ControllerContext,
    requeue: RequeuePolicy,
}

impl OpenStackMachineTemplateReconciler {
    /// Creates a reconciler.
    pub fn new(context: ControllerContext) -> Self {
        Self { requeue: RequeuePolicy::with_clock(context.servers.clock().clone()), context }
    }

    /// Makes one pass. Returns when the next one is due.
    ///
    /// # Errors
    /// The API's own failure; errors of the cloud are in the status.
    pub async fn reconcile(&self, object: &OpenStackMachineTemplate) -> Result<Requeue, kube::Error> {
        let namespace = object.namespace().unwrap_or_default();
        let api: Api<OpenStackMachineTemplate> = Api::namespaced(self.context.client.clone(), &namespace);
        // The watch may be behind, so the object is read again.
        let Some(mut stored) = api.get_opt(&object.name_any()).await? else {
            self.requeue.forget(&object.uid().unwrap_or_default());
            return Ok(Requeue::OnChange);
        };
        let is_unchanged = self.requeue.is_unchanged(&stored);
        if let Some(remaining) = self.requeue.remaining(&stored) {
            return Ok(Requeue::After(remaining));
        }
        let result = Box::pin(self.pass(&api, &mut stored, is_unchanged)).await;
        self.requeue.after(&stored, result, None)
    }

    async fn pass(
        &self,
        api: &Api<OpenStackMachineTemplate>,
        object: &mut OpenStackMachineTemplate,
        is_unchanged: bool,
    ) -> Result<Option<Duration>, ReconcileError> {
        let Some(cluster) = self.cluster(object).await? else { return Ok(None) };
        if paused(object, Some(&cluster)) || object.metadata.deletion_timestamp.is_some() {
            return Ok(None);
        }
        address_pairs::pass_on(&self.context.client, object).await?;
        let ending = match identity(&self.context.client, object, &cluster).await? {
            // The cluster has no OpenStackCluster yet.
            None => return Ok(Some(MISSING)),
            Some(identity) => self.observe(object, &identity, is_unchanged).await,
        };
        if let Ending::Stopped(ReconcileError::Api(error)) = ending {
            return Err(error.into());
        }
        let before = object.clone();
        report::report(object, &ending, &now());
        *object = write_status(api, &before, object).await?;
        match ending {
            Ending::Size(_) => Ok(Some(RESYNC)),
            Ending::NoLogin(error) | Ending::Stopped(error) => Err(error),
            Ending::NoFlavor(error) | Ending::NoImage(error) => Err(error),
        }
    }

    /// Reads flavor and image: those that other looks have read if nothing has changed, else directly.
    async fn observe(
        &self,
        object: &OpenStackMachineTemplate,
        identity: &OpenStackIdentityReference,
        is_unchanged: bool,
    ) -> Ending {
        let namespace = object.namespace().unwrap_or_default();
        let cloud = match self.context.cloud(&namespace, identity).await {
            Ok(cloud) => cloud,
            Err(error @ ReconcileError::Api(_)) => return Ending::Stopped(error),
            Err(error) => return Ending::NoLogin(error),
        };
        let lists = &self.context.servers;
        if is_unchanged && let size @ Ending::Size(_) = self.size(&lists.at_rest(&cloud), object).await {
            return size;
        }
        self.size(&lists.direct(&cloud), object).await
    }

    async fn size(&self, cloud: &Arc<dyn Cloud>, object: &OpenStackMachineTemplate) -> Ending {
        let spec = &object.spec.template.spec;
        let flavor = match resolve::flavor(cloud, &spec.flavor).await {
            Ok(flavor) => match with_extra_specs(cloud, object, flavor).await {
                Ok(flavor) => flavor,
                Err(error) => return Ending::Stopped(error.into()),
            },
            Err(error) if report::is_unresolved(&error) => return Ending::NoFlavor(error),
            Err(error) => return Ending::Stopped(error),
        };
        match self.image(cloud, object).await {
            Ok(image) => Ending::Size(Box::new(Size { flavor, image })),
            Err(error) if report::is_unresolved(&error) => Ending::NoImage(error),
            Err(error) => Ending::Stopped(error),
        }
    }

    async fn image(
        &self,
        cloud: &Arc<dyn Cloud>,
        object: &OpenStackMachineTemplate,
    ) -> Result<controllers_infrastructure::Image, ReconcileError> {
        let param = &object.spec.template.spec.image;
        if param.image_ref.is_none() {
            return resolve::image_of_cloud(cloud, param).await;
        }
        let namespace = object.namespace().unwrap_or_default();
        let id = resolve::image(&self.context, cloud, &namespace, param).await?;
        let query = ImageQuery { id: Some(id), ..ImageQuery::default() };
        Ok(cloud.images(&query).await?.into_iter().next().unwrap_or_default())
    }

    /// Reads the Cluster that owns the template.
    async fn cluster(&self, object: &OpenStackMachineTemplate) -> Result<Option<Cluster>, ReconcileError> {
        let owner = object.owner_references().iter().find(|owner| owner.kind == "Cluster");
        let Some(owner) = owner else { return Ok(None) };
        let api: Api<Cluster> =
            Api::namespaced(self.context.client.clone(), &object.namespace().unwrap_or_default());
        Ok(api.get_opt(&owner.name).await?.filter(|cluster| cluster.uid().as_ref() == Some(&owner.uid)))
    }
}

/// Returns the credentials of the machines of a template: the template's own, else those of the cluster.
///
/// # Errors
/// The API's own failure.
pub(crate) async fn identity(
    client: &Client,
    template: &OpenStackMachineTemplate,
    cluster: &Cluster,
) -> Result<Option<OpenStackIdentityReference>, ReconcileError> {
    if let Some(own) = &template.spec.template.spec.identity_ref {
        return Ok(Some(own.clone()));
    }
    let reference = cluster.spec.infrastructure_ref.as_ref().filter(|it| it.kind == "OpenStackCluster");
    let Some(reference) = reference else { return Ok(None) };
    let api: Api<OpenStackCluster> =
        Api::namespaced(client.clone(), &template.namespace().unwrap_or_default());
    Ok(api.get_opt(&reference.name).await?.map(|found| found.spec.identity_ref))
}

/// Returns a flavor with its extra specs, if the template maps devices to resource names. An old Nova lists flavors without.
async fn with_extra_specs(
    cloud: &Arc<dyn Cloud>,
    object: &OpenStackMachineTemplate,
    mut flavor: Flavor,
) -> Result<Flavor, CloudError> {
    if flavor.extra_specs.is_empty() && capacity::maps_devices(object) {
        flavor.extra_specs = match cloud.flavor_extra_specs(&flavor.id).await {
            // The user may not see them.
            Err(error) if error.class == ErrorClass::Forbidden || error.is_not_found() => Default::default(),
            result => result?,
        };
    }
    Ok(flavor)
}
