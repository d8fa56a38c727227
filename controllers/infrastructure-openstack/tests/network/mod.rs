//! Tests of routers, their gateways, and tags.

use controllers_infrastructure::{ErrorClass, NewRouter, TaggedKind};

use crate::{connected, response};

#[tokio::test]
async fn r5_6_a_router_gets_its_gateway_with_the_call_that_creates_it() {
    const ROUTERS: &str = "POST /network/v2.0/routers";
    let (stub, cloud) = connected().await;
    let mut new =
        NewRouter { name: "r".into(), external_network_id: Some("public".into()), ..NewRouter::default() };
    stub.enqueue(ROUTERS, response(201, r#"{"router":{"id":"1","name":"r"}}"#));
    cloud.create_router(&new).await.unwrap();
    let body = stub.received(ROUTERS).remove(0).body;
    assert!(body.contains(r#""external_gateway_info":{"network_id":"public"}"#), "{body}");
    assert!(
        !body.contains("external_fixed_ips") && !body.contains("enable_snat"),
        "an administrator's: {body}"
    );

    new.external_ips = vec![("subnet".into(), Some("203.0.113.9".into()))];
    let rule = "(rule:create_router and rule:create_router:external_gateway_info:external_fixed_ips) is disallowed by \
                policy";
    let refusal =
        format!(r#"{{"NeutronError":{{"type":"PolicyNotAuthorized","message":"{rule}","detail":""}}}}"#);
    stub.enqueue(ROUTERS, response(403, &refusal));
    let error = cloud.create_router(&new).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Forbidden);
    assert!(error.message.contains("external_fixed_ips"), "{error}");
}

#[tokio::test]
async fn r16_the_gateway_of_a_router_is_replaced_and_a_refusal_keeps_the_words_of_the_cloud() {
    const ROUTER: &str = "PUT /network/v2.0/routers/r";
    const READ: &str = "GET /network/v2.0/routers/r";
    let (stub, cloud) = connected().await;
    let without = response(200, r#"{"router":{"id":"r","name":"r"}}"#);
    stub.enqueue(READ, without.clone());
    let answer = r#"{"router":{"id":"r","name":"r","external_gateway_info":{"network_id":"public",
        "external_fixed_ips":[{"subnet_id":"s","ip_address":"203.0.113.9"}]}}}"#;
    stub.enqueue(ROUTER, response(200, answer));
    let fixed = [("s".to_owned(), Some("203.0.113.9".to_owned()))];
    let router = cloud.set_router_gateway("r", "public", &fixed).await.unwrap();
    assert_eq!(router.external_fixed_ips, [("s".to_owned(), "203.0.113.9".to_owned())]);
    assert_eq!(router.external_ips, ["203.0.113.9"]);
    let body = stub.received(ROUTER).remove(0).body;
    for part in [r#""ip_address":"203.0.113.9""#, r#""subnet_id":"s""#, r#""network_id":"public""#] {
        assert!(body.contains(part), "{part}: {body}");
    }
    assert!(!body.contains("enable_snat"), "an administrator's: {body}");

    let words = "Gateway cannot be updated for router r, since a gateway to external network public is required by one \
                 or more floating IPs.";
    let refusal = format!(
        r#"{{"NeutronError":{{"type":"RouterExternalGatewayInUseByFloatingIp","message":"{words}","detail":""}}}}"#
    );
    stub.enqueue(READ, without);
    stub.enqueue(ROUTER, response(409, &refusal));
    let error = cloud.set_router_gateway("r", "other", &[]).await.unwrap_err();
    assert_eq!(error.class, ErrorClass::Conflict);
    assert!(error.message.contains(words), "{error}");
    let body = stub.received(ROUTER).pop().unwrap().body;
    assert!(!body.contains("external_fixed_ips"), "an administrator's: {body}");
}

#[tokio::test]
async fn r16_a_new_gateway_keeps_snat_off_and_the_addresses_of_the_other_ip_version() {
    const ROUTER: &str = "PUT /network/v2.0/routers/r";
    let (stub, cloud) = connected().await;
    let wanted = |address: Option<&str>| [("s".to_owned(), address.map(str::to_owned))];
    let named = r#"{"ip_address":"203.0.113.9","subnet_id":"s"}"#;
    let both = format!(r#"[{named},{{"ip_address":"2001:db8::1","subnet_id":"v6"}}]"#);
    let any = r#"[{"subnet_id":"s"}]"#.to_owned();
    let table = [
        ("true", "public", wanted(Some("203.0.113.9")), both.clone()),
        ("false", "public", wanted(Some("203.0.113.9")), both),
        ("false", "other", wanted(Some("203.0.113.9")), format!("[{named}]")),
        ("false", "public", wanted(None), any),
    ];
    for (snat, network, wanted, fixed) in table {
        let known = format!(
            r#"{{"router":{{"id":"r","name":"r","external_gateway_info":{{"network_id":"public","enable_snat":{snat},
                "external_fixed_ips":[{{"subnet_id":"s","ip_address":"203.0.113.8"}},
                {{"subnet_id":"v6","ip_address":"2001:db8::1"}}]}}}}}}"#
        );
        stub.enqueue("GET /network/v2.0/routers/r", response(200, &known));
        stub.enqueue(ROUTER, response(200, &known));
        cloud.set_router_gateway("r", network, &wanted).await.unwrap();
        let body = stub.received(ROUTER).pop().unwrap().body;
        let sent: serde_json::Value = serde_json::from_str(&body).unwrap();
        let sent = &sent["router"]["external_gateway_info"];
        let fixed: serde_json::Value = serde_json::from_str(&fixed).unwrap();
        assert_eq!(sent["external_fixed_ips"], fixed, "{snat} {network}: {body}");
        let is_off = (snat == "false").then_some(false);
        assert_eq!(sent["enable_snat"].as_bool(), is_off, "{snat} {network}: {body}");
    }
}

