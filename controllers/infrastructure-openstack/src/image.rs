//! Glance calls.

use controllers_infrastructure::{CloudResult, Image, ImageQuery};
use serde::Deserialize;

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
}

impl From<ResponseBody> for Image {
    fn from(answer: ResponseBody) -> Self {
        Self {
            id: answer.id,
            name: answer.name.unwrap_or_default(),
            status: answer.status,
            tags: answer.tags,
            visibility: answer.visibility,
            created_at: utc(&answer.created_at),
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

async fn one(session: &Session, id: &str) -> CloudResult<Option<ResponseBody>> {
    match session.json(&Request::get(Service::Image, format!("/images/{}", encode(id)))).await {
        Ok(image) => Ok(Some(image)),
        Err(error) if error.is_not_found() => Ok(None),
        Err(error) => Err(error),
    }
}
