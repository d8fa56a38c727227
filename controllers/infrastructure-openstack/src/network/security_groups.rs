//! Neutron calls for security groups and their rules.

use controllers_infrastructure::{
    CloudResult, NewSecurityGroupRule, SecurityGroup, SecurityGroupQuery, SecurityGroupRule,
};
use serde::Deserialize;
use serde_json::{Value, json};

use super::{delete, object, tagged, text};
use crate::{
    paging::list,
    request::{Request, Service},
    session::Session,
    time::utc,
};

#[derive(Deserialize)]
struct ResponseBody {
    id: String,
    name: String,
    #[serde(default)]
    description: Option<String>,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default)]
    security_group_rules: Vec<Rule>,
    #[serde(default)]
    created_at: String,
}

#[derive(Deserialize)]
struct Rule {
    id: String,
    security_group_id: String,
    direction: String,
    ethertype: String,
    #[serde(default)]
    protocol: Option<String>,
    #[serde(default)]
    port_range_min: Option<i32>,
    #[serde(default)]
    port_range_max: Option<i32>,
    #[serde(default)]
    remote_group_id: Option<String>,
    #[serde(default)]
    remote_ip_prefix: Option<String>,
    #[serde(default)]
    description: Option<String>,
}

impl From<ResponseBody> for SecurityGroup {
    fn from(answer: ResponseBody) -> Self {
        Self {
            id: answer.id,
            name: answer.name,
            description: answer.description.unwrap_or_default(),
            created_at: utc(&answer.created_at),
            tags: answer.tags,
            rules: answer.security_group_rules.into_iter().map(SecurityGroupRule::from).collect(),
        }
    }
}

impl From<Rule> for SecurityGroupRule {
    fn from(rule: Rule) -> Self {
        let says = NewSecurityGroupRule {
            group_id: rule.security_group_id,
            direction: rule.direction,
            ether_type: rule.ethertype,
            protocol: rule.protocol,
            port_min: rule.port_range_min,
            port_max: rule.port_range_max,
            remote_group_id: rule.remote_group_id,
            remote_ip_prefix: rule.remote_ip_prefix,
            description: rule.description.unwrap_or_default(),
        };
        Self { id: rule.id, rule: says }
    }
}

pub(crate) async fn security_groups(
    session: &Session,
    query: &SecurityGroupQuery,
) -> CloudResult<Vec<SecurityGroup>> {
    let request = Request::get(Service::Network, "/security-groups")
        .with_some("id", query.id.as_deref())
        .with_some("name", query.name.as_deref())
        .with_some("description", query.description.as_deref())
        .with_some("project_id", query.project_id.as_deref());
    let found: Vec<ResponseBody> = list(session, tagged(request, &query.tagged), "security_groups").await?;
    Ok(found.into_iter().map(SecurityGroup::from).collect())
}

pub(crate) async fn create_security_group(
    session: &Session,
    name: &str,
    description: &str,
) -> CloudResult<SecurityGroup> {
    let body = json!({"security_group": {"name": name, "description": description}});
    let request = Request::post(Service::Network, "/security-groups", body);
    Ok(session.under::<ResponseBody>(&request, "security_group").await?.into())
}

pub(crate) async fn delete_security_group(session: &Session, id: &str) -> CloudResult<()> {
    delete(session, "security-groups", id).await
}

/// Returns the ids of the rules, which Neutron adds all or none.
pub(crate) async fn create_security_group_rules(
    session: &Session,
    new: &[NewSecurityGroupRule],
) -> CloudResult<Vec<String>> {
    let rules: Vec<Value> = new.iter().map(rule).collect();
    let request =
        Request::post(Service::Network, "/security-group-rules", json!({"security_group_rules": rules}));
    let made = session.under::<Vec<Rule>>(&request, "security_group_rules").await?;
    Ok(made.into_iter().map(|rule| rule.id).collect())
}

fn rule(new: &NewSecurityGroupRule) -> Value {
    object([
        ("security_group_id", Some(json!(new.group_id))),
        ("direction", Some(json!(new.direction))),
        ("ethertype", Some(json!(new.ether_type))),
        ("protocol", text(new.protocol.as_ref())),
        ("port_range_min", new.port_min.map(|port| json!(port))),
        ("port_range_max", new.port_max.map(|port| json!(port))),
        ("remote_group_id", text(new.remote_group_id.as_ref())),
        ("remote_ip_prefix", text(new.remote_ip_prefix.as_ref())),
        ("description", Some(json!(new.description))),
    ])
    .into()
}

pub(crate) async fn delete_security_group_rule(session: &Session, id: &str) -> CloudResult<()> {
    delete(session, "security-group-rules", id).await
}
