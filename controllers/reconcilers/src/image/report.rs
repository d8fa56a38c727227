//! Status of an Image.

use apiserver_types::{
    Condition, ConditionStatus, Image, ImageResourceStatus, ImageStatus, Time, set_condition,
};
use controllers_runtime::ReconcileError;

use super::decide::Outcome;

/// Status and reason of both conditions.
struct Words {
    available: ConditionStatus,
    progressing: ConditionStatus,
    reason: &'static str,
    message: String,
}

/// Writes the status after a look at the cloud, or after an error. An image that was found once keeps its id.
pub(super) fn report(object: &mut Image, found: Result<&Outcome, &ReconcileError>, now: &Time) {
    let mut status = object.status.take().unwrap_or_default();
    let words = words(&mut status, found);
    let generation = object.metadata.generation;
    let mut conditions = status.conditions.take().unwrap_or_default();
    for (kind, state) in [("Available", words.available), ("Progressing", words.progressing)] {
        let condition = Condition::new(kind, state, words.reason, &words.message, now.clone());
        set_condition(&mut conditions, condition.at_generation(generation));
    }
    status.conditions = Some(conditions);
    object.status = Some(status);
}

fn words(status: &mut ImageStatus, found: Result<&Outcome, &ReconcileError>) -> Words {
    use ConditionStatus::{False, True};
    let known = if status.id.is_some() { True } else { False };
    match found {
        Ok(Outcome::Found(image)) => {
            status.id = Some(image.id.clone());
            status.resource = Some(ImageResourceStatus {
                name: Some(image.name.clone()),
                status: Some(image.status.clone()),
                visibility: Some(image.visibility.clone()).filter(|text| !text.is_empty()),
                tags: Some(image.tags.clone()).filter(|tags| !tags.is_empty()),
                ..ImageResourceStatus::default()
            });
            let message = "the image can be used".to_owned();
            Words { available: True, progressing: False, reason: "Success", message }
        }
        Ok(Outcome::Failed(text)) => {
            status.id = None;
            let message = text.clone();
            Words { available: False, progressing: False, reason: "UnrecoverableError", message }
        }
        Ok(Outcome::Create | Outcome::Import(_)) => {
            let message = "the image is being created".to_owned();
            Words { available: False, progressing: True, reason: "Progressing", message }
        }
        Ok(Outcome::Waiting(text) | Outcome::Importing(text)) => {
            status.id = None;
            let message = text.clone();
            Words { available: False, progressing: True, reason: "Progressing", message }
        }
        Ok(Outcome::Ambiguous(text)) => {
            status.id = None;
            let message = text.clone();
            Words { available: False, progressing: False, reason: "InvalidConfiguration", message }
        }
        Err(error) => {
            let message = error.to_string();
            Words { available: known, progressing: True, reason: "TransientError", message }
        }
    }
}
