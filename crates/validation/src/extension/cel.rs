//! Rules in the Common Expression Language.
//!
//! A rule that does not compile, or that names something that does not exist, is refused when the operator starts. The
//! evaluation has no side effects, and is bounded by the size of the object, by [`NESTING_MAX`], [`ROUNDS_MAX`] and
//! [`LEVELS_MAX`]. A panic in it becomes an error: see [`guard`].

mod bounds;
pub mod guard;
mod names;

use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, LazyLock};

use ::cel::objects::Map;
use ::cel::{Context, Env, Program, extensions};
use serde_json::Value;

use self::names::Names;
use super::subject::Subject;

/// Variables of a rule about a resource.
const VARIABLES: [&str; 3] = ["object", "oldObject", "session"];
/// Maximum length of an expression, in bytes.
const LENGTH_MAX: usize = 16 * 1024;
/// Maximum nesting of `all`, `exists`, `map` and `filter`; each level multiplies the time.
const NESTING_MAX: usize = 3;
/// Maximum number of iterations of nested loops for one object, which take some seconds.
const ROUNDS_MAX: usize = 4_000_000;
/// Maximum depth of an expression, as counted by [`bounds::depth`].
const LEVELS_MAX: usize = 256;
/// Maximum number of values in an object that rules are evaluated for.
const VALUES_MAX: usize = 20_000;
/// Maximum depth of a rule's result.
const DEPTH_MAX: usize = 64;
const EXCERPT_CHARS: usize = 300;

/// The language with the string functions.
static ENV: LazyLock<Arc<Env>> = LazyLock::new(|| {
    let mut env = Env::stdlib();
    // It fails for duplicate names, which a test would catch.
    drop(env.add_extension(extensions::strings));
    Arc::new(env)
});

/// A compiled expression.
pub struct Rule {
    program: Program,
    names: Names,
    /// The variables that it may use.
    variables: &'static [&'static str],
}

impl fmt::Debug for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Rule")
    }
}

impl Rule {
    /// Compiles a rule about a resource.
    ///
    /// # Errors
    /// A description of what is wrong with the expression, on one line.
    pub fn compile(text: &str) -> Result<Self, String> {
        Self::compile_with(text, &VARIABLES)
    }

