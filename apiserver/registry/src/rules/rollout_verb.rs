//! Verbs of owners of Machines that change the rollout of the owner: one entry of a list is one verb.

use std::sync::Arc;

use apiserver_machinery::action::{ActionCall, ActionHandler, ActionMethod, ActionResponse};
use apiserver_machinery::object;
use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_schema::KindSchema;
use apiserver_types::{CHANGE_CAUSE, CHANGED_AT, CHANGED_BY, Described, Descriptor, MachineOperation};
use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::{Value, json};

use crate::schemas;

/// Number of writes by others in a row before a verb fails, each between its read and its own write. Controllers write
/// conditions of a cluster that changes several times a second, and a plan of it takes a good part of a second.
const ATTEMPTS: usize = 10;

/// Effect of a verb on the owner. It returns the changed owner, or the object to send for a verb that only reads.
#[async_trait]
pub(crate) trait RolloutEffect: Send + Sync + std::fmt::Debug + 'static {
    /// Returns the response.
    ///
    /// # Errors
    /// The errors of the API.
    async fn run(&self, verb: &RolloutVerb, call: &ActionCall<'_>, owner: Value) -> ApiResult<Value>;

    /// Returns why there is nothing to do, for people. The response is then the owner as it is, with this as a warning.
    /// Default: there is always something to do.
    ///
    /// # Errors
    /// The errors of the API.
    async fn needless(&self, _call: &ActionCall<'_>, _owner: &Value) -> ApiResult<Option<String>> {
        Ok(None)
    }
}

/// One verb.
#[derive(Debug)]
pub(crate) struct RolloutVerb {
    name: &'static str,
    /// Group, version and kind of the body.
    request: (&'static str, &'static str, &'static str),
    method: ActionMethod,
    /// Kind of the owner.
    pub owner: Descriptor,
    /// Kind of the response.
    answer: Descriptor,
    body: KindSchema,
    effect: Arc<dyn RolloutEffect>,
}

impl RolloutVerb {
    /// Returns the handler of a verb that changes its owner.
    pub(crate) fn change<K: Described>(
        name: &'static str,
        body_kind: &'static str,
        effect: impl RolloutEffect,
    ) -> Arc<dyn ActionHandler> {
        Self::of::<K>(name, body_kind, ActionMethod::Post, K::DESCRIPTOR, effect).shared()
    }

    /// Returns the handler of a verb that answers with a list of other objects.
    pub(crate) fn read<K: Described, A: Described>(
        name: &'static str,
        body_kind: &'static str,
        effect: impl RolloutEffect,
    ) -> Arc<dyn ActionHandler> {
        Self::of::<K>(name, body_kind, ActionMethod::Get, A::DESCRIPTOR, effect).shared()
    }

    /// Returns the handler of a verb whose body is of the owner's kind, and that answers with an object of another kind.
    /// `schema` names the schema of the body.
    pub(crate) fn answering<K: Described>(
        name: &'static str,
        schema: &'static str,
        answer: Descriptor,
        effect: impl RolloutEffect,
    ) -> Arc<dyn ActionHandler> {
        let Descriptor { group, version, kind, .. } = K::DESCRIPTOR;
        let verb = Self::of::<K>(name, schema, ActionMethod::Post, answer, effect);
        Self { request: (group, version, kind), ..verb }.shared()
    }

    /// Returns the handler of a verb that can change its owner, and that answers with an object of another kind.
    pub(crate) fn requesting<K: Described>(
        name: &'static str,
        body_kind: &'static str,
        answer: Descriptor,
        effect: impl RolloutEffect,
    ) -> Arc<dyn ActionHandler> {
        Self::of::<K>(name, body_kind, ActionMethod::Post, answer, effect).shared()
    }

    /// Returns the handler of a verb that only reads, and that answers with an object of another kind.
    pub(crate) fn reading<K: Described>(
        name: &'static str,
        body_kind: &'static str,
        answer: Descriptor,
        effect: impl RolloutEffect,
    ) -> Arc<dyn ActionHandler> {
        Self::of::<K>(name, body_kind, ActionMethod::Get, answer, effect).shared()
    }

    fn shared(self) -> Arc<dyn ActionHandler> {
        Arc::new(self)
    }

    fn of<K: Described>(
        name: &'static str,
        body_kind: &'static str,
        method: ActionMethod,
        answer: Descriptor,
        effect: impl RolloutEffect,
    ) -> Self {
        let body = KindSchema::of_body(move || schemas::body(body_kind));
        let owner = K::DESCRIPTOR;
        let operation = MachineOperation::DESCRIPTOR;
        let request = (operation.group, operation.version, body_kind);
        Self { name, request, method, owner, answer, body, effect: Arc::new(effect) }
    }

    /// Reads the owner.
    ///
    /// # Errors
    /// 404.
    async fn current(&self, call: &ActionCall<'_>) -> ApiResult<Value> {
        let Descriptor { group, plural, .. } = self.owner;
        match call.objects.get(group, plural, call.namespace, call.name).await? {
            Some(owner) => Ok(owner),
            None => Err(match call.objects.resource(group, plural) {
                Some(resource) => ApiError::not_found(resource, call.name),
                None => ApiError::internal(format!("{plural} is not served")),
            }),
        }
    }

    /// Returns the 409 error of an owner that cannot be changed now.
    pub(crate) fn conflict(&self, call: &ActionCall<'_>, why: &str) -> ApiError {
        match call.objects.resource(self.owner.group, self.owner.plural) {
            Some(resource) => ApiError::conflict(resource, call.name, why),
            None => ApiError::internal(format!("{} is not served", self.owner.plural)),
        }
    }

