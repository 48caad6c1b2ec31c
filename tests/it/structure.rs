//! Figures of the code that may only fall: how long files and functions are, how modules depend on each other in circles,
//! and how much of `lifecycle` is in one type. `tests/structure.txt` has the limits, one a line.
//!
//! They are counted in the text of the sources, without comments, literals and tests. What a macro expands to is not
//! counted.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use testing::sources::{path, texts_below};

const LIMITS: &str = "tests/structure.txt";
const LIMITS_HEAD: &str = "# Limits of tests/it/structure.rs, which may only fall: UPDATE_EXPECT=1 cargo test --test it structure::\n";
/// Longest file and function that are not counted, in lines.
const FILE_MAX: usize = 600;
const FUNCTION_MAX: usize = 70;
/// A limit may be higher than the figure by this part of it.
const SLACK: usize = 50;

/// Comments, and literals in which anything may be written.
static OPAQUE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r##"(?s)//[^\n]*|/\*.*?\*/|\bb?r"[^"]*"|\bb?r#".*?"#|b?"(?:\\.|[^"\\])*"|'(?:\\.[^']*|[^'\\])'"##,
    )
    .unwrap()
});
static TEST_ITEM: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"#\[cfg\((?:test|all\(test)[^\]]*\]").unwrap());
static TEST_FILE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"#\[cfg\(test\)\]\s*(?:pub(?:\([^)]*\))?\s+)?mod\s+(\w+);").unwrap()
});
static USE: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\buse\s+([^;]+);").unwrap());
static PATH: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\b[a-z_]\w*(?:::[A-Za-z_]\w*)+").unwrap());
static FUNCTION: LazyLock<Regex> = LazyLock::new(|| Regex::new(r"\bfn\s+\w+").unwrap());
static METHOD: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\bfn\s+(\w+)\s*(?:<[^>]*>)?\s*\(\s*(?:&\s*(?:'\w+\s+)?)?(?:mut\s+)?self\b")
        .unwrap()
});
static CALL: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"(?:\.|Self::|Pass::)(\w+)\s*(?:::<[^>]*>)?\(").unwrap());
static BLOCK_OF_PASS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"\bimpl\b[^{;]*\b\w*Pass\b[^{;]*").unwrap());
static HALTS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"->[^{;]*\b(?:Halt|Maybe)\b").unwrap());
static STATE_WRITE: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(
        r"\b(?:reconciliation|job)(?:_status|_mut\(\))?\.(?:state|last_reconciled_spec)\s*=[^=]",
    )
    .unwrap()
});

/// One source file of a crate, without what is tested in it.
struct Source {
    /// From the crate's root: `["transitions", "stop"]`.
    module: Vec<String>,
    code: String,
    lines: usize,
}

/// Arrows between the files of a crate.
type Graph = Vec<BTreeSet<usize>>;

#[test]
fn figures_only_fall() {
    let figures = figures();
    let file = path(LIMITS);
    let text = fs::read_to_string(&file).unwrap_or_default();
    let limits: BTreeMap<&str, usize> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| line.rsplit_once(' '))
        .map(|(name, limit)| (name, limit.parse().unwrap()))
        .collect();
    let over = |(name, figure): (&String, &usize)| {
        let limit = limits.get(&**name)?;
        (figure > limit).then(|| format!("{name} is {figure}, and may be {limit}"))
    };
    let over: Vec<String> = figures.iter().filter_map(over).collect();
    assert!(over.is_empty(), "the code may not grow there:\n{}", over.join("\n"));
    let lower = |(name, figure): (&String, &usize)| {
        // What changes with every edit is not lowered with every edit.
        let is_close = |limit: &usize| limit - figure <= limit / SLACK;
        !limits.get(&**name).is_some_and(is_close)
    };
    let is_right = limits.len() == figures.len() && !figures.iter().any(lower);
    let lines = figures.iter().map(|(name, figure)| format!("{name} {figure}\n"));
    let wanted = LIMITS_HEAD.to_owned() + lines.collect::<String>().as_str();
    if std::env::var_os("UPDATE_EXPECT").is_some() && !is_right {
        fs::write(&file, &wanted).unwrap();
    } else {
        assert!(is_right, "lower the limits: UPDATE_EXPECT=1 cargo test --test it structure::");
    }
}

#[test]
fn circles_and_lengths_are_counted() {
    let source = |module: &str, text: &str| Source::new(module, text);
    let sources = [
        source("a", "use super::b::c::{self, D};\nfn f() {\n    // }\n    \"}\"\n}\n"),
        source("b", "mod c;\nfn g(&self) {}\n#[cfg(test)]\nmod tests { use crate::a; }\n"),
        source("b/c", "fn h() { crate::d::x() }\nfn i(&mut self) {}"),
        source("d", "fn x(y: A) { y.j() }\nuse crate::a;"),
        source("e", "fn j(self) { self.i() }"),
    ];
    let graph = arrows(&sources);
    let of = |ends: &[usize]| ends.iter().copied().collect::<BTreeSet<_>>();
    assert_eq!(graph, [of(&[2]), of(&[]), of(&[3]), of(&[0]), of(&[])]);
    assert_eq!((largest_circle(&graph), largest_circle(&with_calls(&sources, graph))), (3, 4));
    assert_eq!(functions(&sources[0].code), [4]);
    assert_eq!(functions(&sources[1].code), [1]);
}

