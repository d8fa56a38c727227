//! Endpoints of the services: Keystone's catalog, narrowed to one region and one interface.

use controllers_infrastructure::{CloudError, CloudResult, ErrorClass};
use openstack_sdk::auth::authtoken::AuthToken;

use crate::request::{Request, Service};

const OPERATION: &str = "read the service catalog";

/// Type of Swift in the catalog. Its calls are not those of a `Session`: their bodies are large.
const OBJECT_STORE: &str = "object-store";

/// Entry of the catalog.
#[derive(Debug, Clone)]
struct Line {
    service_type: String,
    interface: String,
    region: String,
    url: String,
}

/// Root URLs of the services.
#[derive(Debug, Clone)]
pub(crate) struct Endpoints {
    region: String,
    roots: [Option<String>; 7],
    object_store: Option<String>,
}

impl Endpoints {
    /// Reads the catalog of a token. Without a region, the only one of the compute service is used.
    pub(crate) fn read(token: &AuthToken, region: Option<&str>, interface: &str) -> CloudResult<Self> {
        let mut lines = Vec::new();
        let catalog = token.auth_info.as_ref().and_then(|info| info.token.catalog.as_ref());
        for service in catalog.into_iter().flatten() {
            lines.extend(service.endpoints.iter().map(|endpoint| Line {
                service_type: service.service_type.clone(),
                interface: endpoint.interface.clone(),
                region: endpoint.region.clone().unwrap_or_default(),
                url: endpoint.url.clone(),
            }));
        }
        Self::choose(&lines, region, interface)
    }

    fn choose(lines: &[Line], region: Option<&str>, interface: &str) -> CloudResult<Self> {
        let offered: Vec<&Line> = lines.iter().filter(|line| line.interface == interface).collect();
        let find = |service: Service, region: &str| {
            let named = |name: &&str| {
                offered.iter().find(|line| line.service_type == *name && line.region == region).copied()
            };
            types(service).iter().find_map(named)
        };
        let region = match region {
            Some(region) => region.to_owned(),
            None => only_region(&offered)?,
        };
        if !offered.iter().any(|line| line.region == region) {
            return Err(absent(lines, &region, interface));
        }
        let roots = Service::ALL.map(|service| find(service, &region).map(|line| root(service, &line.url)));
        let object_store =
            offered.iter().find(|line| line.service_type == OBJECT_STORE && line.region == region);
        let object_store = object_store.map(|line| line.url.trim_end_matches('/').to_owned());
        Ok(Self { region, roots, object_store })
    }

    pub(crate) fn region(&self) -> &str {
        &self.region
    }

    /// Returns the URL of the account in Swift, without a slash at its end.
    pub(crate) fn object_store(&self) -> CloudResult<&str> {
        self.object_store.as_deref().ok_or_else(|| {
            let message = format!("the cloud offers no {OBJECT_STORE:?} service in region {:?}", self.region);
            CloudError::new(ErrorClass::Broken, OPERATION, message)
        })
    }

    /// Returns the complete URL of a call.
    pub(crate) fn url(&self, request: &Request) -> CloudResult<String> {
        let root = self.root_of(request.service, &request.operation())?;
        let mark = if request.query.is_empty() { "" } else { "?" };
        Ok(format!("{root}{}{mark}{}", request.path, request.query))
    }

    /// Returns the URL of Nova's microversions: its root without a project id.
    pub(crate) fn compute_versions(&self) -> CloudResult<String> {
        let root = self.root_of(Service::Compute, "GET /")?;
        let end = root.find("/v2.1").map_or(root.len(), |at| at + "/v2.1".len());
        Ok(format!("{}/", root.get(..end).unwrap_or(root)))
    }

    /// Returns the URL of Octavia's versions: its root without a version.
    pub(crate) fn load_balancer_versions(&self) -> CloudResult<String> {
        let root = self.root_of(Service::LoadBalancer, "GET /")?;
        let end = root.find("/v2").unwrap_or(root.len());
        Ok(format!("{}/", root.get(..end).unwrap_or(root).trim_end_matches('/')))
    }

    fn root_of(&self, service: Service, operation: &str) -> CloudResult<&str> {
        let position = Service::ALL.iter().position(|known| *known == service).unwrap_or_default();
        self.roots.get(position).and_then(Option::as_deref).ok_or_else(|| {
            let name = types(service).first().copied().unwrap_or_default();
            let message = format!("the cloud offers no {name:?} service in region {:?}", self.region);
            CloudError::new(ErrorClass::Broken, operation, message)
        })
    }
}

/// Returns the names of a service, the official one first.
const fn types(service: Service) -> &'static [&'static str] {
    match service {
        Service::Compute => &["compute"],
        Service::Network => &["network"],
        Service::Image => &["image"],
        Service::LoadBalancer => &["load-balancer"],
        Service::Volume => &["block-storage", "volumev3", "block-store", "volume"],
        // The alias `share` is version 1 in many catalogs.
        Service::Share => &["shared-file-system", "sharev2"],
        Service::Identity => &["identity"],
    }
}

