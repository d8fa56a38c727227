//! Admission of a write by configurations: the object in the form that they see, and their changes to it.

use apiserver_schema::field_errors::FieldPath;
use apiserver_structured_merge::{Entries, parse_sets, serialize_sets};
use serde_json::Value;

use crate::admission_control::{AdmittedWrite, Operation, RequestAdmission};
use crate::object;
use crate::resource::Scale;
use crate::scale;
use crate::status::{ApiError, ApiResult};
use crate::store::{Kind, Target, WriteOptions};

/// One write, and the part of the object that it is for.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Admitted<'a> {
    pub(crate) kind: Kind<'a>,
    pub(crate) namespace: &'a str,
    pub(crate) target: Target,
    /// Set for the subresource `scale`: configurations see a Scale.
    pub(crate) scale: Option<&'a Scale>,
    /// Stored object; none on create.
    pub(crate) old: Option<&'a Value>,
}

impl Admitted<'_> {
    /// Lets configurations change the object. Returns true if one did.
    pub(crate) async fn mutate(&self, new: &mut Value, options: &WriteOptions) -> ApiResult<bool> {
        let Some(admission) = &options.admission else { return Ok(false) };
        let (sent, old) = (self.shown(new)?, self.old.map(|old| self.shown(old)).transpose()?);
        let write = self.write(new, old.as_ref(), options.dry_run);
        let Some(changed) = admission.mutate(write, Some(&sent)).await? else { return Ok(false) };
        for field in ["apiVersion", "kind"] {
            if changed.get(field) != sent.get(field) {
                let why = format!("an admission configuration changes {field}, which is not possible");
                return Err(ApiError::internal(why));
            }
        }
        *new = match self.scale {
            Some(scale) => scale::carry_over(scale, new, &changed),
            None => self.read(changed, new, admission.as_ref()),
        };
        Ok(true)
    }

    /// Lets configurations check the object.
    pub(crate) async fn validate(&self, new: &Value, options: &WriteOptions) -> ApiResult<()> {
        let Some(admission) = &options.admission else { return Ok(()) };
        let (shown, old) = (self.shown(new)?, self.old.map(|old| self.shown(old)).transpose()?);
        admission.validate(self.write(new, old.as_ref(), options.dry_run), Some(&shown)).await
    }

    fn write<'b>(&'b self, new: &'b Value, old: Option<&'b Value>, dry_run: bool) -> AdmittedWrite<'b> {
        let resource = self.kind.resource.as_ref();
        let operation = if old.is_some() { Operation::Update } else { Operation::Create };
        let (kind, subresource) = match self.scale {
            Some(_) => ((scale::GROUP, scale::VERSION, scale::KIND), "scale"),
            None => (
                (resource.group.as_str(), resource.version.as_str(), resource.kind.as_str()),
                self.target.subresource(),
            ),
        };
        let namespace = if resource.namespaced { self.namespace } else { "" };
        let name = object::name(self.old.unwrap_or(new));
        AdmittedWrite { operation, resource, kind, subresource, namespace, name, old, dry_run }
    }

    /// Returns an object as configurations see it.
    fn shown(&self, object: &Value) -> ApiResult<Value> {
        if let Some(scale) = self.scale {
            return scale::shown(scale, object);
        }
        let mut object = object.clone();
        parse_sets(&mut object);
        Ok(object)
    }

    /// Returns a changed object in the form of a write. Field managers that cannot be decoded any more are those from
    /// before the change.
    fn read(&self, mut changed: Value, before: &Value, admission: &dyn RequestAdmission) -> Value {
        object::whole_numbers(&mut changed);
        self.kind.resource.schema.prune(&mut changed, &FieldPath::default());
        let decoded = Entries::decode(object::at(&changed, "metadata.managedFields"));
        serialize_sets(&mut changed);
        if let Err(error) = decoded {
            admission.warn(format!(
                ".metadata.managedFields was in an invalid state after admission; this could be caused by an outdated \
                 mutating admission controller; please fix your requests: {error}"
            ));
            // They are serialized already.
            match object::at(before, "metadata.managedFields") {
                Some(managers) => object::set_meta(&mut changed, "managedFields", managers.clone()),
                None => object::remove_meta(&mut changed, "managedFields"),
            }
        }
        changed
    }
}

/// Lets configurations decide about a deletion.
pub(crate) async fn admit_deletion(
    kind: Kind<'_>,
    old: &Value,
    dry_run: bool,
    admission: Option<&dyn RequestAdmission>,
) -> ApiResult<()> {
    let Some(admission) = admission else { return Ok(()) };
    let mut old = old.clone();
    parse_sets(&mut old);
    let resource = kind.resource.as_ref();
    let write = AdmittedWrite {
        operation: Operation::Delete,
        resource,
        kind: (&resource.group, &resource.version, &resource.kind),
        subresource: "",
        namespace: object::namespace(&old),
        name: object::name(&old),
        old: Some(&old),
        dry_run,
    };
    admission.mutate(write, None).await?;
    admission.validate(write, None).await
}
