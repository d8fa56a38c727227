//! Requests about generated policies to a server.

use anyhow::{Context, ensure};
use apiserver_access::rbac::{Binding, Role, Subject};
use apiserver_access::{Attributes, Rule, User};
use bytes::Bytes;
use futures::{StreamExt, TryStreamExt};
use http::Request;
use http::header::{CONTENT_TYPE, HOST};
use http_body_util::Full;
use serde_json::{Value, json};

use super::generator::Granting;
use super::{Verdicts, World, Write};
use crate::client::Client;

const GROUP: &str = "rbac.authorization.k8s.io";
const ROOT: &str = "/apis/rbac.authorization.k8s.io/v1";

/// Number of requests at a time.
const CONCURRENT: usize = 12;

/// Creates the namespaces, the roles and the bindings of a policy.
///
/// # Errors
/// Returns an error if an object is refused.
pub async fn establish(client: &Client, world: &World) -> anyhow::Result<()> {
    for name in &world.namespaces {
        let namespace = json!({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}});
        create(client, "/api/v1/namespaces", &namespace).await?;
    }
    let roles = world.policy.roles.iter().map(role);
    let objects = roles.chain(world.policy.bindings.iter().map(binding));
    let created =
        futures::stream::iter(objects.map(Ok))
            .try_for_each_concurrent(CONCURRENT, |(path, object)| async move {
                create(client, &path, &object).await
            });
    created.await
}

/// Returns the verdicts of a server about a policy that was established before. Without `decisions`, it requests only
/// the writes.
///
/// # Errors
/// Returns an error if the server does not respond.
pub async fn answer(client: &Client, world: &World, decisions: bool) -> anyhow::Result<Verdicts> {
    let questions = if decisions { world.questions.as_slice() } else { &[] };
    let asked = futures::stream::iter(questions).map(|question| ask(client, question));
    let answers: Vec<bool> = asked.buffered(CONCURRENT).try_collect().await?;
    let decisions = answers.iter().map(|allowed| if *allowed { '1' } else { '0' }).collect();
    let written = futures::stream::iter(&world.writes).map(|write| send(client, write));
    Ok(Verdicts { decisions, writes: written.buffered(CONCURRENT).try_collect().await? })
}

async fn create(client: &Client, path: &str, object: &Value) -> anyhow::Result<()> {
    let (code, answer) = request(client, "POST", path, None, object).await?;
    ensure!(code == 201, "POST {path}: {answer}");
    Ok(())
}

async fn ask(client: &Client, question: &Attributes) -> anyhow::Result<bool> {
    let mut spec = json!({"user": question.user.name, "groups": question.user.groups});
    if question.is_resource() {
        spec["resourceAttributes"] = json!({"verb": question.verb, "group": question.group, "version": "v1",
            "resource": question.resource, "subresource": question.subresource, "namespace": question.namespace,
            "name": question.name});
    } else {
        spec["nonResourceAttributes"] = json!({"verb": question.verb, "path": question.path});
    }
    let review =
        json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview", "spec": spec});
    let path = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
    let (code, answer) = request(client, "POST", path, None, &review).await?;
    ensure!(code == 201, "{review}: {answer}");
    answer["status"]["allowed"].as_bool().context("the review has no verdict")
}

async fn send(client: &Client, write: &Write) -> anyhow::Result<u16> {
    let (path, object) = match &write.object {
        Granting::Role(it) => role(it),
        Granting::Binding(it) => binding(it),
    };
    let name = object["metadata"]["name"].as_str().unwrap_or_default();
    let (method, path) =
        if write.is_update { ("PUT", format!("{path}/{name}")) } else { ("POST", path.clone()) };
    let (code, _) =
        request(client, method, &format!("{path}?dryRun=All"), Some(&write.user), &object).await?;
    Ok(code)
}

async fn request(
    client: &Client,
    method: &str,
    path: &str,
    user: Option<&User>,
    body: &Value,
) -> anyhow::Result<(u16, Value)> {
    let mut request = Request::builder().method(method).uri(path).header(HOST, "127.0.0.1");
    request = request.header(CONTENT_TYPE, "application/json");
    if let Some(user) = user {
        request = request.header("impersonate-user", &user.name);
    }
    let answer = client.send(request.body(Full::new(Bytes::from(body.to_string())))?, None).await?;
    Ok((answer.status, serde_json::from_slice(&answer.body).unwrap_or_default()))
}

fn collection(namespace: &str, plural: &str) -> String {
    if namespace.is_empty() {
        format!("{ROOT}/cluster{plural}")
    } else {
        format!("{ROOT}/namespaces/{namespace}/{plural}")
    }
}

fn object(namespace: &str, kind: &str, name: &str) -> Value {
    let kind = if namespace.is_empty() { format!("Cluster{kind}") } else { kind.to_owned() };
    json!({"apiVersion": format!("{GROUP}/v1"), "kind": kind, "metadata": {"name": name}})
}

fn role(role: &Role) -> (String, Value) {
    let rule = |rule: &Rule| {
        if rule.paths.is_empty() {
            json!({"verbs": rule.verbs, "apiGroups": rule.groups, "resources": rule.resources,
                "resourceNames": rule.names})
        } else {
            json!({"verbs": rule.verbs, "nonResourceURLs": rule.paths})
        }
    };
    let mut object = object(&role.namespace, "Role", &role.name);
    object["rules"] = role.rules.iter().map(rule).collect();
    (collection(&role.namespace, "roles"), object)
}

fn binding(binding: &Binding) -> (String, Value) {
    let subject = |subject: &Subject| match subject {
        Subject::User(name) => json!({"apiGroup": GROUP, "kind": "User", "name": name}),
        Subject::Group(name) => json!({"apiGroup": GROUP, "kind": "Group", "name": name}),
        Subject::ServiceAccount { namespace, name } => {
            json!({"kind": "ServiceAccount", "namespace": namespace, "name": name})
        }
    };
    let mut object = object(&binding.namespace, "RoleBinding", &binding.name);
    let kind = if binding.role.is_cluster_role { "ClusterRole" } else { "Role" };
    object["roleRef"] = json!({"apiGroup": GROUP, "kind": kind, "name": binding.role.name});
    object["subjects"] = binding.subjects.iter().map(subject).collect();
    (collection(&binding.namespace, "rolebindings"), object)
}
