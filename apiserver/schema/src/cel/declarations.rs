//! Declarations of functions: the overloads that expressions can call.

use std::collections::HashMap;
use std::sync::LazyLock;

use super::macros::SORT_BY_KEYS;
use super::types::Type;

/// One overload of a function.
#[derive(Debug)]
pub(super) struct Signature {
    pub(super) is_method: bool,
    /// Types of the parameters. The receiver of a method comes first.
    pub(super) parameters: Vec<Type<'static>>,
    pub(super) result: Type<'static>,
}

/// Functions and operators of standard CEL, then those that Kubernetes adds. A capital letter is a type parameter.
/// Source: the CEL specification, and the Kubernetes page on CEL.
const SIGNATURES: &str = "
!_(bool) bool; -_(int) int; -_(double) double;
_&&_(bool, bool) bool; _||_(bool, bool) bool; _?_:_(bool, A, A) A;
@not_strictly_false(bool) bool;
_==_(A, A) bool; _!=_(A, A) bool;
@in(A, list(A)) bool; @in(A, map(A, B)) bool;
_[_](list(A), int) A; _[_](map(A, B), A) B; _[_](optional(list(A)), int) optional(A);
_[_](optional(map(A, B)), A) optional(B);
_[?_](list(A), int) optional(A); _[?_](map(A, B), A) optional(B);
_[?_](optional(list(A)), int) optional(A); _[?_](optional(map(A, B)), A) optional(B);
_+_(int, int) int; _+_(uint, uint) uint; _+_(double, double) double; _+_(string, string) string;
_+_(bytes, bytes) bytes; _+_(list(A), list(A)) list(A); _+_(timestamp, duration) timestamp;
_+_(duration, timestamp) timestamp; _+_(duration, duration) duration;
_-_(int, int) int; _-_(uint, uint) uint; _-_(double, double) double; _-_(timestamp, timestamp) duration;
_-_(timestamp, duration) timestamp; _-_(duration, duration) duration;
_*_(int, int) int; _*_(uint, uint) uint; _*_(double, double) double;
_/_(int, int) int; _/_(uint, uint) uint; _/_(double, double) double;
_%_(int, int) int; _%_(uint, uint) uint;
size(string) int; size(bytes) int; size(list(A)) int; size(map(A, B)) int;
string.size() int; bytes.size() int; list(A).size() int; map(A, B).size() int;
string.contains(string) bool; string.startsWith(string) bool; string.endsWith(string) bool;
string.matches(string) bool; matches(string, string) bool;
bool(bool) bool; bool(string) bool; bytes(bytes) bytes; bytes(string) bytes;
double(double) double; double(int) double; double(uint) double; double(string) double;
int(int) int; int(uint) int; int(double) int; int(string) int; int(timestamp) int; int(duration) int;
uint(uint) uint; uint(int) uint; uint(double) uint; uint(string) uint;
string(string) string; string(bool) string; string(int) string; string(uint) string; string(double) string;
string(bytes) string; string(timestamp) string; string(duration) string; string(net.IP) string;
string(net.CIDR) string;
duration(duration) duration; duration(string) duration;
timestamp(timestamp) timestamp; timestamp(string) timestamp; timestamp(int) timestamp;
dyn(A) dyn; type(A) type;
timestamp.getFullYear() int; timestamp.getFullYear(string) int; timestamp.getMonth() int;
timestamp.getMonth(string) int; timestamp.getDayOfYear() int; timestamp.getDayOfYear(string) int;
timestamp.getDayOfMonth() int; timestamp.getDayOfMonth(string) int; timestamp.getDate() int;
timestamp.getDate(string) int; timestamp.getDayOfWeek() int; timestamp.getDayOfWeek(string) int;
timestamp.getHours() int; timestamp.getHours(string) int; timestamp.getMinutes() int;
timestamp.getMinutes(string) int; timestamp.getSeconds() int; timestamp.getSeconds(string) int;
timestamp.getMilliseconds() int; timestamp.getMilliseconds(string) int; duration.getHours() int;
duration.getMinutes() int; duration.getSeconds() int; duration.getMilliseconds() int;
optional.none() optional(A); optional.of(A) optional(A); optional.ofNonZeroValue(A) optional(A);
optional(A).value() A; optional(A).hasValue() bool; optional(A).or(optional(A)) optional(A);
optional(A).orValue(A) A;
string.charAt(int) string; string.indexOf(string) int; string.indexOf(string, int) int;
string.lastIndexOf(string) int; string.lastIndexOf(string, int) int; string.lowerAscii() string;
string.upperAscii() string; string.replace(string, string) string; string.replace(string, string, int) string;
string.split(string) list(string); string.split(string, int) list(string); string.substring(int) string;
string.substring(int, int) string; string.trim() string;
list(string).join() string; list(string).join(string) string; strings.quote(string) string;
string.format(list(A)) string; string.find(string) string; string.findAll(string) list(string);
string.findAll(string, int) list(string);
list(A).isSorted() bool; list(A).sum() A; list(A).min() A; list(A).max() A; list(A).indexOf(A) int;
list(A).lastIndexOf(A) int; list(A).slice(int, int) list(A);
list(list(A)).flatten() list(A); list(dyn).flatten(int) list(dyn); list(A).distinct() list(A);
list(A).reverse() list(A); list(A).first() optional(A); list(A).last() optional(A);
lists.range(int) list(int); optional.unwrap(list(optional(A))) list(A); list(optional(A)).unwrapOpt() list(A);
cel.@mapInsert(map(A, B), A, B) map(A, B); cel.@mapInsert(map(A, B), map(A, B)) map(A, B);
sets.contains(list(A), list(A)) bool; sets.equivalent(list(A), list(A)) bool;
sets.intersects(list(A), list(A)) bool;
url(string) net.URL; isURL(string) bool; net.URL.getScheme() string; net.URL.getHost() string;
net.URL.getHostname() string; net.URL.getPort() string; net.URL.getEscapedPath() string;
net.URL.getQuery() map(string, list(string));
ip(string) net.IP; isIP(string) bool; ip.isCanonical(string) bool; net.IP.family() int;
net.IP.isUnspecified() bool; net.IP.isLoopback() bool; net.IP.isLinkLocalMulticast() bool;
net.IP.isLinkLocalUnicast() bool; net.IP.isGlobalUnicast() bool;
cidr(string) net.CIDR; isCIDR(string) bool; net.CIDR.containsIP(string) bool;
net.CIDR.containsIP(net.IP) bool; net.CIDR.containsCIDR(string) bool; net.CIDR.containsCIDR(net.CIDR) bool;
net.CIDR.ip() net.IP; net.CIDR.masked() net.CIDR; net.CIDR.prefixLength() int;
quantity(string) Quantity; isQuantity(string) bool; Quantity.sign() int; Quantity.isInteger() bool;
Quantity.asInteger() int; Quantity.asApproximateFloat() double; Quantity.isGreaterThan(Quantity) bool;
Quantity.isLessThan(Quantity) bool; Quantity.compareTo(Quantity) int; Quantity.add(Quantity) Quantity;
Quantity.add(int) Quantity; Quantity.sub(Quantity) Quantity; Quantity.sub(int) Quantity;
semver(string) Semver; semver(string, bool) Semver; isSemver(string) bool; isSemver(string, bool) bool;
Semver.major() int; Semver.minor() int; Semver.patch() int; Semver.isGreaterThan(Semver) bool;
Semver.isLessThan(Semver) bool; Semver.compareTo(Semver) int;
format.named(string) optional(Format); Format.validate(string) optional(list(string));
kubernetes.authorization.Authorizer.path(string) kubernetes.authorization.PathCheck;
kubernetes.authorization.Authorizer.group(string) kubernetes.authorization.GroupCheck;
kubernetes.authorization.Authorizer.serviceAccount(string, string) kubernetes.authorization.Authorizer;
kubernetes.authorization.PathCheck.check(string) kubernetes.authorization.Decision;
kubernetes.authorization.GroupCheck.resource(string) kubernetes.authorization.ResourceCheck;
kubernetes.authorization.ResourceCheck.subresource(string) kubernetes.authorization.ResourceCheck;
kubernetes.authorization.ResourceCheck.namespace(string) kubernetes.authorization.ResourceCheck;
kubernetes.authorization.ResourceCheck.name(string) kubernetes.authorization.ResourceCheck;
kubernetes.authorization.ResourceCheck.check(string) kubernetes.authorization.Decision;
kubernetes.authorization.Decision.allowed() bool;
kubernetes.authorization.Decision.errored() bool;
kubernetes.authorization.Decision.reason() string;
kubernetes.authorization.Decision.error() string;
jsonpatch.escapeKey(string) string
";

