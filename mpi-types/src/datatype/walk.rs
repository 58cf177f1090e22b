//! Traversal of the bytes of elements in packed order.
//!
//! A walk starts and ends at any byte. It descends once to find the start, then passes whole
//! vectors and lists to the [`Sink`], which has the inner loops.

use std::sync::Arc;

use super::layout::{Mark, Node, SHALLOW};

/// Receives the bytes. Offsets count from the buffer's address. Each method returns whether to
/// continue.
pub(super) trait Sink {
    /// Whether to prefer many words of one size to fewer runs of different lengths.
    const WORDS: bool = false;

    /// Takes `len` bytes at `at`; `len` is not 0.
    fn run(&mut self, at: i64, len: usize) -> bool;

    /// Takes `count` runs of `block` bytes, `stride` apart.
    fn vector(&mut self, at: i64, block: usize, stride: i64, count: usize) -> bool {
        (0..count as i64).all(|i| self.run(at.wrapping_add(stride.wrapping_mul(i)), block))
    }

    /// Takes a run of `block` bytes at `at` plus each of `offsets`.
    fn same(&mut self, at: i64, block: usize, offsets: &[i64]) -> bool {
        (offsets.iter()).all(|&offset| self.run(at.wrapping_add(offset), block))
    }
}

/// Visits bytes `skip` to `skip + len` of the packed data of `count` elements, `extent` apart.
#[inline]
pub(super) fn elements<S: Sink>(
    node: &Node,
    extent: i64,
    skip: usize,
    len: usize,
    sink: &mut S,
) -> bool {
    match *node {
        _ if len == 0 => true,
        // One whole element needs no search for the start.
        _ if skip == 0 && len == node.size() => whole(node, 0, sink),
        Node::Run { at, len: run } if run as i64 == extent => {
            sink.run(at.wrapping_add(skip as i64), len)
        }
        Node::Run { at, len: block } => strided(at, block, extent, skip, len, sink),
        // The next element continues the same stride.
        Node::Vector {
            at,
            block,
            stride,
            count,
        } if stride.wrapping_mul(count as i64) == extent => {
            strided(at, block, stride, skip, len, sink)
        }
        _ => repeated(node, 0, extent, skip, len, sink),
    }
}

/// Visits part of a vector.
fn strided<S: Sink>(
    at: i64,
    block: usize,
    stride: i64,
    skip: usize,
    mut len: usize,
    sink: &mut S,
) -> bool {
    let place = |index: usize| at.wrapping_add(stride.wrapping_mul(index as i64));
    let (mut index, offset) = match skip {
        0 => (0, 0),
        skip => (skip / block, skip % block),
    };
    if offset > 0 {
        let part = len.min(block - offset);
        if !sink.run(place(index).wrapping_add(offset as i64), part) {
            return false;
        }
        len -= part;
        index += 1;
    }
    let (full, rest) = (len / block, len % block);
    if full > 0 && !sink.vector(place(index), block, stride, full) {
        return false;
    }
    rest == 0 || sink.run(place(index + full), rest)
}

/// Visits part of a loop.
fn repeated<S: Sink>(
    body: &Node,
    at: i64,
    stride: i64,
    skip: usize,
    mut len: usize,
    sink: &mut S,
) -> bool {
    let size = body.size();
    if size == 0 || len == 0 {
        return true;
    }
    let place = |index: usize| at.wrapping_add(stride.wrapping_mul(index as i64));
    let (mut index, offset) = match skip {
        0 => (0, 0),
        skip => (skip / size, skip % size),
    };
    if offset > 0 {
        let part = len.min(size - offset);
        if !partial(body, place(index), offset, part, sink) {
            return false;
        }
        len -= part;
        index += 1;
    }
    let (full, rest) = (len / size, len % size);
    if !every(body, at, stride, index..index + full, sink) {
        return false;
    }
    rest == 0 || partial(body, place(index + full), 0, rest, sink)
}

