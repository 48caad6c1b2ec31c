//! The graph of a job as a picture, from sources on the left to sinks on the right. A table below it has the same data
//! as text.

use std::fmt::Write as _;

use maud::{Markup, html};

use crate::job::{Job, Vertex};
use crate::layers::{Item, layers};
use crate::row::Tone;

const BOX_WIDTH: usize = 208;
const BOX_HEIGHT: usize = 66;
/// Gap between two layers.
const GAP_WIDTH: usize = 44;
/// Gap between two items of a layer.
const GAP_HEIGHT: usize = 14;
/// Height of an edge that passes a layer.
const PASSING_HEIGHT: usize = 10;
/// Margin around everything, so that no line is cut off.
const MARGIN: usize = 2;
/// Space left of the texts in a box.
const INDENT: usize = 12;
/// Maximum length of a name, in characters.
const LETTERS_MAX: usize = 23;

/// Position of an item: its left edge, and its vertical middle.
#[derive(Clone, Copy, Debug)]
struct Place {
    left: usize,
    middle: usize,
}

/// Renders the graph, unless it is empty.
pub(super) fn of(job: &Job) -> Markup {
    let layers = layers(job.vertices.len(), &job.edges);
    let height_of = |item: &Item| match item {
        Item::Vertex(_) => BOX_HEIGHT,
        Item::Passing(_) => PASSING_HEIGHT,
    };
    let height_of_layer = |layer: &Vec<Item>| {
        layer.iter().map(height_of).sum::<usize>() + layer.len().saturating_sub(1) * GAP_HEIGHT
    };
    let most = layers.iter().map(height_of_layer).max().unwrap_or_default();
    let mut vertices: Vec<Option<Place>> = vec![None; job.vertices.len()];
    let mut passing: Vec<Vec<Place>> = vec![Vec::new(); job.edges.len()];
    for (index, layer) in layers.iter().enumerate() {
        let left = MARGIN + index * (BOX_WIDTH + GAP_WIDTH);
        let mut top = MARGIN + (most - height_of_layer(layer)) / 2;
        for item in layer {
            let place = Place { left, middle: top + height_of(item) / 2 };
            match item {
                Item::Vertex(vertex) => {
                    if let Some(it) = vertices.get_mut(*vertex) {
                        *it = Some(place);
                    }
                }
                Item::Passing(edge) => {
                    passing.get_mut(*edge).into_iter().for_each(|it| it.push(place));
                }
            }
            top += height_of(item) + GAP_HEIGHT;
        }
    }
    let place_of = |vertex: usize| vertices.get(vertex).copied().flatten();
    let lines = job.edges.iter().zip(&passing).filter_map(|((from, to), passing)| {
        let (from, to) = (place_of(*from)?, place_of(*to)?);
        (from.left < to.left).then(|| line(from, passing, to))
    });
    let columns = layers.len();
    let width = columns * BOX_WIDTH + columns.saturating_sub(1) * GAP_WIDTH + 2 * MARGIN;
    let height = most + 2 * MARGIN;
    html! {
        svg width=(width) height=(height) viewBox={ "0 0 " (width) " " (height) } role="img" aria-labelledby="graph-title graph-text" {
            title #graph-title { "Graph of the job" }
            desc #graph-text { (job.vertices.len()) " vertices in " (columns) " layers. The table lists every vertex." }
            @for line in lines { path.edge d=(line) {} }
            @for (vertex, place) in job.vertices.iter().zip(&vertices) {
                @if let Some(place) = place { (vertex_at(vertex, *place)) }
            }
        }
    }
}

/// Returns a line from one box to another, with an arrowhead.
fn line(from: Place, passing: &[Place], to: Place) -> String {
    let (mut right, mut height) = (from.left + BOX_WIDTH, from.middle);
    let mut line = format!("M{right} {height}");
    let mut curve = |left: usize, middle: usize| {
        let half = left.saturating_sub(right) / 2;
        let (out, into) = (right + half, left - half);
        // Writing to a string cannot fail.
        let _written = write!(line, "C{out} {height} {into} {middle} {left} {middle}");
        (right, height) = (left, middle);
    };
    for Place { left, middle } in passing {
        curve(*left, *middle);
        curve(left + BOX_WIDTH, *middle);
    }
    curve(to.left, to.middle);
    let Place { left, middle } = to;
    format!("{line}M{} {}L{left} {middle}L{} {}", left - 6, middle - 4, left - 6, middle + 4)
}