/// Type of an authorizer.
pub(super) const AUTHORIZER: &str = "kubernetes.authorization.Authorizer";

/// Type of a question about a path.
pub(super) const PATH_CHECK: &str = "kubernetes.authorization.PathCheck";

/// Type of a question about a group, which is not complete.
pub(super) const GROUP_CHECK: &str = "kubernetes.authorization.GroupCheck";

/// Type of a question about a resource.
pub(super) const RESOURCE_CHECK: &str = "kubernetes.authorization.ResourceCheck";

/// Type of the answer to a question.
pub(super) const DECISION: &str = "kubernetes.authorization.Decision";

/// Ordering operators. They compare any two numbers, whatever their types.
const ORDERS: [&str; 4] = ["_<_", "_<=_", "_>_", "_>=_"];

/// Types with an order of their own.
const ORDERED: [&str; 5] = ["bool", "string", "bytes", "timestamp", "duration"];

const NUMBERS: [&str; 3] = ["int", "uint", "double"];

/// Functions that return named formats and take no parameters, as in `format.uuid()`.
const FORMATS: [&str; 13] = [
    "dns1123Label",
    "dns1123Subdomain",
    "dns1035Label",
    "dns1123LabelPrefix",
    "dns1123SubdomainPrefix",
    "dns1035LabelPrefix",
    "qualifiedName",
    "labelValue",
    "uri",
    "uuid",
    "byte",
    "date",
    "datetime",
];

