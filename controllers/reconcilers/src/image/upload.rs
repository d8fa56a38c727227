//! Creation and deletion of the Glance image of a managed object.

use std::collections::BTreeMap;
use std::sync::Arc;

use apiserver_types::{Image, ImageProperties};
use controllers_infrastructure::{Cloud, FailedStep, NewImage, OPENSTACK_ERROR};
use controllers_runtime::{OwnershipTag, ReconcileError, Severity};
use kube::{Api, ResourceExt};
use serde_json::Value;

use super::decide::Outcome;
use super::{FINALIZER, ImageReconciler};
use crate::finalizers;

/// Method by which Glance fetches content from a URL.
const WEB_DOWNLOAD: &str = "web-download";

/// Fields of the spec's properties, and their names in Glance, which Nova knows.
const PROPERTIES: [(&str, &str); 16] = [
    ("/architecture", "hw_architecture"),
    ("/hypervisorType", "img_hv_type"),
    ("/hardware/cdromBus", "hw_cdrom_bus"),
    ("/hardware/cpuCores", "hw_cpu_cores"),
    ("/hardware/cpuPolicy", "hw_cpu_policy"),
    ("/hardware/cpuSockets", "hw_cpu_sockets"),
    ("/hardware/cpuThreadPolicy", "hw_cpu_thread_policy"),
    ("/hardware/cpuThreads", "hw_cpu_threads"),
    ("/hardware/diskBus", "hw_disk_bus"),
    ("/hardware/qemuGuestAgent", "hw_qemu_guest_agent"),
    ("/hardware/rngModel", "hw_rng_model"),
    ("/hardware/scsiModel", "hw_scsi_model"),
    ("/hardware/vifModel", "hw_vif_model"),
    ("/operatingSystem/distro", "os_distro"),
    ("/operatingSystem/version", "os_version"),
    ("/operatingSystem/type", "os_type"),
];

impl ImageReconciler {
    /// Creates the image, and has Glance fetch its content.
    pub(super) async fn create(
        &self,
        api: &Api<Image>,
        cloud: &Arc<dyn Cloud>,
        object: &mut Image,
    ) -> Result<Outcome, ReconcileError> {
        let methods = cloud.image_import_methods().await?;
        if !methods.iter().any(|method| method == WEB_DOWNLOAD) {
            let message = format!(
                "Glance of this cloud has no import method {WEB_DOWNLOAD}. Upload the image by its name"
            );
            return Ok(Outcome::Waiting(message));
        }
        finalizers::add_with_tag(api, object, FINALIZER).await?;
        let new = new_image(object, &OwnershipTag::of(object));
        let created = cloud.create_image(&new).await;
        let failure = FailedStep::new(OPENSTACK_ERROR, "FailedCreateImage");
        let image = created.map_err(|error| {
            let error = ReconcileError::from(error).during(|| format!("create image {:?}", new.name));
            error.of_step(Some(failure))
        })?;
        let message = format!("created image {} ({})", image.name, image.id);
        self.context.events.record(object, Severity::Normal, "CreatedImage", &message).await;
        self.import(cloud, object, &image.id).await
    }

    /// Has Glance fetch the content of an image that was created for the object.
    pub(super) async fn import(
        &self,
        cloud: &Arc<dyn Cloud>,
        object: &Image,
        id: &str,
    ) -> Result<Outcome, ReconcileError> {
        let content = object.spec.resource.as_ref().and_then(|resource| resource.content.as_ref());
        let url = content.map(|content| content.download.url.clone()).unwrap_or_default();
        cloud.import_image(id, &url).await.map_err(|error| {
            let error = ReconcileError::from(error).during(|| format!("fetch the content of image {id}"));
            error.of_step(Some(FailedStep::new(OPENSTACK_ERROR, "FailedImportImage")))
        })?;
        Ok(Outcome::Importing(format!("Glance fetches the content of image {id}")))
    }

