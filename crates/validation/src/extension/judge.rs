//! Validation of a resource by a rule of the configuration.

use serde_json::Value;

use super::cel::Rule;
use super::subject::Subject;
use crate::Violation;

/// A rule that is true if the resource is valid.
#[derive(Debug)]
pub struct RuleJudge {
    pub rule: Rule,
    /// The field to blame.
    pub field: String,
    /// What is wrong with it, and what would be right.
    pub message: String,
}

/// Returns what is wrong with the resource.
///
/// # Errors
/// Why the rule has no answer, such as a field that the resource does not have.
pub fn judge_by_rule(judge: &RuleJudge, subject: &Subject) -> Result<Vec<Violation>, String> {
    let RuleJudge { rule, field, message } = judge;
    let unclear = |why: String| format!("its rule cannot be evaluated: {why}");
    match rule.evaluate(subject).map_err(unclear)? {
        Value::Bool(true) => Ok(vec![]),
        Value::Bool(false) => Ok(vec![Violation::new(field.clone(), message.clone())]),
        Value::Null | Value::Number(_) | Value::String(_) | Value::Array(_) | Value::Object(_) => {
            Err(unclear("its answer is neither `true` nor `false`".to_owned()))
        }
    }
}