#[tokio::test]
async fn hv_04_a_router_that_another_client_has_changed_is_read_again() {
    const ROUTER: &str = "PUT /network/v2.0/routers/r";
    let (stub, cloud) = connected().await;
    let router = |revision: u32| {
        format!(
            r#"{{"id":"r","name":"r","revision_number":{revision},"routes":[{{"destination":"192.0.2.0/24","nexthop":"10.6.0.9"}},
                {{"destination":"198.51.100.0/24","nexthop":"10.6.0.{revision}"}}]}}"#
        )
    };
    let words = "Constrained to 4, but current revision is 5";
    let refusal = format!(
        r#"{{"NeutronError":{{"type":"RevisionNumberConstraintFailed","message":"{words}","detail":""}}}}"#
    );
    for revision in [4, 5] {
        let read = format!(r#"{{"router":{}}}"#, router(revision));
        stub.enqueue("GET /network/v2.0/routers/r", response(200, &read));
        let list = format!(r#"{{"routers":[{}]}}"#, router(revision));
        stub.enqueue("GET /network/v2.0/routers?", response(200, &list));
    }
    stub.enqueue("GET /network/v2.0/extensions", response(200, r#"{"extensions":[]}"#));
    let changed = format!(r#"{{"router":{}}}"#, router(6));
    for answer in [response(412, &refusal), response(200, &changed)] {
        stub.enqueue(ROUTER, answer);
    }
    cloud.set_router_gateway("r", "public", &[]).await.unwrap();
    for answer in [response(412, &refusal), response(200, &changed)] {
        stub.enqueue(ROUTER, answer);
    }
    cloud.remove_routes("r", &[("192.0.2.0/24".to_owned(), "10.6.0.9".to_owned())]).await.unwrap();
    let sent = stub.received(ROUTER);
    let revisions: Vec<_> =
        sent.iter().filter_map(|call| call.headers.split_once("revision_number=")).collect();
    let revisions: Vec<_> = revisions.iter().filter_map(|(_, rest)| rest.lines().next()).collect();
    assert_eq!(revisions, ["4", "5", "4", "5"]);
    let last = &sent[3].body;
    assert!(last.contains("10.6.0.5") && !last.contains("10.6.0.9"), "the routes of now: {last}");
}

#[tokio::test]
async fn r5_8_a_neutron_without_tags_is_not_asked_to_set_any() {
    let (stub, cloud) = connected().await;
    let added = ["red".to_owned(), "blue".to_owned()];
    stub.enqueue("GET /network/v2.0/extensions", response(200, r#"{"extensions":[{"alias":"trunk"}]}"#));
    cloud.change_tags(TaggedKind::Network, "1", &added, &[]).await.unwrap();
    assert!(stub.received("PUT ").is_empty());

    let (stub, cloud) = connected().await;
    let extensions = r#"{"extensions":[{"alias":"standard-attr-tag"}]}"#;
    stub.enqueue("GET /network/v2.0/extensions", response(200, extensions));
    for _ in &added {
        stub.enqueue("PUT /network/v2.0/networks/1/tags/", response(201, "null"));
    }
    let gone =
        r#"{"NeutronError":{"type":"TagNotFound","message":"Tag old could not be found.","detail":""}}"#;
    stub.enqueue("DELETE /network/v2.0/networks/1/tags/old", response(404, gone));
    cloud.change_tags(TaggedKind::Network, "1", &added, &["old".to_owned()]).await.unwrap();
    // Many are replaced with one call, together with those that other tools have.
    let many: Vec<String> = (0..6).map(|number| format!("t{number}")).collect();
    let (read, write) = ("GET /network/v2.0/networks/1/tags ", "PUT /network/v2.0/networks/1/tags ");
    stub.enqueue(read, response(200, r#"{"tags":["foreign","old"]}"#));
    stub.enqueue(write, response(200, r#"{"tags":[]}"#));
    cloud.change_tags(TaggedKind::Network, "1", &many, &["old".to_owned()]).await.unwrap();
    let sent = stub.received(write).remove(0).body;
    assert!(sent.contains("foreign") && sent.contains("t5") && !sent.contains("old"), "{sent}");
}
