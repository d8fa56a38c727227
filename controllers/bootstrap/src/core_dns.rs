//! CoreDNS of a running cluster: the image that the settings name, and kubeadm's record of it.

use apiserver_types::{ClusterConfiguration, DnsAddOn};
use semver::Version;
use serde_json::{Map, Value};

use crate::corefile;

/// Registries in which the image has a path of its own.
const OFFICIAL: [&str; 2] = ["registry.k8s.io", "k8s.gcr.io"];

/// First version of CoreDNS with that path.
const WITH_PATH: Version = Version::new(1, 8, 0);

/// Returns the image that CoreDNS is to have instead of `current`; `None` if it has it.
///
/// # Errors
/// The image cannot be changed, with the remedy. For people.
pub fn image(current: &str, configuration: &ClusterConfiguration) -> Result<Option<String>, String> {
    let by_hand = "Change the Deployment kube-system/coredns by hand, or correct clusterConfiguration.dns";
    let (path, tag) = split(current)
        .ok_or_else(|| format!("the image {current:?} of CoreDNS has no tag, or a digest. {by_hand}"))?;
    let (repository, name) = path.rsplit_once('/').unwrap_or(("", path));
    let dns = configuration.dns.as_ref();
    let repository = given(dns.and_then(|dns| dns.image_repository.as_ref()))
        .or_else(|| given(configuration.image_repository.as_ref()))
        .unwrap_or(repository);
    let wished = given(dns.and_then(|dns| dns.image_tag.as_ref())).unwrap_or(tag);
    let has_path = OFFICIAL.contains(&repository) && version(wished).is_none_or(|it| it >= WITH_PATH);
    let name = if has_path && name == "coredns" { "coredns/coredns" } else { name };
    let image = if repository.is_empty() { name.to_owned() } else { format!("{repository}/{name}") };
    let image = format!("{image}:{wished}");
    if image == current {
        return Ok(None);
    }
    if wished != tag {
        let read =
            |tag| version(tag).ok_or_else(|| format!("the tag {tag} of CoreDNS is no version. {by_hand}"));
        let (from, to) = (read(tag)?, read(wished)?);
        if to < from {
            return Err(format!("CoreDNS cannot go back from {tag} to {wished}. {by_hand}"));
        }
        if from < corefile::FIRST {
            let text = "a newer CoreDNS does not read the Corefile of";
            return Err(format!("{text} {tag}. {by_hand}"));
        }
    }
    Ok(Some(image))
}

fn given(text: Option<&String>) -> Option<&str> {
    text.filter(|text| !text.is_empty()).map(String::as_str)
}

/// Returns path and tag of an image; `None` without a tag, and with a digest.
pub(crate) fn split(image: &str) -> Option<(&str, &str)> {
    let (path, tag) = image.rsplit_once(':')?;
    (!image.contains('@') && !path.is_empty() && !tag.contains('/')).then_some((path, tag))
}

/// Returns the version of a tag such as `v1.12.0` or `v1.12.0_build.1`.
fn version(tag: &str) -> Option<Version> {
    let text = tag.strip_prefix('v').unwrap_or(tag);
    let mut numbers = text.split(['-', '_', '+']).next()?.split('.').map(str::parse::<u64>);
    let mut next = || numbers.next().map_or(Some(0), Result::ok);
    let found = Version::new(next()?, next()?, next()?);
    numbers.next().is_none().then_some(found)
}

/// Returns the Corefile that a new image reads, if that of the current image has to change.
///
/// # Errors
/// The text is no Corefile. For people.
pub fn corefile(text: &str, current: &str, new: &str) -> Result<Option<String>, String> {
    let version = |image| split(image).and_then(|(_, tag)| version(tag));
    match (version(current), version(new)) {
        (Some(from), Some(to)) => corefile::migrated(text, &from, &to),
        // Only the repository changes.
        _ => Ok(None),
    }
}

/// Returns kubeadm's ClusterConfiguration with these settings of CoreDNS; `None` if it has them. `kubeadm upgrade` on a
/// node reads them. Everything else stays, also fields that are not known here.
///
/// # Errors
/// The text is no YAML object. For people.
pub fn recorded(configuration: &str, dns: &DnsAddOn) -> Result<Option<String>, String> {
    let tree: Value = serde_saphyr::from_str(configuration).map_err(|error| error.to_string())?;
    let Value::Object(mut fields) = tree else { return Err("it is no YAML object".to_owned()) };
    let known = fields.entry("dns").or_insert_with(|| Value::Object(Map::new()));
    let mut new = known.as_object().cloned().unwrap_or_default();
    set(&mut new, "imageRepository", dns.image_repository.as_ref());
    set(&mut new, "imageTag", dns.image_tag.as_ref());
    let new = Value::Object(new);
    if *known == new {
        return Ok(None);
    }
    *known = new;
    serde_saphyr::to_string(&fields).map(Some).map_err(|error| error.to_string())
}

