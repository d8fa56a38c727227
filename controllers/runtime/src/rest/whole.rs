//! Queries of one resource that a list of the whole project serves, too.

use std::fmt::Debug;

use async_trait::async_trait;
use controllers_infrastructure::{
    Cloud, CloudResult, FloatingIp, FloatingIpQuery, Image, ImageQuery, LoadBalancer, LoadBalancerQuery,
    Network, NetworkQuery, Port, PortQuery, Router, SecurityGroup, SecurityGroupQuery, Subnet, SubnetQuery,
};

/// Owners of a router's ports on subnets: of an ordinary router, a distributed one and a highly available one.
const ROUTER_PORTS: [&str; 3] = [
    "network:router_interface",
    "network:router_interface_distributed",
    "network:ha_router_replicated_interface",
];

/// Query whose result a look at rest shares with those of other objects.
#[async_trait]
pub(super) trait Query<T>: Debug + Clone + Send + Sync {
    /// Reads the result.
    async fn read(&self, cloud: &dyn Cloud) -> CloudResult<Vec<T>>;

    /// Returns the query of the whole project, if this one names one resource by what only one has. The list of the project
    /// does not have those of other projects, and cannot say whether a name is ambiguous.
    fn whole(&self, project: &str) -> Option<Self>;

    /// Returns true if the resource is the one that this query names.
    fn names(&self, found: &T) -> bool;
}

#[async_trait]
impl Query<Network> for NetworkQuery {
    async fn read(&self, cloud: &dyn Cloud) -> CloudResult<Vec<Network>> {
        cloud.networks(self).await
    }

    fn whole(&self, project: &str) -> Option<Self> {
        of_project(self, project)
    }

    fn names(&self, found: &Network) -> bool {
        self.id.as_ref() == Some(&found.id)
    }
}

#[async_trait]
impl Query<Router> for NetworkQuery {
    async fn read(&self, cloud: &dyn Cloud) -> CloudResult<Vec<Router>> {
        cloud.routers(self).await
    }

    fn whole(&self, project: &str) -> Option<Self> {
        of_project(self, project)
    }

    fn names(&self, found: &Router) -> bool {
        self.id.as_ref() == Some(&found.id)
    }
}

fn of_project(query: &NetworkQuery, project: &str) -> Option<NetworkQuery> {
    let by_id = NetworkQuery { id: query.id.clone(), ..NetworkQuery::default() };
    let all = NetworkQuery { project_id: Some(project.to_owned()), ..NetworkQuery::default() };
    (query.id.is_some() && *query == by_id).then_some(all)
}

#[async_trait]
impl Query<Subnet> for SubnetQuery {
    async fn read(&self, cloud: &dyn Cloud) -> CloudResult<Vec<Subnet>> {
        cloud.subnets(self).await
    }

    fn whole(&self, project: &str) -> Option<Self> {
        let by_id = Self { id: self.id.clone(), network_id: self.network_id.clone(), ..Self::default() };
        let all = Self { project_id: Some(project.to_owned()), ..Self::default() };
        (self.id.is_some() && *self == by_id).then_some(all)
    }

    fn names(&self, found: &Subnet) -> bool {
        self.id.as_ref() == Some(&found.id)
            && self.network_id.as_ref().is_none_or(|network| *network == found.network_id)
    }
}

#[async_trait]
impl Query<SecurityGroup> for SecurityGroupQuery {
    async fn read(&self, cloud: &dyn Cloud) -> CloudResult<Vec<SecurityGroup>> {
        cloud.security_groups(self).await
    }

    fn whole(&self, project: &str) -> Option<Self> {
        let by_id = Self { id: self.id.clone(), ..Self::default() };
        let all = Self { project_id: Some(project.to_owned()), ..Self::default() };
        (self.id.is_some() && *self == by_id).then_some(all)
    }

    fn names(&self, found: &SecurityGroup) -> bool {
        self.id.as_ref() == Some(&found.id)
    }
}

#[async_trait]
impl Query<Port> for PortQuery {
    async fn read(&self, cloud: &dyn Cloud) -> CloudResult<Vec<Port>> {
        cloud.ports(self).await
    }

