//! Suite cases about logins.

use std::sync::Arc;

use super::{World, refused};
use crate::{Credentials, ErrorClass};

pub(super) async fn shared(world: World) {
    let (one, two) = tokio::join!(
        world.connector.connect(&world.credentials),
        world.connector.connect(&world.credentials)
    );
    assert!(Arc::ptr_eq(&one.unwrap(), &two.unwrap()), "equal credentials must share one session");
    let secret = "password";
    let shown = format!("{:?} {:?} {:?}", world.connector, world.cloud, world.credentials);
    assert!(!shown.contains(secret), "{shown}");
}

pub(super) async fn wrong_password(world: World) {
    let error =
        refused(world.connector.connect(&world.expected.wrong_password).await, ErrorClass::Unauthorized);
    assert!(!error.to_string().contains(&world.expected.wrong_password.clouds_yaml));
}

pub(super) async fn unreachable(world: World) {
    refused(world.connector.connect(&world.expected.unreachable).await, ErrorClass::Unreachable);
}

pub(super) async fn unknown_cloud_or_region(world: World) {
    let nobody = Credentials { cloud_name: "nobody's".into(), ..world.credentials.clone() };
    let error = refused(world.connector.connect(&nobody).await, ErrorClass::Credentials);
    let known = world.credentials.cloud_name.as_str();
    assert!(error.message.contains("nobody's") && error.message.contains(known), "{error}");

    let nowhere = Credentials { region: Some("nowhere".into()), ..world.credentials.clone() };
    let error = refused(world.connector.connect(&nowhere).await, ErrorClass::Credentials);
    assert!(error.message.contains("nowhere") && error.message.contains(world.cloud.region()), "{error}");
}