fn set(fields: &mut Map<String, Value>, name: &str, value: Option<&String>) {
    if let Some(value) = given(value) {
        fields.insert(name.to_owned(), value.into());
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_image_has_the_repository_and_the_tag_of_the_settings_or_its_own() {
        let official = "registry.k8s.io/coredns/coredns:v1.12.0";
        let table = [
            (official, json!({}), Ok(None)),
            (official, json!({"dns": {"imageTag": "v1.12.0"}}), Ok(None)),
            (
                official,
                json!({"dns": {"imageTag": "v1.12.4"}}),
                Ok(Some("registry.k8s.io/coredns/coredns:v1.12.4")),
            ),
            (official, json!({"imageRepository": "registry.k8s.io"}), Ok(None)),
            (official, json!({"imageRepository": "h:5000/k8s"}), Ok(Some("h:5000/k8s/coredns:v1.12.0"))),
            (
                official,
                json!({"imageRepository": "a", "dns": {"imageRepository": "b", "imageTag": "v1.99.0_x"}}),
                Ok(Some("b/coredns:v1.99.0_x")),
            ),
            (
                "h:5000/coredns:1.11.1",
                json!({"dns": {"imageRepository": "registry.k8s.io"}}),
                Ok(Some("registry.k8s.io/coredns/coredns:1.11.1")),
            ),
            ("k8s.gcr.io/coredns:1.7.0", json!({}), Ok(None)),
            (
                "registry.k8s.io/coredns:1.7.0",
                json!({"dns": {"imageTag": "v1.8.0"}}),
                Ok(Some("registry.k8s.io/coredns/coredns:v1.8.0")),
            ),
            (official, json!({"dns": {"imageTag": "v1.11.3"}}), Err("cannot go back")),
            ("a/coredns:v1.7.0", json!({"dns": {"imageTag": "v1.8.0"}}), Ok(Some("a/coredns:v1.8.0"))),
            ("a/coredns:v1.5.0", json!({"dns": {"imageTag": "v1.8.0"}}), Err("Corefile")),
            ("a/coredns:v1.7.0", json!({"dns": {"imageRepository": "b"}}), Ok(Some("b/coredns:v1.7.0"))),
            ("a/coredns:latest", json!({"dns": {"imageTag": "v1.8.0"}}), Err("is no version")),
            ("a/coredns@sha256:00", json!({"dns": {"imageTag": "v1.8.0"}}), Err("digest")),
            ("a:5000/coredns", json!({}), Err("has no tag")),
        ];
        for (current, configuration, expected) in table {
            let parsed = serde_json::from_value(configuration.clone()).unwrap();
            match (image(current, &parsed), expected) {
                (Ok(found), Ok(expected)) => assert_eq!(found.as_deref(), expected, "{configuration}"),
                (Err(found), Err(expected)) => assert!(found.contains(expected), "{found}"),
                (found, _) => panic!("{current} {configuration}: {found:?}"),
            }
        }
    }

    #[test]
    fn kubeadms_record_keeps_what_is_not_known_here() {
        let text = "apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: v1.33.0\n\
                    dns:\n  disabled: false\n  imageTag: v1.12.0\nproxy:\n  disabled: true\n";
        let dns = |tag: &str| DnsAddOn { image_tag: Some(tag.to_owned()), ..DnsAddOn::default() };
        assert_eq!(recorded(text, &dns("v1.12.0")), Ok(None));
        let new = recorded(text, &dns("v1.12.4")).unwrap().unwrap();
        let mut expected: Value = serde_saphyr::from_str(text).unwrap();
        expected["dns"]["imageTag"] = json!("v1.12.4");
        assert_eq!(serde_saphyr::from_str::<Value>(&new).unwrap(), expected);
        assert!(recorded("- a list", &dns("v1.12.0")).is_err());
        assert!(recorded("kind: A\n", &dns("v1.12.0")).unwrap().unwrap().contains("imageTag: v1.12.0"));
    }
}
