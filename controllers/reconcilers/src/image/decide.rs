//! Decision about an Image object, from the images that match it.

use apiserver_types::Image;
use controllers_infrastructure::ImageQuery;
use controllers_runtime::OwnershipTag;
use kube::ResourceExt;

/// State in which servers can boot from an image.
const ACTIVE: &str = "active";

/// State of an image without content.
const QUEUED: &str = "queued";

/// Image that an object stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wish {
    /// Query for the image.
    pub(super) query: ImageQuery,
    /// Required visibility; `None` for any.
    visibility: Option<String>,
    /// Image that the object describes, if it is to be created.
    managed: Option<Managed>,
}

/// Image that is to be created.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Managed {
    /// Tag of an image that was created for the object.
    tag: String,
    /// Reason for which Glance cannot fetch its content; `None` if it can.
    unsupported: Option<&'static str>,
}

impl Managed {
    fn of(object: &Image) -> Self {
        let content = object.spec.resource.as_ref().and_then(|resource| resource.content.as_ref());
        let unsupported = match content.map(|content| &content.download) {
            None => Some("the object names no content"),
            Some(download) if download.decompress.is_some() => Some("Glance does not decompress content"),
            Some(download) if download.hash.is_some() => Some("Glance does not compare the hash of content"),
            Some(_) => None,
        };
        Self { tag: OwnershipTag::of(object).text(), unsupported }
    }
}

impl Wish {
    /// Reads the spec.
    pub(super) fn of(object: &Image) -> Self {
        let spec = &object.spec;
        let Some(import) = &spec.import else {
            let name = spec.resource.as_ref().and_then(|resource| resource.name.clone());
            let name = Some(name.unwrap_or_else(|| object.name_any()));
            let query = ImageQuery { name, ..ImageQuery::default() };
            return Self { query, visibility: None, managed: Some(Managed::of(object)) };
        };
        let filter = import.filter.clone().unwrap_or_default();
        let query =
            ImageQuery { id: import.id.clone(), name: filter.name, tags: filter.tags.unwrap_or_default() };
        Self { query, visibility: filter.visibility, managed: None }
    }
}

/// Result of a look at the cloud.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Exactly one image matches, and it can be used.
    Found(Box<controllers_infrastructure::Image>),
    /// Nothing has the name. The image is to be created.
    Create,
    /// The image with this id was created for the object, and has no content yet.
    Import(String),
    /// Glance fetches the content.
    Importing(String),
    /// Glance could not fetch the content.
    Failed(String),
    /// Nothing can be used yet. The text says what the user can do.
    Waiting(String),
    /// The spec matches several images.
    Ambiguous(String),
}

