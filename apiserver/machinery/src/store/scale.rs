//! The subresource `scale`: one number of the object, written as any other update.

use serde_json::Value;

use super::{Kind, ObjectStore, Target, WriteOptions, Written};
use crate::resource::Scale;
use crate::scale;
use crate::status::ApiResult;

impl ObjectStore {
    /// Writes the Scale that `change` makes of the present one; the answer's object is the Scale.
    ///
    /// # Errors
    /// What `change` refuses; else as updates do: 400, 404, 409, 422, 503.
    pub async fn scale(
        &self,
        kind: Kind<'_>,
        scale: &Scale,
        namespace: &str,
        name: &str,
        options: WriteOptions,
        mut change: impl FnMut(&Value) -> ApiResult<Value> + Send,
    ) -> ApiResult<Written> {
        let change = |old: &Value| {
            let wanted = change(&scale::of(scale, old)?.0)?;
            Ok(scale::carry_over(scale, old, &wanted))
        };
        let written = self.modify(kind, namespace, name, Target::Object, options.dry_run, change).await?;
        Ok(Written { object: scale::shown(scale, &written.object)?, warnings: written.warnings })
    }
}
