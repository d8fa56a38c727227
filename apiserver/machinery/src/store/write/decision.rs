//! Lock of a decision: a write that must agree with writes of other objects is stored under a lock that all of them take.
//!
//! All slow steps, such as webhooks, come before the lock. Under it, the checks that depend on related objects are
//! repeated, because these objects may have changed since.

use serde_json::Value;

use super::metadata_rules::Previous;
use super::related_objects::RelatedObjects;
use super::update::Target;
use crate::lock::Lock;
use crate::status::ApiResult;
use crate::store::{DeleteOptions, Kind, ObjectStore, WriteOptions};

/// Result of the checks under the lock.
#[derive(Debug)]
pub(crate) enum Agreement {
    /// The write agrees with the related objects, and can be stored while the lock is valid. A kind without a lock needs
    /// none.
    Agreed(Option<Lock>),
    /// A related object has changed, and gives the object other defaults. The write starts again.
    Changed,
}

impl ObjectStore {
    /// Takes the lock under which a write is stored, if its kind names one, and repeats the checks. A dry run needs none.
    ///
    /// # Errors
    /// The errors of the checks. 500 for an object that cannot be converted. 503 if the lock does not become free in time.
    pub(crate) async fn agree(
        &self,
        kind: Kind<'_>,
        new: &Value,
        before: Option<Previous<'_>>,
        target: Target,
        options: &WriteOptions,
    ) -> ApiResult<Agreement> {
        let strategy = &kind.stored.strategy;
        if target != Target::Object || options.dry_run || !strategy.locks_decisions() {
            return Ok(Agreement::Agreed(None));
        }
        let name = {
            let old = before.map(|before| kind.as_stored(before.object)).transpose()?;
            strategy.decision_lock(&*kind.as_stored(new)?, old.as_deref())
        };
        let Some(name) = name else { return Ok(Agreement::Agreed(None)) };
        let lock = self.lock(&name).await?;
        match self.has_same_defaults(kind, new, before, target).await {
            Ok(true) => Ok(Agreement::Agreed(Some(lock))),
            Ok(false) => {
                self.unlock(lock).await;
                Ok(Agreement::Changed)
            }
            Err(error) => {
                self.unlock(lock).await;
                Err(error)
            }
        }
    }

    /// Checks the object against related ones again. Returns false if they give it other defaults now.
    async fn has_same_defaults(
        &self,
        kind: Kind<'_>,
        new: &Value,
        before: Option<Previous<'_>>,
        target: Target,
    ) -> ApiResult<bool> {
        let related = RelatedObjects::by(self);
        let mut again = new.clone();
        related.default(kind, &mut again, before, target).await?;
        if again != *new {
            return Ok(false);
        }
        related.validate(kind, new, before, target).await?;
        Ok(true)
    }

    /// Takes the lock under which a deletion is recorded, if its kind names one, and repeats the check that related
    /// objects allow it. A dry run needs none.
    ///
    /// # Errors
    /// As [`ObjectStore::agree`].
    pub(crate) async fn agree_to_deletion(
        &self,
        kind: Kind<'_>,
        object: &Value,
        options: &DeleteOptions,
    ) -> ApiResult<Option<Lock>> {
        let strategy = &kind.stored.strategy;
        if options.dry_run || !strategy.locks_decisions() {
            return Ok(None);
        }
        let name = strategy.deletion_lock(&*kind.as_stored(object)?);
        let Some(name) = name else { return Ok(None) };
        let lock = self.lock(&name).await?;
        match self.check_undeletable(kind, object, options.is_by_person).await {
            Ok(()) => Ok(Some(lock)),
            Err(error) => {
                self.unlock(lock).await;
                Err(error)
            }
        }
    }
}
