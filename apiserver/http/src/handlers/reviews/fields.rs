//! Check of a review's fields, in the words of upstream's decoder. A misspelled field would change the question without a
//! word.

use apiserver_machinery::protobuf::{self, Field, WrongType};
use apiserver_machinery::reviews::{Review, VERSION};
use apiserver_machinery::status::{ApiError, ApiResult};
use apiserver_machinery::store::FieldValidation;
use serde_json::{Map, Value};

/// Fields of each object. Those that the table of a review does not have are not checked.
const OF_ALL: [&str; 3] = ["apiVersion", "kind", "metadata"];

/// Removes the fields that a review does not have. Returns warnings about them, after those of its `texts`.
///
/// # Errors
/// 400 for a value of another type; with strict `validation`, for each of the texts.
pub(super) fn check(
    review: &Review,
    question: &mut Map<String, Value>,
    fields: &[Field],
    mut texts: Vec<String>,
    validation: FieldValidation,
) -> ApiResult<Vec<String>> {
    let kept = OF_ALL.map(|name| question.remove_entry(name));
    // The answer has another one.
    question.remove("status");
    let unknown = protobuf::prune(question, fields).map_err(|wrong| of_type(review, &wrong))?;
    question.extend(kept.into_iter().flatten());
    texts.extend(unknown.iter().map(|path| format!("unknown field \"{path}\"")));
    match validation {
        FieldValidation::Strict if !texts.is_empty() => {
            Err(undecodable(review, &format!("strict decoding error: {}", texts.join(", "))))
        }
        FieldValidation::Strict | FieldValidation::Warn => Ok(texts),
        FieldValidation::Ignore => Ok(Vec::new()),
    }
}

fn undecodable(review: &Review, why: &str) -> ApiError {
    let kind = review.kind;
    ApiError::bad_request(format!("{kind} in version \"{VERSION}\" cannot be handled as a {kind}: {why}"))
}

fn of_type(review: &Review, WrongType { path, found, wanted }: &WrongType) -> ApiError {
    let names: Vec<&str> = path.split('.').map(|name| name.split('[').next().unwrap_or(name)).collect();
    let mut ends = names.iter().rev().copied();
    let (field, parent) = (ends.next().unwrap_or_default(), ends.next().unwrap_or_default());
    let wanted = if wanted.is_empty() {
        format!("v1.{}", message_of(review, field, path))
    } else {
        (*wanted).to_owned()
    };
    let (message, path) = (message_of(review, parent, path), names.join("."));
    let why =
        format!("json: cannot unmarshal {found} into Go struct field {message}.{path} of type {wanted}");
    undecodable(review, &why)
}

/// Returns upstream's name of the message in a field.
fn message_of(review: &Review, field: &str, path: &str) -> String {
    let of_labels = path.contains(".labelSelector");
    match field {
        "" => review.kind.to_owned(),
        "spec" => format!("{}Spec", review.kind.strip_prefix("Local").unwrap_or(review.kind)),
        "resourceAttributes" => "ResourceAttributes".to_owned(),
        "nonResourceAttributes" => "NonResourceAttributes".to_owned(),
        "requirements" if of_labels => "LabelSelectorRequirement".to_owned(),
        "requirements" => "FieldSelectorRequirement".to_owned(),
        _ if of_labels => "LabelSelectorAttributes".to_owned(),
        _ => "FieldSelectorAttributes".to_owned(),
    }
}