fn figures() -> BTreeMap<String, usize> {
    let mut figures = BTreeMap::new();
    let (mut all_lines, mut long_files, mut long_functions) = (0, 0, 0);
    for (name, folder) in crates() {
        let sources = sources(&folder);
        let graph = arrows(&sources);
        let mut emit = |what: &str, figure| {
            if figure > 0 {
                figures.insert(format!("{name}: {what}"), figure);
            }
        };
        let lines: usize = sources.iter().map(|of| of.lines).sum();
        all_lines += lines;
        emit("modules in one circle", largest_circle(&graph));
        emit("modules in one circle of calls", largest_circle(&with_calls(&sources, graph)));
        let all = || sources.iter().map(|of| &*of.code);
        long_files += sources.iter().filter(|of| of.lines > FILE_MAX).count();
        long_functions += all().flat_map(functions).filter(|lines| *lines > FUNCTION_MAX).count();
        if name == "lifecycle" {
            emit("lines", lines);
            let count = |regex: &Regex| all().map(|code| regex.find_iter(code).count()).sum();
            emit("functions that return Halt", count(&HALTS));
            emit("places that write a state", count(&STATE_WRITE));
            let of_pass = |code: &str| -> usize {
                let blocks = BLOCK_OF_PASS.find_iter(code).filter_map(|of| block(code, of.end()));
                blocks.map(|block| FUNCTION.find_iter(block).count()).sum()
            };
            emit("methods of Pass", all().map(of_pass).sum());
        }
    }
    figures.insert("lines".to_owned(), all_lines);
    figures.insert(format!("files over {FILE_MAX} lines"), long_files);
    figures.insert(format!("functions over {FUNCTION_MAX} lines"), long_functions);
    figures
}

/// Returns the name and the sources' folder of each crate but that of the tests' helpers.
fn crates() -> Vec<(String, String)> {
    let mut all = vec![("cli".to_owned(), "src".to_owned())];
    for entry in fs::read_dir(path("crates")).unwrap() {
        let name = entry.unwrap().file_name().into_string().unwrap();
        all.push((name.clone(), format!("crates/{name}/src")));
    }
    all.retain(|(name, _)| name != "testing");
    all.sort();
    all
}

fn sources(folder: &str) -> Vec<Source> {
    let mut texts = texts_below(folder);
    texts.sort();
    let module = |file: &Path| {
        let place = file.strip_prefix(folder).unwrap().with_extension("");
        place.to_str().unwrap().trim_end_matches("lib").trim_end_matches("main").to_owned()
    };
    let mut of_tests = BTreeSet::new();
    for (file, text) in &texts {
        let parent = module(file);
        for found in TEST_FILE.captures_iter(&OPAQUE.replace_all(text, "")) {
            of_tests.insert(format!("{parent}/{}", &found[1]).trim_start_matches('/').to_owned());
        }
    }
    let is_test = |module: &str| {
        let within = |of: &String| module == of || module.starts_with(&format!("{of}/"));
        of_tests.iter().any(within)
    };
    let all = texts.iter().map(|(file, text)| (module(file), text));
    all.filter(|(module, _)| !is_test(module)).map(|(of, text)| Source::new(&of, text)).collect()
}

