//! Command `capstan orphans`: resources in the clouds with an ownership tag that no object has. It deletes nothing.
//!
//! After a restore the clouds are newer than the objects. The command reads the objects through the API and the resources
//! through the provider. It is a client of both, and needs no server of its own.

mod clouds;
mod objects;
mod ownership;
mod resources;
#[cfg(test)]
mod tests;
mod view;

use anyhow::bail;
use apiserver_cli::ConnectionArguments;
use controllers_infrastructure::CloudConnector;
use controllers_infrastructure_openstack::{AllowedEndpoints, OpenStackConnector};
use jiff::Timestamp;

use self::clouds::Clouds;
use self::objects::Objects;
use self::resources::Listing;
use crate::cli::OrphansArguments;
use crate::output;

/// Runs `capstan orphans`.
///
/// # Errors
/// Objects that cannot be read; credentials that cannot be used, or resources that cannot be listed, after the output of
/// the others; resources without an object.
pub(crate) fn run(arguments: &OrphansArguments) -> anyhow::Result<()> {
    let connection = ConnectionArguments {
        namespace: None,
        kubeconfig: arguments.kubeconfig.clone(),
        context: arguments.context.clone(),
    };
    let connector = OpenStackConnector::new(allowed(arguments)?);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let listing = runtime.block_on(async {
        let client = connection.client().await?;
        Box::pin(list(&client, &connector, arguments)).await
    })?;
    let view = view::view(&listing);
    let text = arguments.output.text(|| view::text(&listing, Timestamp::now()), &view);
    output::print(&text.map_err(anyhow::Error::msg)?)?;
    match (listing.gaps.len(), listing.found.len()) {
        (0, 0) => Ok(()),
        (0, 1) => bail!("1 resource has no object; it was not deleted"),
        (0, count) => bail!("{count} resources have no object; none was deleted"),
        _ => bail!("the list is not complete: {}", listing.gaps.join("; ")),
    }
}

/// Returns the endpoints that the command may connect to. Tenants write the Secrets, and the operator writes `--clouds`.
fn allowed(arguments: &OrphansArguments) -> anyhow::Result<AllowedEndpoints> {
    if arguments.clouds.is_some() {
        return Ok(AllowedEndpoints::all());
    }
    if arguments.allowed_endpoint.is_empty() {
        return Ok(AllowedEndpoints::default());
    }
    let allowed = AllowedEndpoints::of(&arguments.allowed_endpoint);
    allowed.map_err(|error| anyhow::anyhow!("--allowed-endpoint: {error}"))
}

/// Lists the resources without an object. The objects are read before and after the resources: an object has its
/// ownership tag before its first resource exists, and until its last one is gone.
async fn list(
    client: &kube::Client,
    connector: &dyn CloudConnector,
    arguments: &OrphansArguments,
) -> anyhow::Result<Listing> {
    let mut objects = Objects::read(client).await?;
    let clouds = Clouds::of(client, connector, &objects, arguments).await?;
    if clouds.clouds.is_empty() && clouds.gaps.is_empty() {
        bail!("no object names credentials of a cloud; give --clouds FILE and --cloud NAME");
    }
    let mut listing = Listing::default();
    listing.gaps.extend(clouds.gaps);
    for cloud in &clouds.clouds {
        listing.add_cloud(cloud.as_ref()).await;
    }
    objects.ids.extend(Objects::read(client).await?.ids);
    listing.found.retain(|resource| !resource.ownership.is_known(&objects.ids));
    Ok(listing)
}
