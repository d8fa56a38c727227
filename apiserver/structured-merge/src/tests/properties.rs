use proptest::prelude::*;

use super::*;

/// Strategy of a widget's `spec` that a client may apply. It has no empty lists: a client that applies one owns
/// nothing, so that the list comes and goes, as it does upstream.
fn specs() -> impl Strategy<Value = Value> {
    let text = || prop::sample::select(vec!["a", "b", "c", "d"]);
    let keys = || prop::collection::btree_set(text(), 1..4);
    let map = move || prop::collection::btree_map(text(), text(), 0..3).prop_map(|map| json!(map));
    let items = prop::collection::btree_map(text(), prop::option::of(text()), 1..4).prop_map(|items| {
        let item = |(name, value): (&str, Option<&str>)| match value {
            Some(value) => json!({"name": name, "value": value}),
            None => json!({"name": name}),
        };
        items.into_iter().map(item).collect::<Value>()
    });
    let set = (keys(), any::<bool>()).prop_map(|(keys, reverse)| {
        let mut list: Vec<&str> = keys.into_iter().collect();
        if reverse {
            list.reverse();
        }
        json!(list)
    });
    let fields = (
        prop::option::of((0..3_i64).prop_map(|number| json!(number))),
        prop::option::of(set),
        prop::option::of(items),
        prop::option::of(map()),
        prop::option::of(map()),
        prop::option::of(map().prop_map(|map| json!({"x": map, "l": [1]}))),
        prop::option::of(text().prop_map(|x| json!({"a": x, "deep": {"x": x}}))),
    );
    fields.prop_map(|(replicas, set, items, labels, atomic, free, nested)| {
        let fields = [
            ("replicas", replicas),
            ("setList", set),
            ("items", items),
            ("labelsMap", labels),
            ("atomicMap", atomic),
            ("free", free),
            ("nested", nested),
        ];
        let present = fields.into_iter().filter_map(|(name, value)| Some((name.to_owned(), value?)));
        json!({"apiVersion": V1, "kind": "Widget", "metadata": {"name": "w"}, "spec": Value::Object(present.collect())})
    })
}

/// Strategy of a write: its field manager, its object and its operation.
fn writes() -> impl Strategy<Value = Vec<(String, bool, Value)>> {
    let manager = prop::sample::select(vec!["a", "b", "c"]).prop_map(str::to_owned);
    prop::collection::vec((manager, any::<bool>(), specs()), 1..8)
}

fn entries(object: &Value) -> Entries {
    Entries::decode(object.pointer("/metadata/managedFields")).unwrap()
}

fn write_all(writes: &[(String, bool, Value)], reset: &Set) -> Value {
    let mut live: Option<Value> = None;
    for (at, (manager, apply, config)) in writes.iter().enumerate() {
        let mut tracker = tracker(manager, reset);
        tracker.now += i64::try_from(at).unwrap();
        let mut new = if *apply {
            tracker.apply(live.as_ref(), config, true).unwrap().object
        } else {
            let mut new = config.clone();
            new["metadata"]["uid"] = json!("u");
            tracker.update(live.as_ref(), &mut new);
            new
        };
        new["metadata"]["uid"] = json!("u");
        live = Some(new);
    }
    live.unwrap()
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn applying_twice_is_applying_once(writes in writes(), config in specs()) {
        let reset = Set::default();
        let live = write_all(&writes, &reset);
        let once = tracker("a", &reset).apply(Some(&live), &config, true).unwrap();
        let later = FieldManager { now: 9_000, ..tracker("a", &reset) };
        let twice = later.apply(Some(&once.object), &config, false).unwrap();
        prop_assert!(!twice.changed);
        prop_assert_eq!(twice.object, once.object);
    }

    #[test]
    fn encoded_entries_are_decoded_unchanged(writes in writes()) {
        let object = write_all(&writes, &Set::default());
        let list = object.pointer("/metadata/managedFields").cloned();
        prop_assert_eq!(entries(&object).encode(), list);
        for Entry { fields, .. } in entries(&object).iter() {
            prop_assert_eq!(text(fields), write(fields).to_string());
        }
    }

    #[test]
    fn field_managers_own_only_existing_fields(writes in writes()) {
        let object = write_all(&writes, &Set::default());
        // Every path of an object: its leaves, and every map and list above them.
        let there = compare(&WIDGET, &json!({}), &object).added;
        for entry in entries(&object).iter() {
            let mut beyond = Set::clone(&entry.fields);
            beyond.subtract(&there);
            prop_assert!(beyond.is_empty(), "{}: {:?}", entry.manager, shown(&beyond));
        }
    }

    #[test]
    fn applied_fields_exist_and_are_owned(writes in writes(), config in specs()) {
        let live = write_all(&writes, &Set::default());
        let reset = Set::default();
        let applied = tracker("a", &reset).apply(Some(&live), &config, true).unwrap().object;
        prop_assert_eq!(merge(&WIDGET, &applied, &config), applied.clone());
        let mut owned = owned(&WIDGET, &json!({"spec": config["spec"]}));
        owned.subtract(&entries(&applied).get(&manager("a", Operation::Apply)).map(|e| e.fields.clone()).unwrap_or_default());
        prop_assert!(owned.is_empty(), "{:?}", shown(&owned));
    }
}
