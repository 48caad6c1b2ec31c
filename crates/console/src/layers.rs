//! Layout of a graph: vertices in layers, from those without inputs to those without readers.
//!
//! Jobs are small, mostly a line with a few branches. Layers follow from the longest paths, and the order within a
//! layer follows the neighbours, in a few sweeps from both sides. An edge that passes a layer takes a place in it, so
//! that it leads around the vertices there.

use std::collections::VecDeque;

/// Number of sweeps that order the layers by their neighbours.
const SWEEPS: usize = 6;
/// Maximum number of places for edges that pass layers. Further edges are drawn straight.
const PASSED_MAX: usize = 600;

/// What takes a place in a layer.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Item {
    Vertex(usize),
    /// An edge that passes the layer.
    Passing(usize),
}

/// Layers in order, each from top to bottom.
pub type Layers = Vec<Vec<Item>>;

/// Arranges vertices in layers. Edges connect two vertices by number.
pub fn layers(count: usize, edges: &[(usize, usize)]) -> Layers {
    let layer_of = longest_paths(count, edges);
    let most = layer_of.iter().copied().max().map_or(0, |most| most + 1);
    let mut layers: Layers = vec![Vec::new(); most];
    let mut place = |layer: usize, item: Item| {
        if let Some(layer) = layers.get_mut(layer) {
            layer.push(item);
        }
    };
    for (vertex, layer) in layer_of.iter().enumerate() {
        place(*layer, Item::Vertex(vertex));
    }
    // Each piece leads from one layer to the next.
    let mut pieces: Vec<(Item, Item)> = Vec::new();
    let mut passed = 0;
    for (index, (from, to)) in edges.iter().enumerate() {
        let (Some(first), Some(last)) = (layer_of.get(*from), layer_of.get(*to)) else { continue };
        let between = last.saturating_sub(first + 1);
        if last <= first || passed + between > PASSED_MAX {
            continue;
        }
        passed += between;
        let mut before = Item::Vertex(*from);
        for layer in first + 1..*last {
            place(layer, Item::Passing(index));
            // The pieces of one edge differ in their layers.
            pieces.push((before, Item::Passing(index)));
            before = Item::Passing(index);
        }
        pieces.push((before, Item::Vertex(*to)));
    }
    for sweep in 0..SWEEPS {
        let is_forward = sweep % 2 == 0;
        for step in 1..layers.len() {
            let (fixed, moved) = if is_forward {
                (step - 1, step)
            } else {
                (layers.len() - step, layers.len() - step - 1)
            };
            follow(&mut layers, fixed, moved, &pieces, is_forward);
        }
    }
    layers
}

/// Returns the layer of each vertex, which comes after all that it reads from. Vertices in a cycle have no such layer:
/// they come after those of their inputs that have one.
fn longest_paths(count: usize, edges: &[(usize, usize)]) -> Vec<usize> {
    let mut unread = vec![0_usize; count];
    let mut readers = vec![Vec::new(); count];
    let is_edge = |(from, to): &&(usize, usize)| from != to && *from < count && *to < count;
    for (from, to) in edges.iter().filter(is_edge) {
        unread[*to] += 1;
        readers[*from].push(*to);
    }
    let mut layer_of = vec![0_usize; count];
    let mut ready: VecDeque<usize> = (0..count).filter(|it| unread[*it] == 0).collect();
    while let Some(vertex) = ready.pop_front() {
        for reader in &readers[vertex] {
            layer_of[*reader] = layer_of[*reader].max(layer_of[vertex] + 1);
            unread[*reader] -= 1;
            if unread[*reader] == 0 {
                ready.push_back(*reader);
            }
        }
    }
    layer_of
}

/// Orders one layer by the positions of its neighbours in another.
fn follow(
    layers: &mut Layers,
    fixed: usize,
    moved: usize,
    pieces: &[(Item, Item)],
    is_forward: bool,
) {
    let (Some(fixed), Some(own)) = (layers.get(fixed), layers.get(moved)) else { return };
    let place_of = |item: Item| fixed.iter().position(|it| *it == item);
    // Average position of the neighbours, in thousandths. Without neighbours, an item keeps its position approximately.
    let wish = |(index, item): (usize, &Item)| {
        let neighbours = pieces.iter().filter_map(|(from, to)| {
            let (own, other) = if is_forward { (to, from) } else { (from, to) };
            (own == item).then(|| place_of(*other)).flatten()
        });
        let (sum, count): (usize, usize) =
            neighbours.fold((0, 0), |(sum, count), place| (sum + place * 1_000, count + 1));
        (sum.checked_div(count).unwrap_or(index * 1_000), *item)
    };
    let mut wishes: Vec<(usize, Item)> = own.iter().enumerate().map(wish).collect();
    wishes.sort_by_key(|(wish, _)| *wish);
    if let Some(layer) = layers.get_mut(moved) {
        *layer = wishes.into_iter().map(|(_, item)| item).collect();
    }
}

#[cfg(test)]
mod tests {
    use super::Item::{Passing, Vertex};
    use super::*;

    #[test]
    fn a_line_is_a_layer_each() {
        let found = layers(3, &[(0, 1), (1, 2)]);
        assert_eq!(found, [[Vertex(0)], [Vertex(1)], [Vertex(2)]]);
        assert_eq!(layers(0, &[]), Layers::new());
        assert_eq!(layers(2, &[]), [[Vertex(0), Vertex(1)]]);
    }

    #[test]
    fn an_edge_that_passes_a_layer_has_a_place_in_it() {
        let found = layers(4, &[(0, 1), (1, 2), (0, 2), (2, 3)]);
        assert_eq!(found[1], [Vertex(1), Passing(2)]);
        assert_eq!(found.len(), 4);
    }

    #[test]
    fn branches_do_not_cross_where_they_need_not() {
        // Sources 0 and 1 lead to 3 and 2.
        let found = layers(4, &[(0, 3), (1, 2)]);
        assert_eq!(found, [[Vertex(0), Vertex(1)], [Vertex(3), Vertex(2)]]);
    }

    /// No job has a cycle, but a response of a JobManager must not be able to cause an endless loop.
    #[test]
    fn a_circle_and_edges_to_nowhere_do_no_harm() {
        let found = layers(3, &[(0, 1), (1, 2), (2, 1), (7, 8), (0, 0)]);
        assert_eq!(found.iter().map(Vec::len).sum::<usize>(), 3);
        assert!(found[0].contains(&Vertex(0)), "{found:?}");
    }

    #[test]
    fn what_passes_is_bounded() {
        let line = (1..60).map(|to| (to - 1, to));
        let all = (0..60).flat_map(|from| (from + 2..60).map(move |to| (from, to)));
        let edges: Vec<_> = line.chain(all).collect();
        let found = layers(60, &edges);
        let items = found.iter().map(Vec::len).sum::<usize>();
        assert!(found.len() == 60 && items <= 60 + PASSED_MAX, "{items}");
    }
}
