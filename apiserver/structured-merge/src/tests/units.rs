use super::*;
use crate::ancient;
use crate::reconcile::reconcile;

fn spec(value: impl Into<Value>) -> Value {
    json!({ "spec": value.into() })
}

fn owned_by_spec(value: Value) -> Vec<String> {
    shown(&owned(&WIDGET, &spec(value)))
}

fn change(old: Value, new: Value) -> [Vec<String>; 3] {
    let change = compare(&WIDGET, &spec(old), &spec(new));
    [shown(&change.added), shown(&change.modified), shown(&change.removed)]
}

fn none() -> Vec<String> {
    Vec::new()
}

fn some(paths: &[&str]) -> Vec<String> {
    paths.iter().map(|path| (*path).to_owned()).collect()
}

#[test]
fn u01_a_set_is_encoded_as_a_tree() {
    let item = vec![
        Element::field("spec"),
        Element::field("items"),
        Element::key([("name".to_owned(), json!("i1"))]),
    ];
    let value = [item.clone(), vec![Element::field("value")]].concat();
    let set = Set::of([Path(item), Path(value), Path::of_fields(["spec", "replicas"])]);
    let wanted = r#"{"f:spec":{"f:items":{"k:{\"name\":\"i1\"}":{".":{},"f:value":{}}},"f:replicas":{}}}"#;
    assert_eq!(write(&set).to_string(), wanted);
}

