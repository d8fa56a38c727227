//! Image reconciler: finds the Glance image that an Image object stands for, and reports its id.
//!
//! An unmanaged object names an existing image. A managed one stands for the image of its name. If there is none, it is
//! created, and Glance fetches its content. Only an image that was created for the object is deleted with it.

mod decide;
mod report;
mod upload;

use std::sync::Arc;
use std::time::Duration;

use apiserver_types::{Image, OpenStackIdentityReference};
use controllers_infrastructure::Cloud;
use controllers_runtime::{
    ControllerContext, ControllerSpec, PolicyRule, ReconcileError, ReconcileLoop, Requeue, RequeuePolicy,
    Severity, now, paused, write_status,
};
use kube::{Api, ResourceExt};
use tokio_util::sync::CancellationToken;

use decide::{Outcome, Wish};

/// Specification of this controller.
pub(crate) const CONTROLLER: ControllerSpec = ControllerSpec {
    identity: "image-controller",
    rules: &[
        PolicyRule {
            groups: &["openstack.k-orc.cloud"],
            resources: &["images", "images/status"],
            verbs: PolicyRule::CHANGE,
        },
        PolicyRule::CREDENTIALS,
    ],
    run: |context, shutdown| Box::pin(run(context, shutdown)),
};

/// Finalizer of an object with an image of its own. Upstream's name.
const FINALIZER: &str = "openstack.k-orc.cloud/image";

/// Number of images that are reconciled at the same time. Each pass makes one call.
const CONCURRENCY: u16 = 8;

/// Interval in which an image that was found is compared with the cloud. Machines keep the id that they resolved.
const RESYNC: Duration = Duration::from_hours(1);

/// Interval in which a missing image is looked up: an upload takes minutes.
const MISSING: Duration = Duration::from_mins(1);

/// Interval while Glance fetches the content of an image, which takes minutes.
const IMPORTING: Duration = Duration::from_secs(10);

/// Reconciles until `shutdown`.
///
/// Cancel safety: may be dropped at any moment; the next call continues from what is stored.
async fn run(context: ControllerContext, shutdown: CancellationToken) {
    let api = Api::<Image>::all(context.client.clone());
    let controller = ReconcileLoop::new(api, CONCURRENCY, &context.queues, "image");
    let reconciler = Arc::new(ImageReconciler { context, requeue: RequeuePolicy::default() });
    let pass = move |object: Arc<Image>| {
        let reconciler = Arc::clone(&reconciler);
        async move { reconciler.reconcile(&object).await }
    };
    controller.run(pass, shutdown).await;
}

/// Reconciler of Images.
#[derive(Debug)]
struct ImageReconciler {
    context: ControllerContext,
    requeue: RequeuePolicy,
}

impl ImageReconciler {
    /// Makes one pass. Returns when the next one is due.
    ///
    /// # Errors
    /// The API's own failure; errors of the cloud are in the status.
    async fn reconcile(&self, object: &Image) -> Result<Requeue, kube::Error> {
        let namespace = object.namespace().unwrap_or_default();
        let api: Api<Image> = Api::namespaced(self.context.client.clone(), &namespace);
        // The watch may be behind, so the object is read again.
        let Some(mut stored) = api.get_opt(&object.name_any()).await? else {
            self.requeue.forget(&object.uid().unwrap_or_default());
            return Ok(Requeue::OnChange);
        };
        if paused(&stored, None) {
            return Ok(Requeue::OnChange);
        }
        if let Some(remaining) = self.requeue.remaining(&stored) {
            return Ok(Requeue::After(remaining));
        }
        let result = if stored.metadata.deletion_timestamp.is_some() {
            self.end(&api, &mut stored).await
        } else {
            self.pass(&api, &mut stored).await
        };
        self.requeue.after(&stored, result, None)
    }

    async fn pass(&self, api: &Api<Image>, object: &mut Image) -> Result<Option<Duration>, ReconcileError> {
        let found = self.outcome(api, object).await;
        let before = object.clone();
        if let Err(ReconcileError::Api(_)) = &found {
            return found.map(|_| None);
        }
        report::report(object, found.as_ref(), &now());
        *object = write_status(api, &before, object).await?;
        let outcome = match found {
            Ok(outcome) => outcome,
            Err(error) => {
                let (events, text) = (&self.context.events, error.to_string());
                events.record(object, Severity::Warning, error.event_reason(), &text).await;
                return Err(error);
            }
        };
        Ok(Some(match outcome {
            Outcome::Found(_) => RESYNC,
            Outcome::Importing(_) => IMPORTING,
            _ => MISSING,
        }))
    }

    /// Deletes the image, and reports why it cannot be deleted.
    async fn end(&self, api: &Api<Image>, object: &mut Image) -> Result<Option<Duration>, ReconcileError> {
        let result = self.delete(api, object).await;
        if let Err(error @ (ReconcileError::Cloud(_) | ReconcileError::Waiting { .. })) = &result {
            let before = object.clone();
            report::report(object, Err(error), &now());
            *object = write_status(api, &before, object).await?;
        }
        result.map(|()| None)
    }

    async fn cloud(&self, object: &Image) -> Result<Arc<dyn Cloud>, ReconcileError> {
        let credentials = &object.spec.cloud_credentials_ref;
        let identity = OpenStackIdentityReference {
            cloud_name: credentials.cloud_name.clone(),
            name: credentials.secret_name.clone(),
            region: None,
            kind: None,
        };
        self.context.cloud(&object.namespace().unwrap_or_default(), &identity).await
    }

    /// Looks for the image, and creates it if there is none.
    async fn outcome(&self, api: &Api<Image>, object: &mut Image) -> Result<Outcome, ReconcileError> {
        let wish = Wish::of(object);
        let cloud = self.cloud(object).await?;
        let found = cloud.images(&wish.query).await?;
        match decide::outcome(&wish, found) {
            Outcome::Create => self.create(api, &cloud, object).await,
            Outcome::Import(id) => self.import(&cloud, object, &id).await,
            outcome => Ok(outcome),
        }
    }
}
