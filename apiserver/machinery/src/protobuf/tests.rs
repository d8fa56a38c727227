//! Tests of protobuf with bytes of an encoder that does not depend on the decoder.

use super::*;

fn varint(mut number: u64) -> Vec<u8> {
    let mut bytes = Vec::new();
    loop {
        let low = u8::try_from(number % 128).unwrap();
        number /= 128;
        if number == 0 {
            bytes.push(low);
            return bytes;
        }
        bytes.push(low + 128);
    }
}

fn number(field: u64, value: i64) -> Vec<u8> {
    [varint(field * 8), varint(u64::from_le_bytes(value.to_le_bytes()))].concat()
}

fn bytes(field: u64, value: impl AsRef<[u8]>) -> Vec<u8> {
    let value = value.as_ref();
    [varint(field * 8 + 2), varint(u64::try_from(value.len()).unwrap()), value.to_vec()].concat()
}

fn envelope(api_version: &str, kind: &str, raw: &[u8]) -> Vec<u8> {
    let kind = [bytes(1, api_version), bytes(2, kind)].concat();
    [b"k8s\0".to_vec(), bytes(1, kind), bytes(2, raw), bytes(3, ""), bytes(4, "")].concat()
}

const TOY: &[Field] = &[
    METADATA,
    Field::new(2, "data", Shape::Blobs),
    Field::new(3, "count", Shape::Integer),
    Field::pointer(4, "limit", Shape::Integer),
    Field::pointer(5, "on", Shape::Boolean),
    Field::new(6, "at", Shape::MicroTime),
];

#[test]
fn a_message_is_decoded_to_json() {
    let owner =
        [bytes(1, "K"), bytes(3, "n"), bytes(4, "u"), bytes(5, "g/v"), number(6, 1), number(7, 0)].concat();
    let metadata = [
        bytes(1, "a"),
        bytes(2, ""),
        bytes(3, "ns"),
        number(7, 0),
        bytes(8, ""),
        bytes(9, number(1, 1_795_000_000)),
        number(10, 0),
        bytes(11, [bytes(1, "l"), bytes(2, "ü")].concat()),
        bytes(11, bytes(1, "empty")),
        bytes(13, owner),
        bytes(14, "x/y"),
        bytes(14, "z"),
        bytes(17, [bytes(1, "m"), bytes(7, bytes(1, r#"{"f:a":{}}"#))].concat()),
    ];
    let raw = [
        bytes(1, metadata.concat()),
        bytes(2, [bytes(1, "k"), bytes(2, [0, 255])].concat()),
        number(3, 0),
        number(4, -1),
        number(5, 0),
        bytes(6, [number(1, 1_795_000_000), number(2, 7_000)].concat()),
        number(99, 5),
        [varint(98 * 8 + 1), vec![0; 8]].concat(),
    ];
    let expected = json!({"apiVersion": "v1", "kind": "Toy",
        "metadata": {"name": "a", "namespace": "ns", "deletionTimestamp": "2026-11-18T11:06:40Z",
            "deletionGracePeriodSeconds": 0, "labels": {"l": "ü", "empty": ""}, "finalizers": ["x/y", "z"],
            "ownerReferences": [{"kind": "K", "name": "n", "uid": "u", "apiVersion": "g/v", "controller": true,
                "blockOwnerDeletion": false}], "managedFields": [{"manager": "m", "fieldsV1": {"f:a": {}}}]},
        "data": {"k": "AP8="}, "limit": -1, "on": false, "at": "2026-11-18T11:06:40.000007Z"});
    assert_eq!(decode(&envelope("v1", "Toy", &raw.concat()), "Toy", TOY), Ok(expected));
}

#[test]
fn options_and_split_messages_are_decoded() {
    let raw = [
        number(1, 0),
        bytes(2, bytes(1, "u")),
        bytes(2, bytes(2, "7")),
        bytes(4, "Background"),
        bytes(5, "All"),
    ];
    let body = envelope("g/v", "DeleteOptions", &raw.concat());
    let expected = json!({"apiVersion": "g/v", "kind": "DeleteOptions", "gracePeriodSeconds": 0,
        "preconditions": {"uid": "u", "resourceVersion": "7"}, "propagationPolicy": "Background",
        "dryRun": ["All"]});
    assert_eq!(decode(&body, "DeleteOptions", DELETE_OPTIONS), Ok(expected));
}

#[test]
fn a_message_of_another_kind_is_not_decoded() {
    let body = envelope("v1", "Pod", &bytes(1, "not metadata"));
    assert_eq!(decode(&body, "Toy", TOY), Ok(json!({"apiVersion": "v1", "kind": "Pod"})));
}

#[test]
fn invalid_messages_are_refused_without_a_panic() {
    let whole = envelope("v1", "Toy", &bytes(1, bytes(1, "a")));
    for end in 5..whole.len() {
        // A cut between two fields leaves a message.
        let _ = decode(&whole[..end], "Toy", TOY);
    }
    let table = [
        (b"{}".to_vec(), "prefix"),
        (envelope("v1", "Toy", &[8]), "unexpected EOF"),
        (envelope("v1", "Toy", &[10, 200]), "unexpected EOF"),
        (envelope("v1", "Toy", &[11]), "illegal wireType 3"),
        (envelope("v1", "Toy", &[0, 0]), "illegal tag 0"),
        (envelope("v1", "Toy", &[255; 11]), "integer overflow"),
        (envelope("v1", "Toy", &number(1, 1)), "metadata: wrong wire type"),
        (envelope("v1", "Toy", &bytes(1, bytes(1, [255]))), "metadata: name: text is not UTF-8"),
        (envelope("v1", "Toy", &bytes(6, number(1, i64::MAX))), "at: "),
    ];
    for (body, why) in table {
        let found = decode(&body, "Toy", TOY).unwrap_err().to_string();
        assert!(found.contains(why), "{why}: {found}");
    }
}

/// The response of a kube-apiserver 1.36.3 for the same object.
#[test]
fn encoded_bytes_equal_those_of_kube_apiserver() {
    let object = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {
        "resourceVersion": "228", "annotations": {"k8s.io/initial-events-end": "true"}}});
    let expected = [
        b"k8s\0\x0a\x27\x0a\x0emeta.k8s.io/v1\x12\x15PartialObjectMetadata\x12\x38\x0a\x36".as_slice(),
        b"\x0a\0\x12\0\x1a\0\x22\0\x2a\0\x32\x03228\x38\0\x42\0\x62\x21\x0a\x19k8s.io/initial-events-end",
        b"\x12\x04true\x1a\0\x22\0",
    ];
    let bookmark = encode(&object).unwrap();
    assert_eq!(bookmark, expected.concat());
    let event = event("BOOKMARK", &bookmark);
    assert_eq!(event[..16], *b"\0\0\0\x79\x0a\x08BOOKMARK\x12\x6d");
    let status = json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "too old resource version: 1 (212)", "reason": "Expired", "code": 410});
    let expected = [
        b"k8s\0\x0a\x0c\x0a\x02v1\x12\x06Status\x12\x40\x0a\x06\x0a\0\x12\0\x1a\0\x12\x07Failure\x1a\x21"
            .as_slice(),
        b"too old resource version: 1 (212)\x22\x07Expired\x30\x9a\x03\x1a\0\x22\0",
    ];
    assert_eq!(encode(&status).unwrap(), expected.concat());
    assert_eq!(encode(&json!({"kind": "Toy"})), None);
    let versions = json!({"groupVersion": "g/v1", "version": "v1"});
    let group = json!({"kind": "APIGroup", "apiVersion": "v1", "name": "g", "versions": [versions],
        "preferredVersion": versions});
    let expected = b"k8s\0\x0a\x0e\x0a\x02v1\x12\x08APIGroup\x12\x1b\x0a\x01g\x12\x0a\x0a\x04g/v1\x12\x02v1\
        \x1a\x0a\x0a\x04g/v1\x12\x02v1\x1a\0\x22\0";
    assert_eq!(encode(&group).unwrap(), expected);
}