/// Visits all bytes of some repetitions of a loop.
fn every<S: Sink>(
    body: &Node,
    at: i64,
    stride: i64,
    range: std::ops::Range<usize>,
    sink: &mut S,
) -> bool {
    let mut places = range.map(|index| at.wrapping_add(stride.wrapping_mul(index as i64)));
    match body {
        &Node::Vector {
            at: first,
            block,
            stride,
            count,
        } => places.all(|at| sink.vector(at.wrapping_add(first), block, stride, count)),
        Node::Same { block, at: offsets } => places.all(|at| sink.same(at, *block, offsets)),
        Node::Blocks { marks, words } => match words {
            Some((word, offsets)) if S::WORDS => places.all(|at| sink.same(at, *word, offsets)),
            _ => places.all(|at| runs(marks, at, sink)),
        },
        _ => places.all(|at| whole(body, at, sink)),
    }
}

/// Visits all runs of a list.
#[inline]
fn runs<S: Sink>(marks: &[Mark<()>], at: i64, sink: &mut S) -> bool {
    (marks.windows(2)).all(|pair| {
        let len = pair[1].start - pair[0].start;
        sink.run(at.wrapping_add(pair[0].at), len)
    })
}

/// Visits all bytes of `node`.
fn whole<S: Sink>(node: &Node, at: i64, sink: &mut S) -> bool {
    match node {
        Node::Empty => true,
        &Node::Run { at: first, len } => sink.run(at.wrapping_add(first), len),
        &Node::Vector {
            at: first,
            block,
            stride,
            count,
        } => sink.vector(at.wrapping_add(first), block, stride, count),
        Node::Same { block, at: offsets } => sink.same(at, *block, offsets),
        Node::Blocks { marks, words } => match words {
            Some((word, offsets)) if S::WORDS => sink.same(at, *word, offsets),
            _ => runs(marks, at, sink),
        },
        &Node::Loop {
            at: first,
            stride,
            count,
            ref body,
        } => every(body, at.wrapping_add(first), stride, 0..count, sink),
        Node::Groups {
            stride,
            body,
            marks,
        } => {
            let size = body.size();
            (marks.windows(2)).all(|pair| {
                let count = (pair[1].start - pair[0].start) / size;
                every(body, at.wrapping_add(pair[0].at), *stride, 0..count, sink)
            })
        }
        Node::Parts { height, .. } if *height > SHALLOW => deep(node, at, 0, node.size(), sink),
        Node::Parts { marks, .. } => (marks.iter())
            .filter_map(|mark| mark.node.as_ref())
            .all(|node| whole(node, at, sink)),
    }
}

/// Visits bytes `skip` to `skip + len` of `node`; `len` is not 0.
fn partial<S: Sink>(node: &Node, at: i64, skip: usize, len: usize, sink: &mut S) -> bool {
    match node {
        Node::Empty => true,
        &Node::Run { at: first, .. } => {
            sink.run(at.wrapping_add(first).wrapping_add(skip as i64), len)
        }
        &Node::Vector {
            at: first,
            block,
            stride,
            ..
        } => strided(at.wrapping_add(first), block, stride, skip, len, sink),
        Node::Same { block, at: offsets } => scattered(*block, offsets, at, skip, len, sink),
        Node::Blocks { marks, words } => match words {
            Some((word, offsets)) if S::WORDS => scattered(*word, offsets, at, skip, len, sink),
            _ => listed(marks, skip, len, |index, offset, part, is_whole| {
                let _ = is_whole;
                let first = at.wrapping_add(marks[index].at);
                sink.run(first.wrapping_add(offset as i64), part)
            }),
        },
        &Node::Loop {
            at: first,
            stride,
            ref body,
            ..
        } => repeated(body, at.wrapping_add(first), stride, skip, len, sink),
        Node::Groups {
            stride,
            body,
            marks,
        } => listed(marks, skip, len, |index, offset, part, _| {
            let first = at.wrapping_add(marks[index].at);
            repeated(body, first, *stride, offset, part, sink)
        }),
        Node::Parts { height, .. } if *height > SHALLOW => deep(node, at, skip, len, sink),
        Node::Parts { marks, .. } => {
            listed(
                marks,
                skip,
                len,
                |index, offset, part, is_whole| match &marks[index].node {
                    Some(node) if is_whole => whole(node, at, sink),
                    Some(node) => partial(node, at, offset, part, sink),
                    None => true,
                },
            )
        }
    }
}

