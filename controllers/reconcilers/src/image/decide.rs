//! Decision about an Image object, from the images that match it.

use apiserver_types::Image;
use controllers_infrastructure::ImageQuery;
use kube::ResourceExt;

/// State in which servers can boot from an image.
const ACTIVE: &str = "active";

/// Image that an object stands for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Wish {
    /// Query for the image.
    pub(super) query: ImageQuery,
    /// Required visibility; `None` for any.
    visibility: Option<String>,
    /// True if the object describes an image that is to be uploaded.
    is_managed: bool,
}

impl Wish {
    /// Reads the spec.
    pub(super) fn of(object: &Image) -> Self {
        let spec = &object.spec;
        let Some(import) = &spec.import else {
            let name = spec.resource.as_ref().and_then(|resource| resource.name.clone());
            let name = Some(name.unwrap_or_else(|| object.name_any()));
            let query = ImageQuery { name, ..ImageQuery::default() };
            return Self { query, visibility: None, is_managed: true };
        };
        let filter = import.filter.clone().unwrap_or_default();
        let query =
            ImageQuery { id: import.id.clone(), name: filter.name, tags: filter.tags.unwrap_or_default() };
        Self { query, visibility: filter.visibility, is_managed: false }
    }
}

/// Result of a look at the cloud.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Outcome {
    /// Exactly one image matches, and it can be used.
    Found(Box<controllers_infrastructure::Image>),
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
    match found.as_slice() {
        [] if wish.is_managed => Outcome::Waiting(format!(
            "there is no {words}, and Capstan does not upload images. Upload it with this name"
        )),
        [] => Outcome::Waiting(format!("there is no {words} yet")),
        [image] if image.status == ACTIVE => Outcome::Found(Box::new(image.clone())),
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
            (vec![], "does not upload images"),
            (vec![image("1", "queued")], "image 1 is queued"),
            (vec![found.clone(), image("2", ACTIVE)], "several images: 1, 2"),
        ] {
            let (Outcome::Waiting(text) | Outcome::Ambiguous(text)) = outcome(&wish, images) else {
                panic!("{words}: found")
            };
            assert!(text.contains(words), "{text}");
        }
    }
}
