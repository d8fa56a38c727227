use super::*;

fn hook(changes: &Value) -> Value {
    let mut hook = json!({"name": "a.example.org", "clientConfig": {"url": "https://hooks.example.org:8443/a"},
        "rules": [{"operations": ["CREATE"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}],
        "failurePolicy": "Fail", "matchPolicy": "Equivalent", "sideEffects": "None", "timeoutSeconds": 10,
        "admissionReviewVersions": ["v1", "v1beta1"], "reinvocationPolicy": "Never"});
    for (field, value) in changes.as_object().unwrap() {
        match value {
            Value::Null => hook.as_object_mut().unwrap().remove(field),
            value => hook.as_object_mut().unwrap().insert(field.clone(), value.clone()),
        };
    }
    hook
}

fn found(hooks: &[Value]) -> Vec<String> {
    let strategy = WebhookConfigurationStrategy { is_mutating: true };
    strategy.validate(&json!({"webhooks": hooks}), None).iter().map(ToString::to_string).collect()
}

#[test]
fn an_empty_ca_bundle_is_none() {
    let strategy = WebhookConfigurationStrategy { is_mutating: false };
    let of = |client: Value| {
        let mut configuration = json!({"webhooks": [hook(&json!({"clientConfig": client}))]});
        strategy.canonicalize(&mut configuration);
        configuration["webhooks"][0]["clientConfig"].clone()
    };
    assert_eq!(of(json!({"url": "https://a", "caBundle": ""})), json!({"url": "https://a"}));
    assert_eq!(of(json!({"caBundle": "Cg=="})), json!({"caBundle": "Cg=="}));
    assert_eq!(of(json!("wrong")), json!("wrong"), "validation refuses it later");
    strategy.canonicalize(&mut json!({"webhooks": 1}));
}

#[test]
fn each_field_of_a_webhook_is_validated() {
    assert_eq!(found(&[hook(&json!({}))]), Vec::<String>::new());
    for (changes, expected) in [
        (json!({"name": null}), "webhooks[0].name: Required value"),
        (
            json!({"name": "a.b"}),
            "webhooks[0].name: Invalid value: \"a.b\": should be a domain with at least three",
        ),
        (json!({"failurePolicy": "Maybe"}), "webhooks[0].failurePolicy: Unsupported value: \"Maybe\""),
        (json!({"matchPolicy": "Fuzzy"}), "webhooks[0].matchPolicy: Unsupported value: \"Fuzzy\""),
        (
            json!({"sideEffects": null}),
            "webhooks[0].sideEffects: Required value: must specify one of None, NoneOnDryRun",
        ),
        (json!({"sideEffects": "Some"}), "webhooks[0].sideEffects: Unsupported value: \"Some\""),
        (
            json!({"timeoutSeconds": 31}),
            "webhooks[0].timeoutSeconds: Invalid value: 31: the timeout value must be",
        ),
        (
            json!({"reinvocationPolicy": "Often"}),
            "webhooks[0].reinvocationPolicy: Unsupported value: \"Often\"",
        ),
        (json!({"admissionReviewVersions": []}), "webhooks[0].admissionReviewVersions: Required value"),
        (
            json!({"admissionReviewVersions": ["v2"]}),
            "webhooks[0].admissionReviewVersions: Invalid value: [\"v2\"]: must include at least one of",
        ),
        (
            json!({"admissionReviewVersions": ["v1beta1"]}),
            "webhooks[0].admissionReviewVersions: Invalid value: [\"v1beta1\"]: must include v1",
        ),
        (
            json!({"objectSelector": {"matchLabels": {"-": "a"}}}),
            "webhooks[0].objectSelector.matchLabels: Invalid value: \"-\"",
        ),
        (
            json!({"clientConfig": {}}),
            "webhooks[0].clientConfig: Required value: exactly one of url or service",
        ),
        (
            json!({"clientConfig": {"service": {"name": "a"}}}),
            "webhooks[0].clientConfig.service: Forbidden: Capstan serves no Services",
        ),
        (
            json!({"clientConfig": {"url": "http://a"}}),
            "webhooks[0].clientConfig.url: Invalid value: \"http\": 'https' is the only",
        ),
        (
            json!({"clientConfig": {"url": "https:///a"}}),
            "webhooks[0].clientConfig.url: Invalid value: \"\": host must be",
        ),
        (
            json!({"clientConfig": {"url": "https://u:p@a/b"}}),
            "webhooks[0].clientConfig.url: Invalid value: \"u:p\": user",
        ),
        (
            json!({"clientConfig": {"url": "https://a/b?c=d"}}),
            "webhooks[0].clientConfig.url: Invalid value: \"c=d\": query",
        ),
        (
            json!({"clientConfig": {"url": "https://a/b#c"}}),
            "webhooks[0].clientConfig.url: Invalid value: \"c\": fragments",
        ),
    ] {
        let errors = found(&[hook(&changes)]);
        assert!(errors.len() == 1 && errors[0].starts_with(expected), "{changes}: {errors:#?}");
    }
    let twice = found(&[hook(&json!({})), hook(&json!({}))]);
    assert_eq!(twice, ["webhooks[1].name: Duplicate value: \"a.example.org\""]);
}

#[test]
fn names_of_files_are_reserved() {
    let strategy = WebhookConfigurationStrategy { is_mutating: false };
    assert!(strategy.name_errors("a.example.org").is_empty());
    let errors = strategy.name_errors("a.static.capstan.dev");
    assert!(errors.len() == 1 && errors[0].contains("admission.manifestsDirectory"), "{errors:?}");
}
