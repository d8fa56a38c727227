//! Compiled expressions of an authenticator.

use std::sync::LazyLock;

use apiserver_schema::field_errors::{FieldError, FieldPath};
use apiserver_schema::{Expression, Schema};
use serde_json::{Value, json};

use super::{Authenticator, mappings, rules};

/// Variable with the claims of a token.
const CLAIMS: &str = "claims";

/// Variable with the mapped user.
const USER: &str = "user";

/// Schema of the claims: a map with values of any type.
static CLAIMS_SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    schema(&json!({"type": "object", "additionalProperties": {"x-kubernetes-preserve-unknown-fields": true}}))
});

/// Schema of the user.
static USER_SCHEMA: LazyLock<Schema> = LazyLock::new(|| {
    let texts = json!({"type": "array", "items": {"type": "string"}});
    schema(
        &json!({"type": "object", "properties": {"username": {"type": "string"}, "uid": {"type": "string"},
        "groups": texts, "extra": {"type": "object", "additionalProperties": texts}}}),
    )
});

// The schemas are constants, and the tests compile both.
fn schema(source: &Value) -> Schema {
    Schema::compile(source).unwrap_or_default()
}

/// Compiled expressions of an authenticator.
#[derive(Debug, Default)]
pub(crate) struct Expressions {
    pub(crate) username: Option<Expression>,
    pub(crate) groups: Option<Expression>,
    pub(crate) uid: Option<Expression>,
    /// Expressions with the keys of their values.
    pub(crate) extra: Vec<(String, Expression)>,
    /// Rules for the claims, with their messages.
    pub(crate) claim_rules: Vec<(Expression, String)>,
    /// Rules for the user, with their messages.
    pub(crate) user_rules: Vec<(Expression, String)>,
}

impl Expressions {
    /// Compiles the expressions, and checks the mappings and rules that they belong to.
    pub(super) fn compile(from: &Authenticator, path: &FieldPath, errors: &mut Vec<FieldError>) -> Self {
        let mut found = Self::default();
        let at = path.child("claimValidationRules");
        found.claim_rules = rules::of_claims(&from.claim_validation_rules, &at, errors);
        mappings::compile(&from.claim_mappings, &path.child("claimMappings"), &mut found, errors);
        let at = path.child("userValidationRules");
        found.user_rules = rules::of_user(&from.user_validation_rules, &at, errors);
        found
    }

    /// Returns true if a rule or a mapping looks at `email_verified`.
    pub(super) fn reads_email_verified(&self) -> bool {
        let rules = self.claim_rules.iter().map(|(rule, _)| rule);
        let extra = self.extra.iter().map(|(_, value)| value);
        self.username.iter().chain(rules).chain(extra).any(|it| it.selects("email_verified"))
    }
}

/// Compiles a mapping of the claims.
pub(super) fn mapping(source: &str, path: FieldPath, errors: &mut Vec<FieldError>) -> Option<Expression> {
    checked(Expression::value(source, CLAIMS, &CLAIMS_SCHEMA), source, path, errors)
}

/// Compiles a rule for the claims.
pub(super) fn claim_rule(source: &str, path: FieldPath, errors: &mut Vec<FieldError>) -> Option<Expression> {
    checked(Expression::condition(source, CLAIMS, &CLAIMS_SCHEMA), source, path, errors)
}

/// Compiles a rule for the user.
pub(super) fn user_rule(source: &str, path: FieldPath, errors: &mut Vec<FieldError>) -> Option<Expression> {
    checked(Expression::condition(source, USER, &USER_SCHEMA), source, path, errors)
}

fn checked(
    compiled: Result<Expression, String>,
    source: &str,
    path: FieldPath,
    errors: &mut Vec<FieldError>,
) -> Option<Expression> {
    compiled.map_err(|error| errors.push(FieldError::invalid(path, &json!(source), &error))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_variables_have_their_types() {
        for (source, is_good) in [
            ("user.username.startsWith('a')", true),
            ("user.groups.all(g, g != 'b') && user.uid == ''", true),
            ("user.extra['k'].exists(v, v == 'x')", true),
            ("user.name == 'a'", false),
            ("user.groups == 'a'", false),
            ("claims.sub == 'a'", false),
        ] {
            assert_eq!(Expression::condition(source, USER, &USER_SCHEMA).is_ok(), is_good, "{source}");
        }
        assert!(Expression::value("claims.any.thing", CLAIMS, &CLAIMS_SCHEMA).is_ok());
        assert!(Expression::value("user.username", CLAIMS, &CLAIMS_SCHEMA).is_err());
    }
}
