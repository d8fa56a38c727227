//! Variables of a Cluster in a pass. Pure.

use apiserver_types::{Cluster, ClusterClass};
use controllers_topology::variables::{Definitions, default_and_validate};
use kube::ResourceExt;

use super::blueprint::value;

/// Returns the Cluster with the defaults of its class. The stored Cluster stays without defaults that the class got later.
///
/// Admission validates the variables, too. It cannot while the class is missing or not reconciled, and the class can get
/// new variables later. Rules that compare with an old value have been checked there.
///
/// # Errors
/// Values that the class does not allow, with the paths of their fields. For people.
pub(super) fn settled(cluster: &Cluster, class: &ClusterClass) -> Result<Cluster, String> {
    let (mut object, definitions) = (value(cluster), value(class));
    let definitions = Definitions::of(&definitions);
    if matches!(definitions, Definitions::Unknown) {
        let (namespace, name) = (class.namespace().unwrap_or_default(), class.name_any());
        return Err(format!("ClusterClass {namespace}/{name}: its variables are not known yet"));
    }
    let mut problems: Vec<String> = Vec::new();
    for error in default_and_validate(&mut object, None, &definitions) {
        let problem = error.to_string();
        // Defaulting and validation report the same error.
        if !problems.contains(&problem) {
            problems.push(problem);
        }
    }
    if !problems.is_empty() {
        return Err(problems.join("; "));
    }
    serde_json::from_value(object).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn class(variables: &Value) -> ClusterClass {
        let template = json!({"templateRef": {"apiVersion": "x/v1", "kind": "K", "name": "n"}});
        let spec = json!({"infrastructure": template, "controlPlane": template, "variables": variables});
        ClusterClass::new("class", serde_json::from_value(spec).unwrap())
    }

    fn found(values: &Value, variables: &Value) -> Result<Value, String> {
        let topology = json!({"classRef": {"name": "class"}, "version": "v1.33.0", "variables": values});
        let spec = json!({ "topology": topology });
        let cluster = Cluster::new("c", serde_json::from_value(spec).unwrap());
        let settled = settled(&cluster, &class(variables))?;
        Ok(value(&settled)["spec"]["topology"]["variables"].clone())
    }

    #[test]
    fn a_pass_sets_the_defaults_of_a_class_that_got_a_variable_later() {
        let schema = json!({"openAPIV3Schema": {"type": "integer", "default": 3, "maximum": 9}});
        let size = json!([{"name": "size", "required": true, "schema": schema}]);
        assert_eq!(found(&json!([]), &size), Ok(json!([{"name": "size", "value": 3}])));
        let own = json!([{"name": "size", "value": 4}]);
        assert_eq!(found(&own, &size), Ok(own.clone()));
    }

    #[test]
    fn a_pass_refuses_what_the_class_does_not_allow_with_its_path() {
        let schema = json!({"openAPIV3Schema": {"type": "integer", "maximum": 9}});
        let size = json!([{"name": "size", "required": true, "schema": schema}]);
        let table = [
            (json!([]), "spec.topology.variables: Required value: required variable \"size\" must be set"),
            (
                json!([{"name": "size", "value": 10}]),
                "spec.topology.variables[size].value: Invalid value: \"10\": should be less than or equal to 9",
            ),
            (
                json!([{"name": "size", "value": 1}, {"name": "other", "value": 1}]),
                "spec.topology.variables[other]: Invalid value: \"1\": variable is not defined",
            ),
        ];
        for (values, expected) in table {
            assert_eq!(found(&values, &size), Err(expected.to_owned()), "{values}");
        }
    }

    #[test]
    fn variables_of_a_class_that_is_not_reconciled_are_unknown() {
        let mut class = class(&json!([]));
        class.metadata.generation = Some(2);
        class.status = Some(serde_json::from_value(json!({"observedGeneration": 1})).unwrap());
        let cluster = Cluster::new("c", Default::default());
        let error = settled(&cluster, &class).unwrap_err();
        assert!(error.ends_with("its variables are not known yet"), "{error}");
    }
}
