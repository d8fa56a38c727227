//! Authentication and authorization: wiring, and the tasks that follow their files and objects.

use std::sync::Arc;

use apiserver_access::{Authenticator, Authorizer, Chain};
use apiserver_http::{ApiServer, Supervisor};
use apiserver_machinery::store::ObjectStore;

use crate::authentication_file::AuthenticationFile;
use crate::authorization_file::{AuthorizationFile, OwnAuthorizers};
use crate::config::{Keystone, ServerConfiguration};
use crate::host::Host;
use crate::machines::{BootstrapReads, MachineAuthorizer, MachineObjects};
use crate::rbac::{ProjectRoles, RbacPolicy};
use crate::service_accounts::{HostNamespaces, TokenIssuer};
use crate::{controllers, token_webhook};

pub(super) async fn authenticator(
    configuration: &ServerConfiguration,
    host: Option<&Host>,
    supervisor: &Supervisor,
) -> anyhow::Result<Authenticator> {
    let headers = host.map(|host| host.proxy().borrow().headers.clone()).unwrap_or_default();
    let authenticator = Authenticator::new(headers, host.map(Host::tokens).transpose()?);
    let keystone = configuration.keystone.as_ref().map(Keystone::tokens).transpose()?;
    let has_jws = configuration.keystone.as_ref().is_some_and(|keystone| keystone.jws);
    let authenticator = authenticator.with_keystone(keystone).with_keystone_jws(has_jws);
    let webhook = token_webhook::open(configuration, supervisor).await?;
    let certificates = host.and_then(Host::certificates);
    let networks = configuration.host.as_ref().map(|host| host.proxy_networks()).transpose()?;
    let authenticator = authenticator.with_webhook(webhook).with_host_certificates(certificates);
    let authenticator = authenticator.with_proxy_networks(networks.unwrap_or_default());
    // The authentication file can say otherwise.
    authenticator.set_default_anonymous_paths();
    Ok(authenticator.with_masters(configuration.system_masters))
}

/// Authorizer of requests on the direct endpoint, with the file that configures it, if there is one. Without a file, our
/// own policy is first, then the roles in the store. The host decides last, and only about its own users.
pub(super) async fn direct_authorizer(
    configuration: &ServerConfiguration,
    policy: &RbacPolicy,
    host: Option<&Host>,
    objects: &Arc<ObjectStore>,
    bootstrap_reads: BootstrapReads,
) -> anyhow::Result<(Arc<dyn Authorizer>, Option<AuthorizationFile>)> {
    let mut system: Vec<Arc<dyn Authorizer>> = Vec::new();
    if host.is_some() {
        system.push(Arc::new(HostNamespaces));
    }
    system.push(Arc::new(controllers::local_policy().with_masters(configuration.system_masters)));
    let rbac = policy.authorizer();
    let of_projects = || -> Arc<dyn Authorizer> { Arc::new(rbac.of_projects()) };
    let own = OwnAuthorizers {
        system: Arc::new(Chain(system)),
        machine: Arc::new(MachineAuthorizer::new(Arc::clone(objects), bootstrap_reads)),
        stored_roles: Arc::new(rbac.of_stored_bindings()),
        keystone: configuration.keystone.is_some().then(of_projects),
        rbac,
        host: host.map(Host::authorizer_of_its_users),
    };
    let (chain, file): (Arc<dyn Authorizer>, _) = match &configuration.authorization_config_file {
        None => (Arc::new(own.chain()), None),
        Some(path) => {
            let file = AuthorizationFile::open(path.clone(), own).await?;
            (Arc::new(file.authorizer()), Some(file))
        }
    };
    Ok((host.map_or_else(|| Arc::clone(&chain), |host| host.cautious(Arc::clone(&chain))), file))
}

/// Spawns the tasks that follow the roles, the bindings and the namespaces of Keystone's projects, and announce where the
/// host cluster denies what its roles allow.
pub(super) fn supervise_roles(
    configuration: &ServerConfiguration,
    policy: RbacPolicy,
    server: &Arc<ApiServer>,
    supervisor: &Supervisor,
    host: Option<&Host>,
) {
    let keystone = configuration.keystone.as_ref();
    let projects = keystone.map_or_else(ProjectRoles::none, |it| ProjectRoles::new(it.project_roles.clone()));
    let namespaces = host.map(Host::known_namespaces);
    let roles = policy.follow(Arc::clone(server), projects, namespaces, supervisor.shutdown().clone());
    supervisor.spawn("roles", roles);
    if let Some(mirror) = host.and_then(Host::mirror) {
        let announced = mirror.announce(Arc::clone(server), supervisor.shutdown().clone());
        supervisor.spawn("disagreements of the host cluster", announced);
    }
}

/// Adds the identities that are objects of the store: service accounts and Machines.
pub(super) fn of_objects(
    authenticator: Authenticator,
    issuer: &TokenIssuer,
    objects: &Arc<ObjectStore>,
) -> Authenticator {
    let machines = Arc::new(MachineObjects::new(Arc::clone(objects)));
    authenticator.with_issuer(issuer.as_issuer(Arc::clone(objects))).with_machines(machines)
}

/// Authorizer of requests through the host cluster: our own policy first, then the host's answer.
pub(super) fn hosted_authorizer(
    configuration: &ServerConfiguration,
    host: Option<&Host>,
) -> Arc<dyn Authorizer> {
    let policy = controllers::local_policy().with_masters(configuration.system_masters);
    let mut chain: Vec<Arc<dyn Authorizer>> = vec![Arc::new(policy)];
    chain.extend(host.map(Host::authorizer));
    Arc::new(Chain(chain))
}

/// Spawns the tasks that follow the authentication file and the authorization file, if there are any, and fetch the keys
/// of issuers.
pub(super) fn supervise_access(
    supervisor: &Supervisor,
    authentication: Option<AuthenticationFile>,
    authorization: Option<AuthorizationFile>,
) {
    let shutdown = supervisor.shutdown();
    if let Some(file) = authentication {
        supervisor.spawn("keys of issuers", file.issuers().follow(shutdown.clone()));
        supervisor.spawn("authentication file", file.follow(shutdown.clone()));
    }
    if let Some(file) = authorization {
        supervisor.spawn("authorization file", file.follow(shutdown.clone()));
    }
}
