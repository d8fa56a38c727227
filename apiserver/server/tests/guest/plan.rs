//! Command `capstan plan` against a running server.

use std::process::Output;

use serde_json::{Value, json};

use crate::process::{Capstan, command};

const NAMESPACES: &str = "/api/v1/namespaces";
const CORE: &str = "/apis/cluster.x-k8s.io/v1beta2/namespaces/team";
const TEMPLATES: &str =
    "/apis/infrastructure.cluster.x-k8s.io/v1beta2/namespaces/team/openstackmachinetemplates";

/// Returns the objects: a Cluster that is paused, so that no controller works on it, with workers.
fn objects() -> [(String, Value); 4] {
    let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "team"}});
    let cluster = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Cluster", "metadata": {"name": "prod"},
        "spec": {"paused": true, "clusterNetwork": {"serviceDomain": "cluster.local"}},
    });
    let spec = json!({"flavor": {"filter": {"name": "m1.small"}}, "image": {"filter": {"name": "node"}}});
    let template = json!({
        "apiVersion": "infrastructure.cluster.x-k8s.io/v1beta2", "kind": "OpenStackMachineTemplate",
        "metadata": {"name": "small"}, "spec": {"template": {"spec": spec}},
    });
    let reference = json!({
        "apiGroup": "infrastructure.cluster.x-k8s.io", "kind": "OpenStackMachineTemplate", "name": "small",
    });
    let machine = json!({"clusterName": "prod", "bootstrap": {"dataSecretName": "data"}, "infrastructureRef": reference});
    let labels = json!({"pool": "md"});
    let workers = json!({
        "apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "MachineDeployment", "metadata": {"name": "md"},
        "spec": {
            "clusterName": "prod", "replicas": 1, "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": machine},
        },
    });
    [
        (NAMESPACES.to_owned(), namespace),
        (format!("{CORE}/clusters"), cluster),
        (TEMPLATES.to_owned(), template),
        (format!("{CORE}/machinedeployments"), workers),
    ]
}

async fn plan(kubeconfig: &str, arguments: &str) -> Output {
    let fixed = ["plan", "--kubeconfig", kubeconfig];
    let arguments: Vec<&str> = arguments.split(' ').collect();
    let (kind, rest) = arguments.split_first().unwrap();
    command(&[&[fixed[0], kind], rest, &fixed[1..], &["-n", "team"]].concat()).await
}

fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout.clone()).unwrap()
}

#[tokio::test]
async fn the_command_prints_the_plan_of_a_running_server_and_its_refusals() {
    let data = tempfile::tempdir().unwrap();
    let capstan = Capstan::start(data.path(), &[]);
    capstan.ready().await;
    let client = capstan.client();
    for (path, object) in objects() {
        let answer = client.with_retries("POST", &path, &object.to_string()).await.unwrap();
        assert_eq!(answer.code, 201, "{}", answer.text());
    }
    let admin = capstan.kubeconfig(data.path(), "capstan:admins");

    let table = printed(&plan(&admin, "cluster prod").await);
    assert!(table.starts_with("Machines: 0 keep, 0 in place, 0 replace, 1 create, 0 delete\n"), "{table}");
    assert!(table.contains("\nMachineDeployment/md\nMACHINE"), "{table}");
    assert!(table.contains("\nOBSTACLES\nCluster spec.paused is set to true"), "{table}");

    let file = data.path().join("change.yaml");
    std::fs::write(&file, "kind: MachineDeployment\nspec: {replicas: 3}\n").unwrap();
    let arguments = format!("machinedeployment md -f {} -o json", file.display());
    let view: Value = serde_json::from_str(&printed(&plan(&admin, &arguments).await)).unwrap();
    assert_eq!((&view["kind"], &view["summary"]["create"]), (&json!("RolloutPlan"), &json!(3)), "{view:#}");

    std::fs::write(&file, "spec: {clusterName: other}\n").unwrap();
    let refused = plan(&admin, &format!("machinedeployment md -f {}", file.display())).await;
    let text = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(1), "{text}");
    assert!(text.contains("spec.clusterName"), "{text}");
    let absent = plan(&admin, "kubeadmcontrolplane none").await;
    assert_eq!(absent.status.code(), Some(1), "{}", String::from_utf8_lossy(&absent.stderr));
}
