//! Glance calls.

use controllers_infrastructure::{CloudResult, Image, ImageQuery, NewImage};
use serde::Deserialize;
use serde_json::{Map, Value, json};

use crate::{
    paging::list,
    request::{Request, Service, encode},
    session::Session,
    time::utc,
};

#[derive(Deserialize)]
struct ResponseBody {
    id: String,
    #[serde(default)]
    name: Option<String>,
    status: String,
    #[serde(default)]
    tags: Vec<String>,
    #[serde(default)]
    visibility: String,
    created_at: String,
    #[serde(default)]
    min_disk: u64,
    #[serde(default)]
    os_type: Option<String>,
    /// Stores to which the content is still to be written, separated by commas.
    #[serde(default)]
    os_glance_importing_to_stores: Option<String>,
    /// Stores to which the content could not be written.
    #[serde(default)]
    os_glance_failed_import: Option<String>,
}

impl From<ResponseBody> for Image {
    fn from(answer: ResponseBody) -> Self {
        let is_set = |stores: Option<String>| stores.is_some_and(|stores| !stores.is_empty());
        Self {
            importing: matches!(answer.status.as_str(), "importing" | "saving" | "uploading")
                || is_set(answer.os_glance_importing_to_stores),
            import_failed: is_set(answer.os_glance_failed_import),
            id: answer.id,
            name: answer.name.unwrap_or_default(),
            status: answer.status,
            tags: answer.tags,
            visibility: answer.visibility,
            created_at: utc(&answer.created_at),
            min_disk_gib: answer.min_disk,
            os_type: answer.os_type,
        }
    }
}

pub(crate) async fn images(session: &Session, query: &ImageQuery) -> CloudResult<Vec<Image>> {
    let found: Vec<ResponseBody> = match &query.id {
        Some(id) => one(session, id).await?.into_iter().collect(),
        None => {
            let mut request =
                Request::get(Service::Image, "/images").with_some("name", query.name.as_deref());
            for tag in &query.tags {
                request = request.with("tag", tag);
            }
            list(session, request, "images").await?
        }
    };
    // Glance interprets operators in names (`in:`), and has no filters beside an id.
    let matches = |image: &Image| {
        query.name.as_ref().is_none_or(|name| *name == image.name)
            && query.tags.iter().all(|tag| image.tags.contains(tag))
    };
    Ok(found.into_iter().map(Image::from).filter(matches).collect())
}

pub(crate) async fn import_methods(session: &Session) -> CloudResult<Vec<String>> {
    let request = Request::get(Service::Image, "/info/import");
    let answer: Value = session.json(&request).await?;
    let methods = answer.pointer("/import-methods/value").and_then(Value::as_array);
    let methods = methods.into_iter().flatten().filter_map(Value::as_str);
    Ok(methods.map(str::to_owned).collect())
}

pub(crate) async fn create_image(session: &Session, new: &NewImage) -> CloudResult<Image> {
    let mut image = Map::new();
    for (name, value) in &new.properties {
        image.insert(name.clone(), json!(value));
    }
    image.insert("name".to_owned(), json!(new.name));
    image.insert("container_format".to_owned(), json!(new.container_format));
    image.insert("disk_format".to_owned(), json!(new.disk_format));
    image.insert("tags".to_owned(), json!(new.tags));
    image.insert("protected".to_owned(), json!(new.protected));
    let optional = [
        ("visibility", new.visibility.as_ref().map(|visibility| json!(visibility))),
        ("min_disk", new.min_disk_gib.map(|size| json!(size))),
        ("min_ram", new.min_ram_mib.map(|size| json!(size))),
    ];
    for (name, value) in optional {
        if let Some(value) = value {
            image.insert(name.to_owned(), value);
        }
    }
    let request = Request::post(Service::Image, "/images", Value::Object(image));
    Ok(session.json::<ResponseBody>(&request).await?.into())
}

pub(crate) async fn import_image(session: &Session, id: &str, url: &str) -> CloudResult<()> {
    let body = json!({"method": {"name": "web-download", "uri": url}});
    let path = format!("/images/{}/import", encode(id));
    session.done(&Request::post(Service::Image, path, body)).await.map(drop)
}

pub(crate) async fn delete_image(session: &Session, id: &str) -> CloudResult<()> {
    let path = format!("/images/{}", encode(id));
    session.done(&Request::delete(Service::Image, path)).await.map(drop)
}

async fn one(session: &Session, id: &str) -> CloudResult<Option<ResponseBody>> {
    match session.json(&Request::get(Service::Image, format!("/images/{}", encode(id)))).await {
        Ok(image) => Ok(Some(image)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}
