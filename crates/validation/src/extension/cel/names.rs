//! Names that an expression refers to.

use std::collections::BTreeSet;

use ::cel::common::ast::{EntryExpr, Expr, IdedEntryExpr, IdedExpr};

/// Names in an expression, and how deep its loops are.
#[derive(Debug, Default)]
pub(super) struct Names {
    /// Variables that are not defined by a loop of the expression itself.
    pub(super) variables: BTreeSet<String>,
    pub(super) functions: BTreeSet<String>,
    pub(super) nesting: usize,
    /// Number of items of the longest list or map literal.
    pub(super) longest_list: usize,
    /// Number of `+` operators, which may join lists, without those that loops use to build their own.
    pub(super) sums: usize,
}

/// Returns everything that `expression` refers to. Its depth is bounded by the parser.
pub(super) fn of(expression: &IdedExpr) -> Names {
    let mut names = Names::default();
    names.inspect(&expression.expr, &mut Vec::new(), 0);
    names
}

impl Names {
    fn inspect<'e>(&mut self, expression: &'e Expr, bound: &mut Vec<&'e str>, depth: usize) {
        self.nesting = self.nesting.max(depth);
        match expression {
            Expr::Unspecified | Expr::Literal(_) => {}
            Expr::Ident(name) => {
                if !name.starts_with('@') && !bound.contains(&name.as_str()) {
                    self.variables.insert(name.clone());
                }
            }
            Expr::Call(call) => {
                let is_own = call.args.first().is_some_and(
                    |part| matches!(&part.expr, Expr::Ident(name) if name.starts_with('@')),
                );
                self.sums += usize::from(call.func_name == "_+_" && !is_own);
                self.functions.insert(call.func_name.clone());
                for part in call.target.as_deref().into_iter().chain(&call.args) {
                    self.inspect(&part.expr, bound, depth);
                }
            }
            Expr::Select(select) => self.inspect(&select.operand.expr, bound, depth),
            Expr::List(list) => {
                self.longest_list = self.longest_list.max(list.elements.len());
                for item in &list.elements {
                    self.inspect(&item.expr, bound, depth);
                }
            }
            Expr::Map(map) => {
                self.longest_list = self.longest_list.max(map.entries.len());
                self.entries(&map.entries, bound, depth);
            }
            Expr::Struct(fields) => self.entries(&fields.entries, bound, depth),
            Expr::Comprehension(each) => {
                self.inspect(&each.iter_range.expr, bound, depth);
                self.inspect(&each.accu_init.expr, bound, depth);
                let before = bound.len();
                bound.push(&each.iter_var);
                bound.push(&each.accu_var);
                bound.extend(each.iter_var2.as_deref());
                for part in [&each.loop_cond, &each.loop_step, &each.result] {
                    self.inspect(&part.expr, bound, depth + 1);
                }
                bound.truncate(before);
            }
        }
    }

    fn entries<'e>(&mut self, all: &'e [IdedEntryExpr], bound: &mut Vec<&'e str>, depth: usize) {
        for entry in all {
            match &entry.expr {
                EntryExpr::StructField(field) => self.inspect(&field.value.expr, bound, depth),
                EntryExpr::MapEntry(entry) => {
                    self.inspect(&entry.key.expr, bound, depth);
                    self.inspect(&entry.value.expr, bound, depth);
                }
            }
        }
    }
}
