//! Label and field selectors.

use serde_json::Value;

/// Evaluates a field selector such as `a.b=c,d.e!=f`; a missing field is empty.
pub(super) fn matches_fields(object: &Value, selector: &str) -> bool {
    let field = |path: &str| {
        let pointer = format!("/{}", path.replace('.', "/"));
        object.pointer(&pointer).and_then(Value::as_str).unwrap_or_default()
    };
    selector.split(',').filter(|term| !term.is_empty()).all(|term| {
        if let Some((path, value)) = term.split_once("!=") {
            field(path) != value
        } else {
            term.split_once('=').is_none_or(|(path, value)| field(path) == value)
        }
    })
}

/// Evaluates a label selector such as `a=b,c!=d,e in (f,g),h`.
pub(super) fn matches_labels(object: &Value, selector: &str) -> bool {
    let label = |name: &str| object["metadata"]["labels"][name.trim()].as_str();
    let mut terms = Vec::new();
    let mut depth = 0;
    let mut term = String::new();
    for c in selector.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if c == ',' && depth == 0 {
            terms.push(std::mem::take(&mut term));
        } else {
            term.push(c);
        }
    }
    terms.push(term);
    terms.iter().map(|term| term.trim()).filter(|term| !term.is_empty()).all(|term| {
        if let Some((name, values)) = term.split_once(" in ") {
            let values = values.trim().trim_matches(['(', ')']);
            values.split(',').any(|value| label(name) == Some(value.trim()))
        } else if let Some((name, value)) = term.split_once("!=") {
            label(name) != Some(value.trim())
        } else if let Some((name, value)) = term.split_once('=') {
            label(name) == Some(value.trim_start_matches('=').trim())
        } else {
            label(term).is_some()
        }
    })
}
