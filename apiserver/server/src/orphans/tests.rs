//! Ownership on resources, and the output.

use std::collections::{BTreeMap, HashSet};

use apiserver_cli::ViewForm;

use super::ownership::Ownership;
use super::resources::{Listing, TaggedResource};
use super::view::{text, view};

fn ownership(tags: &[&str], description: &str, metadata: &[(&str, &str)]) -> Option<Ownership> {
    let tags: Vec<String> = tags.iter().map(|tag| (*tag).to_owned()).collect();
    let metadata: BTreeMap<String, String> =
        metadata.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    Ownership::of(&tags, description, &metadata)
}

#[test]
fn a_resource_has_an_object_if_one_of_its_owners_is_known() {
    let ids: HashSet<String> = ["m", "c", "op"].map(str::to_owned).into();
    let volume = [("capstan", "capstan-m"), ("capstan-cluster", "capstan-cluster-x"), ("tags", "a")];
    let of_operation = [("capstan", "capstan-x"), ("capstan-operation", "capstan-op")];
    for (case, found, expected) in [
        ("tag", ownership(&["a", "capstan-m", "capstan-cluster-x"], "", &[]), true),
        ("description", ownership(&[], "capstan: OpenStackMachine team/m1 m", &[]), true),
        ("metadata", ownership(&[], "", &volume), true),
        ("operation", ownership(&[], "", &of_operation), true),
        ("cluster alone", ownership(&["capstan-cluster-c"], "", &[]), true),
        ("unknown", ownership(&["capstan-x"], "", &[]), false),
        (
            "unknown machine of a known cluster",
            ownership(&["capstan-x", "capstan-cluster-c"], "", &[]),
            false,
        ),
        ("unknown cluster", ownership(&["capstan-cluster-x"], "", &[]), false),
    ] {
        assert_eq!(found.map(|it| it.is_known(&ids)), Some(expected), "{case}");
    }
    for (tags, description) in [(&["capstan-", "other-m"][..], ""), (&[], "capstan"), (&[], "of m")] {
        assert_eq!(ownership(tags, description, &[]), None, "{tags:?} {description}");
    }
    let tag = |found: Option<Ownership>| found.map(|it| it.tag()).unwrap_or_default();
    assert_eq!(tag(ownership(&["capstan-cluster-c", "capstan-x"], "", &[])), "capstan-x");
    assert_eq!(tag(ownership(&["capstan-cluster-c"], "", &[])), "capstan-cluster-c");
}

#[test]
fn the_output_names_each_resource_with_its_tag_and_its_lost_object() {
    let now = "2026-01-01T01:10:00Z".parse().unwrap();
    let mut listing = Listing { projects: vec![("p1".to_owned(), "R1".to_owned())], ..Listing::default() };
    assert_eq!(text(&listing, now), "no resource without an object in 1 project\n");
    let found = |kind, id: &str, created_at: &str, ownership: Option<Ownership>| TaggedResource {
        kind,
        id: id.to_owned(),
        name: "n".to_owned(),
        ownership: ownership.unwrap(),
        created_at: created_at.to_owned(),
        project: "p1".to_owned(),
        region: "R1".to_owned(),
    };
    let network = ownership(&[], "capstan: OpenStackCluster team/c u1", &[]);
    listing.found = vec![
        found("network", "n1", "2026-01-01T00:00:00Z", network),
        found("load balancer", "l1", "", ownership(&["capstan-u2"], "", &[])),
    ];
    let expected = "\
KIND           ID  NAME  AGE  TAG         OWNER
network        n1  n     70m  capstan-u1  OpenStackCluster team/c
load balancer  l1  n     -    capstan-u2  -
";
    assert_eq!(text(&listing, now), expected);
    let json = ViewForm::Json.text(String::new, &view(&listing)).unwrap();
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["schema"], "capstan.dev/orphans/v1");
    assert_eq!(json["resources"][0]["owner"], "OpenStackCluster team/c");
    assert_eq!(json["resources"][0]["createdTime"], "2026-01-01T00:00:00Z");
    assert!(json["resources"][1].get("createdTime").is_none());
    assert_eq!(json["projects"][0]["id"], "p1");
}
