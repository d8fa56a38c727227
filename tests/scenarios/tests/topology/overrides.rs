//! Variables of a Cluster and their overrides for the control plane and for one worker group, up to the templates.

use apiserver_types::{KubeadmConfigTemplate, MachineDeployment, OpenStackMachineTemplate};
use kube::ResourceExt;
use serde_json::{Value, json};

use crate::testbed::Testbed;

/// Returns the class's variables and the patches that use them.
pub(crate) fn class() -> Value {
    let text = |default: &str| json!({"type": "string", "default": default});
    let schema = json!({"type": "object", "properties": {"flavor": text("m1.small"), "tag": text("plain")}});
    let variable = json!({"name": "machine", "required": false, "schema": {"openAPIV3Schema": schema}});
    let selector = |group: &str, kind: &str, matches: Value| json!({"apiVersion": format!("{group}.cluster.x-k8s.io/v1beta2"), "kind": kind, "matchResources": matches});
    let workers = json!({"names": ["work*"]});
    let group = "{{ with .builtin.machineDeployment }}{{ .topologyName }}{{ else }}plane{{ end }}";
    let machines = json!({
        "selector": selector("infrastructure", "OpenStackMachineTemplate",
            json!({"controlPlane": true, "machineDeploymentClass": workers})),
        "jsonPatches": [
            {"op": "replace", "path": "/spec/template/spec/flavor/filter/name", "valueFrom": {"variable": "machine.flavor"}},
            {"op": "add", "path": "/spec/template/spec/tags",
                "valueFrom": {"template": format!("- {{{{ .machine.tag }}}}\n- {group}\n")}},
        ],
    });
    let commands = |selector: Value, at: &str| {
        let path = format!("/spec/template/spec/{at}preKubeadmCommands");
        let from = json!({"template": "- echo {{ .machine.tag }}"});
        json!({"selector": selector, "jsonPatches": [{"op": "add", "path": path, "valueFrom": from}]})
    };
    let of_workers =
        selector("bootstrap", "KubeadmConfigTemplate", json!({"machineDeploymentClass": workers}));
    let of_plane = selector("controlplane", "KubeadmControlPlaneTemplate", json!({"controlPlane": true}));
    let definitions = json!([machines, commands(of_workers, ""), commands(of_plane, "kubeadmConfigSpec/")]);
    let patch = json!({"name": "machines", "enabledIf": "{{ if .machine }}true{{ end }}", "definitions": definitions});
    json!({"variables": [variable], "patches": [patch]})
}

/// Part of a topology as its templates have it.
#[derive(Debug, PartialEq)]
struct Part {
    flavor: Value,
    tags: Value,
    commands: Value,
    /// Name of the infrastructure template.
    template: String,
}

impl Testbed {
    async fn part(&self, template: String, commands: Value) -> Part {
        let machine = self.api::<OpenStackMachineTemplate>().get(&template).await.unwrap();
        let mut spec = serde_json::to_value(machine.spec.template.spec).unwrap();
        Part {
            flavor: spec["flavor"]["filter"]["name"].take(),
            tags: spec["tags"].take(),
            commands,
            template,
        }
    }

    /// Returns the control plane and the worker groups, by name.
    async fn parts(&self) -> Vec<Part> {
        let plane = serde_json::to_value(self.control_plane().await).unwrap();
        let name = plane.pointer("/spec/machineTemplate/spec/infrastructureRef/name").and_then(Value::as_str);
        let commands = plane["spec"]["kubeadmConfigSpec"]["preKubeadmCommands"].clone();
        let mut parts = vec![self.part(name.unwrap().to_owned(), commands).await];
        let mut groups = self.owned::<MachineDeployment>().await;
        groups.sort_by_key(|it| it.labels()["topology.cluster.x-k8s.io/deployment-name"].clone());
        for group in groups {
            let spec = group.spec.template.spec;
            let bootstrap = spec.bootstrap.config_ref.unwrap().name;
            let config = self.api::<KubeadmConfigTemplate>().get(&bootstrap).await.unwrap();
            let commands =
                serde_json::to_value(config.spec.template.spec).unwrap()["preKubeadmCommands"].take();
            parts.push(self.part(spec.infrastructure_ref.name, commands).await);
        }
        parts
    }
}

