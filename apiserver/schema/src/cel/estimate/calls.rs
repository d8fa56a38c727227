//! Estimated cost of calls, for each overload of an operator or a function.

use kube_cel::cel::common::ast::operators::{
    ADD, CONDITIONAL, EQUALS, GREATER, GREATER_EQUALS, IN, INDEX, LESS, LESS_EQUALS, LOGICAL_AND, LOGICAL_OR,
    NOT_EQUALS,
};
use kube_cel::cel::common::ast::{CallExpr, IdedExpr};

use super::functions::matching;
use super::range::{LETTER, PATTERN, Range};
use super::{Estimate, Node, Step};
use crate::cel::declarations::Signature;
use crate::cel::types::Type;

/// Cost per letter of reading one text and creating another.
pub(super) const READ_AND_MADE: (u64, u64) = (2, 10);

/// Longest pattern of a Kubernetes format. Unit: letters.
pub(in crate::cel) const FORMAT_PATTERN: u64 = 128;

/// Longest name of a format. Unit: letters.
const FORMAT_NAME: u64 = 64;

/// Call with its known facts.
pub(super) struct Call<'c, 'e> {
    pub(super) name: &'c str,
    id: u64,
    pub(super) target: Option<&'c Node<'e>>,
    pub(super) arguments: &'c [Node<'e>],
    pub(super) costs: &'c [Range],
}

/// Cost of a call without its arguments, unless `is_whole` is set, and the size of its result.
pub(super) struct CallEstimate {
    pub(super) cost: Range,
    pub(super) result: Option<Range>,
    /// Set if the cost includes the arguments, because some of them may not be evaluated.
    pub(super) is_whole: bool,
}

impl CallEstimate {
    pub(super) fn of(cost: Range) -> Self {
        Self { cost, result: None, is_whole: false }
    }

    pub(super) fn giving(cost: Range, result: Range) -> Self {
        Self { cost, result: Some(result), is_whole: false }
    }
}

