//! Checks the links within the project's documents: files, and headings in them.

use std::fs;
use std::path::{Path, PathBuf};

/// Folders without documents of the project.
const LEFT_OUT: [&str; 3] = ["target", ".git", "node_modules"];

#[test]
fn links_within_the_project_lead_somewhere() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let (mut broken, mut count) = (Vec::new(), 0);
    for file in documents(root) {
        let text = fs::read_to_string(&file).unwrap();
        for link in links(&text) {
            count += 1;
            if let Err(why) = follow(&file, &text, &link) {
                broken.push(format!(
                    "{}: ({link}) {why}",
                    file.strip_prefix(root).unwrap().display()
                ));
            }
        }
    }
    assert!(broken.is_empty(), "broken links:\n{}", broken.join("\n"));
    assert!(count > 30, "only {count} links were found");
}

#[test]
fn every_document_is_a_chapter_of_the_book() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let chapters = links(&fs::read_to_string(folder.join("SUMMARY.md")).unwrap());
    let documents = documents(&folder).into_iter();
    let names = documents.map(|file| file.file_name().unwrap().to_str().unwrap().to_owned());
    let missing: Vec<String> =
        names.filter(|name| name != "SUMMARY.md" && !chapters.contains(name)).collect();
    assert!(missing.is_empty(), "docs/SUMMARY.md does not name {missing:?}");
}

#[test]
fn links_and_headings_are_found_as_they_are_shown() {
    let text = "# A b\n\n```console\n# no heading, and [no](link.md)\n```\n[x](a.md#b-c) `[y](z)` ![i](p.svg)\n\
                <https://x> [w](https://w) [t](m:x)\n## `--set` & more, *so*\n## A b\n";
    assert_eq!(links(text), ["a.md#b-c", "p.svg"]);
    assert_eq!(anchors(text), ["a-b", "--set--more-so", "a-b-1"]);
}

fn documents(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if path.is_dir() && !path.is_symlink() && !LEFT_OUT.contains(&name) {
            found.extend(documents(&path));
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    found
}

/// Whether the link of a document leads to an existing file and heading.
fn follow(file: &Path, text: &str, link: &str) -> Result<(), String> {
    let (path, anchor) = link.split_once('#').map_or((link, None), |(path, it)| (path, Some(it)));
    let target = match path {
        "" => file.to_owned(),
        path => file.parent().unwrap().join(path),
    };
    if !target.exists() {
        return Err("leads nowhere".to_owned());
    }
    let Some(anchor) = anchor else { return Ok(()) };
    let other = fs::read_to_string(&target).map_err(|error| error.to_string())?;
    let there = if path.is_empty() { text } else { &other };
    let is_there = anchors(there).iter().any(|it| it == anchor);
    if is_there { Ok(()) } else { Err(format!("there is no heading `{anchor}`")) }
}

/// Returns the text without fenced code blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_fenced = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        !is_fenced && !is_fence
    })
}

/// Returns the targets of links that are not URLs.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in prose(text) {
        // Every second part is code.
        for part in line.split('`').step_by(2) {
            let targets = part.split("](").skip(1).filter_map(|rest| rest.split(')').next());
            found.extend(targets.filter(|it| !it.contains(':')).map(str::to_owned));
        }
    }
    found
}

/// Returns the anchors of headings, as GitHub derives them.
fn anchors(text: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for line in prose(text).filter(|line| line.starts_with('#')) {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter(|c| c.is_alphanumeric() || " -_".contains(*c));
        let plain: String = kept.map(|c| if c == ' ' { '-' } else { c }).collect();
        let numbered = (1..).map(|number| format!("{plain}-{number}"));
        let free = std::iter::once(plain.clone()).chain(numbered).find(|it| !found.contains(it));
        found.extend(free);
    }
    found
}
