//! Nova calls.

mod actions;
mod answers;
mod bodies;

pub(crate) use actions::{action, actions};

use std::collections::BTreeMap;

use controllers_infrastructure::{
    CloudError, CloudResult, ErrorClass, Flavor, NewServer, PowerState, RebootKind, Rebuild, Server,
    ServerGroup,
};
use serde_json::{Value, json};

use crate::{
    paging::list,
    request::{Request, Service, encode},
    session::Session,
};

pub(crate) async fn flavors(session: &Session) -> CloudResult<Vec<Flavor>> {
    let found: Vec<answers::Flavor> =
        list(session, Request::get(Service::Compute, "/flavors/detail"), "flavors").await?;
    Ok(found.into_iter().map(Flavor::from).collect())
}

/// First microversion of Nova whose flavors have their extra specs.
const EXTRA_SPECS: u32 = 61;

/// Reads the extra specs of a flavor, if the list of flavors does not have them.
pub(crate) async fn flavor_extra_specs(
    session: &Session,
    flavor: &str,
) -> CloudResult<BTreeMap<String, String>> {
    if session.nova_minor().await? >= EXTRA_SPECS {
        return Ok(BTreeMap::new());
    }
    let path = format!("/flavors/{}/os-extra_specs", encode(flavor));
    session.under(&Request::get(Service::Compute, path), "extra_specs").await
}

pub(crate) async fn compute_zones(session: &Session) -> CloudResult<Vec<String>> {
    let request = Request::get(Service::Compute, "/os-availability-zone");
    let zones: Vec<answers::Zone> = session.under(&request, "availabilityZoneInfo").await?;
    Ok(zones.into_iter().filter(|zone| zone.state.available).map(|zone| zone.name).collect())
}

pub(crate) async fn has_key_pair(session: &Session, name: &str) -> CloudResult<bool> {
    let request = Request::get(Service::Compute, format!("/os-keypairs/{}", encode(name)));
    match session.done(&request).await {
        Ok(_) => Ok(true),
        Err(error) if error.is_not_found() => Ok(false),
        Err(error) => Err(error),
    }
}

/// First microversion of Nova in which a server group has one policy.
const ONE_POLICY: u32 = 64;

/// Lists server groups. Nova pages this list by offset without a link to the next page; the last page is
/// empty.
pub(crate) async fn server_groups(session: &Session) -> CloudResult<Vec<ServerGroup>> {
    let mut all: Vec<ServerGroup> = Vec::new();
    loop {
        let request =
            Request::get(Service::Compute, "/os-server-groups").with("offset", &all.len().to_string());
        let page: Vec<answers::Group> = session.under(&request, "server_groups").await?;
        let fresh: Vec<ServerGroup> = page
            .into_iter()
            .map(ServerGroup::from)
            .filter(|group| all.iter().all(|known| known.id != group.id))
            .collect();
        if fresh.is_empty() {
            return Ok(all);
        }
        all.extend(fresh);
    }
}

/// Creates a server group. Before microversion 2.64, the policy is a list of one.
pub(crate) async fn create_server_group(
    session: &Session,
    name: &str,
    policy: &str,
) -> CloudResult<ServerGroup> {
    let group = if session.nova_minor().await? >= ONE_POLICY {
        json!({"name": name, "policy": policy})
    } else {
        json!({"name": name, "policies": [policy]})
    };
    let request = Request::post(Service::Compute, "/os-server-groups", json!({"server_group": group}));
    Ok(session.under::<answers::Group>(&request, "server_group").await?.into())
}

pub(crate) async fn delete_server_group(session: &Session, id: &str) -> CloudResult<()> {
    let path = format!("/os-server-groups/{}", encode(id));
    session.done(&Request::delete(Service::Compute, path)).await.map(drop)
}

/// Returns the path of the tags of a server.
pub(crate) fn tags_path(id: &str) -> String {
    format!("{}/tags", path(id))
}

/// Replaces all tags of a server.
pub(crate) async fn set_tags(session: &Session, id: &str, tags: &[String]) -> CloudResult<()> {
    let request = Request::put(Service::Compute, tags_path(id), json!({"tags": tags}));
    session.done(&request).await.map(drop)
}

pub(crate) async fn servers(session: &Session) -> CloudResult<Vec<Server>> {
    list_servers(session, Request::get(Service::Compute, "/servers/detail")).await
}

