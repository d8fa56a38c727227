//! Expansion of the macros that the engine's parser lacks: comprehensions with two variables, `sortBy`, `optMap` and
//! `optFlatMap`. The expansions are upstream's, so that they have the same cost.

mod maker;

use kube_cel::cel::common::ast::operators::{
    ADD, CONDITIONAL, EQUALS, LOGICAL_AND, LOGICAL_NOT, LOGICAL_OR, NOT_STRICTLY_FALSE,
};
use kube_cel::cel::common::ast::{
    CallExpr, ComprehensionExpr, Expr, IdedExpr, ListExpr, LiteralValue, MapExpr,
};

use super::type_error::{TypeError, TypeErrors};
use maker::Maker;

/// Function that inserts an entry into a map.
pub(super) const MAP_INSERT: &str = "cel.@mapInsert";

/// Function that sorts a list by a list of keys.
pub(super) const SORT_BY_KEYS: &str = "@sortByAssociatedKeys";

/// Accumulator variable of comprehensions.
const RESULT: &str = "@result";

/// Name of a list while it is sorted.
const SORTED: &str = "@__sortBy_input__";

/// Iteration variable of a comprehension that has no iterations and only names a value.
const UNUSED: &str = "#unused";

/// Limit of created parts. `optMap` repeats its receiver, so each call in a chain doubles the expression.
const MOST_MADE: u64 = 50_000;

/// Bits of an id that hold the location of a part. For the parts of an expansion, this is the location of the macro
/// call.
const LOCATION: u64 = 0xffff_ffff;

/// Returns the id that the parser gave to a part.
pub(super) fn location(id: u64) -> u64 {
    id & LOCATION
}

/// Reports whether a comprehension has no iterations and only names a value.
pub(super) fn is_name(inner: &ComprehensionExpr) -> bool {
    let is_false = |one: &Expr| matches!(one, Expr::Literal(LiteralValue::Boolean(value)) if !*value.inner());
    matches!(&inner.iter_range.expr, Expr::List(list) if list.elements.is_empty())
        && is_false(&inner.loop_cond.expr)
}

/// Expands macros, from the innermost to the outermost.
#[derive(Debug, Default)]
pub(super) struct Macros {
    made: u64,
    pub(super) errors: TypeErrors,
}

impl Macros {
    /// Replaces a macro call by its expansion.
    pub(super) fn expand(&mut self, expression: &mut IdedExpr) {
        let Expr::Call(call) = &mut expression.expr else { return };
        let is_one = match (call.func_name.as_str(), call.args.len()) {
            ("all" | "exists" | "existsOne" | "exists_one", 3)
            | ("transformList" | "transformMap" | "transformMapEntry", 3 | 4)
            | ("sortBy" | "optMap" | "optFlatMap", 2) => call.target.is_some(),
            _ => false,
        };
        if !is_one {
            return;
        }
        let CallExpr { func_name, target, args } = std::mem::take(call);
        let mut maker = Maker { macros: self, at: location(expression.id) };
        let made = target.and_then(|target| maker.make(&func_name, *target, args));
        *expression = made.unwrap_or_else(|| maker.part(Expr::Unspecified));
    }
}

/// Parts of a comprehension: its step, its condition and its result.
struct Comprehension {
    start: IdedExpr,
    condition: IdedExpr,
    step: IdedExpr,
    result: IdedExpr,
}

