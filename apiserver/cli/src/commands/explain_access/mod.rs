//! Command `capstan explain-access`: the answer of each authorizer to a request of a user.

mod resource;
mod review;
#[cfg(test)]
mod tests;
mod view;

use std::path::PathBuf;

use clap::{ArgGroup, Args, ValueEnum};
use kube::Client;
use serde_json::Value;

use self::review::Question;
use crate::connect::{Connection, ConnectionArguments};
use crate::error::{ExitCode, Failure};
use crate::output::{self, ViewForm};

/// Path of the reviews. The permission to create them is that of the command.
const PATH: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";

/// Endpoint of the server. Each has authorizers of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, ValueEnum)]
pub enum Endpoint {
    /// The address of Capstan itself.
    #[default]
    Direct,
    /// The host cluster, which passes the requests on to Capstan.
    Host,
}

impl Endpoint {
    /// Returns the name in arguments, in the review and in the output.
    fn name(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Host => "host",
        }
    }
}

/// Arguments of `capstan explain-access`.
#[derive(Debug, Args)]
#[command(group = ArgGroup::new("object").required(true).args(["resource", "path"]))]
pub struct ExplainAccessArguments {
    /// Name of the user, as `kubectl auth whoami` prints it
    #[arg(long, value_name = "NAME")]
    pub user: String,
    /// Group of the user; can be repeated. The groups of all authenticated users and of service accounts are added
    #[arg(long = "group", value_name = "NAME")]
    pub groups: Vec<String>,
    /// Id of the user. That of a machine is the uid of its Machine
    #[arg(long, value_name = "UID")]
    pub uid: Option<String>,
    /// Origin of the user: own, host, machine, keystone, webhook or issuer/URL [default: own, and host with
    /// --endpoint host]
    #[arg(long, value_name = "REALM")]
    pub as_realm: Option<String>,
    /// Verb of the request: get, list, watch, create, update, patch, delete, deletecollection and others
    #[arg(long, value_name = "VERB")]
    pub verb: String,
    /// Kind of the object, as machines or machines.cluster.x-k8s.io. A final dot is the core group
    #[arg(long, value_name = "RESOURCE[.GROUP]")]
    pub resource: Option<String>,
    /// Subresource, as status, or an action, as reboot
    #[arg(long, value_name = "NAME", conflicts_with = "path")]
    pub subresource: Option<String>,
    /// Namespace of the object [default: none, which is all namespaces for list and watch]
    #[arg(short, long, value_name = "NAMESPACE", conflicts_with = "path")]
    pub namespace: Option<String>,
    /// Name of the object [default: none, as in a request for a list]
    #[arg(long, value_name = "NAME", conflicts_with = "path")]
    pub name: Option<String>,
    /// Path of a request for no object, as /metrics
    #[arg(long, value_name = "PATH")]
    pub path: Option<String>,
    /// Endpoint that the user sends the request to
    #[arg(long, value_enum, default_value_t = Endpoint::Direct)]
    pub endpoint: Endpoint,
    /// Form of the output
    #[arg(short, long, value_enum, default_value_t = ViewForm::Table)]
    pub output: ViewForm,
    /// Kubeconfig of Capstan's direct endpoint [default: $KUBECONFIG, else ~/.kube/config]
    #[arg(long, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
    /// Context of the kubeconfig [default: its current context]
    #[arg(long, value_name = "CONTEXT")]
    pub context: Option<String>,
}

/// Prints the answers of the authorizers, and the verdict.
///
/// # Errors
/// The arguments name no kind or realm, the user of the kubeconfig may not review the permissions of others, or the
/// server does not answer.
pub fn explain_access(arguments: &ExplainAccessArguments) -> Result<(), Failure> {
    let connection = ConnectionArguments {
        namespace: None,
        kubeconfig: arguments.kubeconfig.clone(),
        context: arguments.context.clone(),
    };
    super::block_on(async {
        let Connection { client, .. } = connection.connect().await?;
        let text = explained(&client, arguments).await?;
        output::print(text.as_bytes())
    })
    .map_err(|failure| if arguments.output == ViewForm::Json { failure.for_programs() } else { failure })
}

/// Returns the whole output.
async fn explained(client: &Client, arguments: &ExplainAccessArguments) -> Result<String, Failure> {
    let question = Question::of(client, arguments).await?;
    let status = ask(client, &question).await?;
    let view = view::view(&question, &status);
    arguments.output.text(|| view::text(&view), &view).map_err(|error| Failure::new(ExitCode::Failed, error))
}

/// Sends the review, and returns its status.
async fn ask(client: &Client, question: &Question) -> Result<Value, Failure> {
    let path = format!("{PATH}?explain={}", question.endpoint.name());
    let request = http::Request::post(path).header("content-type", "application/json");
    let request = request.body(question.review().to_string().into_bytes());
    let request = request.map_err(|error| Failure::new(ExitCode::Failed, error.to_string()))?;
    let mut review: Value = client.request(request).await.map_err(|error| refused(&error))?;
    let status = review["status"].take();
    if !status["authorizers"].is_array() {
        let failure = Failure::new(ExitCode::Failed, "the server does not explain its decisions");
        return Err(
            failure.next("use the kubeconfig of Capstan's direct endpoint, and a server of this release")
        );
    }
    Ok(status)
}

fn refused(error: &kube::Error) -> Failure {
    let failure = Failure::api("create", "SubjectAccessReview", "", "", error);
    match error {
        kube::Error::Api(status) if status.code == 403 => {
            failure.next("bind the ClusterRole system:auth-delegator to the user of the kubeconfig")
        }
        _ => failure,
    }
}
