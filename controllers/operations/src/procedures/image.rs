//! Image query of an upgrade: the requested image, or the present one's name with the new version.

use apiserver_types::ImageParam;
use apiserver_types::version::renamed;
use controllers_infrastructure::{Image, ImageQuery};

/// Error of a search that found no image to upgrade to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Unfound {
    /// CamelCase reason of the condition.
    pub reason: &'static str,
    /// Message for people.
    pub message: String,
}

impl Unfound {
    fn new(reason: &'static str, message: impl Into<String>) -> Self {
        Self { reason, message: message.into() }
    }
}

/// Returns the query for the requested image, or else for the present one's name with the new version
/// in place of the old.
pub(crate) fn query(
    requested: Option<&ImageParam>,
    present: Option<&str>,
    from: Option<&str>,
    to: &str,
) -> Result<ImageQuery, Unfound> {
    if let Some(requested) = requested {
        return explicit(requested);
    }
    let unnamed = |why: String| Unfound::new("ImageUnknown", format!("{why}; name the image to go to"));
    let present =
        present.ok_or_else(|| unnamed("the name of the server's present image is not known".into()))?;
    let from = from.ok_or_else(|| unnamed("the Machine's present version is not known".into()))?;
    let name = renamed(present, from, to).ok_or_else(|| {
        unnamed(format!("the present image's name {present:?} does not contain the version {from}"))
    })?;
    Ok(ImageQuery { name: Some(name), ..ImageQuery::default() })
}

fn explicit(requested: &ImageParam) -> Result<ImageQuery, Unfound> {
    if let Some(id) = &requested.id {
        return Ok(ImageQuery { id: Some(id.clone()), ..ImageQuery::default() });
    }
    let filter = requested.filter.as_ref().ok_or_else(|| {
        Unfound::new("ImageUnsupported", "an image can be named by id or filter; imageRef is not served here")
    })?;
    Ok(ImageQuery { id: None, name: filter.name.clone(), tags: filter.tags.clone().unwrap_or_default() })
}

/// Returns the one usable image of those that were found.
pub(crate) fn pick<'a>(query: &ImageQuery, found: &'a [Image]) -> Result<&'a Image, Unfound> {
    let what = describe(query);
    match found {
        [] => Err(Unfound::new("ImageNotFound", format!("there is no image {what}"))),
        [one] if one.status == "active" => Ok(one),
        [one] => Err(Unfound::new("ImageNotUsable", format!("image {what} is {}, not active", one.status))),
        several => {
            let mut active = several.iter().filter(|image| image.status == "active");
            match (active.next(), active.next()) {
                (Some(one), None) => Ok(one),
                _ => Err(Unfound::new(
                    "ImageAmbiguous",
                    format!("there are {} images {what}; name one by id", several.len()),
                )),
            }
        }
    }
}

fn describe(query: &ImageQuery) -> String {
    let id = query.id.as_ref().map(|id| format!("with id {id}"));
    let name = query.name.as_ref().map(|name| format!("named {name:?}"));
    let tags = (!query.tags.is_empty()).then(|| format!("tagged {}", query.tags.join(", ")));
    [id, name, tags].into_iter().flatten().collect::<Vec<_>>().join(" and ")
}

#[cfg(test)]
mod tests {
    use apiserver_types::{ImageFilter, ImageRef};

    use super::*;

    #[test]
    fn a_requested_image_has_precedence_over_the_present_one() {
        let by_name = |name: &str| ImageQuery { name: Some(name.to_owned()), ..ImageQuery::default() };
        let id = ImageParam { id: Some("i".to_owned()), ..ImageParam::default() };
        let filter = ImageFilter { name: Some("n".to_owned()), tags: None };
        let filter = ImageParam { filter: Some(filter), ..ImageParam::default() };
        let reference = ImageParam { image_ref: Some(ImageRef::default()), ..ImageParam::default() };
        let requested = |requested, present, from| {
            query(requested, present, from, "v1.30.0").map_err(|unfound| unfound.reason)
        };
        let present = Some("kube-v1.29.1");
        let from = Some("v1.29.1");
        let by_id = ImageQuery { id: Some("i".to_owned()), ..ImageQuery::default() };
        assert_eq!(requested(Some(&id), present, from), Ok(by_id));
        assert_eq!(requested(Some(&filter), present, from), Ok(by_name("n")));
        assert_eq!(requested(Some(&reference), present, from), Err("ImageUnsupported"));
        assert_eq!(requested(None, present, from), Ok(by_name("kube-v1.30.0")));
        assert_eq!(requested(None, None, from), Err("ImageUnknown"));
        assert_eq!(requested(None, present, None), Err("ImageUnknown"));
        assert_eq!(requested(None, Some("ubuntu"), from), Err("ImageUnknown"));
    }

    #[test]
    fn exactly_one_usable_image_is_required() {
        let image = |id: &str, status: &str| Image {
            id: id.to_owned(),
            status: status.to_owned(),
            ..Image::default()
        };
        let table = [
            (vec![], Err("ImageNotFound")),
            (vec![image("a", "active")], Ok("a")),
            (vec![image("a", "queued")], Err("ImageNotUsable")),
            (vec![image("a", "active"), image("b", "deactivated")], Ok("a")),
            (vec![image("a", "active"), image("b", "active")], Err("ImageAmbiguous")),
        ];
        for (found, expected) in table {
            let picked = pick(&ImageQuery::default(), &found);
            let picked = picked.map(|image| image.id.as_str()).map_err(|unfound| unfound.reason);
            assert_eq!(picked, expected, "{found:?}");
        }
    }
}
