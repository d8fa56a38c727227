//! Suite cases about quotas, in a project with small ones.

use super::{World, refused};
use crate::{ErrorClass, NewServer, Quota, QuotaService, SecurityGroupQuery};

pub(super) async fn quota(world: World) {
    let cloud = world.connector.connect(&world.expected.tiny).await.unwrap();
    let tiny = World { cloud, ..world };
    let flavor_id = tiny.flavor(&tiny.expected.large_flavor).await;
    let large = NewServer { flavor_id, ..tiny.server("large", Vec::new()).await };
    let error = refused(tiny.cloud.create_server(&large).await, ErrorClass::Quota);
    assert_eq!(error.status, Some(403), "{error:?}");

    let error = loop {
        let made = tiny.cloud.security_groups(&SecurityGroupQuery::default()).await.unwrap().len();
        assert!(made < 20, "the quota is not tiny");
        if let Err(error) = tiny.cloud.create_security_group(&tiny.name("quota"), "").await {
            break error;
        }
    };
    assert_eq!((error.class, error.status), (ErrorClass::Quota, Some(409)), "{error:?}");
    // The created groups are in another project than the one that is swept after each case.
    super::sweep::sweep(&tiny).await;
}

pub(super) async fn usage(world: World) {
    async fn quota(world: &World, service: QuotaService, resource: &str) -> Quota {
        let quotas = world.cloud.quotas(service).await.unwrap();
        let found = quotas.iter().find(|quota| quota.resource == resource);
        found.unwrap_or_else(|| panic!("no {resource} among {quotas:?}")).clone()
    }
    assert!(!world.cloud.project().is_empty());
    for (service, resource) in [
        (QuotaService::Compute, "instances"),
        (QuotaService::Compute, "cores"),
        (QuotaService::Compute, "ram"),
        (QuotaService::Network, "port"),
        (QuotaService::Network, "security_group_rule"),
        (QuotaService::Volume, "volumes"),
        (QuotaService::Volume, "gigabytes"),
    ] {
        let quota = quota(&world, service, resource).await;
        assert!(quota.limit == -1 || quota.used <= quota.limit, "{quota:?}");
    }
    let before = quota(&world, QuotaService::Network, "security_group").await;
    let group = world.cloud.create_security_group(&world.name("usage"), "").await.unwrap();
    let after = quota(&world, QuotaService::Network, "security_group").await;
    world.cloud.delete_security_group(&group.id).await.unwrap();
    assert_eq!(after, Quota { used: before.used + 1, ..before });
}
