//! What is special about a kind between decoding a request and storing bytes.

use async_trait::async_trait;
use jiff::Timestamp;
use serde_json::Value;

use crate::admission::Creation;
use crate::metadata::subdomain_errors;
use crate::protobuf;
use crate::related::{Judgement, ObjectReader};
use crate::status::ApiResult;
use apiserver_schema::field_errors::FieldError;

/// A kind's own rules. The generic store calls them in the order they are written here, on the
/// decoded, pruned and defaulted object; `old` is the stored object, absent on create.
#[async_trait]
pub trait Strategy: Send + Sync + std::fmt::Debug + 'static {
    /// Asked first, of a request that creates an object and not of what the server creates by
    /// itself. May write into the object who asked. The object has not been checked for anything:
    /// what has the wrong shape is left for validation to refuse.
    ///
    /// # Errors
    /// 403 when the caller may not do what the object would bring about.
    async fn admit(&self, _new: &mut Value, _creation: &Creation<'_>) -> ApiResult<()> {
        Ok(())
    }

    /// Gives what a client sent the one form that the kind has: what is done here is the client's own doing, and its
    /// to own, but for an apply, of which the client owns what it said. Must not fail.
    fn decoded(&self, _new: &mut Value) {}

    /// Whether a null says as much as nothing, also where one is applied. So it is with kinds whose
    /// defaults upstream fills in by a webhook: that decodes the object, and has no nulls left.
    fn drops_nulls(&self) -> bool {
        false
    }

    /// Sets what clients need not set and restores what they may not change. Must not fail.
    fn prepare(&self, _new: &mut Value, _old: Option<&Value>) {}

    /// Whether [`Strategy::default_with`] does anything: objects are converted for it.
    fn defaults_with_related(&self) -> bool {
        false
    }

    /// Sets what other objects say clients need not set, on writes of the object itself. What is
    /// returned keeps it from being looked at any further. The object has not been checked for
    /// anything.
    ///
    /// # Errors
    /// 503 when the others could not be read.
    async fn default_with(
        &self,
        _new: &mut Value,
        _old: Option<&Value>,
        _others: &dyn ObjectReader,
    ) -> ApiResult<Vec<FieldError>> {
        Ok(Vec::new())
    }

    /// Every reason to refuse `new`; an empty list admits it. Schema and metadata have been
    /// checked before.
    fn validate(&self, _new: &Value, _old: Option<&Value>) -> Vec<FieldError> {
        Vec::new()
    }

    /// Whether a dry run of this update is let through without [`Strategy::validate`]: Cluster API's
    /// topology controller tries so what it could not do.
    fn is_exempt_in_dry_run(&self, _new: &Value) -> bool {
        false
    }

    /// What other objects have to say about `new`. Asked last, of writes of the object itself.
    ///
    /// # Errors
    /// 503 when the others could not be read.
    async fn validate_with(
        &self,
        _new: &Value,
        _old: Option<&Value>,
        _others: &dyn ObjectReader,
    ) -> ApiResult<Judgement> {
        Ok(Judgement::default())
    }

    /// Why an object may not be deleted while there are others.
    ///
    /// # Errors
    /// 503 when the others could not be read.
    async fn refuse_deletion_with(
        &self,
        _object: &Value,
        _others: &dyn ObjectReader,
    ) -> ApiResult<Option<String>> {
        Ok(None)
    }

    /// What is wrong with a name of an object, or with the beginning of one.
    fn name_errors(&self, name: &str) -> Vec<String> {
        subdomain_errors(name)
    }

    /// Whether all objects of the kind can be deleted with one request.
    fn deletes_collections(&self) -> bool {
        true
    }

    /// Returns true if a method here reads or writes the status of the object. Otherwise a write that leaves the status
    /// unchanged does not decode it, the methods get both objects without it, and a write of the status calls none of
    /// them.
    fn reads_status(&self) -> bool {
        false
    }

    /// Why an object may not be deleted by anybody, whatever their permission.
    fn refuse_deletion(&self, _object: &Value) -> Option<&'static str> {
        None
    }

    /// Whether `spec.finalizers` hold its objects as `metadata.finalizers` do, and are written
    /// through the subresource `finalize` alone: so it is with namespaces.
    fn has_spec_finalizers(&self) -> bool {
        false
    }

    /// Whether an update of what does not exist creates it.
    fn allow_create_on_update(&self) -> bool {
        false
    }

    /// Whether an update need not say which version it was made from.
    fn allow_unconditional_update(&self) -> bool {
        false
    }

    /// The kind's own table; without one, its columns are what its paths say.
    fn table(&self) -> Option<OwnTable> {
        None
    }

    /// The fields of the kind's protobuf message, when bodies in that form are read: those kinds
    /// are, that typed clients know.
    fn protobuf(&self) -> Option<&'static [protobuf::Field]> {
        None
    }
}

/// A table that a kind makes by itself, as those of Kubernetes' own kinds are: with cells that no path says.
#[derive(Debug, Clone, Copy)]
pub struct OwnTable {
    /// All of its columns; where the name stands is the kind's to say.
    pub columns: &'static [OwnColumn],
    /// The cells of an object at this time, one for each column.
    pub cells: fn(&Value, Timestamp) -> Vec<Value>,
}

/// A column of such a table. Its type is `string`, whatever the cells are: so it is upstream.
#[derive(Debug, Clone, Copy)]
pub struct OwnColumn {
    /// What stands above it.
    pub name: &'static str,
    /// `name` for the column of names, else nothing.
    pub format: &'static str,
    /// Above 0 it is shown only to who wants it wide.
    pub priority: i32,
    /// What it says.
    pub description: &'static str,
}

/// A kind without rules of its own.
#[derive(Debug, Clone, Copy, Default)]
pub struct Plain;

impl Strategy for Plain {}
