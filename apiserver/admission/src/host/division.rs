//! Configurations of the host cluster: which of them apply here.

use std::collections::BTreeSet;

use apiserver_machinery::object;
use serde_json::Value;

use super::parameters::{self, HostParameters};
use crate::KINDS;
use crate::value::{entries, text};

/// Label that names the provider of Cluster API to which an object of the host belongs.
const PROVIDER: &str = "cluster.x-k8s.io/provider";

/// Providers whose rules are part of Capstan. Their servers are mostly stopped after a take-over, so that their
/// webhooks would refuse every write.
const REPLACED: [&str; 4] =
    ["cluster-api", "bootstrap-kubeadm", "control-plane-kubeadm", "infrastructure-openstack"];

/// Configurations of the host cluster.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct HostConfigurations {
    /// Those that apply to Capstan's kinds.
    pub applied: Vec<Value>,
    /// Kinds and names of those that belong to a replaced provider, as `Kind/name`, sorted.
    pub left_out: Vec<String>,
}

impl HostConfigurations {
    /// Returns the namespaces and names of the Services behind which webhooks run, sorted.
    pub fn services(&self) -> BTreeSet<(String, String)> {
        let hooks = self.applied.iter().flat_map(|it| entries(it, "webhooks"));
        let references = hooks.filter_map(|hook| hook.pointer("/clientConfig/service"));
        references.map(|it| (text(it, "namespace").to_owned(), text(it, "name").to_owned())).collect()
    }

    /// Returns the references of bindings to ConfigMaps of the host, sorted.
    pub fn parameters(&self) -> BTreeSet<HostParameters> {
        parameters::references(&self.applied)
    }

    /// Divides the objects of the host. Objects that are no configurations are dropped.
    pub fn of(objects: impl IntoIterator<Item = Value>) -> Self {
        let mut divided = Self::default();
        let is_known = |object: &Value| KINDS.iter().any(|(kind, _)| *kind == text(object, "kind"));
        for object in objects.into_iter().filter(is_known) {
            if is_replaced(&object) {
                divided.left_out.push(format!("{}/{}", text(&object, "kind"), object::name(&object)));
            } else {
                divided.applied.push(object);
            }
        }
        divided.left_out.sort_unstable();
        divided
    }
}

fn is_replaced(object: &Value) -> bool {
    let provider = object.pointer("/metadata/labels").map_or("", |labels| text(labels, PROVIDER));
    REPLACED.contains(&provider)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn configuration(name: &str, provider: Option<&str>) -> Value {
        let labels = provider.map(|provider| json!({PROVIDER: provider}));
        json!({"kind": "ValidatingWebhookConfiguration", "metadata": {"name": name, "labels": labels}})
    }

    #[test]
    fn configurations_of_replaced_providers_are_left_out_and_named() {
        let divided = HostConfigurations::of([
            configuration("capo", Some("infrastructure-openstack")),
            configuration("own", None),
            configuration("metal3", Some("infrastructure-metal3")),
            configuration("capi", Some("cluster-api")),
            json!({"kind": "ConfigMap", "metadata": {"name": "none"}}),
        ]);
        let applied: Vec<&str> = divided.applied.iter().map(object::name).collect();
        assert_eq!(applied, ["own", "metal3"], "other providers have rules that Capstan does not know");
        let expected = ["ValidatingWebhookConfiguration/capi", "ValidatingWebhookConfiguration/capo"];
        assert_eq!(divided.left_out, expected);
    }
    #[test]
    fn services_of_webhooks_are_named_once() {
        let hook = |name: &str| json!({"clientConfig": {"service": {"namespace": "tools", "name": name}}});
        let mut first = configuration("a", None);
        first["webhooks"] = json!([hook("gate"), hook("gate"), {"clientConfig": {"url": "https://a"}}]);
        let found = HostConfigurations::of([first]).services();
        assert_eq!(found.into_iter().collect::<Vec<_>>(), [("tools".to_owned(), "gate".to_owned())]);
    }
}
