//! Disks of a new server: an image, volumes, or volumes created from an image.

use serde_json::{Value, json};

use super::super::bad_request;
use super::super::model::{Attachment, Server};
use crate::cinder::{self, Status};
use crate::context::Context;
use crate::http::Reply;
use crate::object::{Object, list, new_id, object};
use crate::state::CloudState;

/// One volume.
enum NewDisk {
    /// An existing volume.
    Volume { id: String, delete: bool },
    /// A volume that Nova creates, as a body for Cinder.
    New { body: Object, delete: bool },
}

/// Disks of a new server.
pub(super) struct Disks {
    /// `None` if it boots from a volume.
    pub(super) image: Option<String>,
    volumes: Vec<NewDisk>,
}

/// Zone of hosts and volumes that have no other one.
const DEFAULT_ZONE: &str = "nova";

impl Disks {
    /// Returns the zone of a server with these disks, which is that of its volumes if Nova attaches no others.
    pub(super) fn zone(
        &self,
        state: &CloudState,
        context: &Context<'_>,
        requested: Option<String>,
    ) -> Result<Option<String>, Reply> {
        if context.options.cross_zone_attachment {
            return Ok(requested);
        }
        let zones = self.volumes.iter().filter_map(|disk| match disk {
            NewDisk::Volume { id, .. } => Some(state.volumes.get(id)?.zone.as_str()),
            NewDisk::New { .. } => None,
        });
        let zones: Vec<&str> = zones.collect();
        let Some(zone) = zones.first().copied() else { return Ok(requested) };
        if zones.iter().any(|other| *other != zone) {
            let words = format!("Volumes are in different availability zones: {}", zones.join(","));
            return Err(mismatch(&words));
        }
        match requested {
            None => Ok((zone != DEFAULT_ZONE).then(|| zone.to_owned())),
            // The zone of a request may name a host.
            Some(requested) if requested.split(':').next() == Some(zone) => Ok(Some(requested)),
            Some(requested) => Err(mismatch(&format!(
                "Server and volumes are not in the same availability zone. Server is in: {requested}. Volumes are in: \
                 {zone}"
            ))),
        }
    }
}

fn mismatch(reason: &str) -> Reply {
    bad_request(&format!(
        "The availability zone between the server and its attached volumes do not match: {reason}."
    ))
}

/// Returns the disks that the body requests, checked.
pub(super) fn requested(state: &CloudState, context: &Context<'_>, body: &Object) -> Result<Disks, Reply> {
    let image = body.get("imageRef").and_then(Value::as_str).filter(|image| !image.is_empty());
    let mut from_mapping = None;
    let mut volumes = Vec::new();
    let mut boots_from_volume = false;
    for mapping in list(body, "block_device_mapping_v2") {
        let field = |key: &str| mapping.get(key).and_then(Value::as_str);
        let id = field("uuid").unwrap_or_default();
        let is_root = match mapping.get("boot_index") {
            Some(Value::String(index)) => index == "0",
            Some(index) => index.as_i64() == Some(0),
            None => false,
        };
        let delete = mapping.get("delete_on_termination").and_then(Value::as_bool).unwrap_or_default();
        let to_volume = field("destination_type") == Some("volume");
        match field("source_type") {
            Some("volume") => {
                check_volume(state, context, id, is_root)?;
                boots_from_volume |= is_root;
                volumes.push(NewDisk::Volume { id: id.to_owned(), delete });
            }
            Some("image") if to_volume => {
                check_image(state, context, id)?;
                boots_from_volume |= is_root;
                volumes.push(NewDisk::New { body: new_volume(mapping, Some(id)), delete });
            }
            Some("image") if is_root => from_mapping = Some(id),
            Some("blank") if to_volume => {
                volumes.push(NewDisk::New { body: new_volume(mapping, None), delete })
            }
            _ => {}
        }
    }
    let image = image.or(from_mapping).filter(|_| !boots_from_volume);
    match image {
        Some(image) => check_image(state, context, image)?,
        None if !boots_from_volume => return Err(bad_request("Missing imageRef attribute")),
        None => {}
    }
    Ok(Disks { image: image.map(str::to_owned), volumes })
}

fn check_image(state: &CloudState, context: &Context<'_>, id: &str) -> Result<(), Reply> {
    let found = crate::glance::find(state, &context.caller.project_id, id);
    found.map(|_| ()).ok_or_else(|| bad_request("Can not find requested image"))
}

fn check_volume(state: &CloudState, context: &Context<'_>, id: &str, is_root: bool) -> Result<(), Reply> {
    let volume = state.volumes.get(id).filter(|volume| volume.project_id == context.caller.project_id);
    let Some(volume) = volume else {
        return Err(bad_request(&format!("Block Device Mapping is Invalid: failed to get volume {id}.")));
    };
    if volume.status != Status::Available {
        let request = &context.request.request_id;
        return Err(bad_request(&format!(
            "Invalid volume: Invalid input received: Invalid volume: Volume {id} status must be available or \
             downloading to reserve, but the current status is {}. (HTTP 400) (Request-ID: {request})",
            volume.status.as_str()
        )));
    }
    if is_root && volume.image.is_none() {
        return Err(bad_request(&format!("Block Device {id} is not bootable.")));
    }
    Ok(())
}

fn new_volume(mapping: &Value, image: Option<&str>) -> Object {
    let size = mapping.get("volume_size").cloned().unwrap_or_else(|| json!(1));
    let mut body = object(json!({"size": size, "name": "", "imageRef": image}));
    if let Some(kind) = mapping.get("volume_type") {
        body.insert("volume_type".to_owned(), kind.clone());
    }
    body
}

/// Creates the missing volumes, and attaches all of them to the server.
pub(super) fn connect(
    state: &mut CloudState,
    context: &Context<'_>,
    server: &mut Server,
    disks: &Disks,
) -> Result<(), Reply> {
    for (disk, letter) in disks.volumes.iter().zip('a'..='z') {
        let (id, delete) = match disk {
            NewDisk::Volume { id, delete } => (id.clone(), *delete),
            NewDisk::New { body, delete } => (cinder::reserve(state, context, body)?, *delete),
        };
        // The image's own disk is the first.
        let letter =
            if disks.image.is_some() { char::from_u32(u32::from(letter) + 1).unwrap_or('z') } else { letter };
        let attachment = Attachment {
            volume_id: id.clone(),
            attachment_id: new_id(),
            mapping_id: new_id(),
            device: format!("/dev/sd{letter}"),
            delete_on_termination: delete,
            detachment: None,
        };
        cinder::attach(state, &id, &server.id, &attachment.attachment_id, &attachment.device, context.now);
        server.attachments.push(attachment);
    }
    Ok(())
}
