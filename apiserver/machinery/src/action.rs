//! Imperative subresources: `POST …/machines/m1/reboot`.

use apiserver_schema::KindSchema;
use async_trait::async_trait;
use serde_json::Value;

use crate::lock::Lock;
use crate::status::{ApiResult, ResourceNames};

pub use crate::admission::Caller;

/// One call of a verb.
#[derive(Debug)]
pub struct ActionCall<'a> {
    /// The namespace of the object.
    pub namespace: &'a str,
    /// Its name. That it exists is the verb's to check.
    pub name: &'a str,
    /// The decoded body; `Null` when there was none.
    pub body: Value,
    /// Who asks. Permission has been checked.
    pub caller: Caller,
    /// Answer with the plan, change nothing.
    pub dry_run: bool,
    /// The other objects.
    pub objects: &'a dyn Objects,
}

/// What a verb may do to objects: through the same store, rules and validation as a request.
#[async_trait]
pub trait Objects: Send + Sync + std::fmt::Debug {
    /// The resource a plural of a group stands for, to make errors with.
    fn resource(&self, group: &str, plural: &str) -> Option<&dyn ResourceNames>;

    /// Fills in the defaults of a kind's schema.
    fn fill_in(&self, group: &str, plural: &str, object: &mut Value);

    /// One object, `None` when there is none. Linearizable.
    async fn get(&self, group: &str, plural: &str, namespace: &str, name: &str) -> ApiResult<Option<Value>>;

    /// All objects of a namespace whose labels match `selector`. Linearizable.
    async fn list(&self, group: &str, plural: &str, namespace: &str, selector: &str)
    -> ApiResult<Vec<Value>>;

    /// Creates an object and returns it as stored. With `dry_run` as it would be stored.
    async fn create(
        &self,
        group: &str,
        plural: &str,
        namespace: &str,
        object: Value,
        dry_run: bool,
    ) -> ApiResult<Value>;

    /// Takes the lock of this name, after whoever has it now, on any server: for what must see the
    /// objects and add to them in one.
    ///
    /// # Errors
    /// 503 when it cannot be had in time.
    async fn lock(&self, name: &str) -> ApiResult<Lock>;

    /// Gives the lock back.
    async fn unlock(&self, lock: Lock);
}

/// One verb of a kind.
#[async_trait]
pub trait ActionHandler: Send + Sync + std::fmt::Debug + 'static {
    /// The subresource's name in the path, e.g. `reboot`.
    fn name(&self) -> &'static str;

    /// Group, version and kind of the request body, for discovery and OpenAPI.
    fn request_kind(&self) -> (&'static str, &'static str, &'static str);

    /// Schema of the request body. The body of a call has been checked against it.
    fn request_schema(&self) -> &KindSchema;

    /// Group, version and kind of the answer.
    fn response_kind(&self) -> (&'static str, &'static str, &'static str);

    /// Carries it out: durable before it returns. The answer is the object to send.
    ///
    /// # Errors
    /// As the API answers them: 404, 409, 422 with field paths, ...
    async fn invoke(&self, call: ActionCall<'_>) -> ApiResult<ActionResponse>;
}

/// What a verb answers.
#[derive(Debug, Clone, PartialEq)]
pub struct ActionResponse {
    /// The object.
    pub object: Value,
    /// Whether the call made something (201) or found what an earlier one made (200).
    pub created: bool,
}