    /// Stores a changed owner, with the author, the time and the reason of the change.
    ///
    /// # Errors
    /// The errors of an update.
    pub(crate) async fn store(
        &self,
        call: &ActionCall<'_>,
        mut owner: Value,
        default_reason: &str,
        dry_run: bool,
    ) -> ApiResult<Value> {
        let given = call.body.get("reason").and_then(Value::as_str).filter(|reason| !reason.is_empty());
        let annotations = &mut owner["metadata"]["annotations"];
        annotations[CHANGE_CAUSE] = json!(given.unwrap_or(default_reason));
        annotations[CHANGED_BY] = json!(call.caller.username);
        annotations[CHANGED_AT] = json!(object::timestamp(Timestamp::now()));
        let Descriptor { group, plural, .. } = self.owner;
        call.objects.update(group, plural, call.namespace, call.name, owner, dry_run).await
    }
}

#[async_trait]
impl ActionHandler for RolloutVerb {
    fn name(&self) -> &'static str {
        self.name
    }

    fn method(&self) -> ActionMethod {
        self.method
    }

    fn request_kind(&self) -> (&'static str, &'static str, &'static str) {
        self.request
    }

    fn request_schema(&self) -> &KindSchema {
        &self.body
    }

    fn response_kind(&self) -> (&'static str, &'static str, &'static str) {
        (self.answer.group, self.answer.version, self.answer.kind)
    }

    async fn invoke(&self, call: ActionCall<'_>) -> ApiResult<ActionResponse> {
        let mut owner = self.current(&call).await?;
        let mut attempts = ATTEMPTS;
        loop {
            if self.method == ActionMethod::Post && object::is_deleting(&owner) {
                return Err(self.conflict(&call, "it is being deleted"));
            }
            if let Some(why) = self.effect.needless(&call, &owner).await? {
                let warnings = vec![why];
                return Ok(ActionResponse { object: owner, warnings, ..ActionResponse::default() });
            }
            let revision = object::meta(&owner, "resourceVersion").to_owned();
            match self.effect.run(self, &call, owner).await {
                Ok(object) => {
                    return Ok(ActionResponse { object, created: false, ..ActionResponse::default() });
                }
                Err(error) if error.code == 409 && attempts > 0 => {
                    owner = self.current(&call).await?;
                    // The client names the object that it has read, or the object itself forbids the effect.
                    let is_named = !object::meta(&call.body, "resourceVersion").is_empty();
                    if is_named || object::meta(&owner, "resourceVersion") == revision {
                        return Err(error);
                    }
                    attempts -= 1;
                }
                Err(error) => return Err(error),
            }
        }
    }
}

/// Rollout that replaces all Machines.
#[derive(Debug)]
pub(crate) struct Restart;

#[async_trait]
impl RolloutEffect for Restart {
    async fn run(&self, verb: &RolloutVerb, call: &ActionCall<'_>, mut owner: Value) -> ApiResult<Value> {
        owner["spec"]["rollout"]["after"] = json!(object::timestamp(Timestamp::now()));
        verb.store(call, owner, "restart", call.dry_run).await
    }
}

#[cfg(test)]
mod tests {
    use apiserver_machinery::action::Caller;
    use apiserver_types::MachineDeployment;

    use super::*;
    use crate::rules::stored_object::StoredObject;

    /// Restarts a MachineDeployment that others change this number of times.
    async fn restart(others: u64, body: Value) -> ApiResult<Value> {
        let deployment = json!({"metadata": {"name": "md", "annotations": {}}, "spec": {"rollout": {}}});
        let stored = StoredObject::new(MachineDeployment::DESCRIPTOR, deployment).changed_by_others(others);
        let verb = RolloutVerb::change::<MachineDeployment>("restart", "RolloutRestart", Restart);
        stored.call(verb.as_ref(), body).await
    }

    /// Effect that has nothing to do.
    #[derive(Debug)]
    struct Idle;

    #[async_trait]
    impl RolloutEffect for Idle {
        async fn run(&self, verb: &RolloutVerb, call: &ActionCall<'_>, owner: Value) -> ApiResult<Value> {
            verb.store(call, owner, "idle", false).await
        }

        async fn needless(&self, _: &ActionCall<'_>, _: &Value) -> ApiResult<Option<String>> {
            Ok(Some("nothing is changed".to_owned()))
        }
    }

    #[tokio::test]
    async fn a_verb_without_anything_to_do_writes_nothing_and_says_so() {
        let deployment = json!({"metadata": {"name": "md", "annotations": {}}, "spec": {}});
        let stored = StoredObject::new(MachineDeployment::DESCRIPTOR, deployment);
        let verb = RolloutVerb::change::<MachineDeployment>("idle", "RolloutRestart", Idle);
        let (caller, body) = (Caller::default(), json!({}));
        let call = ActionCall { namespace: "ns", name: "md", body, caller, dry_run: false, objects: &stored };
        let answer = verb.invoke(call).await.unwrap();
        assert_eq!(answer.warnings, ["nothing is changed"]);
        assert_eq!((answer.object["metadata"]["name"].as_str(), stored.last_write()), (Some("md"), None));
    }

    #[tokio::test]
    async fn a_verb_starts_again_if_another_client_wrote_first() {
        let restarted = restart(3, json!({})).await.unwrap();
        assert_eq!(restarted["metadata"]["resourceVersion"], "3");
        assert_eq!(restart(99, json!({})).await.unwrap_err().code, 409);
        let named = json!({"metadata": {"resourceVersion": "0"}});
        assert_eq!(restart(1, named).await.unwrap_err().code, 409, "the client names what it has read");
    }
}
