//! Names of the objects of a topology. Existing objects keep theirs.

use apiserver_types::{ClassNaming, Cluster};
use kube::ResourceExt;

use crate::generated_names::{self, from_template};

/// Naming rule of the infrastructure and of the control plane without one in the class.
const OF_CLUSTER: &str = "{{ .cluster.name }}-{{ .random }}";

/// Naming rule of MachineDeployments without one in the class.
const OF_DEPLOYMENT: &str = "{{ .cluster.name }}-{{ .machineDeployment.topologyName }}-{{ .random }}";

/// Returns the name of a new infrastructure or control plane object.
///
/// # Errors
/// The rule of the class is no template. For people.
pub(super) fn of_cluster(cluster: &Cluster, naming: Option<&ClassNaming>) -> Result<String, String> {
    generated(naming, OF_CLUSTER, &[(".cluster.name", &cluster.name_any())])
}

/// Returns the name of a new MachineDeployment.
///
/// # Errors
/// The rule of the class is no template. For people.
pub(super) fn of_deployment(
    cluster: &Cluster,
    topology_name: &str,
    naming: Option<&ClassNaming>,
) -> Result<String, String> {
    let name = cluster.name_any();
    let variables = [(".cluster.name", name.as_str()), (".machineDeployment.topologyName", topology_name)];
    generated(naming, OF_DEPLOYMENT, &variables)
}

/// Returns the name of a new template.
pub(super) fn of_template(prefix: &str) -> String {
    generated_names::with_end(prefix, &generated_names::random())
}

/// Returns the begin of the names of templates of a worker group, or of the control plane.
pub(super) fn prefix(cluster: &Cluster, group: Option<&str>) -> String {
    let name = cluster.name_any();
    group.map_or_else(|| name.clone(), |group| format!("{name}-{group}"))
}

/// Returns the begin of the name of a generated template.
pub(super) fn prefix_of(template: &serde_json::Value) -> String {
    let name = super::desired::name(template);
    name.rsplit_once('-').map_or_else(|| name.clone(), |(prefix, _)| prefix.to_owned())
}

fn generated(
    naming: Option<&ClassNaming>,
    default: &str,
    variables: &[(&str, &str)],
) -> Result<String, String> {
    let template = naming.and_then(|it| it.template.as_deref()).unwrap_or(default);
    from_template(template, variables, &generated_names::random())
}

#[cfg(test)]
mod tests {
    use apiserver_types::ClusterSpec;

    use super::*;

    #[test]
    fn names_follow_the_rule_of_the_class_or_the_default() {
        let cluster = Cluster::new("blue", ClusterSpec::default());
        let rule = ClassNaming { template: Some("{{ .cluster.name }}-x".to_owned()) };
        assert_eq!(of_cluster(&cluster, Some(&rule)).unwrap(), "blue-x");
        let name = of_cluster(&cluster, None).unwrap();
        assert_eq!((name.len(), name.starts_with("blue-")), (10, true), "{name}");
        let name = of_deployment(&cluster, "md-0", None).unwrap();
        assert_eq!((name.len(), name.starts_with("blue-md-0-")), (15, true), "{name}");
        let wrong = ClassNaming { template: Some("{{ .nothing }}".to_owned()) };
        assert!(of_deployment(&cluster, "md-0", Some(&wrong)).unwrap_err().contains(".nothing"));
        assert_eq!(prefix(&cluster, Some("md-0")), "blue-md-0");
    }
}
