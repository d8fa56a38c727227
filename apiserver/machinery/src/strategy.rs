//! Strategy of a kind: its defaults and rules between decoding a request and storing the object.

use std::collections::BTreeSet;

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;

use crate::admission::{Creation, GrantingWrite, UsedObject};
use crate::metadata::subdomain_errors;
use crate::protobuf;
use crate::quota::{Amounts, QuotaOwner};
use crate::related::{ObjectReader, Verdict};
use crate::resource::Registry;
use crate::status::ApiResult;
use apiserver_schema::field_errors::FieldError;

/// Defaults and rules of one kind. The generic store calls the methods in the order in which they are listed here, on
/// the decoded, pruned and defaulted object. `old` is the stored object, absent on create.
#[async_trait]
pub trait Strategy: Send + Sync + std::fmt::Debug + 'static {
    /// Checks a client's request that creates an object; objects that the server creates by itself skip it. It may
    /// record the caller in the object. The object has not been validated: validation refuses wrong types later.
    ///
    /// # Errors
    /// 403 if the caller has no permission for the effects of the object.
    async fn admit(&self, _new: &mut Value, _creation: &Creation<'_>) -> ApiResult<()> {
        Ok(())
    }

    /// Returns the objects whose rights the server exercises for this one. If the server requires it, a client that
    /// adds such a reference needs a permission on the object. The object has not been validated.
    fn used_objects(&self, _object: &Value) -> Vec<UsedObject> {
        Vec::new()
    }

    /// Returns true if [`Strategy::used_through_others`] is implemented. Objects are converted for it.
    fn uses_through_others(&self) -> bool {
        false
    }

    /// Returns the objects that [`Strategy::used_objects`] cannot know: this write lets the controllers make other objects, which
    /// refer to them. Those that `old` already led to are left out. The object has not been validated. Writes of the server
    /// itself skip it.
    ///
    /// # Errors
    /// 503 if the related objects cannot be read.
    async fn used_through_others(
        &self,
        _new: &Value,
        _old: Option<&Value>,
        _others: &dyn ObjectReader,
    ) -> ApiResult<Vec<UsedObject>> {
        Ok(Vec::new())
    }

    /// Checks that the client may grant the permissions that the object grants to others. Writes of the server itself
    /// skip it.
    ///
    /// # Errors
    /// 403 if the client would grant permissions that it does not have; 404 if the object refers to permissions that do
    /// not exist; 503.
    async fn check_grants(&self, _write: GrantingWrite<'_>) -> ApiResult<()> {
        Ok(())
    }

    /// Converts an object that a client sent into the canonical form of the kind. The client becomes the field manager
    /// of the changes. After an apply, it manages only the fields of its configuration. Must not fail.
    fn canonicalize(&self, _new: &mut Value) {}

    /// Returns true if a null means the same as an absent field, also in an applied configuration. This holds for kinds
    /// that upstream decodes into a type before it stores them: those with a defaulting webhook, and Kubernetes' own.
    fn drops_nulls(&self) -> bool {
        false
    }

    /// Sets fields that clients may omit, and restores fields that clients may not change. Must not fail.
    fn prepare(&self, _new: &mut Value, _old: Option<&Value>) {}

    /// Returns true if [`Strategy::default_with`] is implemented. Objects are converted for it.
    fn defaults_with_related(&self) -> bool {
        false
    }

    /// Sets fields that clients may omit and that depend on related objects, on writes of the object itself. If it
    /// returns errors, no further check runs. The object has not been validated.
    ///
    /// # Errors
    /// 503 if the related objects cannot be read.
    async fn default_with(
        &self,
        _new: &mut Value,
        _old: Option<&Value>,
        _others: &dyn ObjectReader,
    ) -> ApiResult<Vec<FieldError>> {
        Ok(Vec::new())
    }

    /// Returns every reason to refuse `new`; an empty list admits it. Schema and metadata have been checked before.
    fn validate(&self, _new: &Value, _old: Option<&Value>) -> Vec<FieldError> {
        Vec::new()
    }

    /// Returns true if a dry run of this update skips [`Strategy::validate`]: Cluster API's topology controller sends
    /// updates that the rules would refuse.
    fn is_exempt_in_dry_run(&self, _new: &Value) -> bool {
        false
    }

    /// Returns true if [`Strategy::decision_lock`] is implemented. Objects are converted for it.
    fn locks_decisions(&self) -> bool {
        false
    }

    /// Returns the name of the lock under which a write is stored, after the defaults and checks that depend on related
    /// objects were repeated. Writes of related objects that must agree with it take the same lock. None for a write
    /// that agrees with all others.
    fn decision_lock(&self, _new: &Value, _old: Option<&Value>) -> Option<String> {
        None
    }

    /// Returns the name of the lock under which a deletion is recorded, for the same reason.
    fn deletion_lock(&self, _object: &Value) -> Option<String> {
        None
    }

    /// Validates `new` against related objects. It runs last, on writes of the object itself.
    ///
    /// # Errors
    /// 503 if the related objects cannot be read.
    async fn validate_with(
        &self,
        _new: &Value,
        _old: Option<&Value>,
        _others: &dyn ObjectReader,
    ) -> ApiResult<Verdict> {
        Ok(Verdict::default())
    }

    /// Returns the reason to refuse a deletion while related objects exist.
    ///
    /// # Errors
    /// 503 if the related objects cannot be read.
    async fn refuse_deletion_with(
        &self,
        _object: &Value,
        _others: &dyn ObjectReader,
    ) -> ApiResult<Option<String>> {
        Ok(None)
    }

    /// Returns the reason to refuse a deletion by a person. Programs, such as controllers, may delete the object.
    ///
    /// # Errors
    /// 503 if the related objects cannot be read.
    async fn refuse_deletion_by_person(
        &self,
        _object: &Value,
        _others: &dyn ObjectReader,
    ) -> ApiResult<Option<String>> {
        Ok(None)
    }

    /// Returns the warnings for a client that deletes an object. It was deleted before, or its deletion is recorded.
    ///
    /// # Errors
    /// 503 if the related objects cannot be read.
    async fn deletion_warnings_with(
        &self,
        _object: &Value,
        _others: &dyn ObjectReader,
    ) -> ApiResult<Vec<String>> {
        Ok(Vec::new())
    }

    /// Returns the errors of the name of an object, or of a prefix of one.
    fn name_errors(&self, name: &str) -> Vec<String> {
        subdomain_errors(name)
    }

    /// Returns true if the server itself defines the objects of the kind, so that clients can only read them.
    fn is_read_only(&self) -> bool {
        false
    }

    /// Returns the objects of a read-only kind. `registry` has every kind of the server.
    fn fixed_objects(&self, _registry: &Registry) -> Vec<Value> {
        Vec::new()
    }

    /// Returns true if one request can delete all objects of the kind.
    fn deletes_collections(&self) -> bool {
        true
    }

    /// Returns true if a method here reads or writes the status of the object. Otherwise a write that leaves the status
    /// unchanged does not decode it, the methods get both objects without it, and a write of the status calls none of
    /// them.
    fn reads_status(&self) -> bool {
        false
    }

    /// Returns the reason to refuse the deletion of an object by any user.
    fn refuse_deletion(&self, _object: &Value) -> Option<&'static str> {
        None
    }

    /// Returns true if `spec.finalizers` delay the deletion of its objects like `metadata.finalizers`, and only the
    /// subresource `finalize` writes them. Namespaces do.
    fn has_spec_finalizers(&self) -> bool {
        false
    }

    /// Returns true if the kind has the subresource `approval`, which writes decisions in the status.
    fn has_approval(&self) -> bool {
        false
    }

    /// Restores what a write of the subresource `status` or `approval` may not change. Everything outside the status has
    /// been restored. Must not fail.
    fn settle_part(&self, _subresource: &str, _new: &mut Value, _old: &Value) {}

    /// Checks that the client may write a subresource of the object. Writes of the server itself skip it.
    ///
    /// # Errors
    /// 403 if the client lacks a permission; 503.
    async fn check_part(&self, _subresource: &str, _write: GrantingWrite<'_>) -> ApiResult<()> {
        Ok(())
    }

    /// Returns the amounts that the object uses of quotas, besides the number of objects. Their names begin with one of
    /// [`Strategy::quota_prefixes`]. The object may not have been validated, and an owner may account for it.
    fn quota_usage(&self, _object: &Value) -> Amounts {
        Amounts::default()
    }

    /// Returns the kinds whose objects account for the objects of this kind that they control. They use amounts of the
    /// same names.
    fn quota_owners(&self) -> &'static [QuotaOwner] {
        &[]
    }

    /// Returns the reason to refuse a new object because the limits of these names cannot be checked for it.
    fn quota_obstacle(&self, _object: &Value, _limited: &BTreeSet<&str>) -> Option<String> {
        None
    }

    /// Returns the beginnings of the names of the amounts that objects of the kind may use.
    fn quota_prefixes(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns true if an update of a missing object creates it.
    fn allow_create_on_update(&self) -> bool {
        false
    }

    /// Returns true if an update may omit the revision that it is based on.
    fn allow_unconditional_update(&self) -> bool {
        false
    }

    /// Returns the kind's own table. Without one, the columns of the resource define it.
    fn table(&self) -> Option<OwnTable> {
        None
    }

    /// Returns the fields of the kind's protobuf message, if the server decodes bodies in that form. It does for kinds
    /// that typed clients know.
    fn protobuf(&self) -> Option<&'static [protobuf::Field]> {
        None
    }
}

/// Table whose cells a kind computes itself, like those of Kubernetes' own kinds.
#[derive(Debug, Clone, Copy)]
pub struct OwnTable {
    /// All columns, the one for the name included.
    pub columns: &'static [OwnColumn],
    /// Returns the cells of an object at this time, one for each column.
    pub cells: fn(&Value, Timestamp) -> Vec<Value>,
}

/// Column of an [`OwnTable`]. Its type is always `string`, like upstream's.
#[derive(Debug, Clone, Copy)]
pub struct OwnColumn {
    /// Heading.
    pub name: &'static str,
    /// `name` for the column of names, else empty.
    pub format: &'static str,
    /// A column above 0 is shown only in wide output.
    pub priority: i32,
    /// Description.
    pub description: &'static str,
}

/// Strategy without defaults and rules.
#[derive(Debug, Clone, Copy, Default)]
pub struct Plain;

impl Strategy for Plain {}