static FUNCTIONS: LazyLock<HashMap<String, Vec<Signature>>> = LazyLock::new(|| {
    let mut all: HashMap<String, Vec<Signature>> = HashMap::new();
    let mut add = |text: &str| {
        if let Some((name, signature)) = signature(text.trim()) {
            all.entry(name).or_default().push(signature);
        }
    };
    SIGNATURES.split(';').for_each(&mut add);
    for order in ORDERS {
        ORDERED.iter().for_each(|one| add(&format!("{order}({one}, {one}) bool")));
        let pairs = NUMBERS.iter().flat_map(|left| NUMBERS.iter().map(move |right| (left, right)));
        pairs.for_each(|(left, right)| add(&format!("{order}({left}, {right}) bool")));
    }
    for one in ORDERED.iter().chain(&NUMBERS) {
        add(&format!("list({one}).sort() list({one})"));
        add(&format!("list(A).{SORT_BY_KEYS}(list({one})) list(A)"));
    }
    FORMATS.iter().for_each(|name| add(&format!("format.{name}() Format")));
    all
});

/// Returns the overloads of a function, or `None` if there is no function of this name.
pub(super) fn named(name: &str) -> Option<&'static [Signature]> {
    FUNCTIONS.get(name).map(Vec::as_slice)
}

/// Parses `name(type, type) result` or `type.name(type) result`.
fn signature(text: &str) -> Option<(String, Signature)> {
    let (call, result) = text.rsplit_once(") ").map(|(call, result)| (call, result.trim()))?;
    // The receiver of a method can contain parentheses, as in `list(A)`.
    let open = matching(call)?;
    let (before, arguments) = (call.get(..open)?, call.get(open + 1..)?);
    let (on, name) = match before.rsplit_once('.') {
        Some((on, name)) if is_type(on) => (Some(on), name),
        _ => (None, before),
    };
    let parameters = on.into_iter().chain(split(arguments)).map(read);
    let signature =
        Signature { is_method: on.is_some(), parameters: parameters.collect(), result: read(result) };
    Some((name.to_owned(), signature))
}

/// Returns the offset of the parenthesis that is open at the end.
fn matching(call: &str) -> Option<usize> {
    let mut depth = 0;
    let mut letters = call.char_indices().rev();
    letters.find_map(|(at, letter)| {
        match letter {
            ')' => depth += 1,
            '(' if depth == 0 => return Some(at),
            '(' => depth -= 1,
            _ => {}
        }
        None
    })
}

/// Reports whether a prefix is a receiver type. Otherwise it is a namespace of functions.
fn is_type(text: &str) -> bool {
    !matches!(text, "cel" | "optional" | "strings" | "lists" | "sets" | "ip" | "format" | "jsonpatch")
}

/// Splits at the commas outside of parentheses.
fn split(text: &str) -> Vec<&str> {
    let mut depth = 0;
    let parts = text.split(|letter: char| {
        match letter {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        letter == ',' && depth == 0
    });
    parts.map(str::trim).filter(|part| !part.is_empty()).collect()
}

fn read(text: &str) -> Type<'static> {
    let inner = |name: &str| text.strip_prefix(name)?.strip_prefix('(')?.strip_suffix(')').map(split);
    let boxed = |text: &str| Box::new(read(text));
    match (inner("list").as_deref(), inner("map").as_deref(), inner("optional").as_deref()) {
        (Some([item]), ..) => return Type::List(boxed(item)),
        (_, Some([key, value]), _) => return Type::Map(boxed(key), boxed(value)),
        (.., Some([value])) => return Type::Optional(boxed(value)),
        _ => {}
    }
    let mut letters = text.chars();
    match (text, letters.next(), letters.next()) {
        ("dyn", ..) => Type::Dyn,
        ("bool", ..) => Type::Bool,
        ("int", ..) => Type::Int,
        ("uint", ..) => Type::Uint,
        ("double", ..) => Type::Double,
        ("string", ..) => Type::Text,
        ("bytes", ..) => Type::Bytes,
        ("timestamp", ..) => Type::Timestamp,
        ("duration", ..) => Type::Duration,
        (_, Some(name), None) if name.is_ascii_uppercase() => Type::Parameter(name),
        _ => Type::Named(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_signature_is_parsed() {
        for text in SIGNATURES.split(';').map(str::trim) {
            let (name, read) = signature(text).unwrap();
            let on = usize::from(read.is_method);
            let mut shown: Vec<String> = read.parameters.iter().map(ToString::to_string).collect();
            let on = if on == 1 { format!("{}.", shown.remove(0)) } else { String::new() };
            let whole = format!("{on}{name}({}) {}", shown.join(", "), read.result);
            assert_eq!(whole.replace("optional_type", "optional"), text);
        }
    }
}
