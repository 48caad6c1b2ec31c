//! Depth of an expression, measured before anything recurses into it.
//!
//! The parser and the evaluator recurse for each level. Brackets cost the parser a dozen calls; each operator of a
//! chain is a level of the tree. A stack overflow cannot be caught, so the depth is estimated from the text, on the
//! safe side.

/// Weight of one bracket, in operators of a chain.
const BRACKET: usize = 8;

/// Returns the maximum depth of the expression: the operators of all enclosing chains, and brackets.
pub(super) fn depth(text: &str) -> usize {
    // The number of operators so far in each open bracket.
    let mut open = vec![0_usize];
    let (mut now, mut deepest) = (0_usize, 0_usize);
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let skipped = without_text(rest);
        rest = skipped.unwrap_or(&rest[first.len_utf8()..]);
        if skipped.is_some() {
            continue;
        }
        match first {
            '(' | '[' | '{' => {
                open.push(0);
                now += BRACKET;
            }
            ')' | ']' | '}' if open.len() > 1 => {
                now -= BRACKET + open.pop().unwrap_or_default();
                // The content of the brackets is now an operand or a call.
                count(&mut open, &mut now);
            }
            // The next item is parallel to the previous ones.
            ',' => now -= open.last_mut().map(std::mem::take).unwrap_or_default(),
            '.' | '!' | '-' | '+' | '*' | '/' | '%' | '?' | '<' | '>' | '=' | '&' | '|' => {
                count(&mut open, &mut now);
            }
            _ => {}
        }
        deepest = deepest.max(now);
    }
    deepest
}

fn count(open: &mut [usize], now: &mut usize) {
    if let Some(here) = open.last_mut() {
        *here += 1;
        *now += 1;
    }
}

/// Returns the text after the string or comment at its beginning.
fn without_text(text: &str) -> Option<&str> {
    if let Some(comment) = text.strip_prefix("//") {
        return Some(comment.find('\n').map_or("", |end| &comment[end..]));
    }
    let is_raw = text.starts_with(['r', 'R']);
    let quoted = if is_raw { &text[1..] } else { text };
    let quote = ["'''", "\"\"\"", "'", "\""].into_iter().find(|quote| quoted.starts_with(quote))?;
    let mut rest = &quoted[quote.len()..];
    while let Some(first) = rest.chars().next() {
        if let Some(after) = rest.strip_prefix(quote) {
            return Some(after);
        }
        rest = &rest[first.len_utf8()..];
        if first == '\\' && !is_raw {
            let escaped = rest.chars().next().map_or(0, char::len_utf8);
            rest = &rest[escaped..];
        }
    }
    // It is not terminated, so it is not a string, and its content is counted.
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chains_and_brackets_add_up_and_neighbours_do_not() {
        for (text, expected) in [
            ("a", 0),
            ("a.b.c", 2),
            ("[a.b, c.d, e.f]", BRACKET + 1),
            ("((a))", 2 * BRACKET),
            ("f(a.b) + 1", BRACKET + 1),
            ("'((((' == r'\\'", 2),
            ("\"\"\"(\"(\"\"\" + '\\'('", 1),
            ("a // ((((\n + b", 1),
            // No string begins here.
            ("'((", 2 * BRACKET),
        ] {
            assert_eq!(depth(text), expected, "{text}");
        }
    }

    #[test]
    fn nothing_hides_brackets() {
        let text = "[')', ".repeat(50);
        assert!(depth(&text) >= 50 * BRACKET, "{}", depth(&text));
    }
}
