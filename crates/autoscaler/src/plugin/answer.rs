//! The answers of rules, and whether they are valid.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use config::secret::hide_in;

use crate::metric::{Evaluated, Metric};
use crate::topology::VertexId;

/// Maximum number of characters quoted from an answer.
const EXCERPT_CHARS: usize = 60;
/// Maximum length of a rule's reason, in characters.
pub(super) const REASON_CHARS: usize = 500;
/// Figures that an evaluator may set because decisions and reports use them, and whether the average is used. Facts
/// about the job, and results of a decision, are not among them.
const SETTABLE: [(Metric, bool); 7] = [
    (Metric::Load, true),
    (Metric::TrueProcessingRate, true),
    (Metric::TargetDataRate, true),
    (Metric::CatchUpDataRate, false),
    (Metric::Lag, false),
    (Metric::ScaleUpRateThreshold, false),
    (Metric::ScaleDownRateThreshold, false),
];

/// An executor's verdict on a decision.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Verdict {
    /// It may be carried out as it is.
    Approved,
    /// It must not be carried out, with the reason if there is one.
    Vetoed(Option<String>),
    /// Only these vertices change, to this parallelism.
    Changed(BTreeMap<VertexId, u32>),
}

/// Parses `null` or `{"TARGET_DATA_RATE": 1000.0, "LAG": {"current": 0}}`.
pub(super) fn read_figures(answer: &Value) -> Result<Vec<(Metric, Evaluated)>, String> {
    let figures = match answer {
        Value::Null => return Ok(Vec::new()),
        Value::Object(figures) => figures,
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            return Err("its answer is neither an object with figures nor `null`".to_owned());
        }
    };
    let read = |(name, given): (&String, &Value)| {
        let found = SETTABLE.iter().find(|(metric, _)| metric.into_str() == name);
        let Some((metric, is_average)) = found else {
            let known = SETTABLE.map(|(metric, _)| metric.into_str()).join("`, `");
            return Err(format!(
                "it sets `{}`: expected one of `{known}`",
                cut(name, EXCERPT_CHARS)
            ));
        };
        let evaluated = if let Value::Object(parts) = given {
            read_parts(*metric, parts)?
        } else if *is_average {
            Evaluated::average(amount(*metric, given)?)
        } else {
            Evaluated::of(amount(*metric, given)?)
        };
        Ok((*metric, evaluated))
    };
    figures.iter().map(read).collect()
}

fn read_parts(metric: Metric, parts: &Map<String, Value>) -> Result<Evaluated, String> {
    let mut evaluated = Evaluated::of(f64::NAN);
    for (part, given) in parts {
        match part.as_str() {
            "current" => evaluated.current = amount(metric, given)?,
            "average" => evaluated.average = amount(metric, given)?,
            _ => {
                return Err(format!("`{metric}` can only have `current` and `average`"));
            }
        }
    }
    Ok(evaluated)
}

fn amount(metric: Metric, given: &Value) -> Result<f64, String> {
    let number = given.as_f64().filter(|number| number.is_finite() && *number >= 0.0);
    number.ok_or_else(|| format!("`{metric}` is not a number of zero or more"))
}

pub(super) fn read_parallelism(given: &Value, min: u32, max: u32) -> Result<u32, String> {
    let Some(number) = given.as_u64() else {
        return Err("a parallelism is not a whole number".to_owned());
    };
    u32::try_from(number)
        .ok()
        .filter(|number| (min..=max).contains(number))
        .ok_or_else(|| format!("parallelism {number} is not between {min} and {max}"))
}

/// Parses `true`, `false`, a reason, or `{"VERTEX": 4}`.
pub(super) fn read_verdict(
    answer: &Value,
    limits: &BTreeMap<VertexId, (u32, u32)>,
) -> Result<Verdict, String> {
    let given = match answer {
        Value::Bool(true) => return Ok(Verdict::Approved),
        Value::Bool(false) => return Ok(Verdict::Vetoed(None)),
        Value::String(why) => return Ok(Verdict::Vetoed(Some(cut(&hide_in(why), REASON_CHARS)))),
        Value::Object(given) if given.is_empty() => return Ok(Verdict::Vetoed(None)),
        Value::Object(given) => given,
        Value::Null | Value::Number(_) | Value::Array(_) => {
            return Err("its answer is not `true`, `false`, a text, or an object with the \
                        parallelism of vertices"
                .to_owned());
        }
    };
    let read = |(id, given): (&String, &Value)| {
        let vertex = VertexId::from(id.as_str());
        let shown = || cut(id, EXCERPT_CHARS);
        let Some((min, max)) = limits.get(&vertex) else {
            return Err(format!("there is no vertex `{}` that can be scaled now", shown()));
        };
        let parallelism = read_parallelism(given, *min, *max);
        Ok((vertex, parallelism.map_err(|why| format!("vertex `{}`: {why}", shown()))?))
    };
    given.iter().map(read).collect::<Result<_, _>>().map(Verdict::Changed)
}

/// Returns the text on one line, with at most `chars` characters.
pub(super) fn cut(text: &str, chars: usize) -> String {
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    line.chars().take(chars).collect()
}
