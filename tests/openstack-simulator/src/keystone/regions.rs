//! Regions: the parts of a cloud that have services of their own.

use super::*;

fn view(request: &Request) -> Value {
    json!({
        "id": REGION, "description": "", "parent_region_id": null,
        "links": {"self": format!("{}/v3/regions/{REGION}", request.base_url)},
    })
}

/// Handles everything under `/v3/regions`. Everyone with a token may read them.
pub(super) fn handle(state: &CloudState, request: &Request, now: Timestamp, path: &[&str]) -> HandlerResult {
    let caller = caller(state, request, now).ok_or_else(|| unauthorized(request))?;
    let action = match request.method {
        Method::PATCH => "update_region",
        Method::DELETE => "delete_region",
        _ => "create_region",
    };
    match (&request.method, path) {
        (&Method::GET, []) => {
            let own = format!("{}{}", request.base_url, request.path);
            let links = json!({"next": null, "self": own, "previous": null});
            Ok(Reply::ok(&json!({"regions": [view(request)], "links": links})))
        }
        (&Method::GET, [id]) if *id == REGION => Ok(Reply::ok(&json!({"region": view(request)}))),
        (&Method::GET, [id]) => Err(refusal(StatusCode::NOT_FOUND, &format!("Could not find region: {id}."))),
        _ if !caller.admin => Err(forbidden(action)),
        _ => Err(not_found_page()),
    }
}
