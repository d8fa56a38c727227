//! Options of a deletion.

use serde_json::{Value, json};

use crate::metadata::word;
use crate::status::{ApiError, ApiResult};
use apiserver_schema::field_errors::{FieldError, FieldPath};

/// Name of the option with which an object can be deleted that cannot be read.
pub(super) const IGNORES_READ_ERRORS: &str = "ignoreStoreReadErrorWithClusterBreakingPotential";

/// Kind that errors name.
const KIND: &str = "DeleteOptions.meta.k8s.io";

/// Options that have no meaning for an object that cannot be read.
const OF_READABLE: [&str; 5] =
    ["dryRun", "propagationPolicy", "orphanDependents", "gracePeriodSeconds", "preconditions"];

/// Propagation policy: the treatment of dependents.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Propagation {
    /// They are deleted afterwards.
    Background,
    /// They are deleted first.
    Foreground,
    /// They stay, without the owner reference.
    Orphan,
}

/// `metav1.DeleteOptions`, decoded.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct DeleteOptions {
    /// The propagation policy; `None` is background.
    pub propagation: Option<Propagation>,
    /// True for the old `orphanDependents: false`, whose clients get 202 for a deletion that is not complete.
    pub cascades: bool,
    /// Precondition: the uid.
    pub uid: Option<String>,
    /// Precondition: the revision.
    pub resource_version: Option<String>,
    /// If true, nothing is deleted.
    pub dry_run: bool,
    /// True for the deletion of an object that cannot be read, which is another call:
    /// [`ObjectStore::delete_unreadable`](crate::store::ObjectStore::delete_unreadable).
    pub ignores_read_errors: bool,
    /// True if a person sends the request, and not a program. Default: false. No client sets it.
    pub is_by_person: bool,
}

/// Go type of a field, which errors name.
#[derive(Clone, Copy)]
struct Type {
    name: &'static str,
    is: fn(&Value) -> bool,
}

const TEXT: Type = Type { name: "string", is: Value::is_string };
const UID: Type = Type { name: "types.UID", is: Value::is_string };
const POLICY: Type = Type { name: "v1.DeletionPropagation", is: Value::is_string };
const FLAG: Type = Type { name: "bool", is: Value::is_boolean };
const NUMBER: Type = Type { name: "int64", is: Value::is_i64 };
const TEXTS: Type = Type { name: "[]string", is: Value::is_array };
const PRECONDITIONS: Type = Type { name: "v1.Preconditions", is: Value::is_object };

impl DeleteOptions {
    /// Decodes a body, or the query parameters of the same names.
    ///
    /// # Errors
    /// 400 for another kind and for a value of another type; 422 for an unsupported value: a precondition that cannot
    /// be decoded must not be dropped.
    pub fn from_value(value: &Value) -> ApiResult<Self> {
        if value.is_null() {
            return Ok(Self::default());
        }
        check_kind(value)?;
        let field = |name, wanted| typed(value, "DeleteOptions", name, wanted);
        field("gracePeriodSeconds", NUMBER)?;
        let ignores_read_errors = field(IGNORES_READ_ERRORS, FLAG)?.and_then(Value::as_bool) == Some(true);
        let policy = field("propagationPolicy", POLICY)?;
        let orphan = field("orphanDependents", FLAG)?.and_then(Value::as_bool);
        let dry_run = field("dryRun", TEXTS)?.and_then(Value::as_array);
        for each in dry_run.into_iter().flatten() {
            check_type(each, "DeleteOptions.dryRun", TEXT)?;
        }
        let preconditions = field("preconditions", PRECONDITIONS)?.unwrap_or(&Value::Null);
        let precondition = |name, wanted| {
            let found = typed(preconditions, "Preconditions.preconditions", name, wanted)?;
            Ok::<_, ApiError>(found.and_then(Value::as_str).map(str::to_owned))
        };
        let (uid, resource_version) = (precondition("uid", UID)?, precondition("resourceVersion", TEXT)?);
        let mut errors = Vec::new();
        let propagation = propagation(policy, orphan, &mut errors);
        if let Some(list) = dry_run.filter(|list| list.iter().any(|each| each != "All")) {
            errors.push(FieldError::not_supported(FieldPath::new("dryRun"), &json!(list), &["All"]));
        }
        if ignores_read_errors {
            errors.extend(others(value));
        }
        if !errors.is_empty() {
            return Err(ApiError::invalid_kind(KIND, "", &errors));
        }
        let dry_run = dry_run.is_some_and(|list| !list.is_empty());
        let cascades = orphan == Some(false);
        let is_by_person = false;
        Ok(Self { propagation, cascades, uid, resource_version, dry_run, ignores_read_errors, is_by_person })
    }

    /// Checks that the options are possible for a collection.
    ///
    /// # Errors
    /// 422 for the option of objects that cannot be read: an object must be named that is lost without a trace.
    pub(super) fn check_collection(&self) -> ApiResult<()> {
        if !self.ignores_read_errors {
            return Ok(());
        }
        let detail = "is not allowed with DELETECOLLECTION, try again after removing the option";
        let error = FieldError::invalid(FieldPath::new(IGNORES_READ_ERRORS), &json!(true), detail);
        Err(ApiError::invalid_kind(KIND, "", &[error]))
    }
}