/// Returns the outcome for the images that the query found.
pub(super) fn outcome(wish: &Wish, mut found: Vec<controllers_infrastructure::Image>) -> Outcome {
    let wanted = wish.visibility.as_ref();
    found.retain(|image| wanted.is_none_or(|visibility| image.visibility == *visibility));
    let words = crate::queries::describe(&wish.query);
    let is_ours = |image: &controllers_infrastructure::Image| {
        wish.managed.as_ref().is_some_and(|managed| image.tags.contains(&managed.tag))
    };
    let unsupported = wish.managed.as_ref().map(|managed| managed.unsupported);
    match found.as_slice() {
        [] if unsupported == Some(None) => Outcome::Create,
        [] if wish.managed.is_some() => {
            let why = unsupported.flatten().unwrap_or_default();
            Outcome::Waiting(format!("there is no {words}, and {why}. Upload the image with this name"))
        }
        [] => Outcome::Waiting(format!("there is no {words} yet")),
        [image] if image.status == ACTIVE => Outcome::Found(Box::new(image.clone())),
        [image] if image.importing => {
            Outcome::Importing(format!("Glance fetches the content of image {}", image.id))
        }
        [image] if is_ours(image) && image.import_failed => Outcome::Failed(format!(
            "Glance could not fetch the content of image {} from resource.content.download.url. Correct the URL: delete \
             this object, and create it again",
            image.id
        )),
        [image] if is_ours(image) && image.status == QUEUED => Outcome::Import(image.id.clone()),
        [image] => Outcome::Waiting(format!("image {} is {}, not {ACTIVE}", image.id, image.status)),
        several => {
            let ids: Vec<&str> = several.iter().map(|image| image.id.as_str()).collect();
            Outcome::Ambiguous(format!("{words} matches several images: {}", ids.join(", ")))
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn wish(spec: &Value) -> Wish {
        let object = json!({"apiVersion": "openstack.k-orc.cloud/v1alpha1", "kind": "Image",
            "metadata": {"name": "node"}, "spec": spec});
        Wish::of(&serde_json::from_value(object).unwrap())
    }

    fn image(id: &str, status: &str) -> controllers_infrastructure::Image {
        controllers_infrastructure::Image {
            id: id.to_owned(),
            status: status.to_owned(),
            visibility: "public".to_owned(),
            ..controllers_infrastructure::Image::default()
        }
    }

    #[test]
    fn r12_2_a_managed_object_stands_for_the_image_of_its_name_and_an_unmanaged_one_for_its_filter() {
        let credentials = json!({"cloudName": "c", "secretName": "s"});
        let managed = |resource: Value| json!({"cloudCredentialsRef": credentials, "resource": resource});
        assert_eq!(wish(&managed(json!({}))).query.name.as_deref(), Some("node"));
        assert_eq!(wish(&managed(json!({"name": "ubuntu"}))).query.name.as_deref(), Some("ubuntu"));
        let import = json!({"filter": {"name": "a", "tags": ["t"], "visibility": "private"}});
        let found = wish(&json!({"cloudCredentialsRef": credentials, "import": import}));
        assert_eq!((found.query.name.as_deref(), found.query.tags.len()), (Some("a"), 1));
        assert_eq!(outcome(&found, vec![image("1", ACTIVE)]), outcome(&found, vec![]), "not private");
        let by_id = wish(&json!({"cloudCredentialsRef": credentials, "import": {"id": "1"}}));
        assert_eq!(by_id.query.id.as_deref(), Some("1"));
    }

    #[test]
    fn exactly_one_active_image_is_found() {
        let wish = wish(&json!({"cloudCredentialsRef": {"cloudName": "c", "secretName": "s"},
            "resource": {"name": "a"}}));
        let found = image("1", ACTIVE);
        assert_eq!(outcome(&wish, vec![found.clone()]), Outcome::Found(Box::new(found.clone())));
        for (images, words) in [
            (vec![], "the object names no content"),
            (vec![image("1", "queued")], "image 1 is queued"),
            (vec![found.clone(), image("2", ACTIVE)], "several images: 1, 2"),
        ] {
            let (Outcome::Waiting(text) | Outcome::Ambiguous(text)) = outcome(&wish, images) else {
                panic!("{words}: found")
            };
            assert!(text.contains(words), "{text}");
        }
    }

    #[test]
    fn r12_3_an_image_is_created_once_and_its_content_is_fetched_once() {
        let content = |extra: Value| {
            let mut download = json!({"url": "https://example.org/node.qcow2"});
            download.as_object_mut().unwrap().extend(extra.as_object().unwrap().clone());
            wish(&json!({"cloudCredentialsRef": {"cloudName": "c", "secretName": "s"}, "resource": {
                "content": {"diskFormat": "qcow2", "download": download}}}))
        };
        let plain = content(json!({}));
        assert_eq!(outcome(&plain, vec![]), Outcome::Create);
        for extra in [json!({"decompress": "xz"}), json!({"hash": {"algorithm": "md5", "value": "0"}})] {
            assert!(matches!(outcome(&content(extra), vec![]), Outcome::Waiting(_)));
        }
        let tag = plain.managed.as_ref().unwrap().tag.clone();
        let ours = |status: &str| controllers_infrastructure::Image {
            tags: vec![tag.clone()],
            ..image("1", status)
        };
        assert_eq!(outcome(&plain, vec![ours("queued")]), Outcome::Import("1".to_owned()));
        let importing = controllers_infrastructure::Image { importing: true, ..ours("queued") };
        assert!(matches!(outcome(&plain, vec![importing]), Outcome::Importing(_)), "no second upload");
        let failed = controllers_infrastructure::Image { import_failed: true, ..ours("queued") };
        assert!(matches!(outcome(&plain, vec![failed]), Outcome::Failed(_)));
        assert!(
            matches!(outcome(&plain, vec![image("1", "queued")]), Outcome::Waiting(_)),
            "of another owner"
        );
        assert!(matches!(outcome(&plain, vec![ours(ACTIVE)]), Outcome::Found(_)));
    }
}