/// Lists servers of a name. Nova takes the name for a regular expression of its database. Special
/// characters become "any character", and the exact name is compared here.
pub(crate) async fn servers_named(session: &Session, name: &str) -> CloudResult<Vec<Server>> {
    let plain = |c: char| if c.is_ascii_alphanumeric() || c == '-' || c == '_' { c } else { '.' };
    let pattern = format!("^{}$", name.chars().map(plain).collect::<String>());
    let request = Request::get(Service::Compute, "/servers/detail").with("name", &pattern);
    let found = list_servers(session, request).await?;
    Ok(found.into_iter().filter(|server| server.name == name).collect())
}

async fn list_servers(session: &Session, request: Request) -> CloudResult<Vec<Server>> {
    let found: Vec<answers::Server> = list(session, request, "servers").await?;
    Ok(found.into_iter().map(Server::from).collect())
}

pub(crate) async fn server(session: &Session, id: &str) -> CloudResult<Server> {
    let request = Request::get(Service::Compute, path(id));
    Ok(session.under::<answers::Server>(&request, "server").await?.into())
}

pub(crate) async fn create_server(session: &Session, new: &NewServer) -> CloudResult<String> {
    within_limit(new.user_data.as_deref(), "create server", &new.name)?;
    let request = Request::post(Service::Compute, "/servers", bodies::create(new));
    Ok(session.under::<answers::Created>(&request, "server").await?.id)
}

pub(crate) async fn delete_server(session: &Session, id: &str) -> CloudResult<()> {
    session.done(&Request::delete(Service::Compute, path(id))).await.map(drop)
}

pub(crate) async fn purge_server(session: &Session, id: &str) -> CloudResult<()> {
    let request =
        Request::post(Service::Compute, format!("{}/action", path(id)), json!({"forceDelete": null}));
    session.done(&request).await.map(drop)
}

pub(crate) async fn reboot_server(
    session: &Session,
    id: &str,
    kind: RebootKind,
) -> CloudResult<Option<String>> {
    let word = match kind {
        RebootKind::Soft => "SOFT",
        RebootKind::Hard => "HARD",
    };
    act(session, id, json!({"reboot": {"type": word}})).await
}

pub(crate) async fn set_power_state(
    session: &Session,
    id: &str,
    state: PowerState,
) -> CloudResult<Option<String>> {
    let action = match state {
        PowerState::Off => "os-stop",
        PowerState::On => "os-start",
    };
    act(session, id, json!({action: null})).await
}

pub(crate) async fn rebuild_server(
    session: &Session,
    id: &str,
    rebuild: &Rebuild,
) -> CloudResult<Option<String>> {
    within_limit(rebuild.user_data.as_deref(), "rebuild server", id)?;
    act(session, id, bodies::rebuild(rebuild)).await
}

pub(crate) async fn console_log(session: &Session, id: &str, lines: u32) -> CloudResult<String> {
    let body = json!({"os-getConsoleOutput": {"length": lines}});
    let request = Request::post(Service::Compute, format!("{}/action", path(id)), body);
    session.under(&request, "output").await
}

pub(crate) async fn detach_volume(session: &Session, server: &str, volume: &str) -> CloudResult<()> {
    let attachment = format!("{}/os-volume_attachments/{}", path(server), encode(volume));
    session.done(&Request::delete(Service::Compute, attachment)).await.map(drop)
}

async fn act(session: &Session, id: &str, body: Value) -> CloudResult<Option<String>> {
    session.done(&Request::post(Service::Compute, format!("{}/action", path(id)), body)).await
}

fn path(id: &str) -> String {
    format!("/servers/{}", encode(id))
}

/// Longest encoded user data that Nova accepts. Unit: bytes.
const LONGEST_USER_DATA: usize = 65_535;

/// Refuses user data that Nova would refuse, because Nova would quote them in its response.
fn within_limit(user_data: Option<&[u8]>, call: &str, name: &str) -> CloudResult<()> {
    let length = user_data.map_or(0, <[u8]>::len);
    // Base64 encodes three bytes as four.
    if length.div_ceil(3).saturating_mul(4) <= LONGEST_USER_DATA {
        return Ok(());
    }
    let message = format!(
        "the bootstrap data has {length} bytes, and Nova accepts at most 49149. Let the guest download the rest"
    );
    Err(CloudError::new(ErrorClass::Invalid, format!("{call} {name:?}"), message))
}
