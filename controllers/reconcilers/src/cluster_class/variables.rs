//! Variables of a class from all sources: its own, and those that the servers of its external patches declare. Pure.

use std::collections::BTreeMap;

use apiserver_types::{
    ClusterClass, ClusterClassStatusVariable, ClusterClassVariable, ClusterClassVariableDefinition,
};
use controllers_topology::variables::check_declared;

/// Source of a variable that the class itself defines.
const INLINE: &str = "inline";

/// Most variables in a status.
const MOST_VARIABLES: usize = 1000;

/// Most definitions of a variable in a status.
const MOST_DEFINITIONS: usize = 100;

/// Answer of the server of an external patch.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Declared {
    /// Name of the patch.
    pub patch: String,
    /// Variables, or why there is no answer. For people.
    pub variables: Result<Vec<ClusterClassVariable>, String>,
}

/// Returns the variables of a class by name, with the definitions of all sources.
///
/// # Errors
/// A server gave no variables that can be used. One line for each problem, for people.
pub(super) fn collect(
    class: &ClusterClass,
    declared: &[Declared],
) -> Result<Vec<ClusterClassStatusVariable>, String> {
    let mut definitions: BTreeMap<&str, Vec<ClusterClassVariableDefinition>> = BTreeMap::new();
    let mut problems = Vec::new();
    for variable in class.spec.variables.iter().flatten() {
        definitions.entry(&variable.name).or_default().push(definition(INLINE, variable));
    }
    for Declared { patch, variables } in declared {
        let checked = match variables {
            Ok(variables) => check_declared(variables).map(|()| variables),
            Err(problem) => Err(vec![problem.clone()]),
        };
        match checked {
            Ok(variables) => {
                for variable in variables {
                    definitions.entry(&variable.name).or_default().push(definition(patch, variable));
                }
            }
            Err(found) => {
                problems.extend(found.into_iter().map(|problem| format!("patch {patch:?}: {problem}")));
            }
        }
    }
    if definitions.len() > MOST_VARIABLES {
        problems.push(format!("there are more than {MOST_VARIABLES} variables"));
    }
    let crowded = definitions.iter().filter(|(_, of)| of.len() > MOST_DEFINITIONS);
    problems.extend(
        crowded.map(|(name, _)| format!("variable {name:?} has more than {MOST_DEFINITIONS} definitions")),
    );
    if !problems.is_empty() {
        return Err(problems.join("\n"));
    }
    Ok(definitions.into_iter().map(|(name, definitions)| variable(name, definitions)).collect())
}

fn definition(from: &str, variable: &ClusterClassVariable) -> ClusterClassVariableDefinition {
    ClusterClassVariableDefinition {
        from: from.to_owned(),
        required: variable.required,
        schema: variable.schema.clone(),
        deprecated_v1_beta1_metadata: variable.deprecated_v1_beta1_metadata.clone(),
    }
}

fn variable(name: &str, definitions: Vec<ClusterClassVariableDefinition>) -> ClusterClassStatusVariable {
    let first = definitions.first().cloned().unwrap_or_default();
    let is_same = |it: &ClusterClassVariableDefinition| {
        *it == ClusterClassVariableDefinition { from: it.from.clone(), ..first.clone() }
    };
    let definitions_conflict = Some(!definitions.iter().all(is_same));
    ClusterClassStatusVariable { name: name.to_owned(), definitions, definitions_conflict }
}

/// Describes the variables whose definitions differ. `None` if there are none.
pub(super) fn conflict(variables: &[ClusterClassStatusVariable]) -> Option<String> {
    let differing = variables.iter().filter(|variable| variable.definitions_conflict == Some(true));
    let lines: Vec<String> = differing
        .map(|variable| {
            let sources: Vec<&str> = variable.definitions.iter().map(|it| it.from.as_str()).collect();
            format!("{} (of {})", variable.name, sources.join(", "))
        })
        .collect();
    (!lines.is_empty()).then(|| {
        format!(
            "variables with conflicting definitions: {}. All definitions of a variable must be the same. \
             Change the class, or the extension servers",
            lines.join("; ")
        )
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn class(variables: &Value) -> ClusterClass {
        let reference = json!({"templateRef": {"apiVersion": "a/v1", "kind": "FooTemplate", "name": "t"}});
        let spec = json!({"infrastructure": reference, "controlPlane": reference, "variables": variables});
        ClusterClass::new("c", serde_json::from_value(spec).unwrap())
    }

    fn entry(name: &str, required: bool, kind: &str) -> Value {
        json!({"name": name, "required": required, "schema": {"openAPIV3Schema": {"type": kind}}})
    }

    fn declared(patch: &str, variables: &Value) -> Declared {
        let variables = Ok(serde_json::from_value(variables.clone()).unwrap());
        Declared { patch: patch.to_owned(), variables }
    }

    #[test]
    fn the_definitions_of_all_sources_are_kept_and_must_be_the_same() {
        let class = class(&json!([entry("size", true, "integer"), entry("own", false, "string")]));
        let servers = [
            declared("a", &json!([entry("size", true, "integer"), entry("zone", false, "string")])),
            declared("b", &json!([entry("zone", true, "string")])),
        ];
        let found = collect(&class, &servers).unwrap();
        let shown = |it: &ClusterClassStatusVariable| {
            let sources: Vec<&str> = it.definitions.iter().map(|it| it.from.as_str()).collect();
            format!("{} {} {:?}", it.name, sources.join(","), it.definitions_conflict)
        };
        let expected = ["own inline Some(false)", "size inline,a Some(false)", "zone a,b Some(true)"];
        assert_eq!(found.iter().map(shown).collect::<Vec<_>>(), expected);
        let text = conflict(&found).unwrap();
        assert!(text.starts_with("variables with conflicting definitions: zone (of a, b). "), "{text}");
        assert_eq!(conflict(&found[..2]), None);
    }

    #[test]
    fn every_server_that_declares_nothing_usable_has_its_line() {
        let silent = Declared { patch: "a".to_owned(), variables: Err("no answer".to_owned()) };
        let wrong = declared("b", &json!([entry("x.y", true, "string")]));
        let error = collect(&class(&json!([entry("own", true, "string")])), &[silent, wrong]).unwrap_err();
        assert_eq!(
            error,
            "patch \"a\": no answer\npatch \"b\": variable \"x.y\": its name cannot contain \".\""
        );
    }
}
