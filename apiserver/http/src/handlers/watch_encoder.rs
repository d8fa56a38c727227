//! Watch encoder: encodes the events of a watch in its view and format.

use std::sync::Arc;

use apiserver_machinery::resource::Resource;
use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_machinery::store::{CachedJson, CachedObject, EventKind};
use apiserver_machinery::table::IncludeObject;
use apiserver_machinery::{Revision, object, protobuf};
use bytes::Bytes;
use serde_json::{Value, json};

use super::view;
use crate::response::encoding::Encoding;
use crate::response::negotiation::{Form, View};

/// Encoder of one watch's events.
pub(super) struct WatchEncoder {
    resource: Arc<Resource>,
    form: Form,
    include: IncludeObject,
    /// Set until an event is encoded: the columns of a table are in the first one alone.
    first: bool,
}

impl WatchEncoder {
    pub(super) fn new(resource: Arc<Resource>, form: Form, include: IncludeObject) -> Self {
        Self { resource, form, include, first: true }
    }

    /// Returns true if the events are equal for all watches of this form, and encoded once.
    pub(super) fn are_shared(&self) -> bool {
        self.form == Form::JSON
    }

    /// Encodes a change of an object.
    ///
    /// # Errors
    /// 500 that names an object that cannot be read.
    pub(super) fn event(&mut self, kind: EventKind, item: &CachedObject) -> ApiResult<Bytes> {
        if self.are_shared() {
            item.json.as_ref().map_err(ApiError::from)?;
            return Ok(item.frame(kind));
        }
        if let View::Metadata(version) | View::MetadataList(version) = self.form.view {
            match self.form.encoding {
                Encoding::Protobuf => {
                    let metadata = item.to_serialized_metadata()?;
                    let partial = protobuf::partial(&format!("meta.k8s.io/{version}"), &metadata);
                    return Ok(protobuf::event(kind.as_str(), &partial).into());
                }
                Encoding::Json => {
                    return Ok(metadata_event(kind, version, item.json.as_ref().map_err(ApiError::from)?));
                }
                // Streams have no other encoding.
                Encoding::PrettyJson | Encoding::Yaml => {}
            }
        }
        let value = item.to_value()?;
        self.write(kind.as_str(), &value)
    }

    /// Encodes a bookmark at `revision`. `initial_end` marks the end of the existing objects.
    ///
    /// # Errors
    /// 500.
    pub(super) fn bookmark(&mut self, revision: Revision, initial_end: bool) -> ApiResult<Bytes> {
        let mut bookmark = json!({"apiVersion": self.resource.api_version(), "kind": self.resource.kind,
            "metadata": {"resourceVersion": revision.to_string()}});
        if initial_end {
            object::set_meta(&mut bookmark, "annotations", json!({"k8s.io/initial-events-end": "true"}));
        }
        self.write("BOOKMARK", &bookmark)
    }

    fn write(&mut self, kind: &str, object: &Value) -> ApiResult<Bytes> {
        let encoding = self.form.encoding;
        match self.form.view {
            View::Table(version) => {
                let mut table = view::one_row(&self.resource, object, version, self.include);
                if !std::mem::take(&mut self.first) {
                    table["columnDefinitions"] = Value::Null;
                }
                encoding.event(kind, &table)
            }
            View::Metadata(version) | View::MetadataList(version) => {
                encoding.event(kind, &view::partial(object, version))
            }
            View::Whole => encoding.event(kind, object),
        }
    }

    /// Encodes an error. A `Status` can be written in every encoding.
    pub(super) fn error(&self, error: &ApiError) -> Bytes {
        self.form.encoding.event("ERROR", &error.to_value()).unwrap_or_default()
    }
}

/// End of an event with metadata.
const END: &[u8] = b"}}\n";

/// Encodes an event with an object's metadata, which is copied as it is. Nothing of the object is decoded.
fn metadata_event(kind: EventKind, version: &str, json: &CachedJson) -> Bytes {
    let kind = kind.as_str();
    let head = format!(
        "{{\"type\":\"{kind}\",\"object\":{{\"apiVersion\":\"meta.k8s.io/{version}\",\
         \"kind\":\"PartialObjectMetadata\",\"metadata\":"
    );
    let mut event = Vec::with_capacity(head.len() + json.metadata_size() + END.len());
    event.extend_from_slice(head.as_bytes());
    json.write_metadata(&mut event);
    event.extend_from_slice(END);
    Bytes::from(event)
}
