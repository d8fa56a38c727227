//! Command `capstan plan`: the effects of a change, before the change is made.

mod change;
pub(super) mod view;

use std::path::PathBuf;

use apiserver_types::{Cluster, KubeadmControlPlane, MachineDeployment};
use clap::{Args, Subcommand};
use kube::api::{ApiResource, DynamicObject, PostParams};
use kube::{Api, Client};
use serde_json::Value;

use crate::connect::{Connection, ConnectionArguments};
use crate::error::{ExitCode, Failure};
use crate::output::{self, ViewForm};

/// Kinds that have a plan.
#[derive(Debug, Subcommand)]
pub enum PlanCommand {
    /// Print what a change of a Cluster would do to its objects and its Machines
    ///
    /// For a Cluster with a topology, the plan has the objects that would be made, changed or deleted, and the
    /// templates that would be rotated. An upgrade is a list of steps: the control plane takes one minor version
    /// after the other, and the workers follow. For a Cluster without a topology, the plan is that of its control
    /// plane and its MachineDeployments as they are.
    ///
    /// Example: capstan plan cluster prod -n team -f prod.yaml
    #[command(verbatim_doc_comment)]
    Cluster(PlanArguments),
    /// Print what a change of a MachineDeployment would do to its Machines
    ///
    /// Example: capstan plan machinedeployment prod-md-0 -n team -f md.yaml -o json
    #[command(verbatim_doc_comment)]
    Machinedeployment(PlanArguments),
    /// Print what a change of a KubeadmControlPlane would do to its Machines
    ///
    /// Example: capstan plan kubeadmcontrolplane prod-control-plane -n team -f plane.yaml
    #[command(verbatim_doc_comment)]
    Kubeadmcontrolplane(PlanArguments),
}

/// Arguments of `capstan plan`.
#[derive(Debug, Args)]
pub struct PlanArguments {
    /// Name of the object
    pub name: String,
    /// File with the change, as YAML or JSON; - is standard input [default: no change]
    ///
    /// The file has the object or a part of it. Fields that it lacks stay as they are, and null removes a field.
    /// If the file has metadata.resourceVersion, as from `kubectl get -o yaml`, it is the whole object instead.
    #[arg(short, long, value_name = "FILE")]
    pub filename: Option<PathBuf>,
    /// Server, user and namespace.
    #[command(flatten)]
    pub connection: ConnectionArguments,
    /// Form of the output
    #[arg(short, long, value_enum, default_value_t = ViewForm::Table)]
    pub output: ViewForm,
}

impl PlanCommand {
    fn parts(&self) -> (ApiResource, &PlanArguments) {
        match self {
            Self::Cluster(arguments) => (ApiResource::erase::<Cluster>(&()), arguments),
            Self::Machinedeployment(arguments) => (ApiResource::erase::<MachineDeployment>(&()), arguments),
            Self::Kubeadmcontrolplane(arguments) => {
                (ApiResource::erase::<KubeadmControlPlane>(&()), arguments)
            }
        }
    }
}

/// Prints the plan of a change. Nothing is changed.
///
/// # Errors
/// The file cannot be read or is about another object, the server refuses the change, or it does not answer. With
/// `-o json`, the text of the failure is the server's Status.
pub fn plan(command: &PlanCommand) -> Result<(), Failure> {
    let (resource, arguments) = command.parts();
    super::block_on(async {
        let Connection { client, namespace } = arguments.connection.connect().await?;
        let text = planned(&client, &namespace, &resource, arguments).await?;
        output::print(text.as_bytes())
    })
    .map_err(|failure| if arguments.output == ViewForm::Json { failure.for_programs() } else { failure })
}

/// Returns the whole output.
async fn planned(
    client: &Client,
    namespace: &str,
    resource: &ApiResource,
    arguments: &PlanArguments,
) -> Result<String, Failure> {
    let name = &arguments.name;
    let change = match &arguments.filename {
        Some(path) => change::read(path, &resource.kind, namespace, name)?,
        None => serde_json::json!({}),
    };
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, resource);
    let plan: Value = api
        .create_subresource("plan", name, &PostParams::default(), &change)
        .await
        .map_err(|error| Failure::api("plan", &resource.kind, namespace, name, &error))?;
    let text = arguments.output.text(|| view::text(&plan), &plan);
    text.map_err(|error| Failure::new(ExitCode::Failed, error))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::fake_api::FakeApi;

    fn arguments(filename: Option<PathBuf>, output: ViewForm) -> PlanArguments {
        let connection = ConnectionArguments::default();
        PlanArguments { name: "prod".to_owned(), filename, connection, output }
    }

    #[tokio::test]
    async fn the_plan_of_the_server_is_printed_in_each_form() {
        let answer = json!({
            "kind": "ClusterPlan", "summary": {"keep": 1, "inPlace": 0, "replace": 0, "create": 0, "delete": 0},
            "objects": [], "steps": [], "rollouts": [], "obstacles": ["Cluster spec.paused is set to true"],
        });
        let api = FakeApi::default().answer("clusters/prod/plan", 200, answer.clone());
        let resource = ApiResource::erase::<Cluster>(&());
        let client = api.client();
        let table = planned(&client, "team", &resource, &arguments(None, ViewForm::Table)).await.unwrap();
        assert!(table.contains("Cluster spec.paused is set to true"), "{table}");
        let json = planned(&client, "team", &resource, &arguments(None, ViewForm::Json)).await.unwrap();
        assert_eq!(serde_json::from_str::<Value>(&json).unwrap(), answer);
        assert_eq!(api.received(), ["clusters/prod/plan", "clusters/prod/plan"]);
    }

    #[tokio::test]
    async fn a_refused_change_is_a_failure_with_the_answer() {
        let status = json!({"kind": "Status", "status": "Failure", "code": 422, "reason": "Invalid",
            "message": "spec.topology.version: Invalid value: \"v9\""});
        let api = FakeApi::default().answer("clusters/prod/plan", 422, status);
        let resource = ApiResource::erase::<Cluster>(&());
        let result = planned(&api.client(), "team", &resource, &arguments(None, ViewForm::Table)).await;
        let failure = result.unwrap_err();
        assert_eq!(failure.code(), ExitCode::Failed);
        assert!(failure.to_string().contains("spec.topology.version"), "{failure}");
    }
}
