//! Tests of the bounds of templates, and of their error messages.

use serde_json::json;

use super::*;

fn render(text: &str) -> Result<String, String> {
    let template = Template::parse("t", text).map_err(|error| error.to_string())?;
    template.render(&json!({"name": "c1", "replicas": 3})).map_err(|error| error.to_string())
}

#[test]
fn errors_name_the_line() {
    for (text, expected) in [
        ("a\n{{ .x", "template: t:2: unclosed action"),
        ("{{ nothing }}", "template: t:1: function \"nothing\" not defined"),
        ("{{ now }}", "template: t:1: function \"now\" not defined: it is no pure function of the variables"),
        (
            "{{ genPrivateKey \"rsa\" }}",
            "template: t:1: function \"genPrivateKey\" not defined: each call gives another result, \
             so each pass would replace Machines: use a variable or a Secret",
        ),
        ("{{ if .x }}", "template: t:1: unexpected EOF"),
        ("\n\n{{ .name.x }}", "template: t:3: can't evaluate field x in type string"),
        ("{{ repeat .replicas \"a\" }}", "template: t:1: wrong type for value; expected int; found float64"),
    ] {
        assert_eq!(render(text), Err(expected.to_owned()), "{text}");
    }
}

#[test]
fn functions_of_times_say_why_they_fail() {
    for (text, expected) in [
        ("mustToDate \"2006-01-02\" \"2017-13-01\"", "parsing time \"2017-13-01\": month out of range"),
        ("mustToDate \"2006-01-02\" \"2017-02-30\"", "parsing time \"2017-02-30\": day out of range"),
        (
            "mustToDate \"2006-01-02\" \"x\"",
            "parsing time \"x\" as \"2006-01-02\": cannot parse \"x\" as \"2006\"",
        ),
        (
            "mustToDate \"2006-01-02\" \"2017-01\"",
            "parsing time \"2017-01\" as \"2006-01-02\": cannot parse \"\" as \"-\"",
        ),
        ("mustToDate \"2006\" \"2017 \"", "parsing time \"2017 \": extra text: \" \""),
        (
            "mustToDate \"15:04 -0700\" \"1:00 +2500\"",
            "parsing time \"1:00 +2500\": time zone offset hour out of range",
        ),
        ("toDate \"2006\" \"2017\" | mustDateModify \"1d\"", "time: unknown unit \"d\" in duration \"1d\""),
        (
            "toDate \"2006\" \"9999\" | mustDateModify \"9000h\"",
            "the year of the time is before -9999 or after 9999",
        ),
        (
            "toDate \"2006\" \"2017\" | durationRound",
            "the time since another one changes at each pass: give a duration",
        ),
        ("toDate \"2006\" \"2017\" | printf \"%#v\"", "%#v of time.Time is not supported: use %v"),
    ] {
        let error = render(&format!("{{{{ {text} }}}}")).unwrap_err();
        assert!(error.starts_with("template: t:1: error calling "), "{error}");
        assert!(error.ends_with(&format!(": {expected}")), "{text}: {error}");
    }
    let error = render("{{ (toDate \"2006\" \"2017\").Month }}").unwrap_err();
    let expected = "can't evaluate field Month in type time.Time: its methods are AddDate, ";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn functions_of_secrets_say_why_they_fail_without_the_secret() {
    for (text, expected) in [
        ("decryptAES \"k\" \"?\"", "the encrypted text is not in base64"),
        (
            "decryptAES \"k\" \"AQIDBAUG\"",
            "the encrypted text is cut off: its length is no multiple of 16 bytes",
        ),
        (
            "decryptAES \"other\" \"AQIDBAUGBwgJCgsMDQ4PEOm+cx+DBEx6Y4jmtifrCF4=\"",
            "the password is not the one that encrypted the text",
        ),
        ("buildCustomCert \"?\" \"?\"", "the certificate is not in base64"),
        ("buildCustomCert (b64enc \"x\") \"?\"", "the private key is not in base64"),
        ("buildCustomCert (b64enc \"x\") (b64enc \"x\")", "the certificate has no block in PEM"),
    ] {
        let error = render(&format!("{{{{ {text} }}}}")).unwrap_err();
        assert!(error.ends_with(&format!(": {expected}")), "{text}: {error}");
    }
}

#[test]
fn a_missing_key_prints_no_value_or_is_an_error() {
    let template = Template::parse("t", "{{ .name }}{{ .none }}").unwrap();
    let (data, whole) = (json!({"name": "c1"}), json!({"name": "c1", "none": "-"}));
    assert_eq!(template.render(&data), Ok("c1<no value>".to_owned()));
    let error = template.render_complete(&data).unwrap_err();
    assert_eq!(error.to_string(), "template: t:1: map has no entry for key \"none\"");
    assert_eq!(template.render_complete(&whole), Ok("c1-".to_owned()));
}

#[test]
fn a_whole_number_is_an_integer_in_the_data_of_names_and_a_float_in_json() {
    let data = json!({"index": 7});
    let template = |text| Template::parse_plain("t", text).unwrap();
    let name = template("{{ .index }} {{ printf \"%02d\" .index }}");
    assert_eq!(name.render_complete(&data), Ok("7 07".to_owned()));
    let number = template("{{ .index }} {{ printf \"%d\" .index }}");
    assert_eq!(number.render(&data), Ok("7 %!d(float64=7)".to_owned()));
}

#[test]
fn a_plain_template_has_only_the_functions_of_go() {
    let render = |text: &str| {
        let template = Template::parse_plain("t", text).map_err(|error| error.to_string())?;
        let data = json!({"name": "c1é", "list": ["a", "b", "c"]});
        template.render(&data).map_err(|error| error.to_string())
    };
    for (text, expected) in [
        ("{{ slice .name 0 1 }}", Ok("c")),
        ("{{ slice .name 1 }}", Ok("1é")),
        ("{{ slice .name }}", Ok("c1é")),
        ("{{ slice .list 1 2 }}", Ok("[b]")),
        ("{{ slice .list 0 1 2 }}", Ok("[a]")),
        ("{{ printf \"%.1s\" .name }}", Ok("c")),
        ("{{ slice .name 0 9 }}", Err("t:1: error calling slice: index out of range: 9")),
        ("{{ slice .name 2 1 }}", Err("t:1: error calling slice: invalid slice index: 2 > 1")),
        ("{{ slice .name 0 1 2 }}", Err("t:1: error calling slice: cannot 3-index slice a string")),
        (
            "{{ slice .name 0 3 }}",
            Err("t:1: error calling slice: the part begins or ends within a character"),
        ),
        ("{{ slice 1 0 }}", Err("t:1: error calling slice: can't slice item of type int")),
        ("{{ trunc 1 .name }}", Err("t:1: function \"trunc\" not defined")),
        ("{{ now }}", Err("t:1: function \"now\" not defined")),
    ] {
        let expected = expected.map(str::to_owned).map_err(|error| format!("template: {error}"));
        assert_eq!(render(text), expected, "{text}");
    }
}

#[test]
fn work_output_and_nesting_are_bounded() {
    let nested = format!("{}x{}", "{{if true}}".repeat(200), "{{end}}".repeat(200));
    let parentheses = format!("{{{{ {}1{} }}}}", "(".repeat(500), ")".repeat(500));
    for (text, expected) in [
        ("{{ repeat 2000000 \"x\" }}", "longer than"),
        ("{{ range until 50000 }}{{ repeat 1000 \"x\" }}{{ end }}", "longer than"),
        ("{{ range until 90000 }}{{ range until 90000 }}{{ end }}{{ end }}", "too much work"),
        ("{{ until 10000000 }}", "longer than"),
        ("{{ printf \"%2000000d\" 1 }}", "too large"),
        ("{{ define \"a\" }}{{ template \"a\" }}{{ end }}{{ template \"a\" }}", "nested deeper"),
        ("{{ $l := list }}{{ range until 1000 }}{{ $l = list $l }}{{ end }}", "nested deeper"),
        ("{{ $d := dict }}{{ $_ := set $d \"a\" $d }}{{ $d }}", "nested deeper"),
        ("{{ $d := dict }}{{ $_ := set $d \"a\" $d }}{{ mustToJson $d }}", "nested deeper"),
        ("{{ range until 90000 }}{{ regexMatch \"[a-z]+\" \"x\" }}{{ end }}", "too much work"),
        ("{{ range until 5 }}{{ derivePassword 1 \"pin\" \"\" \"\" \"\" }}{{ end }}", "too much work"),
        ("{{ (toDate \"1\" \"12\").Format (repeat 800000 \"1\") }}", "longer than"),
        ("{{ range until 50 }}{{ toDate (repeat 100000 \"x\") \"\" }}{{ end }}", "too much work"),
        ("{{ regexFind \"(a{1000}){1000}\" \"x\" }}", "error parsing regexp"),
        (nested.as_str(), "nested deeper"),
        (parentheses.as_str(), "nested deeper"),
    ] {
        let error = render(text).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
    }
}