/// Adds the version, without which Neutron, Glance and Octavia are usually listed, and Manila rarely.
fn root(service: Service, url: &str) -> String {
    let url = url.trim_end_matches('/');
    let version = match service {
        Service::Compute | Service::Volume => return url.to_owned(),
        Service::Network => "/v2.0",
        Service::Image => "/v2",
        // The catalog may name either form of the version.
        Service::LoadBalancer if url.ends_with("/v2.0") => return url.to_owned(),
        Service::LoadBalancer => "/v2",
        // The id of the project may follow.
        Service::Share if url.split('/').any(|part| part == "v2") => return url.to_owned(),
        Service::Share => "/v2",
        // Old catalogs name version 2, which Keystone no longer has.
        Service::Identity => return format!("{}/v3", url.trim_end_matches("/v2.0").trim_end_matches("/v3")),
    };
    if url.ends_with(version) { url.to_owned() } else { format!("{url}{version}") }
}

/// Returns the only region with a compute service. One of several would be a guess.
fn only_region(offered: &[&Line]) -> CloudResult<String> {
    let mut regions: Vec<&str> = offered
        .iter()
        .filter(|line| line.service_type == "compute")
        .map(|line| line.region.as_str())
        .collect();
    regions.sort_unstable();
    regions.dedup();
    match regions.as_slice() {
        [] => Ok(offered.first().map(|line| line.region.clone()).unwrap_or_default()),
        [only] => Ok((*only).to_owned()),
        several => {
            let message = format!(
                "the cloud has several regions: {}. Name one in identityRef.region, or in region_name of clouds.yaml",
                several.join(", ")
            );
            Err(CloudError::new(ErrorClass::Credentials, OPERATION, message))
        }
    }
}

fn absent(lines: &[Line], region: &str, interface: &str) -> CloudError {
    let mut known: Vec<&str> = lines.iter().map(|line| line.region.as_str()).collect();
    known.sort_unstable();
    known.dedup();
    let message = format!(
        "the catalog has no {interface} endpoint in region {region:?}; its regions are {}",
        known.join(", ")
    );
    CloudError::new(ErrorClass::Credentials, OPERATION, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(service_type: &str, interface: &str, region: &str, url: &str) -> Line {
        Line {
            service_type: service_type.into(),
            interface: interface.into(),
            region: region.into(),
            url: url.into(),
        }
    }

    fn lines() -> Vec<Line> {
        vec![
            line("network", "public", "one", "http://n1:9696"),
            line("network", "public", "two", "http://n2/networking/v2.0/"),
            line("compute", "internal", "two", "http://inner/v2.1"),
            line("compute", "public", "two", "http://c2/v2.1/abc"),
            line("volumev3", "public", "two", "http://v2/v3/abc"),
            line("object-store", "public", "two", "http://s2/v1/AUTH_abc/"),
            line("share", "public", "two", "http://m2/v1/abc"),
            line("sharev2", "public", "two", "http://m2/v2/abc/"),
            line("shared-file-system", "public", "one", "http://m1/share"),
        ]
    }

    #[test]
    fn the_region_and_the_interface_decide() {
        let two = Endpoints::choose(&lines(), None, "public").unwrap();
        assert_eq!(two.region(), "two");
        let url = two.url(&Request::get(Service::Network, "/ports").with("id", "1")).unwrap();
        assert_eq!(url, "http://n2/networking/v2.0/ports?id=1");
        assert_eq!(two.compute_versions().unwrap(), "http://c2/v2.1/");
        assert_eq!(two.url(&Request::get(Service::Volume, "/volumes")).unwrap(), "http://v2/v3/abc/volumes");
        assert_eq!(two.url(&Request::get(Service::Share, "/shares")).unwrap(), "http://m2/v2/abc/shares");

        assert_eq!(two.object_store().unwrap(), "http://s2/v1/AUTH_abc");
        let one = Endpoints::choose(&lines(), Some("one"), "public").unwrap();
        let error = one.object_store().unwrap_err();
        assert!(error.to_string().contains(r#"no "object-store" service in region "one""#), "{error}");
        assert_eq!(one.url(&Request::get(Service::Network, "/ports")).unwrap(), "http://n1:9696/v2.0/ports");
        assert_eq!(one.url(&Request::get(Service::Share, "/shares")).unwrap(), "http://m1/share/v2/shares");
        let error = one.url(&Request::get(Service::Compute, "/servers")).unwrap_err();
        assert!(error.to_string().contains(r#"no "compute" service in region "one""#), "{error}");
    }

    #[test]
    fn r3_1_one_of_several_regions_is_not_guessed() {
        let mut lines = lines();
        lines.push(line("compute", "public", "one", "http://c1/v2.1/abc"));
        let error = Endpoints::choose(&lines, None, "public").unwrap_err();
        assert_eq!(error.class, ErrorClass::Credentials);
        assert!(error.message.contains("several regions: one, two. Name one"), "{error}");
        assert_eq!(Endpoints::choose(&lines, Some("one"), "public").unwrap().region(), "one");
    }

    #[test]
    fn an_unknown_region_is_answered_with_the_known_ones() {
        let error = Endpoints::choose(&lines(), Some("three"), "public").unwrap_err();
        assert_eq!(error.class, ErrorClass::Credentials);
        assert!(error.message.ends_with("its regions are one, two"), "{error}");
    }
}
