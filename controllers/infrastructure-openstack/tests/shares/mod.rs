//! Tests of the list of shares.

use controllers_infrastructure::ErrorClass;

use crate::{connected, response};

/// Manila's links to the next page lead to the first one again.
#[tokio::test]
async fn shares_are_listed_by_offset_until_a_page_has_no_new_ones() {
    const SHARES: &str = "GET /share/v2/p/shares/detail";
    let page = |ids: &[&str]| {
        let share = |id: &&str| format!(r#"{{"id":"{id}","name":null,"status":"available","size":2}}"#);
        let shares: Vec<String> = ids.iter().map(share).collect();
        let next = r#"[{"rel":"next","href":"http://x/v2/p/shares?limit=2&marker=b"}]"#;
        response(200, &format!(r#"{{"shares":[{}],"shares_links":{next}}}"#, shares.join(",")))
    };
    let (stub, cloud) = connected().await;
    // Another client created a share between the first two pages.
    for ids in [["a", "b"].as_slice(), &["b", "c"], &[]] {
        stub.enqueue(SHARES, page(ids));
    }
    let found = cloud.shares().await.unwrap();
    let ids: Vec<&str> = found.iter().map(|share| share.id.as_str()).collect();
    assert_eq!((ids, found[0].size_gib), (vec!["a", "b", "c"], 2));
    let received = stub.received(SHARES);
    let offsets: Vec<bool> = ["offset=0 ", "offset=2 ", "offset=3 "]
        .iter()
        .zip(&received)
        .map(|(offset, call)| call.line.contains(offset))
        .collect();
    assert_eq!(offsets, [true; 3], "{received:?}");
    assert!(received[0].headers.contains("x-openstack-manila-api-version: 2.37\r\n"), "{received:?}");

    // A service that knows no offsets.
    (0..2).for_each(|_| stub.enqueue(SHARES, page(&["a", "b"])));
    assert_eq!(cloud.shares().await.unwrap().len(), 2);
}

#[tokio::test]
async fn a_user_who_may_list_no_shares_sees_none_and_a_failure_is_an_error() {
    const SHARES: &str = "GET /share/v2/p/shares/detail";
    let (stub, cloud) = connected().await;
    let old = "Version 2.37 is not supported by the API. Minimum is 2.0 and maximum is 2.22.";
    let refusals = [
        (403, r#"{"forbidden":{"code":403,"message":"Access was denied to this resource."}}"#.to_owned()),
        (404, r#"{"itemNotFound":{"code":404,"message":"The resource could not be found."}}"#.to_owned()),
        (406, format!(r#"{{"computeFault":{{"code":406,"message":"{old}"}}}}"#)),
    ];
    for (status, body) in refusals {
        stub.enqueue(SHARES, response(status, &body));
        assert_eq!(cloud.shares().await.unwrap(), [], "{status}");
    }
    stub.enqueue(SHARES, response(500, r#"{"computeFault":{"code":500,"message":"bug"}}"#));
    let error = cloud.shares().await.unwrap_err();
    assert_eq!((error.class, error.service), (ErrorClass::Broken, Some("Manila")));
}