/// A parts node in traversal.
struct Open<'a> {
    marks: &'a [Mark<Option<Arc<Node>>>],
    next: usize,
    at: i64,
    /// The wanted range of the packed bytes of all parts.
    skip: usize,
    end: usize,
}

impl<'a> Open<'a> {
    /// Returns the next part in range: node, offset, and bytes to skip and to visit.
    fn advance(&mut self) -> Option<(&'a Node, i64, usize, usize)> {
        loop {
            let pair = self.marks.get(self.next..self.next + 2)?;
            if pair[0].start >= self.end {
                return None;
            }
            self.next += 1;
            let from = self.skip.max(pair[0].start);
            let to = self.end.min(pair[1].start);
            if let Some(node) = &pair[0].node
                && from < to
            {
                return Some((node, self.at, from - pair[0].start, to - from));
            }
        }
    }
}

/// Visits bytes `skip` to `skip + len` of parts too deeply nested for recursion, with a stack on
/// the heap. Other nodes at least double the size with each level, which bounds their height.
#[cold]
#[inline(never)]
fn deep<S: Sink>(node: &Node, at: i64, skip: usize, len: usize, sink: &mut S) -> bool {
    let mut open: Vec<Open<'_>> = Vec::new();
    let mut now = (node, at, skip, len);
    loop {
        let (node, at, skip, len) = now;
        match node {
            Node::Parts { height, marks } if *height > SHALLOW => open.push(Open {
                marks,
                next: marks.partition_point(|m| m.start <= skip) - 1,
                at,
                skip,
                end: skip + len,
            }),
            &Node::Loop {
                at: first,
                count: 1,
                ref body,
                ..
            } => {
                now = (body, at.wrapping_add(first), skip, len);
                continue;
            }
            _ if skip == 0 && len == node.size() => {
                if !whole(node, at, sink) {
                    return false;
                }
            }
            _ => {
                if !partial(node, at, skip, len, sink) {
                    return false;
                }
            }
        }
        now = loop {
            let Some(last) = open.last_mut() else {
                return true;
            };
            match last.advance() {
                Some(part) => break part,
                None => open.pop(),
            };
        };
    }
}

/// Visits part of a list of equal runs.
fn scattered<S: Sink>(
    block: usize,
    offsets: &[i64],
    at: i64,
    skip: usize,
    mut len: usize,
    sink: &mut S,
) -> bool {
    let (mut index, offset) = (skip / block, skip % block);
    if offset > 0 {
        let part = len.min(block - offset);
        let first = at.wrapping_add(offsets[index]);
        if !sink.run(first.wrapping_add(offset as i64), part) {
            return false;
        }
        len -= part;
        index += 1;
    }
    let (full, rest) = (len / block, len % block);
    if !sink.same(at, block, &offsets[index..index + full]) {
        return false;
    }
    rest == 0 || sink.run(at.wrapping_add(offsets[index + full]), rest)
}

/// Calls `visit` for each part of a list that bytes `skip` to `skip + len` lie in, with its index,
/// the offset and bytes within it, and whether these are all of it.
fn listed<T>(
    marks: &[Mark<T>],
    skip: usize,
    len: usize,
    mut visit: impl FnMut(usize, usize, usize, bool) -> bool,
) -> bool {
    let first = marks.partition_point(|m| m.start <= skip) - 1;
    let end = skip + len;
    for (index, pair) in marks.windows(2).enumerate().skip(first) {
        if pair[0].start >= end {
            break;
        }
        let from = skip.max(pair[0].start);
        let to = end.min(pair[1].start);
        let is_whole = to - from == pair[1].start - pair[0].start;
        if !visit(index, from - pair[0].start, to - from, is_whole) {
            return false;
        }
    }
    true
}