impl<'e> Estimate<'_, 'e> {
    pub(super) fn call(&mut self, expression: &'e IdedExpr, call: &'e CallExpr) -> Range {
        let Some(called) = self.called(expression) else {
            return Range::NONE;
        };
        if let ("dyn", [only]) = (called.name.as_str(), call.args.as_slice()) {
            return self.untyped(expression.id, only);
        }
        let (mut costs, mut arguments) = (Vec::new(), Vec::new());
        for argument in &call.args {
            costs.push(self.cost(argument));
            arguments.push(self.node(argument));
        }
        let mut target_cost = Range::NONE;
        let target = call.target.as_deref().filter(|_| called.is_method).map(|target| {
            target_cost = self.cost(target);
            self.node(target)
        });
        let known = Call {
            name: &called.name,
            id: expression.id,
            target: target.as_ref(),
            arguments: &arguments,
            costs: &costs,
        };
        let (mut cost, mut result) = (Range::NOTHING_YET, None);
        for way in &called.ways {
            let priced = self.price(&known, way);
            let arguments = if priced.is_whole { &[] } else { costs.as_slice() };
            cost = cost.or(arguments.iter().copied().fold(priced.cost, Range::plus));
            if let Some(size) = priced.result {
                result = Some(result.map_or(size, |result: Range| result.or(size)));
            }
            self.follow_index(&known, way, &mut result);
            if result.is_none() {
                result = self.size(expression);
            }
        }
        if let Some(size) = result {
            self.sizes.insert(expression.id, size);
        }
        target_cost.plus(cost)
    }

    /// Returns the estimate of `dyn(…)`, which is that of its argument.
    fn untyped(&mut self, id: u64, only: &'e IdedExpr) -> Range {
        let cost = self.cost(only).plus(Range::ONE);
        self.same_size(id, only);
        cost
    }

    /// Records the path that an index leads to.
    fn follow_index(&mut self, call: &Call<'_, 'e>, way: &Signature, result: &mut Option<Range>) {
        let is_plain = matches!(way.parameters.first(), Some(Type::List(_) | Type::Map(..)));
        if let (INDEX, true, Some(on)) = (call.name, is_plain, call.arguments.first()) {
            *result = self.entries(on.expression).map(|entries| entries.values);
            let path = self.path(on.expression).and(Step::Entry);
            self.paths.insert(call.id, path);
        }
    }

    fn price(&mut self, call: &Call<'_, 'e>, way: &Signature) -> CallEstimate {
        let lists = call.of_lists(way);
        let priced = lists.or_else(|| self.of_kubernetes(call, way)).or_else(|| self.standard(call, way));
        priced.unwrap_or_else(|| CallEstimate::of(Range::ONE))
    }

    /// Returns the estimate of a function that Kubernetes adds or prices differently.
    fn of_kubernetes(&mut self, call: &Call<'_, 'e>, way: &Signature) -> Option<CallEstimate> {
        let on = call.target.map(Node::size);
        let first = call.arguments.first().map(Node::size);
        let read = |size: Range| CallEstimate::of(size.scaled(LETTER));
        match call.name {
            "isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf" => {
                Some(CallEstimate::of(self.compared(call.target?)))
            }
            "url" | "jsonpatch.escapeKey" => {
                first.map(|size| CallEstimate::giving(size.scaled(LETTER), size))
            }
            "lowerAscii" | "upperAscii" | "substring" | "trim" => {
                on.map(|size| CallEstimate::giving(size.scaled(LETTER), size))
            }
            "replace" => call.replace(),
            "split" => call.split(),
            "join" => self.join(call),
            "find" | "findAll" => {
                let (on, pattern) = (on?, first?);
                let found = Range { least: 0, most: on.most };
                Some(CallEstimate::giving(matching(on, pattern), found))
            }
            "ip" if matches!(way.parameters.as_slice(), [Type::Named(_)]) => {
                Some(CallEstimate::of(Range::ONE))
            }
            "cidr" | "isIP" | "isCIDR" | "ip" | "quantity" | "isQuantity" | "semver" | "isSemver" => {
                first.map(read)
            }
            "ip.isCanonical" => first.map(|size| CallEstimate::of(size.scaled(READ_AND_MADE))),
            "containsIP" | "containsCIDR" => first.map(|size| call.contains_address(way, size)),
            "validate" => first.map(|size| {
                CallEstimate::of(size.scaled(LETTER).scaled((FORMAT_PATTERN * PATTERN.0, PATTERN.1)))
            }),
            "masked"
            | "prefixLength"
            | "family"
            | "isUnspecified"
            | "isLoopback"
            | "isLinkLocalMulticast"
            | "isLinkLocalUnicast"
            | "isGlobalUnicast"
            | "format.named"
            | "sign"
            | "asInteger"
            | "isInteger"
            | "asApproximateFloat"
            | "isGreaterThan"
            | "isLessThan"
            | "compareTo"
            | "add"
            | "sub"
            | "major"
            | "minor"
            | "patch"
            | "getScheme"
            | "getHostname"
            | "getHost"
            | "getPort"
            | "getEscapedPath"
            | "getQuery" => Some(CallEstimate::of(Range::ONE)),
            EQUALS => self.named_equals(call),
            _ => None,
        }
    }

    /// Returns the cost of comparing each item of a list, or of searching a text.
    fn compared(&mut self, target: &Node<'e>) -> Range {
        let Some((item, of)) = self.item_of(target) else {
            return target.size().scaled(LETTER);
        };
        let each = match of {
            Type::Text | Type::Bytes => Range::ONE.plus(item.scaled(LETTER)),
            _ => Range::ONE,
        };
        target.size().times(each)
    }

    /// Returns the size and the type of the items of a list, as the schema declares them.
    fn item_of(&self, list: &Node<'e>) -> Option<(Range, &'e Type<'e>)> {
        let (Type::List(of) | Type::Optional(of) | Type::Map(of, _)) = self.type_of(list.expression)? else {
            return None;
        };
        let path = self.path(list.expression);
        if path.is_empty() {
            return Some((Range::UNKNOWN, of));
        }
        let target = self.target(&path).and_then(|target| target.step(&Step::Entry));
        Some((target.map_or(Range::UNKNOWN, |target| Range { least: 0, most: target.most() }), of))
    }

    fn join(&mut self, call: &Call<'_, 'e>) -> Option<CallEstimate> {
        let list = call.target?;
        let length = list.size();
        let texts = self.item_of(list).map_or(Range::NONE, |(item, _)| length.times(item));
        let between = Range { least: length.least.saturating_sub(1), most: length.most.saturating_sub(1) };
        let size = match call.arguments.first() {
            Some(separator) => texts.plus(separator.size().times(between)),
            None => texts,
        };
        Some(CallEstimate::giving(size.scaled(LETTER), size))
    }

    /// Returns the estimate of `==` for values of a named type.
    fn named_equals(&self, call: &Call<'_, 'e>) -> Option<CallEstimate> {
        let [left, right] = call.arguments else { return None };
        let (Type::Named(one), Type::Named(other)) =
            (self.type_of(left.expression)?, self.type_of(right.expression)?)
        else {
            return None;
        };
        let most = match one.as_str() {
            _ if one != other => return None,
            "net.IP" | "net.CIDR" | "Quantity" | "Semver" => return Some(CallEstimate::of(Range::ONE)),
            "Format" => FORMAT_NAME,
            "net.URL" => right.size.map_or(1, |size| size.most),
            _ => return None,
        };
        Some(CallEstimate::of(Range { least: 1, most }.scaled(LETTER)))
    }

    /// Returns the estimate of a function or an operator of standard CEL.
    fn standard(&mut self, call: &Call<'_, 'e>, way: &Signature) -> Option<CallEstimate> {
        let sizes: Vec<Range> = call.arguments.iter().map(Node::size).collect();
        let on = call.target.map(Node::size);
        match (call.name, sizes.as_slice(), way.parameters.first()) {
            ("format", ..) => on.map(|size| CallEstimate::of(size.scaled(LETTER))),
            ("bytes", [size], Some(Type::Text)) => {
                let most = size.most.wrapping_mul(4);
                Some(CallEstimate::giving(size.scaled(LETTER), Range { least: size.least, most }))
            }
            ("string", [size], Some(Type::Bytes)) => {
                let least = size.least / 4;
                Some(CallEstimate::giving(size.scaled(LETTER), Range { least, most: size.most }))
            }
            ("strings.quote", [size], _) => {
                let most = size.most.wrapping_mul(2).wrapping_add(2);
                let least = size.least.wrapping_add(2);
                Some(CallEstimate::giving(size.scaled(LETTER), Range { least, most }))
            }
            ("startsWith" | "endsWith", [part], _) => Some(CallEstimate::of(part.scaled(LETTER))),
            ("matches", [pattern], _) => on.map(|on| CallEstimate::of(matching(on, *pattern))),
            ("matches", [on, pattern], _) => Some(CallEstimate::of(matching(*on, *pattern))),
            ("contains", [part], _) => {
                on.map(|on| CallEstimate::of(on.scaled(LETTER).times(part.scaled(LETTER))))
            }
            (IN, [_, list], _) if matches!(way.parameters.get(1), Some(Type::List(_))) => {
                Some(CallEstimate::of(*list))
            }
            (LOGICAL_OR | LOGICAL_AND, ..) => call.either(),
            (CONDITIONAL, [_, one, other], _) => self.conditional(call, one.or(*other)),
            (ADD, [left, right], Some(of @ (Type::Text | Type::Bytes | Type::List(_)))) => {
                Some(self.sum(call, left.plus(*right), of))
            }
            (
                LESS | LESS_EQUALS | GREATER | GREATER_EQUALS,
                [left, right],
                Some(Type::Text | Type::Bytes),
            )
            | (EQUALS | NOT_EQUALS, [left, right], _) => {
                let most = left.most.min(right.most);
                Some(CallEstimate::of(Range { least: u64::from(most > 0), most }.scaled(LETTER)))
            }
            _ => None,
        }
    }

    fn conditional(&mut self, call: &Call<'_, 'e>, result: Range) -> Option<CallEstimate> {
        let ([_, one, other], [condition, first, second]) = (call.arguments, call.costs) else { return None };
        let entries = (self.entries(one.expression), self.entries(other.expression));
        if let (Some(one), Some(other)) = entries {
            self.entries.insert(call.id, one.or(other));
        }
        let cost = condition.plus(first.or(*second));
        Some(CallEstimate { cost, result: Some(result), is_whole: true })
    }

    fn sum(&mut self, call: &Call<'_, 'e>, size: Range, of: &Type<'_>) -> CallEstimate {
        let mut entries = call.arguments.iter().map(|part| self.entries(part.expression));
        if let (Some(Some(one)), Some(Some(other))) = (entries.next(), entries.next()) {
            self.entries.insert(call.id, one.or(other));
        }
        let cost = if matches!(of, Type::List(_)) { Range::ONE } else { size.scaled(LETTER) };
        CallEstimate::giving(cost, size)
    }
}
