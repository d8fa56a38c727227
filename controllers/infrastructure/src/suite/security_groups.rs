//! Suite cases about security groups and rules.

use std::slice::from_ref;

use super::{UNKNOWN_ID, World, ids, networks::tag_queries, refused};
use crate::{ErrorClass, NewSecurityGroupRule, SecurityGroupQuery, TaggedKind};

pub(super) async fn groups(world: World) {
    let cloud = &world.cloud;
    let group = cloud.create_security_group(&world.name("group"), "made by the suite").await.unwrap();
    assert_eq!(group.description, "made by the suite");
    assert!(group.rules.iter().all(|rule| rule.rule.direction == "egress"), "{:?}", group.rules);
    let tags = ["red".to_owned(), "round".to_owned()];
    cloud.set_tags(TaggedKind::SecurityGroup, &group.id, &tags).await.unwrap();
    let named = SecurityGroupQuery { name: Some(group.name.clone()), ..SecurityGroupQuery::default() };
    let found = [
        SecurityGroupQuery { id: Some(group.id.clone()), ..SecurityGroupQuery::default() },
        SecurityGroupQuery { description: Some("made by the suite".into()), ..named.clone() },
    ];
    let tagged = tag_queries(true).map(|tagged| SecurityGroupQuery { tagged, ..named.clone() });
    for query in found.into_iter().chain(tagged) {
        assert_eq!(ids!(cloud.security_groups(&query).await.unwrap()), [group.id.as_str()], "{query:?}");
    }
    let none = [
        SecurityGroupQuery { id: Some(UNKNOWN_ID.into()), ..SecurityGroupQuery::default() },
        SecurityGroupQuery { description: Some("another".into()), ..named.clone() },
        SecurityGroupQuery { project_id: Some(UNKNOWN_ID.into()), ..named.clone() },
    ];
    let tagged = tag_queries(false).map(|tagged| SecurityGroupQuery { tagged, ..named.clone() });
    for query in none.into_iter().chain(tagged) {
        assert_eq!(cloud.security_groups(&query).await.unwrap(), [], "{query:?}");
    }
    cloud.delete_security_group(&group.id).await.unwrap();
    assert_eq!(cloud.security_groups(&named).await.unwrap(), []);
}

pub(super) async fn rules(world: World) {
    let cloud = &world.cloud;
    let group = cloud.create_security_group(&world.name("rules"), "").await.unwrap();
    let api = NewSecurityGroupRule {
        group_id: group.id.clone(),
        direction: "ingress".into(),
        ether_type: "IPv4".into(),
        protocol: Some("tcp".into()),
        port_min: Some(6443),
        port_max: Some(6443),
        remote_ip_prefix: Some("0.0.0.0/0".into()),
        description: "api".into(),
        ..NewSecurityGroupRule::default()
    };
    let peers = NewSecurityGroupRule {
        group_id: group.id.clone(),
        direction: "ingress".into(),
        ether_type: "IPv4".into(),
        remote_group_id: Some(group.id.clone()),
        ..NewSecurityGroupRule::default()
    };
    let query = SecurityGroupQuery { id: Some(group.id.clone()), ..SecurityGroupQuery::default() };
    for rule in [&api, &peers] {
        let id = cloud.create_security_group_rules(from_ref(rule)).await.unwrap().remove(0);
        let seen = cloud.security_groups(&query).await.unwrap().remove(0).rules;
        let seen = seen.into_iter().find(|seen| seen.id == id).unwrap();
        assert_eq!(&seen.rule, rule, "the rule differs from the created one");
        refused(cloud.create_security_group_rules(from_ref(rule)).await, ErrorClass::Conflict);
        cloud.delete_security_group_rule(&id).await.unwrap();
        refused(cloud.delete_security_group_rule(&id).await, ErrorClass::NotFound);
    }
    let backwards = NewSecurityGroupRule { port_min: Some(7000), ..api.clone() };
    refused(cloud.create_security_group_rules(&[backwards]).await, ErrorClass::Invalid);
    // Several at once: all or none.
    let ids = cloud.create_security_group_rules(&[api.clone(), peers.clone()]).await.unwrap();
    let seen = cloud.security_groups(&query).await.unwrap().remove(0).rules;
    for (id, rule) in ids.iter().zip([&api, &peers]) {
        assert!(seen.iter().any(|seen| seen.id == *id && seen.rule == *rule), "{rule:?} is not in {seen:?}");
    }
    let ssh = NewSecurityGroupRule { port_min: Some(22), port_max: Some(22), ..api.clone() };
    refused(cloud.create_security_group_rules(&[ssh, peers]).await, ErrorClass::Conflict);
    let left = cloud.security_groups(&query).await.unwrap().remove(0).rules;
    assert_eq!(left.len(), seen.len(), "a rule was added although another one exists");
    cloud.delete_security_group(&group.id).await.unwrap();
    refused(cloud.create_security_group_rules(&[api]).await, ErrorClass::NotFound);
}
