//! Banned file names and words, with their replacements and the reasons.

/// A banned word, its replacement, and the reason.
pub(super) type Rule = (&'static str, &'static str, &'static str);

/// File and folder names that say too little, or say it in a private word.
pub(super) const FILE_NAMES: &[Rule] = &[
    ("util", "the name of what is inside", "says nothing"),
    ("utils", "the name of what is inside", "says nothing"),
    ("common", "the name of what is inside", "says nothing"),
    ("helper", "the name of what is inside", "says nothing"),
    ("helpers", "the name of what is inside", "says nothing"),
    ("misc", "the name of what is inside", "says nothing"),
    ("fault", "error", "an error is called an error"),
    ("faults", "errors", "an error is called an error"),
    ("trouble", "error", "an error is called an error"),
    ("owners", "field_managers or owner_references", "an owner is an ownerReference"),
    ("verbs", "handlers or actions", "a verb is get, list, watch and their like"),
    ("mark", "ownership_tag", "the term for a tag that says whose a resource is"),
    ("news", "change_predicate", "kube-rs calls it a predicate"),
    ("wanted", "desired", "reconcilers compare desired with observed"),
    ("seen", "observed", "reconcilers compare desired with observed"),
    ("pace", "requeue", "controllers requeue"),
    ("others", "related", "says nothing"),
    ("place", "location, position or path", "ten things were called so"),
    ("judgement", "verdict, validation or analysis", "four things were called so"),
    ("sent", "replacement", "says nothing"),
    ("told", "reported", "says nothing"),
    ("asked", "requested", "says nothing"),
    ("open_stack", "openstack", "the crates beside it are called so"),
    ("exchange", "request_scope", "the field's term"),
    ("gathered", "coalescer", "the field's term"),
    ("underway", "in_flight", "the field's term"),
    ("follower", "reflector", "client-go and kube-rs call it so"),
    ("forget", "compaction", "a database compacts"),
    ("words", "error_text or vocabulary", "says nothing"),
    ("surroundings", "context", "the field's term"),
];

/// Words that readers had to look up. They match whole words, in any case.
pub(super) const WORDS: &[Rule] = &[
    ("whoever", "the user, the client, the caller", "says who acts"),
    ("whomever", "the user, the client, the caller", "says who acts"),
    ("somebody", "a user, a client, another replica", "says who acts"),
    ("somebody's", "a user's, a client's", "says who acts"),
    ("nobody", "no user, no client", "says who acts"),
    ("nobody's", "no user's", "says who acts"),
    ("nevertheless", "still, or a new sentence", "padding"),
    ("meanwhile", "at the same time, until then", "padding"),
    ("fault", "error", "an error is called an error"),
    ("faults", "errors", "an error is called an error"),
    ("doubled", "duplicate", "the field's term"),
    ("is told", "is reported, receives", "says who reports what"),
    ("are told", "are reported, receive", "says who reports what"),
    ("was told", "was reported, received", "says who reports what"),
    ("is asked", "is queried, is requested", "says who requests what"),
    ("are asked", "are queried, are requested", "says who requests what"),
    ("asks for", "requests, needs", "the field's term"),
    ("direct face", "direct endpoint", "one word for one thing"),
    ("both faces", "both endpoints", "one word for one thing"),
    ("the house", "the workspace", "a private metaphor"),
    ("underway", "in flight", "the field's term"),
    ("parting", "draining", "the field's term"),
];

/// Words that begin a question or a clause, not the name of a thing. The first line of a doc comment says what the item
/// is.
pub(super) const FIRST_WORDS: &[&str] =
    &["What", "Who", "Whom", "Whose", "Whether", "Where", "How", "Whatever"];
