//! The events of a watch as they go out: what of the object is shown, and how it is written.

use std::sync::Arc;

use apiserver_machinery::resource::Resource;
use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_machinery::store::{CachedObject, EventKind};
use apiserver_machinery::table::IncludeObject;
use apiserver_machinery::{Revision, object, protobuf};
use bytes::Bytes;
use serde_json::{Value, json};

use super::view;
use crate::response::encoding::Encoding;
use crate::response::negotiation::{Form, View};

/// Writes the events of one watch.
pub(super) struct Frames {
    resource: Arc<Resource>,
    form: Form,
    include: IncludeObject,
    /// Whether nothing has been written yet: the columns of a table are described once.
    first: bool,
}

impl Frames {
    pub(super) fn new(resource: Arc<Resource>, form: Form, include: IncludeObject) -> Self {
        Self { resource, form, include, first: true }
    }

    /// Whether they are the same for all who watch in this form, and written once.
    pub(super) fn are_shared(&self) -> bool {
        self.form == Form::JSON
    }

    /// Something happened to an object.
    ///
    /// # Errors
    /// 500 naming an object that cannot be read.
    pub(super) fn event(&mut self, kind: EventKind, item: &CachedObject) -> ApiResult<Bytes> {
        if self.are_shared() {
            item.json.as_ref().map_err(|damage| ApiError::internal(damage.clone()))?;
            return Ok(item.frame(kind));
        }
        if let (View::Metadata(version) | View::MetadataList(version), Encoding::Protobuf) =
            (self.form.view, self.form.encoding)
        {
            let metadata = item.to_serialized_metadata().map_err(ApiError::internal)?;
            let partial = protobuf::partial(&format!("meta.k8s.io/{version}"), &metadata);
            return Ok(protobuf::event(kind.as_str(), &partial).into());
        }
        let value = item.to_value().map_err(ApiError::internal)?;
        self.write(kind.as_str(), &value)
    }

    /// Everything up to `revision` has been written; `initial_end` says that it was what was there
    /// at the beginning.
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

    /// A failure, told inside the stream. A `Status` can be written in every encoding.
    pub(super) fn error(&self, error: &ApiError) -> Bytes {
        self.form.encoding.event("ERROR", &error.to_value()).unwrap_or_default()
    }
}
