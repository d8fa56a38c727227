//! Actions: imperative subresources such as `POST …/machines/m1/reboot`.

use std::collections::BTreeMap;

use apiserver_schema::KindSchema;
use async_trait::async_trait;
use serde_json::Value;

use crate::lock::{Lock, Validity};
use crate::protobuf::Field;
use crate::status::{ApiResult, ResourceNames};

pub use crate::admission::Caller;

/// One call of an action.
#[derive(Debug)]
pub struct ActionCall<'a> {
    /// The namespace of the object.
    pub namespace: &'a str,
    /// Name of the object. The action checks that it exists.
    pub name: &'a str,
    /// The decoded body; `Null` if there was none.
    pub body: Value,
    /// The user who sends the request. Permission has been checked.
    pub caller: Caller,
    /// If true, the response is the plan, and nothing changes.
    pub dry_run: bool,
    /// Access to other objects.
    pub objects: &'a dyn Objects,
}

/// Method of the requests of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ActionMethod {
    /// The action has an effect.
    Post,
    /// The action only reads, and has no body.
    Get,
}

impl ActionMethod {
    /// Returns the verb by which a client needs the permission.
    pub fn verb(self) -> &'static str {
        match self {
            Self::Post => "create",
            Self::Get => "get",
        }
    }
}

/// Access of actions to objects, through the same store, rules and validation as a request.
#[async_trait]
pub trait Objects: Send + Sync + std::fmt::Debug {
    /// Returns the names of a resource, by group and plural, for errors.
    fn resource(&self, group: &str, plural: &str) -> Option<&dyn ResourceNames>;

    /// Fills in the defaults of a kind's schema.
    fn fill_in(&self, group: &str, plural: &str, object: &mut Value);

    /// Returns one object, or `None` if there is none. Linearizable.
    async fn get(&self, group: &str, plural: &str, namespace: &str, name: &str) -> ApiResult<Option<Value>>;

    /// Returns all objects of a namespace whose labels match `selector`. Linearizable.
    async fn list(&self, group: &str, plural: &str, namespace: &str, selector: &str)
    -> ApiResult<Vec<Value>>;

    /// Creates an object and returns it as stored. With `dry_run`, returns it as it would be stored. If the object may
    /// only be created under a lock, `lock` is checked right before it is stored.
    async fn create(
        &self,
        group: &str,
        plural: &str,
        namespace: &str,
        object: Value,
        dry_run: bool,
        lock: Option<Validity>,
    ) -> ApiResult<Value>;

    /// Replaces an object, and returns it as stored. The object names the revision that it is based on.
    ///
    /// # Errors
    /// 409 if the object was changed since.
    async fn update(
        &self,
        group: &str,
        plural: &str,
        namespace: &str,
        name: &str,
        object: Value,
        dry_run: bool,
    ) -> ApiResult<Value>;

    /// Takes the lock of this name when its present holder, on any server, has released it. An action needs a lock if
    /// it must read the objects and add to them in one step.
    ///
    /// # Errors
    /// 503 if the lock does not become free in time.
    async fn lock(&self, name: &str) -> ApiResult<Lock>;

    /// Releases the lock.
    async fn unlock(&self, lock: Lock);
}

/// One action of a kind.
#[async_trait]
pub trait ActionHandler: Send + Sync + std::fmt::Debug + 'static {
    /// The subresource's name in the path, e.g. `reboot`.
    fn name(&self) -> &'static str;

    /// Method of the requests. Default: POST.
    fn method(&self) -> ActionMethod {
        ActionMethod::Post
    }

    /// Reports whether the action deletes its object, so that a role allows it only with the deletion. Default: false.
    fn deletes(&self) -> bool {
        false
    }

    /// Group, version and kind of the request body, for discovery and OpenAPI.
    fn request_kind(&self) -> (&'static str, &'static str, &'static str);

    /// Schema of the request body. The body of a call has been checked against it.
    fn request_schema(&self) -> &KindSchema;

    /// Message of the request body in protobuf. Default: none, and such a body is refused.
    fn request_message(&self) -> Option<&'static [Field]> {
        None
    }

    /// Group, version and kind of the response.
    fn response_kind(&self) -> (&'static str, &'static str, &'static str);

    /// Carries out the action. Its effect is durable before it returns. The response is the object to send.
    ///
    /// # Errors
    /// The errors of the API: 404, 409, 422 with field paths, ...
    async fn invoke(&self, call: ActionCall<'_>) -> ApiResult<ActionResponse>;
}

/// Response of an action.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct ActionResponse {
    /// The object.
    pub object: Value,
    /// True if the call created the object (201), false if an earlier call did (200).
    pub created: bool,
    /// Annotations of the audit event of the request.
    pub annotations: BTreeMap<String, String>,
    /// Warnings for the client.
    pub warnings: Vec<String>,
}