    /// Compiles a rule with these variables.
    ///
    /// # Errors
    /// A description of what is wrong with the expression, on one line.
    pub fn compile_with(text: &str, variables: &'static [&'static str]) -> Result<Self, String> {
        if text.len() > LENGTH_MAX {
            return Err(format!("is longer than {LENGTH_MAX} bytes"));
        }
        let levels = bounds::depth(text);
        if levels > LEVELS_MAX {
            return Err(format!(
                "is {levels} levels deep, and the limit is {LEVELS_MAX} (a bracket counts as \
                 eight, an operator as one); split it into several rules"
            ));
        }
        guard::guarded(|| Self::compile_bounded(text, variables))
            .unwrap_or_else(|| Err("is not CEL: the parser crashed on it".to_owned()))
    }

    fn compile_bounded(text: &str, variables: &'static [&'static str]) -> Result<Self, String> {
        let program = ENV.compile(text).map_err(|errors| {
            let lines = errors.errors.iter().map(|error| {
                format!("at {}:{}: {}", error.pos.0, error.pos.1, one_line(&error.msg))
            });
            format!("is not CEL: {}", lines.collect::<Vec<_>>().join("; "))
        })?;
        let found = names::of(program.expression());
        if let Some(name) = found.variables.iter().find(|name| !variables.contains(&name.as_str()))
        {
            let (last, others) = variables.split_last().unwrap_or((&"", &[]));
            let others = others.join("`, `");
            return Err(format!(
                "uses an unknown variable `{name}`: expected one of `{others}` and `{last}`"
            ));
        }
        if let Some(name) = found.functions.iter().find(|name| !is_function(name)) {
            return Err(format!("calls an unknown function `{name}`"));
        }
        if found.nesting > NESTING_MAX {
            return Err(format!(
                "has {} nested loops, and the limit is {NESTING_MAX}",
                found.nesting
            ));
        }
        Ok(Self { program, names: found, variables })
    }

    /// Returns the answer for one resource.
    ///
    /// # Errors
    /// Why there is none, such as a field that the resource does not have.
    pub fn evaluate(&self, subject: &Subject) -> Result<Value, String> {
        let Subject { kind: _, object, old_object, session } = subject;
        self.evaluate_with(&[object, old_object, session])
    }

    /// Returns the answer for these values of its variables, in their order.
    ///
    /// # Errors
    /// Why there is none, such as a missing key.
    pub fn evaluate_with(&self, values: &[&Value]) -> Result<Value, String> {
        guard::guarded(|| self.answer(values))
            .unwrap_or_else(|| Err("its evaluation crashed on the values of the object".to_owned()))
    }

    fn answer(&self, values: &[&Value]) -> Result<Value, String> {
        let mut size = Size::default();
        let mut context = Context::with_env(Arc::clone(&ENV));
        for (name, value) in self.variables.iter().zip(values) {
            let value = to_cel(value, &mut size)
                .ok_or_else(|| format!("the object has more than {VALUES_MAX} values"))?;
            context.add_variable_from_value(*name, value);
        }
        let rounds = self.rounds(&size);
        if rounds > ROUNDS_MAX {
            return Err(format!(
                "its {} nested loops could take {rounds} rounds on an object with lists of this \
                 length, and the limit is {ROUNDS_MAX}",
                self.names.nesting
            ));
        }
        let answer = self.program.execute(&context).map_err(|error| self.described(&error))?;
        to_json(&answer, DEPTH_MAX).ok_or_else(|| "its answer is not JSON".to_owned())
    }

    /// Returns the maximum number of iterations of the most deeply nested loops.
    fn rounds(&self, size: &Size) -> usize {
        let Names { nesting, longest_list, sums, functions, .. } = &self.names;
        let splits = functions.iter().any(|name| name == "split");
        let pieces = if splits { size.longest_text + LENGTH_MAX } else { 0 };
        // Each `+` may join two of the longest.
        let longest = size.longest_list.max(*longest_list).max(pieces).saturating_mul(sums + 1);
        longest.saturating_pow(u32::try_from(*nesting).unwrap_or(u32::MAX))
    }

    /// Returns the error as text. Errors contain values of the object, which may be secret: only what the rule itself
    /// says is included.
    #[allow(clippy::wildcard_enum_match_arm, reason = "of another crate, which may add kinds")]
    fn described(&self, error: &::cel::ExecutionError) -> String {
        use ::cel::ExecutionError as E;
        match error {
            E::NoSuchKey(name) if self.program.source_info().source.contains(name.as_str()) => {
                format!("there is no `{name}`: check with `has(…)` first")
            }
            E::NoSuchKey(_) => "the object has no such key: check with `in` first".to_owned(),
            E::NoSuchOverload(overload) => one_line(&overload.to_string()),
            E::UndeclaredReference(name) => format!("unknown variable `{name}`"),
            E::UnexpectedType { got, want } => format!("got {got} where {want} is expected"),
            E::InvalidArgumentCount { expected, actual } => {
                format!("got {actual} arguments where {expected} are expected")
            }
            E::FunctionError { function, .. } => format!("`{function}` failed"),
            E::DivisionByZero(_) | E::RemainderByZero(_) => "division by zero".to_owned(),
            E::Overflow(operator, ..) => format!("`{operator}` is too large for a number"),
            E::IndexOutOfBounds(_) => {
                "the list has no such item: check its `size()` first".to_owned()
            }
            E::ValuesNotComparable(..) => "compares values of different types".to_owned(),
            E::UnsupportedBinaryOperator(operator, ..) => {
                format!("`{operator}` is not defined for values of these types")
            }
            _ => "an operation does not support its values".to_owned(),
        }
    }
}

