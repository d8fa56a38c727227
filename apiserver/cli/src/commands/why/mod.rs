//! Command `capstan why`: the first cause that holds up a Cluster, and the objects between both. If the workload API does
//! not answer, also the last known Nodes.

mod nodes;
mod view;

use apiserver_types::Cluster;
use clap::Args;
use jiff::Timestamp;
use kube::api::{ApiResource, DynamicObject};
use kube::{Api, Client};
use serde_json::Value;

use crate::connect::{Connection, ConnectionArguments};
use crate::error::{ExitCode, Failure};
use crate::output::{self, ViewForm};

/// Arguments of `capstan why`.
#[derive(Debug, Args)]
pub struct WhyArguments {
    /// Name of the Cluster
    pub name: String,
    /// Server, user and namespace.
    #[command(flatten)]
    pub connection: ConnectionArguments,
    /// Form of the output
    #[arg(short, long, value_enum, default_value_t = ViewForm::Table)]
    pub output: ViewForm,
}

/// Prints what holds up a Cluster. Nothing is changed.
///
/// # Errors
/// The Cluster does not exist, the user has no permission, or the server does not answer. With `-o json`, the text of the
/// failure is the server's Status.
pub fn why(arguments: &WhyArguments) -> Result<(), Failure> {
    super::block_on(async {
        let Connection { client, namespace } = arguments.connection.connect().await?;
        let text = answered(&client, &namespace, arguments).await?;
        output::print(text.as_bytes())
    })
    .map_err(|failure| if arguments.output == ViewForm::Json { failure.for_programs() } else { failure })
}

/// Returns the whole output.
async fn answered(client: &Client, namespace: &str, arguments: &WhyArguments) -> Result<String, Failure> {
    let resource = ApiResource::erase::<Cluster>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let answer = api
        .get_subresource("why", &arguments.name)
        .await
        .map_err(|error| Failure::api("explain", &resource.kind, namespace, &arguments.name, &error))?;
    let unreadable = |error: serde_json::Error| Failure::new(ExitCode::Failed, error.to_string());
    let answer: Value = serde_json::to_value(&answer).map_err(unreadable)?;
    let text = arguments.output.text(|| view::text(&answer, Timestamp::now()), &answer);
    text.map_err(|error| Failure::new(ExitCode::Failed, error))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fake_api::FakeApi;

    fn arguments(output: ViewForm) -> WhyArguments {
        WhyArguments { name: "prod".to_owned(), connection: ConnectionArguments::default(), output }
    }

    #[tokio::test]
    async fn the_answer_of_the_server_is_printed_in_each_form() {
        let answer = json!({
            "apiVersion": "capstan.dev/v1alpha1", "kind": "ClusterWhy", "chains": [],
            "metadata": {"name": "prod", "namespace": "team"}, "message": "Nothing holds up Cluster prod",
        });
        let api = FakeApi::default().answer("clusters/prod/why", 200, answer.clone());
        let client = api.client();
        let text = answered(&client, "team", &arguments(ViewForm::Table)).await.unwrap();
        assert_eq!(text, "Nothing holds up Cluster prod\n");
        let json = answered(&client, "team", &arguments(ViewForm::Json)).await.unwrap();
        assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), answer);
    }

    #[tokio::test]
    async fn a_cluster_that_does_not_exist_is_a_failure() {
        let api = FakeApi::default();
        let failure = answered(&api.client(), "team", &arguments(ViewForm::Table)).await.unwrap_err();
        assert_eq!(failure.code(), ExitCode::Failed);
        assert!(failure.to_string().contains("cannot explain Cluster team/prod"), "{failure}");
    }
}
