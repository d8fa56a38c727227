//! Queries to the cloud, from the filters of a spec.

use apiserver_types::{ImageParam, NetworkOrSGParam, SubnetParam};
use controllers_infrastructure::{ImageQuery, NetworkQuery, SecurityGroupQuery, SubnetQuery, TagQuery};

macro_rules! tags {
    ($filter:expr) => {
        TagQuery {
            tags: $filter.tags.clone().unwrap_or_default(),
            tags_any: $filter.tags_any.clone().unwrap_or_default(),
            not_tags: $filter.not_tags.clone().unwrap_or_default(),
            not_tags_any: $filter.not_tags_any.clone().unwrap_or_default(),
        }
    };
}

/// Returns the query for a network or router.
pub(crate) fn network(param: &NetworkOrSGParam) -> NetworkQuery {
    let filter = param.filter.clone().unwrap_or_default();
    NetworkQuery {
        id: param.id.clone(),
        tagged: tags!(filter),
        name: filter.name,
        description: filter.description,
        project_id: filter.project_id,
        external: None,
    }
}

/// Returns the query for a security group.
pub(crate) fn security_group(param: &NetworkOrSGParam) -> SecurityGroupQuery {
    let NetworkQuery { id, name, description, project_id, tagged, external: _ } = network(param);
    SecurityGroupQuery { id, name, description, project_id, tagged }
}

/// Returns the query for a subnet.
pub(crate) fn subnet(param: &SubnetParam) -> SubnetQuery {
    let filter = param.filter.clone().unwrap_or_default();
    SubnetQuery {
        id: param.id.clone(),
        tagged: tags!(filter),
        name: filter.name,
        description: filter.description,
        cidr: filter.cidr,
        gateway_ip: filter.gateway_ip,
        ip_version: filter.ip_version,
        project_id: filter.project_id,
        ipv6_address_mode: filter.ipv6_address_mode,
        ipv6_ra_mode: filter.ipv6_ra_mode,
        network_id: None,
    }
}

/// Returns the query for an image. An image by reference is not in the cloud.
pub(crate) fn image(param: &ImageParam) -> ImageQuery {
    let filter = param.filter.clone().unwrap_or_default();
    ImageQuery { id: param.id.clone(), name: filter.name, tags: filter.tags.unwrap_or_default() }
}

/// Describes a query for errors, with its set fields only.
pub(crate) fn describe(query: &impl std::fmt::Debug) -> String {
    let text = format!("{query:?}");
    let (kind, fields) = text.split_once(" { ").unwrap_or((text.as_str(), ""));
    let fields = fields.trim_end_matches(" }");
    // Only texts contain commas, where a wrong cut makes the description less readable.
    let set = fields.split(", ").filter(|field| {
        let value = field.rsplit_once(": ").map_or("", |(_, value)| value);
        !matches!(value, "None" | "[]" | "[] }" | "")
    });
    let set: Vec<String> = set
        .map(|field| field.replace("Some(", "").replace(')', "").replace("tagged: TagQuery { ", ""))
        .collect();
    let kind = kind.trim_end_matches("Query");
    if set.is_empty() { format!("any {kind}") } else { format!("{kind} {}", set.join(", ")) }
}

/// Describes a query for routers for errors. Routers have the fields of networks.
pub(crate) fn describe_router(query: &NetworkQuery) -> String {
    describe(query).replacen("Network", "Router", 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_set_fields_are_described() {
        let tagged = TagQuery { tags: vec!["a".to_owned()], ..TagQuery::default() };
        let query =
            NetworkQuery { name: Some("public".to_owned()), external: Some(true), ..NetworkQuery::default() };
        assert_eq!(describe(&query), r#"Network name: "public", external: true"#);
        assert_eq!(describe(&NetworkQuery { tagged, ..NetworkQuery::default() }), r#"Network tags: ["a"]"#);
        assert_eq!(describe(&ImageQuery::default()), "any Image");
        let router = NetworkQuery { name: Some("Network 1".to_owned()), ..NetworkQuery::default() };
        assert_eq!(describe_router(&router), r#"Router name: "Network 1""#);
        assert_eq!(describe_router(&NetworkQuery::default()), "any Router");
    }
}
