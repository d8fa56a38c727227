//! Suite cases about quotas, in a project with small ones.

use super::{World, refused};
use crate::{ErrorClass, NewServer, SecurityGroupQuery};

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
