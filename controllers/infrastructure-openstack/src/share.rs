//! Manila calls.

use std::collections::{BTreeMap, BTreeSet};

use controllers_infrastructure::{CloudError, CloudResult, ErrorClass, Share};
use serde::Deserialize;

use crate::{
    paging::MOST_PAGES,
    request::{Request, Service},
    session::Session,
};

/// Shares of a page. It is Manila's own default maximum; a cloud with a lower one returns shorter pages.
const PAGE: &str = "1000";

/// Status of Manila's response to a version that it does not have.
const NOT_ACCEPTABLE: u16 = 406;

#[derive(Deserialize)]
struct ResponseBody {
    id: String,
    #[serde(default)]
    name: Option<String>,
    /// A share without an instance has none.
    #[serde(default)]
    status: Option<String>,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
    size: i32,
}

impl From<ResponseBody> for Share {
    fn from(answer: ResponseBody) -> Self {
        Self {
            id: answer.id,
            name: answer.name.unwrap_or_default(),
            status: answer.status.unwrap_or_default(),
            metadata: answer.metadata,
            size_gib: answer.size,
        }
    }
}

pub(crate) async fn shares(session: &Session) -> CloudResult<Vec<Share>> {
    match all_pages(session).await {
        Err(error) if is_without_shares(&error) => Ok(Vec::new()),
        result => result,
    }
}

/// Lists by offsets: Manila ignores the marker in its own links to the next page, so they lead to the first one again.
async fn all_pages(session: &Session) -> CloudResult<Vec<Share>> {
    let (mut all, mut known) = (Vec::new(), BTreeSet::new());
    for _ in 0..MOST_PAGES {
        let offset = all.len().to_string();
        let request =
            Request::get(Service::Share, "/shares/detail").with("limit", PAGE).with("offset", &offset);
        let page: Vec<ResponseBody> = session.under(&request, "shares").await?;
        let before = all.len();
        // The newest are first, so one that is created between two calls moves others to the next page.
        all.extend(page.into_iter().filter(|share| known.insert(share.id.clone())).map(Share::from));
        // A page may be shorter than requested, so only one without new shares is the end.
        if all.len() == before {
            break;
        }
    }
    Ok(all)
}

/// Returns true for the error of a cloud without Manila or with an old one, or of a user who may list no shares.
fn is_without_shares(error: &CloudError) -> bool {
    let is_absent = error.class == ErrorClass::Broken && error.status.is_none();
    let is_old = error.status == Some(NOT_ACCEPTABLE);
    is_absent || is_old || matches!(error.class, ErrorClass::Forbidden | ErrorClass::NotFound)
}