fn vertex_at(vertex: &Vertex, Place { left, middle }: Place) -> Markup {
    let top = middle - BOX_HEIGHT / 2;
    let text = |line: usize| top + 4 + 17 * line;
    html! {
        g class={ "vertex " (vertex.tone()) } {
            title { (vertex.name) }
            rect.box x=(left) y=(top) width=(BOX_WIDTH) height=(BOX_HEIGHT) rx="6" {}
            rect.strip x=(left) y=(top + 6) width="4" height=(BOX_HEIGHT - 12) {}
            text.title x=(left + INDENT) y=(text(1)) { (shortened(&vertex.name)) }
            (mark(vertex.tone(), left + BOX_WIDTH - 14, text(1) - 4))
            text x=(left + INDENT) y=(text(2)) { (spent(vertex)) }
            text x=(left + INDENT) y=(text(3)) { (vertex.running) "/" (vertex.parallelism) " tasks" (flow(vertex)) }
        }
    }
}

/// Renders a shape for each tone, the same as before words.
fn mark(tone: Tone, x: usize, y: usize) -> Markup {
    html! {
        @match tone {
            Tone::Bad => path.mark d={ "M" (x) " " (y - 5) "l5 5l-5 5l-5 -5z" } {},
            Tone::Moving => {
                circle.ring cx=(x) cy=(y) r="4" {}
                path.mark d={ "M" (x) " " (y - 4) "a4 4 0 0 0 0 8z" } {}
            },
            Tone::Good => circle.mark cx=(x) cy=(y) r="4" {},
            Tone::Quiet => circle.ring cx=(x) cy=(y) r="4" {},
            Tone::Unknown => rect.ring x=(x - 4) y=(y - 4) width="8" height="8" {},
        }
    }
}

/// Returns what the vertex spends its time on, or its state if it is not running.
fn spent(vertex: &Vertex) -> String {
    let part = |name: &str, part: Option<u8>| part.map(|part| format!("{name} {part}%"));
    let parts = [part("busy", vertex.busy), part("backpressure", vertex.backpressure)];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() || vertex.status != "RUNNING" {
        return vertex.word().to_owned();
    }
    parts.join(" · ")
}

fn flow(vertex: &Vertex) -> String {
    match (&vertex.records_in, &vertex.records_out) {
        (Some(of), Some(out)) => format!(" · {of} → {out}/s"),
        (Some(of), None) => format!(" · in {of}/s"),
        (None, Some(out)) => format!(" · out {out}/s"),
        (None, None) => String::new(),
    }
}

fn shortened(name: &str) -> String {
    match name.char_indices().nth(LETTERS_MAX) {
        Some((end, _)) => format!("{}…", name[..end].trim_end()),
        None => name.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn vertex(name: &str) -> Vertex {
        Vertex { name: name.to_owned(), status: "RUNNING".to_owned(), ..Vertex::default() }
    }

    #[test]
    fn a_vertex_is_a_box_with_its_figures_and_a_shape_for_how_it_is() {
        let busy = Vertex {
            parallelism: 4,
            running: 3,
            busy: Some(95),
            backpressure: Some(2),
            records_in: Some("1.2k".to_owned()),
            records_out: Some("60".to_owned()),
            ..vertex("Source: <orders> of all shops in the world")
        };
        let job =
            Job { vertices: vec![busy, vertex("Sink")], edges: vec![(0, 1)], ..Job::default() };
        let picture = of(&job).into_string();
        for told in [
            "<g class=\"vertex bad\"><title>Source: &lt;orders&gt; of all shops in the world</title>",
            ">Source: &lt;orders&gt; of all…</text>",
            ">busy 95% · backpressure 2%</text>",
            ">3/4 tasks · 1.2k → 60/s</text>",
            "<path class=\"mark\" d=\"M196 14l5 5l-5 5l-5 -5z\">",
            "<g class=\"vertex unknown\"><title>Sink</title>",
            ">not measured</text>",
            "<path class=\"edge\" d=\"M210 35C232 35 232 35 254 35M248 31L254 35L248 39\">",
        ] {
            assert!(picture.contains(told), "{told}: {picture}");
        }
    }

    #[test]
    fn nothing_is_drawn_twice_and_nothing_outside() {
        let vertices = (0..60).map(|it| vertex(&format!("v{it}"))).collect::<Vec<_>>();
        let edges = (0..60).flat_map(|to| (0..to).map(move |from| (from, to))).collect();
        let picture = of(&Job { vertices, edges, ..Job::default() }).into_string();
        assert_eq!(picture.matches("class=\"vertex unknown\"").count(), 60);
        assert!(!picture.contains("\"-") && !picture.contains("M-"), "{}", picture.len());
        assert!(of(&Job::default()).into_string().contains("0 vertices"));
    }
}
