//! Derives one input from another by bytes, words, pieces, and the nodes of JSON.

use serde_json::{Value, json};
use testing::choices::Choices;

/// Numbers at boundaries.
const NUMBERS: [&str; 14] = [
    "0",
    "-1",
    "1",
    "2147483647",
    "2147483648",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "18446744073709551616",
    "1e308",
    "1e999",
    "0.1",
    "NaN",
    "00",
];
/// Characters that syntaxes and programs often mishandle.
const CHARACTERS: [&str; 12] = [
    "\0",
    "\n",
    "\r",
    "\t",
    " ",
    "\u{feff}",
    "\u{a0}",
    "\u{2028}",
    "\u{85}",
    "İ",
    "é",
    "\u{1f600}",
];
/// Maximum number of nodes in a JSON tree.
const NODES_MAX: usize = 20_000;

/// Returns `input` with a small change, perhaps with a piece of `other`.
pub(super) fn mutated(
    input: &[u8],
    other: &[u8],
    words: &[&str],
    choices: &mut Choices,
) -> Vec<u8> {
    let mut input = input.to_vec();
    for _ in 0..=choices.below(4) {
        let is_tree = choices.below(2) == 0;
        match serde_json::from_slice(&input).ok().filter(|_| is_tree) {
            Some(tree) => input = in_tree(tree, other, words, choices).to_string().into_bytes(),
            None => in_bytes(&mut input, other, words, choices),
        }
    }
    input
}

fn in_bytes(input: &mut Vec<u8>, other: &[u8], words: &[&str], choices: &mut Choices) {
    let (start, end) = range(input.len(), choices);
    match choices.below(9) {
        0 if start < input.len() => input[start] ^= 1 << choices.below(8),
        1 => drop(input.drain(start..end)),
        2 => {
            let piece = input[start..end].repeat(1 + below(choices, 8));
            insert(input, start, &piece);
        }
        3 => {
            let (from, to) = range(other.len(), choices);
            input.splice(start..end, other[from..to].iter().copied());
        }
        4 => insert(input, start, one_of(&NUMBERS, choices).as_bytes()),
        5 => insert(input, start, one_of(&CHARACTERS, choices).as_bytes()),
        6 => {
            let (from, to) = number_at(input, start);
            input.splice(from..to, one_of(&NUMBERS, choices).bytes());
        }
        7 => insert(input, start, &[u8::try_from(choices.below(256)).unwrap()]),
        _ if !words.is_empty() => insert(input, start, one_of(words, choices).as_bytes()),
        _ => input.reverse(),
    }
}

/// Returns the range of the digits at `at`, or an empty one there.
fn number_at(input: &[u8], at: usize) -> (usize, usize) {
    let is_digit = |index: &usize| input[*index].is_ascii_digit();
    let from = (at..input.len()).find(is_digit).unwrap_or(at);
    let to = (from..input.len()).find(|index| !is_digit(index)).unwrap_or(input.len());
    (from, to)
}

fn in_tree(mut tree: Value, other: &[u8], words: &[&str], choices: &mut Choices) -> Value {
    let nodes = count(&tree);
    if nodes > NODES_MAX {
        return tree;
    }
    let with = match choices.below(4) {
        0 => serde_json::from_slice(other).ok(),
        1 => Some(tree.clone()),
        _ => None,
    };
    let with = with.map(|tree: Value| nth(&tree, below(choices, count(&tree))).clone());
    let node = nth_mut(&mut tree, below(choices, nodes));
    let new = with.unwrap_or_else(|| leaf(words, choices));
    match (choices.below(3), node) {
        (0, Value::Object(fields)) if !fields.is_empty() => {
            let key = fields.keys().nth(below(choices, fields.len())).cloned().unwrap();
            if choices.below(2) == 0 {
                drop(fields.shift_remove(&key));
            } else {
                drop(fields.insert(key, new));
            }
        }
        (1, Value::Object(fields)) => drop(fields.insert(one_of_or(words, "x", choices), new)),
        (0, Value::Array(items)) if !items.is_empty() => {
            drop(items.remove(below(choices, items.len())));
        }
        (1, Value::Array(items)) => items.push(new),
        (_, node) => *node = new,
    }
    tree
}

fn leaf(words: &[&str], choices: &mut Choices) -> Value {
    match choices.below(8) {
        0 => Value::Null,
        1 => json!([]),
        2 => json!({}),
        3 => json!(choices.below(2) == 0),
        4 => json!(one_of_or(words, "", choices)),
        5 => json!(one_of(&CHARACTERS, choices)),
        6 => json!(one_of(&NUMBERS, choices)),
        // Formatted as JSON, if JSON can express it.
        _ => serde_json::from_str(one_of(&NUMBERS, choices)).unwrap_or(json!(-0.0)),
    }
}

fn children(value: &Value) -> Box<dyn Iterator<Item = &Value> + '_> {
    match value {
        Value::Array(items) => Box::new(items.iter()),
        Value::Object(fields) => Box::new(fields.values()),
        _ => Box::new(std::iter::empty()),
    }
}

/// Returns the number of nodes of a tree, itself included.
pub(super) fn count(value: &Value) -> usize {
    1 + children(value).map(count).sum::<usize>()
}

fn nth(value: &Value, mut index: usize) -> &Value {
    if index == 0 {
        return value;
    }
    index -= 1;
    for child in children(value) {
        let size = count(child);
        if index < size {
            return nth(child, index);
        }
        index -= size;
    }
    value
}

fn nth_mut(value: &mut Value, mut index: usize) -> &mut Value {
    if index == 0 {
        return value;
    }
    index -= 1;
    let sizes: Vec<usize> = children(value).map(count).collect();
    let mut at = 0;
    while at + 1 < sizes.len() && index >= sizes[at] {
        index -= sizes[at];
        at += 1;
    }
    let child = match value {
        Value::Array(items) => items.get_mut(at),
        Value::Object(fields) => fields.values_mut().nth(at),
        _ => None,
    };
    nth_mut(child.unwrap(), index)
}

fn insert(input: &mut Vec<u8>, at: usize, piece: &[u8]) {
    input.splice(at..at, piece.iter().copied());
}

/// Returns start and end of a piece, mostly a short one.
fn range(length: usize, choices: &mut Choices) -> (usize, usize) {
    let start = below(choices, length + 1);
    let longest = if choices.below(4) == 0 { length - start } else { (length - start).min(8) };
    (start, start + below(choices, longest + 1))
}

fn below(choices: &mut Choices, bound: usize) -> usize {
    usize::try_from(choices.below(bound as u64)).unwrap()
}

fn one_of<'a>(all: &[&'a str], choices: &mut Choices) -> &'a str {
    all[below(choices, all.len())]
}

fn one_of_or(all: &[&str], other: &str, choices: &mut Choices) -> String {
    if all.is_empty() { other.to_owned() } else { one_of(all, choices).to_owned() }
}