fn one_line(text: &str) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(EXCERPT_CHARS).collect()
}

/// Returns true if the language has a function: calling it without arguments then reports the wrong arguments.
fn is_function(name: &str) -> bool {
    let knows = |call: String| {
        ENV.compile(&call).is_ok_and(|program| {
            let answer = program.execute(&Context::with_env(Arc::clone(&ENV)));
            !matches!(answer, Err(::cel::ExecutionError::UndeclaredReference(_)))
        })
    };
    // Operators have names that cannot be written.
    !name.starts_with(|c: char| c.is_ascii_alphabetic())
        || knows(format!("{name}()"))
        || knows(format!("''.{name}()"))
}

/// Size of an object.
#[derive(Debug, Default)]
struct Size {
    values: usize,
    /// Number of items of its longest list or map.
    longest_list: usize,
    /// Length of its longest text, in bytes.
    longest_text: usize,
}

impl Size {
    /// Counts one more value, without its content; `None` if there are too many.
    fn count(&mut self, value: &Value) -> Option<()> {
        self.values += 1;
        match value {
            Value::Array(items) => self.longest_list = self.longest_list.max(items.len()),
            Value::Object(fields) => self.longest_list = self.longest_list.max(fields.len()),
            Value::String(text) => self.longest_text = self.longest_text.max(text.len()),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
        (self.values <= VALUES_MAX).then_some(())
    }
}

/// Converts a value. Whole numbers become `int`, however JSON represents them: CEL does not mix `int` and `uint`.
fn to_cel(value: &Value, size: &mut Size) -> Option<::cel::Value> {
    use ::cel::Value as Cel;
    size.count(value)?;
    Some(match value {
        Value::Null => Cel::Null,
        Value::Bool(value) => Cel::Bool(*value),
        Value::Number(number) => match number.as_i64() {
            Some(number) => Cel::Int(number),
            None => Cel::Float(number.as_f64().unwrap_or(f64::NAN)),
        },
        Value::String(text) => Cel::String(Arc::new(text.clone())),
        Value::Array(items) => {
            let items: Option<Vec<_>> = items.iter().map(|item| to_cel(item, size)).collect();
            Cel::List(Arc::new(items?))
        }
        Value::Object(fields) => {
            let mut map = HashMap::with_capacity(fields.len());
            for (key, value) in fields {
                map.insert(key.as_str().into(), to_cel(value, size)?);
            }
            Cel::Map(Map { map: Arc::new(map) })
        }
    })
}

fn to_json(value: &::cel::Value, depth: usize) -> Option<Value> {
    use ::cel::Value as Cel;
    let below = depth.checked_sub(1)?;
    match value {
        Cel::Null => Some(Value::Null),
        Cel::Bool(value) => Some((*value).into()),
        Cel::Int(number) => Some((*number).into()),
        Cel::UInt(number) => Some((*number).into()),
        Cel::Float(number) => serde_json::Number::from_f64(*number).map(Value::Number),
        Cel::String(text) => Some(Value::String(text.to_string())),
        Cel::List(items) => items.iter().map(|item| to_json(item, below)).collect(),
        Cel::Map(map) => {
            let mut fields: Vec<(String, Value)> = Vec::with_capacity(map.map.len());
            for (key, value) in map.map.iter() {
                let ::cel::objects::Key::String(key) = key else { return None };
                fields.push((key.to_string(), to_json(value, below)?));
            }
            // The map is unordered, but the same rule must give the same answer.
            fields.sort_by(|one, other| one.0.cmp(&other.0));
            Some(Value::Object(fields.into_iter().collect()))
        }
        Cel::Function(..) | Cel::Bytes(_) | Cel::Opaque(_) | Cel::Struct(_) => None,
    }
}

#[cfg(test)]
mod tests;
