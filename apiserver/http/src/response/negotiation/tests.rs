//! Tests of content negotiation: views, encodings and parameters of `Accept`.

use super::*;

fn accept(text: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, text.parse().unwrap());
    headers
}

fn of(text: &str) -> Result<(View, Encoding), u16> {
    let form = form(&accept(text), &Query::default());
    form.map(|form| (form.view, form.encoding)).map_err(|error| error.code)
}

/// Each row is an answer of kube-apiserver 1.36.3 for a custom resource.
#[test]
fn the_first_supported_media_type_wins() {
    use Encoding::{Json, PrettyJson, Protobuf, Yaml};
    use View::{Metadata, MetadataList, Table, Whole};
    let table = [
        ("", Ok((Whole, Json))),
        ("*/*", Ok((Whole, Json))),
        ("application/*", Ok((Whole, Json))),
        ("text/*", Err(406)),
        ("text/html", Err(406)),
        ("application/cbor", Err(406)),
        ("*/*;q=0.8,text/html", Ok((Whole, Json))),
        ("application/yaml", Ok((Whole, Yaml))),
        ("application/json;q=0.1,application/yaml;q=0.5", Ok((Whole, Yaml))),
        ("application/json;q=0", Ok((Whole, Json))),
        ("application/json;pretty=1", Ok((Whole, PrettyJson))),
        ("application/json;stream=watch", Ok((Whole, Json))),
        ("application/json;foo=bar;charset=latin1", Ok((Whole, Json))),
        ("application/vnd.kubernetes.protobuf", Err(406)),
        ("application/vnd.kubernetes.protobuf,application/json", Ok((Whole, Json))),
        ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", Ok((Table("v1"), Json))),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io", Ok((Table("v1beta1"), Json))),
        ("application/yaml;as=Table;v=v1;g=meta.k8s.io", Ok((Table("v1"), Yaml))),
        ("application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io", Err(406)),
        (
            "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,application/json",
            Ok((Whole, Json)),
        ),
        ("application/json;as=Table;v=v2;g=meta.k8s.io", Err(406)),
        ("application/json;as=Table;v=v1;g=foo", Err(406)),
        ("application/json;as=Foo;v=v1;g=meta.k8s.io", Err(406)),
        ("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", Ok((MetadataList("v1"), Json))),
        ("application/yaml;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", Ok((Metadata("v1"), Yaml))),
        (
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
             application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
            Ok((MetadataList("v1"), Protobuf)),
        ),
    ];
    for (text, expected) in table {
        assert_eq!(of(text), expected, "{text}");
    }
    assert_eq!(form(&HeaderMap::new(), &Query::default()), Ok(Form::JSON));
}

#[test]
fn watches_and_errors_negotiate_by_their_own_rules() {
    let none = Query::default();
    let watched = |text: &str| {
        form(&accept(text), &none).and_then(stream).map(|form| form.encoding).map_err(|e| e.code)
    };
    assert_eq!(watched("application/yaml,application/json"), Err(406));
    assert_eq!(watched("application/json;stream=watch"), Ok(Encoding::Json));
    let metadata =
        "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;g=meta.k8s.io;v=v1;stream=watch";
    assert_eq!(watched(metadata), Ok(Encoding::Protobuf));
    let table = [
        ("application/vnd.kubernetes.protobuf", Encoding::Protobuf),
        ("application/vnd.kubernetes.protobuf;q=0.5,application/yaml", Encoding::Yaml),
        (metadata, Encoding::PrettyJson),
        ("text/html", Encoding::PrettyJson),
        ("application/json;as=Table;g=meta.k8s.io;v=v1", Encoding::PrettyJson),
        ("application/json;as=Table;g=meta.k8s.io;v=v1,application/json", Encoding::Json),
    ];
    for (text, expected) in table {
        assert_eq!(of_errors(&accept(text), &none), expected, "{text}");
    }
}

#[test]
fn curl_and_pretty_get_indented_json() {
    let mut curl = accept("*/*");
    curl.insert(USER_AGENT, "curl/8.5".parse().unwrap());
    for (query, expected) in
        [("", Encoding::PrettyJson), ("pretty=0", Encoding::Json), ("pretty=false", Encoding::Json)]
    {
        assert_eq!(form(&curl, &Query::parse(query)).unwrap().encoding, expected, "{query}");
    }
    assert_eq!(form(&accept("*/*"), &Query::parse("pretty=true")).unwrap().encoding, Encoding::PrettyJson);
}

#[test]
fn discovery_is_aggregated_for_clients_that_accept_it() {
    use Discovery::{Aggregated, Legacy};
    let v2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let old = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
    let protobuf = v2.replace("json", "vnd.kubernetes.protobuf");
    let table = [
        (v2.to_owned(), Ok(Aggregated(Encoding::Json)), Err(406)),
        (format!("{v2};profile=nopeer"), Ok(Aggregated(Encoding::Json)), Err(406)),
        (format!("{v2},{old},application/json"), Ok(Aggregated(Encoding::Json)), Ok(Legacy(Encoding::Json))),
        (format!("application/json,{v2}"), Ok(Aggregated(Encoding::Json)), Ok(Legacy(Encoding::Json))),
        (
            format!("application/yaml;q=0.5,{v2};q=0.1"),
            Ok(Aggregated(Encoding::Json)),
            Ok(Legacy(Encoding::Yaml)),
        ),
        (protobuf.clone(), Ok(Aggregated(Encoding::Protobuf)), Err(406)),
        (format!("{v2};q=0.9,{protobuf}"), Ok(Aggregated(Encoding::Protobuf)), Err(406)),
        (v2.replace("json", "yaml"), Ok(Aggregated(Encoding::Yaml)), Err(406)),
        (old.to_owned(), Err(406), Err(406)),
        (format!("{old},application/json"), Ok(Legacy(Encoding::Json)), Ok(Legacy(Encoding::Json))),
        (
            "application/json;pretty=1".to_owned(),
            Ok(Legacy(Encoding::PrettyJson)),
            Ok(Legacy(Encoding::PrettyJson)),
        ),
        ("application/yaml".to_owned(), Ok(Legacy(Encoding::Yaml)), Ok(Legacy(Encoding::Yaml))),
        ("text/html".to_owned(), Err(406), Err(406)),
    ];
    for (text, offered, alone) in table {
        for (aggregation, expected) in [(Aggregation::Offered, offered), (Aggregation::None, alone)] {
            let found = discovery(&accept(&text), &Query::default(), aggregation).map_err(|error| error.code);
            assert_eq!(found, expected, "{text} {aggregation:?}");
        }
    }
}

#[test]
fn an_accept_header_must_name_an_offered_type_or_any() {
    for (text, offered) in [
        ("", true),
        ("*/*", true),
        ("application/json;as=Table;g=meta.k8s.io;v=v1", true),
        ("text/html, application/json;q=0.1", true),
        ("application/*", false),
        ("application/yaml", false),
    ] {
        assert_eq!(check_offered(&accept(text), &["application/json"]).is_ok(), offered, "{text}");
    }
}