#[test]
fn u02_elements_have_an_internal_and_an_encoded_order() {
    let elements = [
        Element::value(json!("b")),
        Element::Index(0),
        Element::field("z"),
        Element::key([("n".to_owned(), json!(1))]),
        Element::value(json!(1)),
        Element::field("a"),
        Element::value(json!(true)),
    ];
    let set = Set::of(elements.map(|element| Path(vec![element])));
    let order: Vec<String> = set.paths().iter().map(|path| path.0[0].wire()).collect();
    assert_eq!(order, ["f:a", "f:z", r#"k:{"n":1}"#, "v:1", r#"v:"b""#, "v:true", "i:0"]);
    let wire = r#"{"f:a":{},"f:z":{},"i:0":{},"k:{\"n\":1}":{},"v:\"b\"":{},"v:1":{},"v:true":{}}"#;
    assert_eq!(write(&set).to_string(), wire);
}

#[test]
fn u03_unknown_path_elements_are_skipped() {
    let set = read(&json!({"f:a": {}, "x:q": {"f:b": {}}, "f:c": {"x:q": {}}})).unwrap();
    assert_eq!(shown(&set), [".a", ".c"]);
}

#[test]
fn u04_malformed_path_elements_are_errors() {
    for key in ["f", "v:{", "v:1 2", "", "k:1", "i:x", "ff:x"] {
        assert!(read(&json!({key: {}})).is_err(), "{key}");
    }
    assert!(read(&json!({"f:a": 1})).is_err());
}

#[test]
fn u05_key_fields_are_sorted() {
    let set = read(&json!({r#"k:{"protocol":"TCP","port":80}"#: {}})).unwrap();
    assert_eq!(write(&set), json!({r#"k:{"port":80,"protocol":"TCP"}"#: {}}));
    assert_eq!(shown(&set), [r#"[port=80,protocol="TCP"]"#]);
    let float = read(&json!({"v:5.0": {}})).unwrap();
    assert_eq!(write(&float), json!({"v:5": {}}));
}

#[test]
fn u06_to_u09_a_configuration_owns_its_leaves() {
    assert_eq!(owned_by_spec(json!({"nested": {"deep": {"x": "1"}}})), [".spec.nested.deep.x"]);
    let empties = json!({"labelsMap": {}, "note": null, "items": null, "setList": [], "atomicList": []});
    let wanted = [".spec.atomicList", ".spec.items", ".spec.labelsMap", ".spec.note"];
    assert_eq!(owned_by_spec(empties), wanted);
    let wanted =
        [r#".spec.items[name="a"]"#, r#".spec.items[name="a"].name"#, r#".spec.items[name="a"].extra.a"#];
    assert_eq!(owned_by_spec(json!({"items": [{"name": "a", "extra": {"a": "1"}}]})), wanted);
    assert_eq!(owned_by_spec(json!({"free": {"x": {"y": [1]}}})), [".spec.free.x", ".spec.free.x.y"]);
}

#[test]
fn u10_to_u16_changes_are_added_modified_and_removed_fields() {
    let x = |value: &str| json!({"nested": {"a": value}});
    assert_eq!(
        change(x("1"), json!({})),
        [none(), none(), some(&[".spec.nested", ".spec.nested.a"])].map(|set| set)
    );
    assert_eq!(change(json!({"paused": true}), json!({"paused": true, "nested": {}}))[0], [".spec.nested"]);
    assert_eq!(change(json!({"nested": {}}), x("1")), [some(&[".spec.nested.a"]), none(), none()]);
    assert_eq!(change(json!({"replicas": 1}), json!({"replicas": 1.0})), [none(), none(), none()]);
    assert_eq!(
        change(json!({"setList": ["a", "b"]}), json!({"setList": ["b", "c"]})),
        [some(&[r#".spec.setList[="c"]"#]), none(), some(&[r#".spec.setList[="a"]"#])]
    );
    assert_eq!(
        change(json!({"items": [{"name": "a"}]}), json!({"items": [{"name": "a"}, {"name": "a"}]})),
        [
            some(&[r#".spec.items[name="a"]"#]),
            none(),
            some(&[r#".spec.items[name="a"]"#, r#".spec.items[name="a"].name"#])
        ]
    );
    assert_eq!(
        change(json!({"atomicList": ["1", "2"]}), json!({"atomicList": ["2", "1"]})),
        [none(), some(&[".spec.atomicList"]), none()]
    );
}

#[test]
fn a_changed_value_type_modifies_only_the_field_itself() {
    let free = |value: Value| json!({"free": {"x": value}});
    assert_eq!(
        change(free(json!({"y": 1})), free(json!(5))),
        [none(), some(&[".spec.free.x"]), some(&[".spec.free.x.y"])]
    );
    assert_eq!(
        change(free(json!([1])), free(json!({"y": 1}))),
        [some(&[".spec.free.x.y"]), some(&[".spec.free.x"]), none()]
    );
    let reordered = change(json!({"setList": ["a", "b"]}), json!({"setList": ["b", "a"]}));
    assert_eq!(reordered, [none(), none(), none()]);
}

#[test]
fn u17_a_null_map_is_owned_and_changes_nothing() {
    let reset = Set::default();
    let mut live = json!({"spec": {"labelsMap": {"a": "1"}}});
    tracker("c", &reset).update(None, &mut live);
    let applied = tracker("n", &reset).apply(Some(&live), &spec(json!({"labelsMap": null})), false).unwrap();
    assert!(!applied.changed);
    let entries = Entries::decode(applied.object.pointer("/metadata/managedFields")).unwrap();
    let mine = entries.get(&manager("n", Operation::Apply)).unwrap();
    assert_eq!((shown(&mine.fields), mine.time), (some(&[".spec.labelsMap"]), None));
}

#[test]
fn u18_children_of_a_field_that_became_atomic_become_the_field() {
    let set = Set::of([Path::of_fields(["spec", "atomicMap", "k"])]);
    assert_eq!(shown(&reconcile(&WIDGET, set)), [".spec.atomicMap"]);
}

#[test]
fn u19_an_owner_of_a_field_that_became_granular_removes_no_children() {
    let reset = Set::default();
    let list = json!([{"manager": "a", "operation": "Apply", "apiVersion": V1, "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:labelsMap": {}}}}]);
    let live = json!({"metadata": {"managedFields": list}, "spec": {"labelsMap": {"a": "1", "b": "2"}}});
    let config = spec(json!({"labelsMap": {"a": "1"}}));
    let applied = tracker("a", &reset).apply(Some(&live), &config, false).unwrap();
    assert_eq!(applied.object["spec"], live["spec"]);
    assert_eq!(
        applied.object["metadata"]["managedFields"][0]["fieldsV1"],
        json!({"f:spec": {"f:labelsMap": {"f:a": {}}}}).to_string()
    );
}

fn entry(name: &str, operation: Operation, api_version: &str, time: Option<i64>) -> Entry {
    let manager = ManagerIdentifier { api_version: api_version.to_owned(), ..manager(name, operation) };
    Entry { manager, time, fields: Arc::new(Set::of([Path::of_fields(["spec", name])])) }
}

fn wire(entries: &Entries) -> Vec<(String, String)> {
    let list = entries.encode().unwrap_or_default();
    let text = |entry: &Value, field: &str| entry[field].as_str().unwrap_or_default().to_owned();
    let list = list.as_array().into_iter().flatten();
    list.map(|entry| (text(entry, "manager"), text(entry, "operation"))).collect()
}

#[test]
fn u20_entries_are_sorted_by_operation_time_and_name() {
    let mut entries = Entries::default();
    entries.push(entry("b", Operation::Apply, V1, Some(7)));
    entries.push(entry("a", Operation::Update, V1, Some(7)));
    entries.push(entry("a", Operation::Apply, V1, Some(7)));
    entries.push(entry("c", Operation::Apply, V1, None));
    let wanted = [("c", "Apply"), ("a", "Apply"), ("b", "Apply"), ("a", "Update")];
    assert_eq!(wire(&entries), wanted.map(|(manager, operation)| (manager.to_owned(), operation.to_owned())));
}

#[test]
fn u21_the_oldest_entries_of_a_version_are_merged() {
    let mut entries = Entries::default();
    entries.push(entry("t1", Operation::Update, V1BETA1, Some(1)));
    (2..=11).for_each(|time| entries.push(entry(&format!("t{time}"), Operation::Update, V1, Some(time))));
    ancient::cap(&mut entries);
    assert_eq!(entries.iter().count(), 10);
    let beta = ManagerIdentifier { api_version: V1BETA1.to_owned(), ..manager("t1", Operation::Update) };
    assert!(entries.get(&beta).is_some());
    let joined = entries.get(&manager("ancient-changes", Operation::Update)).unwrap();
    assert_eq!((joined.time, shown(&joined.fields)), (Some(3), some(&[".spec.t2", ".spec.t3"])));
}

#[test]
fn u22_three_of_twelve_entries_are_merged() {
    let mut entries = Entries::default();
    (1..=12).for_each(|time| entries.push(entry(&format!("t{time}"), Operation::Update, V1, Some(time))));
    ancient::cap(&mut entries);
    assert_eq!(entries.iter().count(), 10);
    let joined = entries.get(&manager("ancient-changes", Operation::Update)).unwrap();
    assert_eq!(shown(&joined.fields), [".spec.t1", ".spec.t2", ".spec.t3"]);
}

#[test]
fn u22_more_entries_are_merged_into_an_existing_merged_entry() {
    let mut entries = Entries::default();
    entries.push(entry("ancient-changes", Operation::Update, V1, Some(20)));
    (1..=12).for_each(|time| entries.push(entry(&format!("t{time}"), Operation::Update, V1, Some(time))));
    ancient::cap(&mut entries);
    assert_eq!(entries.iter().count(), 10);
    // The first stays unchanged, as upstream's does.
    assert!(entries.get(&manager("t1", Operation::Update)).is_some());
    let joined = entries.get(&manager("ancient-changes", Operation::Update)).unwrap();
    let together = [".spec.ancient-changes", ".spec.t2", ".spec.t3", ".spec.t4"];
    assert_eq!((joined.time, shown(&joined.fields)), (Some(4), some(&together)));
}

#[test]
fn u22_long_and_short_lists_are_encoded_alike() {
    for count in [3, 200] {
        let mut entries = Entries::default();
        (0..count).for_each(|number| entries.push(entry(&format!("m{number}"), Operation::Apply, V1, None)));
        let list = entries.encode();
        let mut read = Entries::decode(list.as_ref()).unwrap();
        assert_eq!(read.iter().count(), count);
        assert_eq!(read.encode_over(list.clone(), &manager("m1", Operation::Apply)), list);
        // Of duplicate entries of a field manager the last is decoded.
        let again = entry("m1", Operation::Apply, V1, Some(9));
        let mut twice = list.unwrap();
        twice.as_array_mut().unwrap().push({
            let mut one = Entries::default();
            one.push(again.clone());
            one.encode().unwrap()[0].clone()
        });
        read = Entries::decode(Some(&twice)).unwrap();
        assert_eq!(read.iter().count(), count);
        assert_eq!(read.get(&again.manager).unwrap().time, Some(9));
    }
}

#[test]
fn u23_conflicts_are_grouped_by_field_manager() {
    let status = ManagerIdentifier {
        manager: "b".to_owned(),
        operation: Operation::Update,
        api_version: "G/v1".to_owned(),
        subresource: "status".to_owned(),
    };
    let sets = vec![
        (manager("z", Operation::Apply), Set::of([Path::of_fields(["spec", "a"])])),
        (status, Set::of([Path::of_fields(["status", "p"])])),
    ];
    let text = "Apply failed with 2 conflicts: conflicts with \"b\" with subresource \"status\" using G/v1:\n\
                - .status.p\nconflicts with \"z\":\n- .spec.a";
    assert_eq!(Conflicts::of(sets).unwrap().to_string(), text);
}

#[test]
fn u28_and_u29_duplicates_in_the_live_object_are_tolerated() {
    let live = spec(json!({"items": [{"name": "a"}, {"name": "a", "value": "2"}]}));
    let items =
        |config: Value| merge(&WIDGET, &live, &spec(json!({ "items": config })))["spec"]["items"].clone();
    assert_eq!(items(json!([{"name": "a", "value": "3"}])), json!([{"name": "a", "value": "3"}]));
    assert_eq!(
        items(json!([{"name": "b"}])),
        json!([{"name": "a"}, {"name": "a", "value": "2"}, {"name": "b"}])
    );
}

#[test]
fn invalid_configurations_get_the_errors_of_kube_apiserver() {
    let reset = Set::default();
    let text =
        |config: Value| tracker("a", &reset).apply(None, &spec(config), false).unwrap_err().to_string();
    assert_eq!(text(json!({"nope": 1})), ".spec.nope: field not declared in schema");
    assert_eq!(text(json!({"nope": 1, "nor": 2})), ".spec.nope: field not declared in schema");
    assert_eq!(
        text(json!({"items": [{}]})),
        ".spec.items: element 0: associative list with keys has an element that omits all key fields [\"name\"] \
         (and doesn't have default values for any key fields)"
    );
    assert_eq!(text(json!({"replicas": "x"})), ".spec.replicas: expected numeric (int or float), got string");
    assert_eq!(text(json!({"labelsMap": [1]})), ".spec.labelsMap: expected map, got &{[1]}");
    assert_eq!(
        text(json!({"nope": 1, "paused": 1})),
        "errors:\n  .spec.nope: field not declared in schema\n  .spec.paused: expected boolean, got &{1}"
    );
}

#[test]
fn owners_of_replicas_map_to_scale_and_back() {
    let replicas = Path::of_fields(["spec", "replicas"]);
    let map = [(V1.to_owned(), replicas.clone())].into();
    let paths = ScalePaths { replicas: &map, api_version: V1 };
    let mut parent = Entries::default();
    let name = Path::of_fields(["spec", "name"]);
    let mine = Entry {
        manager: manager("a", Operation::Apply),
        time: Some(1),
        fields: Arc::new(Set::of([replicas, name])),
    };
    parent.push(mine);
    parent.push(entry("u", Operation::Update, V1, Some(2)));
    let scale = to_scale(&parent, &paths);
    assert_eq!(wire(&scale), [("a".to_owned(), "Apply".to_owned())]);
    assert_eq!(from_scale(&parent, &scale, &paths), parent);
    let mut after = Entries::default();
    let scaler = ManagerIdentifier {
        subresource: "scale".to_owned(),
        api_version: "autoscaling/v1".to_owned(),
        ..manager("s", Operation::Update)
    };
    after.push(Entry {
        manager: scaler,
        time: Some(9),
        fields: Arc::new(Set::of([Path::of_fields(["spec", "replicas"])])),
    });
    let back = from_scale(&parent, &after, &paths);
    let shown: Vec<_> =
        back.iter().map(|entry| (entry.manager.to_string(), entry.time, shown(&entry.fields))).collect();
    let wanted = [
        ("\"a\"".to_owned(), Some(1), some(&[".spec.name"])),
        (format!("\"u\" using {V1}"), Some(2), some(&[".spec.u"])),
        (format!("\"s\" with subresource \"scale\" using {V1}"), None, some(&[".spec.replicas"])),
    ];
    assert_eq!(shown, wanted);
}

#[test]
fn an_unreadable_entry_in_an_update_keeps_the_live_entries() {
    let reset = Set::default();
    let mut live = json!({"metadata": {"uid": "u"}, "spec": {"replicas": 1}});
    tracker("a", &reset).update(None, &mut live);
    for bad in [json!([{"operation": "Bad"}]), json!("x"), json!([]), json!(null)] {
        let mut new = live.clone();
        new["metadata"]["managedFields"] = bad;
        new["spec"]["paused"] = json!(true);
        tracker("b", &reset).update(Some(&live), &mut new);
        assert_eq!(new["metadata"]["managedFields"].as_array().unwrap().len(), 2);
    }
    let mut new = live.clone();
    new["metadata"]["managedFields"] = json!([{}]);
    tracker("b", &reset).update(Some(&live), &mut new);
    assert_eq!(new.pointer("/metadata/managedFields"), None);
}

#[test]
fn entries_of_a_removed_version_are_dropped_and_others_kept() {
    let reset = Set::default();
    let entry = |manager: &str, version: &str| {
        json!({"manager": manager, "operation": "Apply", "apiVersion": version, "fieldsType": "FieldsV1",
            "fieldsV1": {"f:spec": {"f:replicas": {}}}})
    };
    let list = json!([entry("a", V1), entry("old", "lab.example.io/v0")]);
    let live = json!({"metadata": {"uid": "u", "managedFields": list}, "spec": {"replicas": 1}});
    let mut new = json!({"metadata": {"uid": "u"}, "spec": {"replicas": 1, "paused": true}});
    tracker("u", &reset).update(Some(&live), &mut new);
    let entries = Entries::decode(new.pointer("/metadata/managedFields")).unwrap();
    let managers: Vec<&str> = entries.iter().map(|entry| entry.manager.manager.as_str()).collect();
    assert_eq!(managers, ["a", "u"]);
}

#[test]
fn large_lists_take_near_linear_time() {
    let reset = Set::default();
    let items = |count: usize| -> Value {
        let items = (0..count).map(|at| json!({"name": format!("i{at}"), "value": "v"}));
        spec(json!({"items": items.collect::<Vec<_>>()}))
    };
    let run = |count: usize| {
        let start = std::time::Instant::now();
        let first = tracker("a", &reset).apply(None, &items(count), false).unwrap();
        let mut config = items(count);
        config["spec"]["items"].as_array_mut().unwrap().reverse();
        tracker("a", &reset).apply(Some(&first.object), &config, false).unwrap();
        start.elapsed()
    };
    run(100);
    let (few, many) = (run(1_000), run(8_000));
    // Quadratic would be 64 times as long.
    assert!(many < few * 24, "{few:?} and {many:?}");
}
