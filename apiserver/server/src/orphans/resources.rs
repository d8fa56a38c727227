//! Resources in the clouds that have ownership tags.

use std::collections::BTreeMap;

use controllers_infrastructure::{
    Cloud, CloudError, CloudResult, ErrorClass, FloatingIpQuery, ImageQuery, LoadBalancerQuery, NetworkQuery,
    PortQuery, SecurityGroupQuery, SubnetQuery, TrunkQuery,
};

use super::ownership::Ownership;

/// Resource, as far as the command reads it.
#[derive(Debug, Default)]
struct Read {
    id: String,
    name: String,
    tags: Vec<String>,
    description: String,
    metadata: BTreeMap<String, String>,
    created_at: String,
}

/// Reads a resource that has all fields but metadata, as those of Neutron do.
macro_rules! tagged {
    () => {
        |it| Read {
            id: it.id,
            name: it.name,
            tags: it.tags,
            description: it.description,
            created_at: it.created_at,
            ..Read::default()
        }
    };
}

/// Resource with ownership tags.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct TaggedResource {
    pub(super) kind: &'static str,
    pub(super) id: String,
    pub(super) name: String,
    pub(super) ownership: Ownership,
    /// Time of creation; empty if the service does not say it.
    pub(super) created_at: String,
    pub(super) project: String,
    pub(super) region: String,
}

/// Resources of all clouds, and what could not be listed.
#[derive(Debug, Clone, Default)]
pub(super) struct Listing {
    /// Project and region of each cloud.
    pub(super) projects: Vec<(String, String)>,
    pub(super) found: Vec<TaggedResource>,
    /// Lists that failed, with their errors.
    pub(super) gaps: Vec<String>,
}

impl Listing {
    /// Adds the resources of a cloud.
    pub(super) async fn add_cloud(&mut self, cloud: &dyn Cloud) {
        self.projects.push((cloud.project().to_owned(), cloud.region().to_owned()));
        self.add_servers(cloud).await;
        self.add_networks(cloud).await;
        self.add_ports(cloud).await;
        self.add_balancers_and_images(cloud).await;
    }

    async fn add_servers(&mut self, cloud: &dyn Cloud) {
        // Nova may keep a deleted server for a while.
        let servers = cloud.servers().await.map(|mut servers| {
            servers.retain(|it| !matches!(it.status.as_str(), "DELETED" | "SOFT_DELETED"));
            servers
        });
        self.add(cloud, "server", servers, |it| Read {
            id: it.id,
            name: it.name,
            tags: it.tags,
            created_at: it.created_at,
            ..Read::default()
        });
        self.add(cloud, "volume", cloud.volumes().await, |it| Read {
            id: it.id,
            name: it.name,
            metadata: it.metadata,
            created_at: it.created_at,
            ..Read::default()
        });
    }

    /// Adds the parts of networks. A project also sees shared networks of others, so that the project is a filter.
    async fn add_networks(&mut self, cloud: &dyn Cloud) {
        let project_id = Some(cloud.project().to_owned()).filter(|id| !id.is_empty());
        let query = NetworkQuery { project_id: project_id.clone(), ..NetworkQuery::default() };
        self.add(cloud, "network", cloud.networks(&query).await, tagged!());
        let subnets = SubnetQuery { project_id: project_id.clone(), ..SubnetQuery::default() };
        self.add(cloud, "subnet", cloud.subnets(&subnets).await, tagged!());
        self.add(cloud, "router", cloud.routers(&query).await, tagged!());
        let groups = SecurityGroupQuery { project_id, ..SecurityGroupQuery::default() };
        self.add(cloud, "security group", cloud.security_groups(&groups).await, tagged!());
    }

    async fn add_ports(&mut self, cloud: &dyn Cloud) {
        self.add(cloud, "port", cloud.ports(&PortQuery::default()).await, tagged!());
        self.add(cloud, "trunk", cloud.trunks(&TrunkQuery::default()).await, |it| Read {
            id: it.id,
            name: it.name,
            tags: it.tags,
            description: it.description,
            ..Read::default()
        });
        self.add(cloud, "floating IP", cloud.floating_ips(&FloatingIpQuery::default()).await, |it| Read {
            id: it.id,
            name: it.address,
            tags: it.tags,
            description: it.description,
            created_at: it.created_at,
            ..Read::default()
        });
    }

    async fn add_balancers_and_images(&mut self, cloud: &dyn Cloud) {
        let balancers = cloud.load_balancers(&LoadBalancerQuery::default()).await;
        self.add(cloud, "load balancer", balancers, |it| Read {
            id: it.id,
            name: it.name,
            tags: it.tags,
            description: it.description,
            ..Read::default()
        });
        self.add(cloud, "image", cloud.images(&ImageQuery::default()).await, |it| Read {
            id: it.id,
            name: it.name,
            tags: it.tags,
            created_at: it.created_at,
            ..Read::default()
        });
    }

    /// Adds those resources of a list that have ownership tags.
    fn add<T>(
        &mut self,
        cloud: &dyn Cloud,
        kind: &'static str,
        listed: CloudResult<Vec<T>>,
        read: impl Fn(T) -> Read,
    ) {
        let (project, region) = (cloud.project().to_owned(), cloud.region().to_owned());
        let listed = match listed {
            Ok(listed) => listed,
            Err(error) if is_absent(&error) => return,
            Err(error) => return self.gaps.push(format!("{kind} list of project {project}: {error}")),
        };
        self.found.extend(listed.into_iter().map(read).filter_map(|it| {
            Some(TaggedResource {
                kind,
                ownership: Ownership::of(&it.tags, &it.description, &it.metadata)?,
                id: it.id,
                name: it.name,
                created_at: it.created_at,
                project: project.clone(),
                region: region.clone(),
            })
        }));
    }
}

/// Returns true for a cloud without the service or the extension.
fn is_absent(error: &CloudError) -> bool {
    error.class == ErrorClass::NotFound || (error.class == ErrorClass::Broken && error.status.is_none())
}
