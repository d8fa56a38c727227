//! Admission control: changes and refusals of writes by configurations beyond the rules of the kinds.
//!
//! A client's write passes it twice: once before the rules of the kind, where it may change the object, and once after
//! them. Writes that the server starts by itself do not pass it.

use std::collections::BTreeMap;
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value};

use crate::admission::Permissions;
use crate::resource::Resource;
use crate::status::ApiResult;

/// Operation of a write, as configurations name it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// Create, also by an apply or by an action.
    Create,
    /// Update, patch or apply.
    Update,
    /// Delete, also of each object of a collection.
    Delete,
}

impl Operation {
    /// Returns the word on the wire.
    pub const fn word(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
        }
    }

    /// Returns the kind of the options of a request with this operation.
    pub const fn options(self) -> &'static str {
        match self {
            Self::Create => "CreateOptions",
            Self::Update => "UpdateOptions",
            Self::Delete => "DeleteOptions",
        }
    }
}

/// User who sends a request, with all attributes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Requester {
    /// User name.
    pub username: String,
    /// Id; empty if the authenticator knows none.
    pub uid: String,
    /// Groups.
    pub groups: Vec<String>,
    /// Further attributes.
    pub extra: BTreeMap<String, Vec<String>>,
    /// True for one of the server's own identities, such as a controller.
    pub is_internal: bool,
}

/// Request of a client that may write objects.
#[derive(Debug)]
pub struct AdmissionRequest {
    /// The user.
    pub requester: Requester,
    /// The permissions of the user.
    pub permissions: Arc<dyn Permissions>,
    /// API group in the path.
    pub group: String,
    /// Plural in the path.
    pub resource: String,
    /// Subresource in the path.
    pub subresource: String,
    /// Options of the request, without their kind.
    pub options: Map<String, Value>,
}

/// One write of a request.
#[derive(Debug, Clone, Copy)]
pub struct AdmittedWrite<'a> {
    /// Operation.
    pub operation: Operation,
    /// Resource in the request's version.
    pub resource: &'a Resource,
    /// Group, version and kind of the object: those of the resource, or those of the body of a subresource.
    pub kind: (&'a str, &'a str, &'a str),
    /// Subresource, or empty.
    pub subresource: &'a str,
    /// Namespace; empty for cluster-scoped kinds.
    pub namespace: &'a str,
    /// Name; empty if the server will generate it.
    pub name: &'a str,
    /// Stored object; `None` on create.
    pub old: Option<&'a Value>,
    /// True if nothing will be stored.
    pub dry_run: bool,
}

/// Findings of an admission for the response and the audit event.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AdmissionNotes {
    /// Warnings for the client.
    pub warnings: Vec<String>,
    /// Annotations of the audit event.
    pub annotations: BTreeMap<String, String>,
}

/// Admission of one request.
#[async_trait]
pub trait RequestAdmission: Send + Sync + std::fmt::Debug {
    /// Returns the changed object; `None` if it stays as it is. `object` is absent on delete.
    ///
    /// # Errors
    /// The refusal of the write; 500 for a configuration that fails and does not ignore it.
    async fn mutate(&self, write: AdmittedWrite<'_>, object: Option<&Value>) -> ApiResult<Option<Value>>;

    /// Checks the object that is about to be stored. `object` is absent on delete.
    ///
    /// # Errors
    /// As [`RequestAdmission::mutate`].
    async fn validate(&self, write: AdmittedWrite<'_>, object: Option<&Value>) -> ApiResult<()>;

    /// Returns true if the client may pass a configuration that cannot decide, and records it. `what` is the sort of the
    /// configuration, `name` its name, and `place` the end of the key of the audit annotation.
    async fn bypassed(&self, what: &str, name: &str, why: &str, place: &str) -> bool;

    /// Adds a warning for the client.
    fn warn(&self, warning: String);

    /// Returns the findings so far.
    fn notes(&self) -> AdmissionNotes;
}

/// Source of admissions: all configurations in force.
pub trait AdmissionControl: Send + Sync + std::fmt::Debug + 'static {
    /// Returns the admission of a request; `None` if no configuration can apply to it.
    fn admission(&self, request: AdmissionRequest) -> Option<Arc<dyn RequestAdmission>>;
}