impl Source {
    fn new(module: &str, text: &str) -> Self {
        let lines = |of: &str| "\n".repeat(of.matches('\n').count());
        let code = OPAQUE.replace_all(text, |found: &Captures<'_>| lines(&found[0]));
        let mut code = code.into_owned();
        while let Some(found) = TEST_ITEM.find(&code) {
            let (from, rest) = (found.start(), &code[found.end()..]);
            let end = rest.find([';', '{']).unwrap_or(rest.len());
            let end = match block(rest, end) {
                Some(block) if rest[end..].starts_with('{') => end + block.len(),
                _ => (end + 1).min(rest.len()),
            };
            let cut = from..found.end() + end;
            let blank = lines(&code[cut.clone()]);
            code.replace_range(cut, &blank);
        }
        let module = module.split('/').filter(|part| !part.is_empty()).map(str::to_owned).collect();
        Self { module, code, lines: text.matches('\n').count() }
    }
}

/// Returns the block in braces that begins at the first brace from `start` on.
fn block(code: &str, start: usize) -> Option<&str> {
    let begin = start + code[start..].find('{')?;
    let mut depth = 0_usize;
    for (at, byte) in code.bytes().enumerate().skip(begin) {
        match byte {
            b'{' => depth += 1,
            b'}' if depth == 1 => return Some(&code[begin..=at]),
            b'}' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Returns the number of lines of each function with a body.
fn functions(code: &str) -> Vec<usize> {
    let mut found = Vec::new();
    for function in FUNCTION.find_iter(code) {
        let mut depth = 0_i32;
        let head = code[function.end()..].find(|character| {
            depth += i32::from("([".contains(character)) - i32::from(")]".contains(character));
            depth == 0 && ";{".contains(character)
        });
        let Some(head) = head.map(|at| function.end() + at) else { continue };
        if let Some(block) = block(code, head).filter(|_| code[head..].starts_with('{')) {
            found.push(
                code[function.start()..head].matches('\n').count()
                    + block.matches('\n').count()
                    + 1,
            );
        }
    }
    found
}

/// Returns which other files each file names.
fn arrows(sources: &[Source]) -> Graph {
    let places: BTreeMap<&[String], usize> =
        sources.iter().enumerate().map(|(at, of)| (&*of.module, at)).collect();
    let place = |mut path: &[String]| loop {
        match (places.get(path), path) {
            (Some(at), _) => break Some(*at),
            (None, [shorter @ .., _]) => path = shorter,
            (None, []) => break None,
        }
    };
    let arrows = |(me, source): (usize, &Source)| {
        let mut imported: BTreeMap<String, Vec<String>> = BTreeMap::new();
        let mut named = Vec::new();
        for found in USE.captures_iter(&source.code) {
            for path in leaves(&found[1]) {
                let Some(absolute) = absolute(&source.module, &path, &places) else { continue };
                if places.contains_key(&*absolute) {
                    imported.extend(path.last().map(|last| (last.clone(), absolute.clone())));
                }
                named.push(absolute);
            }
        }
        for found in PATH.find_iter(&USE.replace_all(&source.code, "")) {
            let path: Vec<String> = found.as_str().split("::").map(str::to_owned).collect();
            named.extend(match imported.get(&path[0]) {
                Some(module) => Some([module, &path[1..]].concat()),
                None => absolute(&source.module, &path, &places),
            });
        }
        named.iter().filter_map(|path| place(path)).filter(|at| *at != me).collect()
    };
    sources.iter().enumerate().map(arrows).collect()
}

/// Returns the path from the crate's root; `None` if it leads elsewhere.
fn absolute(
    me: &[String],
    path: &[String],
    places: &BTreeMap<&[String], usize>,
) -> Option<Vec<String>> {
    let ups = path.iter().take_while(|part| *part == "super").count();
    match path.first()?.as_str() {
        "crate" => Some(path[1..].to_vec()),
        "self" => Some([me, &path[1..]].concat()),
        "super" => Some([&me[..me.len().checked_sub(ups)?], &path[ups..]].concat()),
        first => {
            let below = [me, &[first.to_owned()]].concat();
            places.contains_key(&*below).then(|| [me, path].concat())
        }
    }
}

/// Returns the paths of a `use`, whose braces may be nested.
fn leaves(tree: &str) -> Vec<Vec<String>> {
    let (mut found, mut stack, mut word) = (Vec::new(), vec![String::new()], String::new());
    for character in tree.chars().chain([',']) {
        match character {
            '{' => {
                let prefix = stack.last().unwrap().clone() + word.trim();
                stack.push(prefix);
                word.clear();
            }
            ',' | '}' => {
                let name = word.split(" as ").next().unwrap().trim();
                if !name.is_empty() {
                    let whole = stack.last().unwrap().clone() + name;
                    let parts = whole.split("::").map(|part| part.trim().to_owned());
                    found.push(parts.filter(|part| !part.is_empty()).collect());
                }
                word.clear();
                if character == '}' {
                    stack.pop();
                }
            }
            other => word.push(other),
        }
    }
    found
}

/// Adds arrows for calls of methods that one file alone defines.
fn with_calls(sources: &[Source], mut graph: Graph) -> Graph {
    let mut defined: BTreeMap<&str, BTreeSet<usize>> = BTreeMap::new();
    for (at, source) in sources.iter().enumerate() {
        for found in METHOD.captures_iter(&source.code) {
            defined.entry(found.get(1).unwrap().as_str()).or_default().insert(at);
        }
    }
    for (me, source) in sources.iter().enumerate() {
        for found in CALL.captures_iter(&source.code) {
            if let Some([at]) =
                defined.get(&found[1]).map(|all| all.iter().collect::<Vec<_>>()).as_deref()
                && **at != me
            {
                graph[me].insert(**at);
            }
        }
    }
    graph
}

/// Returns the number of files in the largest circle; 0 if there is none.
fn largest_circle(graph: &Graph) -> usize {
    let reached: Vec<BTreeSet<usize>> = (0..graph.len())
        .map(|start| {
            let (mut seen, mut left) = (BTreeSet::new(), vec![start]);
            while let Some(at) = left.pop() {
                left.extend(graph[at].iter().copied().filter(|next| seen.insert(*next)));
            }
            seen
        })
        .collect();
    let circle = |of: usize| reached[of].iter().filter(|to| reached[**to].contains(&of)).count();
    (0..graph.len()).map(circle).filter(|size| *size > 1).max().unwrap_or(0)
}
