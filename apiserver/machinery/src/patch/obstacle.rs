//! Errors of applying a patch, for those who wrote it and did not see the object: authors of policies and webhooks.

use super::operation::Operation;
use crate::status::ApiError;

/// Error of applying a patch. The text names the operation, and never its value: that can be secret.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Obstacle {
    /// The place of a `test` is in the object, with another value.
    #[error("{0}: the object has another value there")]
    FailedTest(String),
    /// An operation cannot be carried out.
    #[error("{0}: the object has no such place")]
    NoPlace(String),
    /// There is no operation with this name.
    #[error("{0}: there is no such operation")]
    NoOperation(String),
    /// The patch is invalid, exceeds a limit, or leaves no object.
    #[error(transparent)]
    Refused(#[from] ApiError),
}

impl Obstacle {
    /// Returns the error of an operation that could not change this document.
    pub(super) fn of(index: usize, operation: &Operation, document: &mut serde_json::Value) -> Self {
        let named = format!("patch[{index}] ({operation})");
        if !operation.is_known() {
            Self::NoOperation(named)
        } else if operation.is_failed_test(document) {
            Self::FailedTest(named)
        } else {
            Self::NoPlace(named)
        }
    }
}

impl From<Obstacle> for ApiError {
    /// Clients get upstream's answer, which does not name the operation.
    fn from(obstacle: Obstacle) -> Self {
        match obstacle {
            Obstacle::Refused(error) => error,
            Obstacle::FailedTest(_) | Obstacle::NoPlace(_) | Obstacle::NoOperation(_) => {
                Self::unprocessable_patch()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::field_validation::FieldValidation;
    use crate::patch::Patch;

    fn obstacle(operation: &Value) -> Obstacle {
        let object = json!({"kind": "K", "l": [1], "t": "secret"});
        let first = json!({"op": "test", "path": "/kind", "value": "K"});
        Patch::json(json!([first, operation]), &[], FieldValidation::Ignore).attempt(&object).unwrap_err()
    }

    #[test]
    fn an_obstacle_names_the_operation_and_no_values() {
        let table = [
            (
                json!({"op": "replace", "path": "/a/b", "value": "s3cret"}),
                "patch[1] (replace \"/a/b\"): the object has no such place",
            ),
            (
                json!({"op": "move", "from": "/a", "path": "/b"}),
                "patch[1] (move \"/a\" to \"/b\"): the object has no such place",
            ),
            (json!({"op": "swap", "path": "/t"}), "patch[1] (swap \"/t\"): there is no such operation"),
            (json!({"op": "add"}), "patch[1] (add \"\"): the object has no such place"),
            (
                json!({"op": "test", "path": "/t", "value": "s3cret"}),
                "patch[1] (test \"/t\"): the object has another value there",
            ),
        ];
        for (operation, text) in table {
            let found = obstacle(&operation);
            assert_eq!(found.to_string(), text);
            assert_eq!(ApiError::from(found), ApiError::unprocessable_patch());
        }
    }

    #[test]
    fn only_a_test_of_a_place_in_the_object_is_a_failed_test() {
        for path in ["/t", "/l/0", "/absent", ""] {
            let found = obstacle(&json!({"op": "test", "path": path, "value": 7}));
            assert!(matches!(found, Obstacle::FailedTest(_)), "{path:?}: {found}");
        }
        for path in ["/absent/deeper", "/t/x", "/l/1", "/l/x", "l"] {
            let found = obstacle(&json!({"op": "test", "path": path, "value": 7}));
            assert!(matches!(found, Obstacle::NoPlace(_)), "{path:?}: {found}");
        }
        let deep = json!({"op": "remove", "path": "/kind"});
        assert!(matches!(obstacle(&deep), Obstacle::Refused(_)), "the result has no kind");
    }
}
