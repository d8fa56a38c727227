//! Resolution of the image of a machine.

use std::sync::Arc;

use apiserver_types::ImageParam;
use controllers_infrastructure::{Cloud, CloudError, ErrorClass, Image};
use controllers_runtime::{ControllerContext, ReconcileError};
use kube::ResourceExt;
use kube::api::DynamicObject;
use serde_json::Value;

use super::{Resolver, only};
use crate::{queries, templates};

/// Annotation with the image id of the last upgrade.
const IMAGE: &str = "capstan.dev/image";

/// API group of Image objects.
const GROUP: &str = "openstack.k-orc.cloud";

/// State of an Image object.
#[derive(Debug, PartialEq, Eq)]
enum ImageState {
    /// The cloud has the image, with this id.
    Available(String),
    /// The image is on its way.
    Pending,
    /// The image will not come, for this reason.
    Failed(String),
}

impl Resolver<'_> {
    pub(super) async fn image(&self) -> Result<String, ReconcileError> {
        // An upgrade has replaced the spec's image, which is immutable.
        if let Some(id) = self.object.annotations().get(IMAGE).filter(|id| !id.is_empty()) {
            return Ok(id.clone());
        }
        let namespace = self.object.namespace().unwrap_or_default();
        image(self.context, self.cloud, &namespace, &self.object.spec.image).await
    }
}

/// Returns the id of the image of a spec.
pub(crate) async fn image(
    context: &ControllerContext,
    cloud: &Arc<dyn Cloud>,
    namespace: &str,
    param: &ImageParam,
) -> Result<String, ReconcileError> {
    if let Some(reference) = &param.image_ref {
        return image_of(context, namespace, &reference.name).await;
    }
    Ok(image_of_cloud(cloud, param).await?.id)
}

/// Returns the image that a spec names by its id, its name or its tags.
pub(crate) async fn image_of_cloud(
    cloud: &Arc<dyn Cloud>,
    param: &ImageParam,
) -> Result<Image, ReconcileError> {
    let query = queries::image(param);
    let (mut active, others): (Vec<_>, Vec<_>) =
        cloud.images(&query).await?.into_iter().partition(|image| image.status == "active");
    if let (true, Some(image)) = (active.is_empty(), others.first()) {
        let message = format!(
            "image {} is {}, and a server needs one that is active. Upload it again, or use a template with another one",
            image.id, image.status
        );
        return Err(CloudError::new(ErrorClass::NotFound, "resolve spec.image", message).into());
    }
    let ids = active.iter().map(|image| image.id.clone()).collect();
    let id = only(ids, "spec.image", &queries::describe(&query))?;
    active.retain(|image| image.id == id);
    Ok(active.pop().unwrap_or_default())
}

/// Returns the id of the image of an Image object.
async fn image_of(
    context: &ControllerContext,
    namespace: &str,
    name: &str,
) -> Result<String, ReconcileError> {
    let (api, _) = templates::api(context, namespace, GROUP, "Image").map_err(|_| {
        let message = format!(
            "spec.image.imageRef: kind Image of group {GROUP} is not served here, so Image {namespace}/{name} cannot be \
             read. Use a template with spec.image.filter or spec.image.id"
        );
        ReconcileError::waiting("DependencyFailed", message)
    })?;
    let Some(object) = api.get_opt(name).await? else {
        let message = format!(
            "spec.image.imageRef: waiting for image: Image {namespace}/{name} does not exist. Create it"
        );
        return Err(ReconcileError::waiting("InstanceNotReady", message));
    };
    match state(&object) {
        ImageState::Available(id) => Ok(id),
        ImageState::Pending => {
            let message = format!("waiting for image: Image {namespace}/{name} is not available yet");
            Err(ReconcileError::waiting("InstanceNotReady", message))
        }
        ImageState::Failed(why) => {
            let message =
                format!("spec.image.imageRef: Image {namespace}/{name} has failed: {why}. Correct the Image");
            Err(ReconcileError::waiting("DependencyFailed", message))
        }
    }
}

/// Returns the state of an Image object, from its conditions.
fn state(object: &DynamicObject) -> ImageState {
    let conditions = object.data.pointer("/status/conditions").and_then(Value::as_array);
    let condition = |kind: &str| {
        conditions.into_iter().flatten().find(|it| it.get("type").and_then(Value::as_str) == Some(kind))
    };
    let field = |condition: &Value, key: &str| {
        condition.get(key).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let id = object.data.pointer("/status/id").and_then(Value::as_str);
    let is_available = condition("Available").is_some_and(|it| field(it, "status") == "True");
    if let Some(id) = id.filter(|_| is_available) {
        return ImageState::Available(id.to_owned());
    }
    let Some(progressing) = condition("Progressing").filter(|it| field(it, "status") == "False") else {
        return ImageState::Pending;
    };
    // A condition about an older spec says nothing about this one.
    let is_current =
        progressing.get("observedGeneration").and_then(Value::as_i64) == object.metadata.generation;
    let is_terminal =
        matches!(field(progressing, "reason").as_str(), "InvalidConfiguration" | "UnrecoverableError");
    if is_current && is_terminal {
        ImageState::Failed(field(progressing, "message"))
    } else {
        ImageState::Pending
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn r12_2_an_image_object_is_used_when_it_is_available_and_given_up_when_it_has_failed() {
        let failed = |reason: &str, generation: i64| {
            json!({"conditions": [{
                "type": "Progressing", "status": "False", "reason": reason, "message": "no such file",
                "observedGeneration": generation,
            }]})
        };
        let available = json!({"id": "i", "conditions": [{"type": "Available", "status": "True"}]});
        let table = [
            (json!({}), ImageState::Pending),
            (json!({"id": "i"}), ImageState::Pending),
            (available, ImageState::Available("i".to_owned())),
            (failed("UnrecoverableError", 2), ImageState::Failed("no such file".to_owned())),
            (failed("UnrecoverableError", 1), ImageState::Pending),
            (failed("TransientError", 2), ImageState::Pending),
        ];
        for (status, expected) in table {
            let text = json!({"metadata": {"name": "a", "generation": 2}, "status": status});
            let object: DynamicObject = serde_json::from_value(text).unwrap();
            assert_eq!(state(&object), expected, "{status}");
        }
    }
}