fn shown(parts: &[Part]) -> Vec<Value> {
    parts.iter().map(|part| json!([part.flavor, part.tags, part.commands])).collect()
}

#[tokio::test]
async fn overrides_of_the_control_plane_and_of_a_worker_group_reach_their_templates() {
    let testbed = Testbed::start("overrides", "v1.33.0").await;
    testbed.change_class(class()).await;
    let machine = |value: Value| json!([{"name": "machine", "value": value}]);
    let overrides = |value: Value| json!({"overrides": machine(value)});
    let groups = |flavor: &str| {
        let own = overrides(json!({"flavor": flavor}));
        json!({"machineDeployments": [
            {"class": "worker", "name": "md-0", "replicas": 1},
            {"class": "worker", "name": "md-1", "replicas": 1, "variables": own},
        ]})
    };
    let of_plane = overrides(json!({"flavor": "m1.large", "tag": "own"}));
    let topology = json!({
        "variables": machine(json!({"flavor": "m1.medium", "tag": "global"})),
        "controlPlane": {"replicas": 1, "variables": of_plane},
        "workers": groups("m1.tiny"),
    });
    testbed.change(topology).await;
    testbed.settle().await;
    testbed.control_plane_is_done().await;
    testbed.settle().await;
    assert_eq!(testbed.condition().await, "True ReconcileSucceeded ");
    let first = testbed.parts().await;
    // An override replaces the whole value: the tag is the default of the class, not that of the Cluster.
    let expected = [
        json!(["m1.large", ["own", "plane"], ["echo own"]]),
        json!(["m1.medium", ["global", "md-0"], ["echo global"]]),
        json!(["m1.tiny", ["plain", "md-1"], ["echo plain"]]),
    ];
    assert_eq!(shown(&first), expected);

    testbed.change(json!({"workers": groups("m1.large")})).await;
    testbed.settle().await;
    let second = testbed.parts().await;
    assert_eq!(second[..2], first[..2], "the other parts keep their templates");
    assert_ne!(second[2].template, first[2].template);
    assert_eq!(shown(&second)[2], json!(["m1.large", ["plain", "md-1"], ["echo plain"]]));

    testbed.change(json!({"variables": machine(json!({"flavor": "m1.small"}))})).await;
    testbed.settle().await;
    let third = testbed.parts().await;
    assert_eq!((&third[0], &third[2]), (&second[0], &second[2]), "they override the variable");
    assert_eq!(shown(&third)[1], json!(["m1.small", ["plain", "md-0"], ["echo plain"]]));
}

#[tokio::test]
async fn a_variable_that_a_class_in_use_gets_has_its_default_in_the_next_pass() {
    let testbed = Testbed::start("later-variable", "v1.33.0").await;
    testbed.settle().await;
    testbed.control_plane_is_done().await;
    testbed.settle().await;
    let mut later = class();
    later["variables"][0]["schema"]["openAPIV3Schema"]["default"] = json!({});
    testbed.change_class(later).await;
    testbed.settle().await;
    assert_eq!(testbed.condition().await, "True ReconcileSucceeded ");
    let expected = [
        json!(["m1.small", ["plain", "plane"], ["echo plain"]]),
        json!(["m1.small", ["plain", "md-0"], ["echo plain"]]),
    ];
    assert_eq!(shown(&testbed.parts().await), expected);
    let stored = testbed.cluster().await.spec.topology.unwrap();
    assert_eq!(stored.variables.unwrap_or_default(), [], "a pass does not change the topology");
}
