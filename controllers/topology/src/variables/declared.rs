//! Check of the variables that an extension server declares. Admission checks those of a class itself.

use std::collections::HashSet;

use apiserver_types::ClusterClassVariable;
use serde_json::Value;

use super::schema;

/// Longest name of a variable. Unit: bytes.
const LONGEST_NAME: usize = 256;

/// Name of the built-in variables.
const BUILTIN: &str = "builtin";

/// Checks names and schemas, so that values can be validated by them.
///
/// # Errors
/// One text for each wrong variable. For people.
pub fn check_declared(variables: &[ClusterClassVariable]) -> Result<(), Vec<String>> {
    let mut names = HashSet::new();
    let wrong = |variable: &ClusterClassVariable| {
        let name = variable.name.as_str();
        let problem = match names.insert(name.to_owned()) {
            true => of_name(name).or_else(|| of_schema(variable)),
            false => Some("it is declared more than once".to_owned()),
        };
        problem.map(|problem| format!("variable {name:?}: {problem}"))
    };
    let problems: Vec<String> = variables.iter().filter_map(wrong).collect();
    if problems.is_empty() { Ok(()) } else { Err(problems) }
}

fn of_name(name: &str) -> Option<String> {
    if name.is_empty() || name.len() > LONGEST_NAME {
        return Some(format!("its name must have 1 to {LONGEST_NAME} characters"));
    }
    if name == BUILTIN {
        return Some("the name is that of the built-in variables".to_owned());
    }
    name.contains('.').then(|| "its name cannot contain \".\"".to_owned())
}

fn of_schema(variable: &ClusterClassVariable) -> Option<String> {
    let schema = match serde_json::to_value(&variable.schema.open_api_v3_schema) {
        Ok(schema) => schema,
        Err(error) => return Some(format!("its schema cannot be read: {error}")),
    };
    let compiled = match schema::compile(&schema) {
        Ok(compiled) => compiled,
        Err(problem) => return Some(format!("its schema is not valid: {problem}")),
    };
    let default = schema.get("default").filter(|default| !default.is_null())?;
    let mut filled: Value = default.clone();
    compiled.fill_in_defaults(&mut filled);
    let errors = compiled.shape_errors(&filled);
    errors.first().map(|error| format!("its default does not match its schema: {error}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn problems(variables: &Value) -> Vec<String> {
        let variables: Vec<ClusterClassVariable> = serde_json::from_value(variables.clone()).unwrap();
        check_declared(&variables).err().unwrap_or_default()
    }

    fn variable(name: &str, schema: &Value) -> Value {
        json!({"name": name, "required": false, "schema": {"openAPIV3Schema": schema}})
    }

    #[test]
    fn declared_variables_need_names_and_schemas_that_can_be_used() {
        let text = json!({"type": "string"});
        let fine =
            json!({"type": "object", "default": {}, "properties": {"a": {"type": "integer", "default": 1}}});
        assert_eq!(problems(&json!([variable("a", &text), variable("b", &fine)])), [""; 0]);
        for (variables, expected) in [
            (json!([variable("", &text)]), "variable \"\": its name must have"),
            (json!([variable("builtin", &text)]), "that of the built-in variables"),
            (json!([variable("a.b", &text)]), "cannot contain \".\""),
            (json!([variable("a", &text), variable("a", &text)]), "\"a\": it is declared more than once"),
            (json!([variable("a", &json!({"type": "string", "pattern": "("}))]), "its schema is not valid"),
            (json!([variable("a", &json!({"type": "string", "default": 1}))]), "its default does not match"),
        ] {
            let found = problems(&variables);
            assert!(found.len() == 1 && found[0].contains(expected), "{variables}: {found:?}");
        }
    }
}