    /// Deletes the image that was created for the object, unless the object says to keep it, and then the finalizer.
    pub(super) async fn delete(&self, api: &Api<Image>, object: &Image) -> Result<(), ReconcileError> {
        if !object.finalizers().iter().any(|finalizer| finalizer == FINALIZER) {
            return Ok(());
        }
        let options = object.spec.managed_options.as_ref();
        let is_kept = options.and_then(|options| options.on_delete.as_deref()) == Some("detach");
        if !is_kept && !crate::moved(object) {
            let cloud = self.cloud(object).await?;
            let tag = OwnershipTag::of(object).text();
            let found = cloud.images(&super::decide::Wish::of(object).query).await?;
            for image in found.iter().filter(|image| image.tags.contains(&tag)) {
                match cloud.delete_image(&image.id).await {
                    Err(error) if !error.is_not_found() => {
                        let attempt = || format!("delete image {} ({})", image.name, image.id);
                        let failure = FailedStep::new(OPENSTACK_ERROR, "FailedDeleteImage");
                        return Err(ReconcileError::from(error).during(attempt).of_step(Some(failure)));
                    }
                    _ => {}
                }
                let message = format!("deleted image {} ({})", image.name, image.id);
                self.context.events.record(object, Severity::Normal, "DeletedImage", &message).await;
            }
        }
        finalizers::remove(api, object, FINALIZER).await
    }
}

/// Returns the image to create. Pure.
fn new_image(object: &Image, tag: &OwnershipTag) -> NewImage {
    let resource = object.spec.resource.clone().unwrap_or_default();
    let content = resource.content;
    let format = content.as_ref().and_then(|content| content.container_format.clone());
    let properties = resource.properties;
    NewImage {
        name: resource.name.unwrap_or_else(|| object.name_any()),
        container_format: format.unwrap_or_else(|| "bare".to_owned()),
        disk_format: content.map(|content| content.disk_format).unwrap_or_default(),
        visibility: resource.visibility,
        tags: tag.tags(resource.tags.as_deref()),
        protected: resource.protected == Some(true),
        min_disk_gib: properties.as_ref().and_then(|it| it.min_disk_gb),
        min_ram_mib: properties.as_ref().and_then(|it| it.min_memory_mb),
        properties: properties.as_ref().map(glance_properties).unwrap_or_default(),
    }
}

fn glance_properties(properties: &ImageProperties) -> BTreeMap<String, String> {
    let value = serde_json::to_value(properties).unwrap_or_default();
    let text = |value: &Value| match value {
        Value::String(text) => text.clone(),
        Value::Bool(is_set) => (if *is_set { "yes" } else { "no" }).to_owned(),
        other => other.to_string(),
    };
    let found =
        PROPERTIES.iter().filter_map(|(field, name)| Some(((*name).to_owned(), text(value.pointer(field)?))));
    found.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn r12_3_every_field_of_a_managed_image_reaches_glance() {
        let object: Image = serde_json::from_value(json!({
            "apiVersion": "openstack.k-orc.cloud/v1alpha1", "kind": "Image", "metadata": {"name": "node", "uid": "u"},
            "spec": {"cloudCredentialsRef": {"cloudName": "c", "secretName": "s"}, "resource": {
                "visibility": "private", "tags": ["kube"], "protected": true,
                "properties": {"architecture": "x86_64", "minDiskGB": 10, "minMemoryMB": 2048,
                    "hardware": {"qemuGuestAgent": true, "cpuCores": 2}, "operatingSystem": {"distro": "ubuntu"}},
                "content": {"diskFormat": "qcow2", "download": {"url": "https://example.org/a"}}}},
        }))
        .unwrap();
        let tag = OwnershipTag::of(&object);
        let new = new_image(&object, &tag);
        assert_eq!(
            (new.name.as_str(), new.container_format.as_str(), new.disk_format.as_str()),
            ("node", "bare", "qcow2")
        );
        assert_eq!((new.min_disk_gib, new.min_ram_mib, new.protected), (Some(10), Some(2048), true));
        assert!(new.tags.contains(&"kube".to_owned()) && new.tags.contains(&tag.text()));
        let expected = [
            ("hw_architecture", "x86_64"),
            ("hw_cpu_cores", "2"),
            ("hw_qemu_guest_agent", "yes"),
            ("os_distro", "ubuntu"),
        ];
        let found: Vec<(&str, &str)> =
            new.properties.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(found, expected);
    }
}