impl Maker<'_> {
    fn make(&mut self, name: &str, target: IdedExpr, arguments: Vec<IdedExpr>) -> Option<IdedExpr> {
        match name {
            "sortBy" => self.sort_by(target, arguments),
            "optMap" | "optFlatMap" => self.of_optional(name == "optMap", target, arguments),
            _ => self.with_two(name, target, arguments),
        }
    }

    /// Expands a comprehension with two variables: an index or a key, and the value.
    fn with_two(&mut self, name: &str, target: IdedExpr, arguments: Vec<IdedExpr>) -> Option<IdedExpr> {
        let mut arguments = arguments.into_iter();
        let (first, second) = self.two_names(&arguments.next()?, &arguments.next()?)?;
        let (one, other) = (arguments.next()?, arguments.next());
        let round = match name {
            "all" | "exists" => self.quantifier(name == "all", one),
            "existsOne" | "exists_one" => self.exactly_one(one),
            _ => {
                let (filter, value) = match other {
                    Some(value) => (Some(one), value),
                    None => (None, one),
                };
                self.collector(name, &first, filter, value)
            }
        };
        Some(self.fold(ComprehensionExpr {
            iter_range: target,
            iter_var: first,
            iter_var2: Some(second),
            accu_var: RESULT.to_owned(),
            accu_init: round.start,
            loop_cond: round.condition,
            loop_step: round.step,
            result: round.result,
        }))
    }

    fn quantifier(&mut self, of_all: bool, one: IdedExpr) -> Comprehension {
        let mut going_on = self.result();
        if !of_all {
            going_on = self.call(LOGICAL_NOT, [going_on]);
        }
        let condition = self.call(NOT_STRICTLY_FALSE, [going_on]);
        let so_far = self.result();
        let step = self.call(if of_all { LOGICAL_AND } else { LOGICAL_OR }, [so_far, one]);
        Comprehension { start: self.boolean(of_all), condition, step, result: self.result() }
    }

    fn exactly_one(&mut self, one: IdedExpr) -> Comprehension {
        let (so_far, more) = (self.result(), self.number(1));
        let more = self.call(ADD, [so_far, more]);
        let step = self.filtered(Some(one), more);
        let (found, wanted) = (self.result(), self.number(1));
        let result = self.call(EQUALS, [found, wanted]);
        Comprehension { start: self.number(0), condition: self.boolean(true), step, result }
    }

    fn collector(
        &mut self,
        name: &str,
        key: &str,
        filter: Option<IdedExpr>,
        value: IdedExpr,
    ) -> Comprehension {
        let step = self.collect(name, key, value);
        let start = match name {
            "transformList" => Expr::List(ListExpr::default()),
            _ => Expr::Map(MapExpr::default()),
        };
        let step = self.filtered(filter, step);
        Comprehension { start: self.part(start), condition: self.boolean(true), step, result: self.result() }
    }

    /// Returns the accumulator with one more entry.
    fn collect(&mut self, name: &str, key: &str, value: IdedExpr) -> IdedExpr {
        let so_far = self.result();
        match name {
            "transformList" => {
                let value = self.part(Expr::List(ListExpr::new(vec![value])));
                self.call(ADD, [so_far, value])
            }
            "transformMap" => {
                let key = self.part(Expr::Ident(key.to_owned()));
                self.call(MAP_INSERT, [so_far, key, value])
            }
            _ => self.call(MAP_INSERT, [so_far, value]),
        }
    }

    fn filtered(&mut self, filter: Option<IdedExpr>, step: IdedExpr) -> IdedExpr {
        let Some(filter) = filter else { return step };
        let as_before = self.result();
        self.call(CONDITIONAL, [filter, step, as_before])
    }

    /// Expands `sortBy`: the list gets a name, and a list of keys is computed from its items.
    fn sort_by(&mut self, target: IdedExpr, arguments: Vec<IdedExpr>) -> Option<IdedExpr> {
        if matches!(target.expr, Expr::Literal(_) | Expr::Map(_) | Expr::Struct(_) | Expr::Unspecified) {
            let text =
                "sortBy can only be applied to a list, identifier, comprehension, call or select expression";
            return self.refuse(&target, text);
        }
        let [variable, key] = <[IdedExpr; 2]>::try_from(arguments).ok()?;
        let Expr::Ident(variable) = variable.expr else {
            return self.refuse(&variable, "argument is not an identifier");
        };
        let step = self.collect("transformList", "", key);
        let keys = ComprehensionExpr {
            iter_range: self.part(Expr::Ident(SORTED.to_owned())),
            iter_var: variable,
            iter_var2: None,
            accu_var: RESULT.to_owned(),
            accu_init: self.part(Expr::List(ListExpr::default())),
            loop_cond: self.boolean(true),
            loop_step: step,
            result: self.result(),
        };
        let keys = self.fold(keys);
        let list = self.part(Expr::Ident(SORTED.to_owned()));
        let sorted = self.method(list, SORT_BY_KEYS, vec![keys]);
        Some(self.named(SORTED, target, sorted))
    }

    /// Expands `optMap` or `optFlatMap`.
    fn of_optional(&mut self, wraps: bool, target: IdedExpr, arguments: Vec<IdedExpr>) -> Option<IdedExpr> {
        let [variable, made] = <[IdedExpr; 2]>::try_from(arguments).ok()?;
        let Expr::Ident(name) = &variable.expr else {
            let name = if wraps { "optMap" } else { "optFlatMap" };
            return self.refuse(&variable, &format!("{name}() variable name must be a simple identifier"));
        };
        if self.macros.made > MOST_MADE {
            return self.refuse(&target, "the expression is too long with what its macros stand for");
        }
        let mut again = target.clone();
        self.renumber(&mut again);
        let value = self.method(again, "value", Vec::new());
        let mut made = self.named(name, value, made);
        if wraps {
            made = self.call("optional.of", [made]);
        }
        let has_value = self.method(target, "hasValue", Vec::new());
        let none = self.call("optional.none", []);
        Some(self.call(CONDITIONAL, [has_value, made, none]))
    }

    /// Returns an expression in which a value has a name.
    fn named(&mut self, name: &str, value: IdedExpr, result: IdedExpr) -> IdedExpr {
        let inner = ComprehensionExpr {
            iter_range: self.part(Expr::List(ListExpr::default())),
            iter_var: UNUSED.to_owned(),
            iter_var2: None,
            accu_var: name.to_owned(),
            accu_init: value,
            loop_cond: self.boolean(false),
            loop_step: self.part(Expr::Ident(name.to_owned())),
            result,
        };
        self.fold(inner)
    }

    fn two_names(&mut self, first: &IdedExpr, second: &IdedExpr) -> Option<(String, String)> {
        let (one, other) = (self.name(first)?, self.name(second)?);
        if one == other {
            return self.refuse(second, &format!("duplicate variable name: {one}"));
        }
        for (name, part) in [(&one, first), (&other, second)] {
            if name == RESULT || name == "__result__" {
                return self.refuse(part, "iteration variable overwrites accumulator variable");
            }
        }
        Some((one, other))
    }

    fn name(&mut self, part: &IdedExpr) -> Option<String> {
        match &part.expr {
            Expr::Ident(name) => Some(name.clone()),
            _ => self.refuse(part, "argument must be a simple name"),
        }
    }

    fn refuse<T>(&mut self, part: &IdedExpr, text: &str) -> Option<T> {
        self.macros.errors.push(TypeError { id: part.id, text: text.to_owned() });
        None
    }
}
