use super::*;

fn accept(text: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(ACCEPT, text.parse().unwrap());
    headers
}

fn of(text: &str, list: bool) -> Result<(View, Encoding), u16> {
    let form = form(&accept(text), &Query::default(), list);
    form.map(|form| (form.view, form.encoding)).map_err(|error| error.code)
}

/// Each row is what a kube-apiserver 1.36.3 answered for a custom resource.
#[test]
fn the_first_form_that_can_be_had_wins() {
    use Encoding::{Json, PrettyJson, Protobuf, Yaml};
    use View::{Metadata, Table, Whole};
    let table = [
        ("", false, Ok((Whole, Json))),
        ("*/*", false, Ok((Whole, Json))),
        ("application/*", false, Ok((Whole, Json))),
        ("text/*", false, Err(406)),
        ("text/html", false, Err(406)),
        ("application/cbor", false, Err(406)),
        ("*/*;q=0.8,text/html", false, Ok((Whole, Json))),
        ("application/yaml", true, Ok((Whole, Yaml))),
        ("application/json;q=0.1,application/yaml;q=0.5", false, Ok((Whole, Yaml))),
        ("application/json;q=0", false, Ok((Whole, Json))),
        ("application/json;pretty=1", false, Ok((Whole, PrettyJson))),
        ("application/json;stream=watch", false, Ok((Whole, Json))),
        ("application/json;foo=bar;charset=latin1", false, Ok((Whole, Json))),
        ("application/vnd.kubernetes.protobuf", false, Err(406)),
        ("application/vnd.kubernetes.protobuf,application/json", false, Ok((Whole, Json))),
        ("application/json;as=Table;v=v1;g=meta.k8s.io,application/json", true, Ok((Table("v1"), Json))),
        ("application/json;as=Table;v=v1beta1;g=meta.k8s.io", true, Ok((Table("v1beta1"), Json))),
        ("application/yaml;as=Table;v=v1;g=meta.k8s.io", true, Ok((Table("v1"), Yaml))),
        ("application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io", true, Err(406)),
        (
            "application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,application/json",
            false,
            Ok((Whole, Json)),
        ),
        ("application/json;as=Table;v=v2;g=meta.k8s.io", true, Err(406)),
        ("application/json;as=Table;v=v1;g=foo", true, Err(406)),
        ("application/json;as=Foo;v=v1;g=meta.k8s.io", true, Err(406)),
        ("application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", true, Err(406)),
        ("application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", false, Err(500)),
        ("application/yaml;as=PartialObjectMetadata;g=meta.k8s.io;v=v1", false, Ok((Metadata("v1"), Yaml))),
        (
            "application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,\
             application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json",
            true,
            Ok((Metadata("v1"), Protobuf)),
        ),
    ];
    for (text, list, expected) in table {
        assert_eq!(of(text, list), expected, "{text}");
    }
    assert_eq!(form(&HeaderMap::new(), &Query::default(), true), Ok(Form::JSON));
}

#[test]
fn streams_and_errors_have_rules_of_their_own() {
    let none = Query::default();
    let watched = |text: &str| watch_form(&accept(text), &none).map(|form| form.encoding).map_err(|e| e.code);
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
fn people_get_lines() {
    let mut curl = accept("*/*");
    curl.insert(USER_AGENT, "curl/8.5".parse().unwrap());
    for (query, expected) in
        [("", Encoding::PrettyJson), ("pretty=0", Encoding::Json), ("pretty=false", Encoding::Json)]
    {
        assert_eq!(form(&curl, &Query::parse(query), false).unwrap().encoding, expected, "{query}");
    }
    assert_eq!(
        form(&accept("*/*"), &Query::parse("pretty=true"), false).unwrap().encoding,
        Encoding::PrettyJson
    );
}

#[test]
fn discovery_is_aggregated_for_those_who_know_it() {
    let v2 = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
    let old = "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";
    let table = [
        (v2.to_owned(), Ok(Discovery::Aggregated)),
        (format!("{v2};profile=nopeer"), Ok(Discovery::Aggregated)),
        (format!("{v2},{old},application/json"), Ok(Discovery::Aggregated)),
        (old.to_owned(), Err(406)),
        (format!("{old},application/json"), Ok(Discovery::Legacy(Encoding::Json))),
        ("application/json".to_owned(), Ok(Discovery::Legacy(Encoding::Json))),
        ("application/yaml".to_owned(), Ok(Discovery::Legacy(Encoding::Yaml))),
        ("text/html".to_owned(), Err(406)),
    ];
    for (text, expected) in table {
        let found = discovery(&accept(&text), &Query::default()).map_err(|error| error.code);
        assert_eq!(found, expected, "{text}");
    }
}