/// Returns the errors of the options that exclude the one of objects that cannot be read.
fn others(value: &Value) -> impl Iterator<Item = FieldError> {
    let is_set = |name: &str| match value.get(name) {
        None | Some(Value::Null) => false,
        Some(Value::Array(list)) => !list.is_empty(),
        Some(Value::Object(fields)) => !fields.is_empty(),
        Some(_) => true,
    };
    let set = OF_READABLE.into_iter().filter(move |name| is_set(name));
    set.map(|name| {
        let detail = format!("cannot be set together with .{name}");
        FieldError::invalid(FieldPath::new(IGNORES_READ_ERRORS), &json!(true), &detail)
    })
}

fn check_kind(value: &Value) -> ApiResult<()> {
    if !value.is_object() {
        return Err(ApiError::bad_request(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go value of type struct {{ APIVersion \
             string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }}",
            word(value)
        )));
    }
    let Some(kind) = value.get("kind") else {
        return Ok(());
    };
    match kind.as_str() {
        Some("" | "DeleteOptions") => Ok(()),
        Some(_) => {
            Err(ApiError::bad_request("the object provided is unrecognized (must be of type DeleteOptions)"))
        }
        None => Err(ApiError::bad_request(format!(
            "couldn't get version/kind; json parse error: json: cannot unmarshal {} into Go struct field .kind of type \
             string",
            word(kind)
        ))),
    }
}

fn propagation(
    policy: Option<&Value>,
    orphan: Option<bool>,
    errors: &mut Vec<FieldError>,
) -> Option<Propagation> {
    let Some(policy) = policy else {
        return orphan.map(|orphan| if orphan { Propagation::Orphan } else { Propagation::Background });
    };
    let field = || FieldPath::new("propagationPolicy");
    if orphan.is_some() {
        let detail = "orphanDependents and deletionPropagation cannot be both set";
        errors.push(FieldError::invalid(field(), policy, detail));
    }
    match policy.as_str() {
        Some("Background") => Some(Propagation::Background),
        Some("Foreground") => Some(Propagation::Foreground),
        Some("Orphan") => Some(Propagation::Orphan),
        _ => {
            let supported = ["Foreground", "Background", "Orphan", "nil"];
            errors.push(FieldError::not_supported(field(), policy, &supported));
            None
        }
    }
}

/// Returns the field if it is present and not null.
fn typed<'a>(value: &'a Value, within: &str, name: &str, wanted: Type) -> ApiResult<Option<&'a Value>> {
    let Some(found) = value.get(name).filter(|found| !found.is_null()) else {
        return Ok(None);
    };
    check_type(found, &format!("{within}.{name}"), wanted)?;
    Ok(Some(found))
}

fn check_type(found: &Value, field: &str, wanted: Type) -> ApiResult<()> {
    if (wanted.is)(found) {
        return Ok(());
    }
    let found = match found {
        Value::Number(number) if wanted.name == NUMBER.name => format!("number {number}"),
        other => word(other).to_owned(),
    };
    Err(ApiError::bad_request(format!(
        "json: cannot unmarshal {found} into Go struct field {field} of type {}",
        wanted.name
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_wrong_types_are_refused() {
        let cases = [
            (
                json!({"preconditions": "x"}),
                "string into Go struct field DeleteOptions.preconditions of type v1.Preconditions",
            ),
            (
                json!({"preconditions": {"uid": 5}}),
                "number into Go struct field Preconditions.preconditions.uid of type types.UID",
            ),
            (
                json!({"gracePeriodSeconds": 5.5}),
                "number 5.5 into Go struct field DeleteOptions.gracePeriodSeconds of type int64",
            ),
            (
                json!({"orphanDependents": "x"}),
                "string into Go struct field DeleteOptions.orphanDependents of type bool",
            ),
            (json!({"dryRun": "All"}), "string into Go struct field DeleteOptions.dryRun of type []string"),
        ];
        for (value, own_writes) in cases {
            let error = DeleteOptions::from_value(&value).unwrap_err();
            assert_eq!((error.code, error.message), (400, format!("json: cannot unmarshal {own_writes}")));
        }
        for value in [json!({"propagationPolicy": ""}), json!({"dryRun": ["All", "x"]})] {
            assert_eq!(DeleteOptions::from_value(&value).unwrap_err().code, 422, "{value}");
        }
    }

    #[test]
    fn the_option_of_unreadable_objects_excludes_all_others() {
        let of = |mut value: Value| {
            value[IGNORES_READ_ERRORS] = json!(true);
            DeleteOptions::from_value(&value)
        };
        assert!(of(json!({"dryRun": [], "preconditions": {}})).unwrap().ignores_read_errors);
        for value in [
            json!({"dryRun": ["All"]}),
            json!({"propagationPolicy": "Background"}),
            json!({"orphanDependents": false}),
            json!({"gracePeriodSeconds": 0}),
            json!({"preconditions": {"uid": "u"}}),
        ] {
            let error = of(value.clone()).unwrap_err();
            assert!(error.code == 422 && error.message.contains("cannot be set together with ."), "{value}");
        }
    }

    #[test]
    fn null_options_are_absent() {
        let nothing = json!({"propagationPolicy": null, "preconditions": null, "dryRun": null, "zz": 1});
        assert_eq!(DeleteOptions::from_value(&nothing).unwrap(), DeleteOptions::default());
        let old = DeleteOptions::from_value(&json!({"orphanDependents": false})).unwrap();
        assert!(old.cascades && old.propagation == Some(Propagation::Background));
    }
}
