//! Command `capstan upgrade cluster`: another version of Kubernetes for a Cluster, its plan, and its end.

mod view;

use apiserver_types::Cluster;
use clap::Args;
use kube::api::{ApiResource, DynamicObject, PostParams};
use kube::{Api, Client};
use serde_json::{Map, Value, json};

use crate::connect::{Connection, ConnectionArguments};
use crate::error::{ExitCode, Failure};
use crate::output::{self, ViewForm};

/// Arguments of `capstan upgrade cluster`.
#[derive(Debug, Args)]
pub struct UpgradeClusterArguments {
    /// Name of the Cluster
    pub name: String,
    /// Version of Kubernetes to go to, such as v1.35.2
    #[arg(long, value_name = "VERSION", required_unless_present = "cancel", conflicts_with = "cancel")]
    pub to: Option<String>,
    /// Version on the way, one of each minor version between, in their order; can be repeated
    ///
    /// For a Cluster without a topology. The ClusterClass of a topology lists its versions.
    #[arg(long, value_name = "VERSION", requires = "to")]
    pub through: Vec<String>,
    /// End the upgrade in progress at the version that the control plane takes
    #[arg(long)]
    pub cancel: bool,
    /// Print the plan, and change nothing
    #[arg(long)]
    pub dry_run: bool,
    /// Reason, for the annotation kubernetes.io/change-cause of the Cluster
    #[arg(long, value_name = "TEXT")]
    pub reason: Option<String>,
    /// Server, user and namespace.
    #[command(flatten)]
    pub connection: ConnectionArguments,
    /// Form of the output
    #[arg(short, long, value_enum, default_value_t = ViewForm::Table)]
    pub output: ViewForm,
}

impl UpgradeClusterArguments {
    /// Returns the body of the request.
    fn body(&self) -> Value {
        let mut body = Map::new();
        for (field, is_set) in [("cancel", self.cancel), ("dryRun", self.dry_run)] {
            body.extend(is_set.then(|| (field.to_owned(), json!(true))));
        }
        for (field, text) in [("version", &self.to), ("reason", &self.reason)] {
            body.extend(text.as_ref().map(|text| (field.to_owned(), json!(text))));
        }
        if !self.through.is_empty() {
            body.insert("through".to_owned(), json!(self.through));
        }
        Value::Object(body)
    }
}

/// Upgrades a Cluster, or ends its upgrade, and prints the plan. With `--dry-run`, nothing is changed.
///
/// # Errors
/// The server refuses the version or the user, or it does not answer. With `-o json`, the text of the failure is the
/// server's Status.
pub fn upgrade_cluster(arguments: &UpgradeClusterArguments) -> Result<(), Failure> {
    super::block_on(async {
        let Connection { client, namespace } = arguments.connection.connect().await?;
        let text = requested(&client, &namespace, arguments).await?;
        output::print(text.as_bytes())
    })
    .map_err(|failure| if arguments.output == ViewForm::Json { failure.for_programs() } else { failure })
}

/// Returns the whole output.
async fn requested(
    client: &Client,
    namespace: &str,
    arguments: &UpgradeClusterArguments,
) -> Result<String, Failure> {
    let resource = ApiResource::erase::<Cluster>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let (name, body) = (&arguments.name, arguments.body());
    let plan: Value = api
        .create_subresource("upgrade", name, &PostParams::default(), &body)
        .await
        .map_err(|error| Failure::api("upgrade", &resource.kind, namespace, name, &error))?;
    let text = arguments.output.text(|| view::text(&plan, arguments.cancel), &plan);
    text.map_err(|error| Failure::new(ExitCode::Failed, error))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake_api::FakeApi;

    fn arguments(output: ViewForm) -> UpgradeClusterArguments {
        UpgradeClusterArguments {
            name: "prod".to_owned(),
            to: Some("v1.35.0".to_owned()),
            through: vec!["v1.34.2".to_owned()],
            cancel: false,
            dry_run: true,
            reason: None,
            connection: ConnectionArguments::default(),
            output,
        }
    }

    #[test]
    fn the_body_has_only_what_is_set() {
        let body = arguments(ViewForm::Table).body();
        assert_eq!(body, json!({"version": "v1.35.0", "through": ["v1.34.2"], "dryRun": true}));
        let cancel = UpgradeClusterArguments {
            to: None,
            through: Vec::new(),
            cancel: true,
            dry_run: false,
            reason: Some("too slow".to_owned()),
            ..arguments(ViewForm::Table)
        };
        assert_eq!(cancel.body(), json!({"cancel": true, "reason": "too slow"}));
    }

    #[tokio::test]
    async fn the_plan_of_the_server_is_printed_in_each_form() {
        let answer = json!({
            "kind": "ClusterUpgrade", "metadata": {"namespace": "team", "name": "prod"}, "version": "v1.35.0",
            "upgrade": {"controlPlane": [], "workers": []}, "steps": [], "obstacles": [], "notes": [],
            "dryRun": true,
        });
        let api = FakeApi::default().answer("clusters/prod/upgrade", 200, answer.clone());
        let client = api.client();
        let text = requested(&client, "team", &arguments(ViewForm::Table)).await.unwrap();
        assert_eq!(text, "Cluster team/prod has version v1.35.0 already.\n");
        let json = requested(&client, "team", &arguments(ViewForm::Json)).await.unwrap();
        assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), answer);
    }

    #[tokio::test]
    async fn a_refused_version_is_a_failure_with_the_answer() {
        let status = json!({"kind": "Status", "status": "Failure", "code": 422, "reason": "Invalid",
            "message": "version: Invalid value: a minor version is left out"});
        let api = FakeApi::default().answer("clusters/prod/upgrade", 422, status);
        let failure = requested(&api.client(), "team", &arguments(ViewForm::Table)).await.unwrap_err();
        assert_eq!(failure.code(), ExitCode::Failed);
        assert!(failure.to_string().contains("a minor version is left out"), "{failure}");
    }
}