#[test]
fn an_encoded_object_is_decoded_unchanged() {
    let object = json!({"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1", "metadata": {
        "name": "a", "namespace": "ns", "generation": 3, "creationTimestamp": "2026-11-18T11:06:40Z",
        "deletionTimestamp": "2026-11-18T11:06:41Z", "deletionGracePeriodSeconds": 0,
        "labels": {"b": "", "a": "ü"}, "finalizers": ["x/y", "z"],
        "ownerReferences": [{"kind": "K", "name": "n", "uid": "u", "apiVersion": "g/v", "controller": false}],
        "managedFields": [{"manager": "m", "operation": "Apply", "apiVersion": "g/v", "fieldsType": "FieldsV1",
            "time": "2026-11-18T11:06:40Z", "fieldsV1": {"f:spec": {".": {}}}, "subresource": "status"}]}});
    let bytes = encode(&object).unwrap();
    assert_eq!(decode(&bytes, "PartialObjectMetadata", &[METADATA]), Ok(object));
}

/// The forms of the cache: with sets of fields as text, or without metadata.
#[test]
fn a_list_encoded_item_by_item_equals_the_whole_list() {
    let set = json!({"f:spec": {"f:a": {}, "f:ü\"": {}}});
    let metadata = |set: Value| {
        json!({"name": "a", "labels": {"x": "y"}, "creationTimestamp": "2026-01-02T03:04:05Z",
            "managedFields": [{"manager": "m", "fieldsType": "FieldsV1", "fieldsV1": set}]})
    };
    let about = json!({"resourceVersion": "7", "remainingItemCount": 3, "continue": "c"});
    for (version, fields) in [("v1", PARTIAL_LIST), ("v1beta1", OLDER_PARTIAL_LIST)] {
        let api_version = format!("meta.k8s.io/{version}");
        let mut list = PartialList::new(&api_version, &about);
        let items = [metadata(json!(set.to_string())), Value::Null];
        items.iter().for_each(|item| list.count(item));
        let parts = std::iter::once(list.head()).chain(items.iter().map(|item| list.item(item)));
        let written = parts.chain([list.tail()]).collect::<Vec<_>>().concat();
        let whole = json!({"apiVersion": api_version, "kind": "PartialObjectMetadataList", "metadata": about,
            "items": [{"metadata": metadata(set.clone())}, {}]});
        assert_eq!(decode(&written, "PartialObjectMetadataList", fields).unwrap()["metadata"], about);
        assert_eq!(Some(written), encode(&whole));
    }
    let one = json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": metadata(set.clone())});
    assert_eq!(Some(partial("meta.k8s.io/v1", &metadata(json!(set.to_string())))), encode(&one));
}
