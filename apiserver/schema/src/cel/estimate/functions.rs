//! Estimated cost of functions that depends on the sizes of the arguments alone.

use kube_cel::cel::common::ast::{Expr, LiteralValue};

use super::calls::{Call, CallEstimate, READ_AND_MADE};
use super::range::{LETTER, PATTERN, Range};
use super::{LIST, Node};
use crate::cel::declarations::Signature;
use crate::cel::macros::SORT_BY_KEYS;
use crate::cel::types::Type;

/// Bytes of an IP address.
const ADDRESS: Range = Range { least: 4, most: 16 };

impl Call<'_, '_> {
    /// Estimates `&&` or `||`, whose right side may not be evaluated.
    pub(super) fn either(&self) -> Option<CallEstimate> {
        let [left, right] = self.costs else { return None };
        let cost = Range { least: left.least, most: left.plus(*right).most };
        Some(CallEstimate { cost, result: None, is_whole: true })
    }

    /// Estimates functions that create lists, and those of sets.
    pub(super) fn of_lists(&self, way: &Signature) -> Option<CallEstimate> {
        let on = self.target.map(Node::size);
        let number =
            |index: usize, absent| self.arguments.get(index).map_or(absent, |node| number(node, absent));
        let making = |factor: (u64, u64), size: Range| {
            CallEstimate::giving(size.scaled(factor).plus(Range::exactly(1 + LIST)), size)
        };
        let squared = |factor, size: Range| making(factor, size.times(size));
        // For texts, the letters are compared as well.
        let sorting = |keys: Option<&Type<'_>>| match keys {
            Some(Type::List(key)) if matches!(**key, Type::Text | Type::Bytes) => (21, 10),
            _ => (2, 1),
        };
        let is_list = matches!(way.parameters.first(), Some(Type::List(_)));
        match self.name {
            "slice" => {
                on.map(|size| making((1, 1), Range::exactly(number(1, size.most).wrapping_sub(number(0, 0)))))
            }
            "flatten" => {
                let depth = if self.arguments.is_empty() { 1 } else { number(0, u64::MAX) };
                on.map(|size| making((depth, 1), size))
            }
            "lists.range" => Some(making((1, 1), Range::exactly(number(0, u64::MAX)))),
            "reverse" if is_list => on.map(|size| making((1, 1), size)),
            "distinct" => on.map(|size| squared((2, 1), size)),
            "sort" => on.map(|size| squared(sorting(way.parameters.first()), size)),
            SORT_BY_KEYS => {
                self.arguments.first().map(|keys| squared(sorting(way.parameters.get(1)), keys.size()))
            }
            "sets.contains" | "sets.intersects" | "sets.equivalent" => {
                let [left, right] = self.arguments else { return None };
                let factor = if self.name == "sets.equivalent" { 2 } else { 1 };
                let pairs = left.size().times(right.size()).scaled((factor, 1));
                Some(CallEstimate::of(pairs.plus(Range::ONE)))
            }
            _ => None,
        }
    }

    /// Estimates `replace`: the cost, and the length of the result.
    pub(super) fn replace(&self) -> Option<CallEstimate> {
        let on = self.target?.size();
        let [part, by, ..] = self.arguments else { return None };
        let (part, by) = (part.size(), by.size());
        // Number of replacements, and number of letters that stay.
        let (most, kept_most) = if part.least == 0 {
            (on.most.saturating_add(1), on.most)
        } else if by.most <= part.least {
            (0, on.most)
        } else {
            (on.most.div_ceil(part.least), 0)
        };
        let (least, kept_least) = if part.most == 0 {
            (on.least.saturating_add(1), on.least)
        } else if part.most <= by.least {
            (0, on.least)
        } else {
            (on.least.div_ceil(part.most), 0)
        };
        let kept = Range { least: kept_least, most: kept_most };
        let size = Range { least, most }.times(by).plus(kept);
        Some(CallEstimate::giving(on.scaled(READ_AND_MADE), size))
    }

    /// Estimates `split`. A text can be split into its letters.
    pub(super) fn split(&self) -> Option<CallEstimate> {
        let on = self.target?.size();
        let limit = self.arguments.get(1).and_then(|limit| match &limit.expression.expr {
            Expr::Literal(LiteralValue::Int(limit)) => Some(limit.inner().cast_unsigned()),
            _ => None,
        });
        let parts = Range { least: 0, most: limit.unwrap_or(on.most) };
        Some(CallEstimate::giving(on.scaled(READ_AND_MADE), parts))
    }

    pub(super) fn contains_address(&self, way: &Signature, given: Range) -> CallEstimate {
        let mut cost = ADDRESS.plus(ADDRESS).scaled(LETTER);
        if self.name == "containsCIDR" {
            cost = cost.plus(ADDRESS.scaled(LETTER)).plus(Range::ONE);
        }
        if let Some(Type::Text) = way.parameters.get(1) {
            cost = cost.plus(given.scaled(LETTER));
        }
        CallEstimate::of(cost)
    }
}

/// Returns the cost of matching a pattern: each letter with each part of the pattern. An empty text has a cost as well.
pub(super) fn matching(text: Range, pattern: Range) -> Range {
    text.plus(Range::ONE).scaled(LETTER).times(pattern.scaled(PATTERN))
}

/// Returns the value of a number literal, at least zero.
fn number(node: &Node<'_>, absent: u64) -> u64 {
    match &node.expression.expr {
        Expr::Literal(LiteralValue::Int(number)) => u64::try_from(*number.inner()).unwrap_or_default(),
        _ => absent,
    }
}
