//! Output of the command: a table for people, and JSON for programs.

use apiserver_cli::{age, columns};
use jiff::Timestamp;
use serde_json::{Value, json};

use super::resources::{Listing, TaggedResource};

/// Id of the form.
const SCHEMA: &str = "capstan.dev/orphans/v1";

/// Returns the listing as JSON. Fields are added, and never renamed or removed.
pub(super) fn view(listing: &Listing) -> Value {
    let projects = listing.projects.iter().map(|(id, region)| json!({"id": id, "region": region}));
    json!({
        "schema": SCHEMA,
        "projects": projects.collect::<Vec<_>>(),
        "resources": listing.found.iter().map(resource).collect::<Vec<_>>(),
        "gaps": listing.gaps,
    })
}

fn resource(found: &TaggedResource) -> Value {
    let mut fields = json!({"kind": found.kind, "id": found.id, "name": found.name, "tag": found.ownership.tag(),
        "project": found.project, "region": found.region});
    if !found.created_at.is_empty() {
        fields["createdTime"] = json!(found.created_at);
    }
    if let Some(owner) = &found.ownership.owner {
        fields["owner"] = json!(owner);
    }
    fields
}

/// Returns the listing as text. `now` is the time for ages.
pub(super) fn text(listing: &Listing, now: Timestamp) -> String {
    if listing.found.is_empty() {
        return match listing.projects.len() {
            1 => "no resource without an object in 1 project\n".to_owned(),
            count => format!("no resource without an object in {count} projects\n"),
        };
    }
    let titles = ["KIND", "ID", "NAME", "AGE", "TAG", "OWNER"].map(str::to_owned);
    let rows = listing.found.iter().map(|found| {
        let age = found.created_at.parse().map_or_else(|_| "-".to_owned(), |then| age(then, now));
        let owner = found.ownership.owner.clone().unwrap_or_else(|| "-".to_owned());
        [found.kind.to_owned(), found.id.clone(), found.name.clone(), age, found.ownership.tag(), owner]
    });
    let rows: Vec<[String; 6]> = std::iter::once(titles).chain(rows).collect();
    columns(&rows)
}