    /// The ports of routers on subnets are few. Those of servers are many, and no look at rest needs them.
    fn whole(&self, project: &str) -> Option<Self> {
        let by_device = Self { device_id: self.device_id.clone(), ..Self::default() };
        let all = Self {
            project_id: Some(project.to_owned()),
            device_owners: ROUTER_PORTS.map(str::to_owned).to_vec(),
            ..Self::default()
        };
        (self.device_id.is_some() && *self == by_device).then_some(all)
    }

    fn names(&self, found: &Port) -> bool {
        self.device_id.as_ref() == Some(&found.device_id)
    }
}

#[async_trait]
impl Query<FloatingIp> for FloatingIpQuery {
    async fn read(&self, cloud: &dyn Cloud) -> CloudResult<Vec<FloatingIp>> {
        cloud.floating_ips(self).await
    }

    fn whole(&self, project: &str) -> Option<Self> {
        let by_place =
            Self { address: self.address.clone(), description: self.description.clone(), ..Self::default() };
        let all = Self { project_id: Some(project.to_owned()), ..Self::default() };
        (*self != Self::default() && *self == by_place).then_some(all)
    }

    fn names(&self, found: &FloatingIp) -> bool {
        self.address.as_ref().is_none_or(|address| *address == found.address)
            && self.description.as_ref().is_none_or(|text| *text == found.description)
    }
}

#[async_trait]
impl Query<LoadBalancer> for LoadBalancerQuery {
    async fn read(&self, cloud: &dyn Cloud) -> CloudResult<Vec<LoadBalancer>> {
        cloud.load_balancers(self).await
    }

    fn whole(&self, _project: &str) -> Option<Self> {
        let by_id = Self { id: self.id.clone(), ..Self::default() };
        (self.id.is_some() && *self == by_id).then(Self::default)
    }

    fn names(&self, found: &LoadBalancer) -> bool {
        self.id.as_ref() == Some(&found.id)
    }
}

#[async_trait]
impl Query<Image> for ImageQuery {
    async fn read(&self, cloud: &dyn Cloud) -> CloudResult<Vec<Image>> {
        cloud.images(self).await
    }

    /// A cloud may have thousands of public images, so none is listed that no template names.
    fn whole(&self, _project: &str) -> Option<Self> {
        None
    }

    fn names(&self, _found: &Image) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_query_of_one_resource_is_served_by_the_list_of_the_project() {
        let some = |text: &str| Some(text.to_owned());
        let by_id = NetworkQuery { id: some("n"), ..NetworkQuery::default() };
        let all = Query::<Network>::whole(&by_id, "p").unwrap();
        assert_eq!(all, NetworkQuery { project_id: some("p"), ..NetworkQuery::default() });
        let by_name = NetworkQuery { name: some("n"), ..NetworkQuery::default() };
        let filtered = NetworkQuery { external: Some(true), ..by_id.clone() };
        for other in [NetworkQuery::default(), by_name, filtered, all] {
            assert_eq!(Query::<Network>::whole(&other, "p"), None, "{other:?}");
        }
        let on_network = SubnetQuery { id: some("s"), network_id: some("n"), ..SubnetQuery::default() };
        assert!(on_network.whole("p").is_some());
        let subnet = Subnet { id: "s".to_owned(), network_id: "other".to_owned(), ..Subnet::default() };
        assert!(!on_network.names(&subnet));
        assert_eq!(SubnetQuery { network_id: some("n"), ..SubnetQuery::default() }.whole("p"), None);
        let of_router = PortQuery { device_id: some("r"), ..PortQuery::default() };
        assert_eq!(of_router.whole("p").unwrap().device_owners.len(), ROUTER_PORTS.len());
        assert_eq!(PortQuery { name: some("vip"), ..PortQuery::default() }.whole("p"), None);
        let tagged = FloatingIpQuery { description: some("ours"), ..FloatingIpQuery::default() };
        assert!(tagged.whole("p").is_some());
        assert!(!tagged.names(&FloatingIp::default()));
        assert_eq!(FloatingIpQuery::default().whole("p"), None);
        let balancer = LoadBalancerQuery { id: some("l"), ..LoadBalancerQuery::default() };
        assert_eq!(balancer.whole("p"), Some(LoadBalancerQuery::default()));
        assert_eq!(ImageQuery { id: some("i"), ..ImageQuery::default() }.whole("p"), None);
    }
}
