//! Command `capstan kubeconfig --cluster`: the kubeconfig of a workload cluster.

use std::path::Path;

use apiserver_types::Cluster;
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::{Api, Client};

use crate::connect::{Connection, ConnectionArguments};
use crate::error::{ExitCode, Failure};
use crate::output;

/// Key of the Secret with the kubeconfig, by the contract of Cluster API.
const KEY: &str = "value";

/// Prints the kubeconfig of a workload cluster, or writes it to a file that only its owner can read.
///
/// # Errors
/// The Cluster does not exist, its control plane has not created the kubeconfig yet, the user may not read Secrets,
/// or the file cannot be written.
pub fn workload_kubeconfig(
    cluster: &str,
    connection: &ConnectionArguments,
    file: Option<&Path>,
) -> Result<(), Failure> {
    super::block_on(async {
        let Connection { client, namespace } = connection.connect().await?;
        let text = read(&client, &namespace, cluster).await?;
        match file {
            Some(path) => output::write_private(path, &text).map_err(|error| {
                Failure::new(ExitCode::Failed, format!("cannot write {}: {error}", path.display()))
            }),
            None => output::print(&text),
        }
    })
}

/// Reads the kubeconfig from the Secret of the cluster.
pub(crate) async fn read(client: &Client, namespace: &str, cluster: &str) -> Result<Vec<u8>, Failure> {
    let name = format!("{cluster}-kubeconfig");
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    match secrets.get_opt(&name).await {
        Ok(Some(secret)) => {
            let value =
                secret.data.and_then(|mut data| data.remove(KEY)).filter(|ByteString(it)| !it.is_empty());
            value.map(|ByteString(bytes)| bytes).ok_or_else(|| {
                let summary = format!(
                    "Secret {namespace}/{name} has no kubeconfig: its key {KEY:?} is absent or empty"
                );
                Failure::new(ExitCode::Failed, summary).next(advice(namespace, cluster))
            })
        }
        Ok(None) => Err(absent(client, namespace, cluster, &name).await),
        Err(error) => Err(Failure::api("read", "Secret", namespace, &name, &error)),
    }
}

/// Returns why the Secret does not exist.
async fn absent(client: &Client, namespace: &str, cluster: &str, secret: &str) -> Failure {
    let clusters: Api<Cluster> = Api::namespaced(client.clone(), namespace);
    match clusters.get(cluster).await {
        Ok(_) => {
            let summary = format!("Cluster {namespace}/{cluster} has no kubeconfig yet");
            let failure = Failure::new(ExitCode::Failed, summary);
            let wants = format!("Secret {namespace}/{secret}, which the control plane creates");
            failure.detail("wants", wants).next(advice(namespace, cluster))
        }
        Err(error) => Failure::api("read", "Cluster", namespace, cluster, &error),
    }
}

fn advice(namespace: &str, cluster: &str) -> String {
    format!("capstan describe cluster {cluster} -n {namespace}")
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::fake_api::{FakeApi, block_on};

    fn secret(data: &Value) -> Value {
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "prod-kubeconfig"}, "data": data})
    }

    fn read_from(api: &FakeApi) -> Result<Vec<u8>, Failure> {
        block_on(async { read(&api.client(), "team", "prod").await })
    }

    #[test]
    fn the_kubeconfig_is_the_value_of_the_secret() {
        let api = FakeApi::default().answer(
            "secrets/prod-kubeconfig",
            200,
            secret(&json!({"value": "a2luZDogQ29uZmln"})),
        );
        assert_eq!(read_from(&api).unwrap(), b"kind: Config");
        assert_eq!(api.received(), ["secrets/prod-kubeconfig"]);
    }

    #[test]
    fn without_a_kubeconfig_the_failure_tells_what_is_absent_and_what_to_do() {
        let cluster = json!({"metadata": {"name": "prod"}, "spec": {}});
        let denied =
            json!({"kind": "Status", "code": 403, "reason": "Forbidden", "message": "user bob cannot get"});
        for (api, expected) in [
            (FakeApi::default(), "cannot read Cluster team/prod: it does not exist"),
            (
                FakeApi::default().answer("clusters/prod", 200, cluster),
                "Cluster team/prod has no kubeconfig yet\n  wants     Secret team/prod-kubeconfig",
            ),
            (
                FakeApi::default().answer("secrets/prod-kubeconfig", 200, secret(&json!({"other": ""}))),
                "Secret team/prod-kubeconfig has no kubeconfig: its key \"value\" is absent or empty",
            ),
            (
                FakeApi::default().answer("secrets/prod-kubeconfig", 403, denied),
                "cannot read Secret team/prod-kubeconfig: no permission\n  server    403 user bob cannot get",
            ),
        ] {
            let failure = read_from(&api).unwrap_err();
            assert!(failure.to_string().contains(expected), "{failure}");
            assert!(failure.to_string().contains("\nnext: "), "{failure}");
            assert_eq!(failure.code().number(), 1);
        }
    }

    #[test]
    fn only_the_owner_can_read_the_file() {
        use std::os::unix::fs::PermissionsExt;

        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("prod.kubeconfig");
        std::fs::write(&path, "an old file that everyone can read").unwrap();
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
        output::write_private(&path, b"kind: Config").unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), b"kind: Config");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }
}
