//! The compiled layout of a datatype: the bytes of one element, in order, as a tree of few nodes.
//!
//! Compilation merges adjacent runs and recognises equal blocks at a constant stride, whichever
//! constructors they come from. Every node knows its size, so that a position in the packed data is
//! found by one division or one binary search per level.

use std::sync::Arc;

/// Nodes of up to this height are walked by recursion, higher ones with a heap-allocated stack.
pub(super) const SHALLOW: u32 = 64;

/// Bytes of a buffer in the order in which they are packed; offsets are in bytes.
///
/// Offsets wrap: an intermediate one may lie outside of the address space where the data itself
/// does not.
pub(super) enum Node {
    /// No bytes.
    Empty,
    /// One run.
    Run { at: i64, len: usize },
    /// `count` runs of `block` bytes, `stride` apart.
    Vector {
        at: i64,
        block: usize,
        stride: i64,
        count: usize,
    },
    /// Runs of `block` bytes at any offsets.
    Same { block: usize, at: Box<[i64]> },
    /// Runs of any lengths at any offsets; the last mark holds the size. `words` lists the same
    /// bytes as words of one size, if these are few enough to be copied faster than runs of varying
    /// lengths.
    Blocks {
        marks: Box<[Mark<()>]>,
        words: Option<(usize, Box<[i64]>)>,
    },
    /// `count` times `body`, `stride` apart.
    Loop {
        at: i64,
        stride: i64,
        count: usize,
        body: Arc<Node>,
    },
    /// Groups of `body` at any offsets, `stride` apart within a group; the last mark holds the
    /// size.
    Groups {
        stride: i64,
        body: Arc<Node>,
        marks: Box<[Mark<()>]>,
    },
    /// Different nodes in sequence; the last mark holds the size and has no node.
    Parts {
        /// Levels of parts and loops, this one included.
        height: u32,
        marks: Box<[Mark<Option<Arc<Node>>>]>,
    },
}

/// The position of a part in the buffer and in the packed data.
pub(super) struct Mark<T> {
    pub at: i64,
    pub start: usize,
    pub node: T,
}

/// Largest number of runs that a part is expanded into.
const INLINE: usize = 16;

impl Node {
    /// Bytes of data.
    pub fn size(&self) -> usize {
        match self {
            Node::Empty => 0,
            Node::Run { len, .. } => *len,
            Node::Vector { block, count, .. } => block * count,
            Node::Same { block, at } => block * at.len(),
            Node::Blocks { marks, .. } => last(marks),
            Node::Loop { count, body, .. } => count * body.size(),
            Node::Groups { marks, .. } => last(marks),
            Node::Parts { marks, .. } => last(marks),
        }
    }

    /// Returns the levels of parts and loops.
    pub fn height(&self) -> u32 {
        match self {
            Node::Parts { height, .. } => *height,
            Node::Loop { body, .. } | Node::Groups { body, .. } => body.height().saturating_add(1),
            _ => 0,
        }
    }

    /// Returns the number of runs, if at most [`INLINE`].
    fn few(&self) -> Option<usize> {
        let runs = match self {
            Node::Empty => 0,
            Node::Run { .. } => 1,
            Node::Vector { count, .. } => *count,
            Node::Same { at, .. } => at.len(),
            Node::Blocks { marks, .. } => marks.len() - 1,
            Node::Loop { .. } | Node::Groups { .. } | Node::Parts { .. } => return None,
        };
        (runs <= INLINE).then_some(runs)
    }

    /// Returns the node moved by `by` bytes.
    fn shifted(self: &Arc<Node>, by: i64) -> Arc<Node> {
        if by == 0 {
            return self.clone();
        }
        Arc::new(match &**self {
            Node::Empty => Node::Empty,
            &Node::Run { at, len } => Node::Run {
                at: at.wrapping_add(by),
                len,
            },
            &Node::Vector {
                at,
                block,
                stride,
                count,
            } => Node::Vector {
                at: at.wrapping_add(by),
                block,
                stride,
                count,
            },
            Node::Loop {
                at,
                stride,
                count,
                body,
            } => Node::Loop {
                at: at.wrapping_add(by),
                stride: *stride,
                count: *count,
                body: body.clone(),
            },
            _ => Node::Loop {
                at: by,
                stride: 0,
                count: 1,
                body: self.clone(),
            },
        })
    }

    /// Returns `count` repetitions of `body`, `stride` bytes apart.
    pub fn repeat(body: &Arc<Node>, count: usize, stride: i64) -> Arc<Node> {
        if count == 0 || body.size() == 0 {
            return Arc::new(Node::Empty);
        }
        if count == 1 {
            return body.clone();
        }
        let joins = |inner: i64, n: usize| inner.wrapping_mul(n as i64) == stride;
        Arc::new(match &**body {
            &Node::Run { at, len } if len as i64 == stride => Node::Run {
                at,
                len: len * count,
            },
            &Node::Run { at, len } => Node::Vector {
                at,
                block: len,
                stride,
                count,
            },
            &Node::Vector {
                at,
                block,
                stride: inner,
                count: n,
            } if joins(inner, n) => Node::Vector {
                at,
                block,
                stride: inner,
                count: n * count,
            },
            Node::Loop {
                at,
                stride: inner,
                count: n,
                body,
            } if joins(*inner, *n) => Node::Loop {
                at: *at,
                stride: *inner,
                count: n * count,
                body: body.clone(),
            },
            small if (small.few()).is_some_and(|runs| runs.saturating_mul(count) <= INLINE) => {
                let mut builder = Builder::default();
                for index in 0..count {
                    builder.runs_of(body, stride.wrapping_mul(index as i64));
                }
                return builder.finish();
            }
            _ => Node::Loop {
                at: 0,
                stride,
                count,
                body: body.clone(),
            },
        })
    }

    /// Returns groups of `body`, given as (offset, number), `stride` bytes apart within a group.
    pub fn groups(
        body: &Arc<Node>,
        stride: i64,
        groups: impl Iterator<Item = (i64, usize)> + Clone,
    ) -> Arc<Node> {
        if body.size() == 0 {
            return Arc::new(Node::Empty);
        }
        if let Node::Run { at, len } = **body
            && len as i64 == stride
        {
            return Arc::new(dense(
                groups.map(|(by, count)| (by.wrapping_add(at), len * count)),
            ));
        }
        let total = || {
            let counts = groups.clone().map(|g| g.1);
            counts.fold(0usize, usize::saturating_add)
        };
        if (body.few()).is_some_and(|n| n.saturating_mul(total()) <= INLINE) {
            let mut builder = Builder::default();
            for (at, count) in groups {
                builder.push(at, body, count, stride);
            }
            return builder.finish();
        }
        let mut merged: Vec<(i64, usize)> = Vec::new();
        for (at, count) in groups.filter(|g| g.1 > 0) {
            match merged.last_mut() {
                Some(last) if last.0.wrapping_add(stride.wrapping_mul(last.1 as i64)) == at => {
                    last.1 += count;
                }
                _ => merged.push((at, count)),
            }
        }
        match merged[..] {
            [] => Arc::new(Node::Empty),
            [(at, count)] => Node::repeat(body, count, stride).shifted(at),
            [(first, count), (second, _), ..] => {
                let step = second.wrapping_sub(first);
                let regular = merged.iter().all(|g| g.1 == count)
                    && (merged.windows(2)).all(|pair| pair[1].0.wrapping_sub(pair[0].0) == step);
                if regular {
                    let row = Node::repeat(body, count, stride);
                    return Node::repeat(&row, merged.len(), step).shifted(first);
                }
                let size = body.size();
                let marks = marks(merged.into_iter().map(|(at, n)| (at, n * size, ())), ());
                Arc::new(Node::Groups {
                    stride,
                    body: body.clone(),
                    marks,
                })
            }
        }
    }
}

fn last<T>(marks: &[Mark<T>]) -> usize {
    marks.last().map_or(0, |m| m.start)
}

/// Returns the marks of parts (offset, size, node), with the last one that holds the total size.
fn marks<T>(parts: impl Iterator<Item = (i64, usize, T)>, end: T) -> Box<[Mark<T>]> {
    let mut start = 0;
    let mut list: Vec<Mark<T>> = Vec::with_capacity(parts.size_hint().0 + 1);
    list.extend(parts.map(|(at, size, node)| {
        let mark = Mark { at, start, node };
        start += size;
        mark
    }));
    list.push(Mark {
        at: 0,
        start,
        node: end,
    });
    list.into()
}

/// Builds a node from parts in order.
#[derive(Default)]
pub(super) struct Builder {
    /// Finished parts, which include their offsets.
    parts: Vec<Arc<Node>>,
    /// Runs after the last of `parts`.
    runs: Vec<(i64, usize)>,
}

impl Builder {
    /// Adds `count` times `node`, `stride` bytes apart, the first at `at`.
    pub fn push(&mut self, at: i64, node: &Arc<Node>, count: usize, stride: i64) {
        if count == 0 || node.size() == 0 {
            return;
        }
        match **node {
            Node::Run { at: offset, len } if count == 1 || len as i64 == stride => {
                self.run(at.wrapping_add(offset), len * count);
            }
            _ if (node.few()).is_some_and(|runs| runs.saturating_mul(count) <= INLINE) => {
                for index in 0..count {
                    self.runs_of(node, at.wrapping_add(stride.wrapping_mul(index as i64)));
                }
            }
            _ => {
                self.close_runs();
                self.parts
                    .push(Node::repeat(node, count, stride).shifted(at));
            }
        }
    }

    fn run(&mut self, at: i64, len: usize) {
        match self.runs.last_mut() {
            Some(last) if last.0.wrapping_add(last.1 as i64) == at => last.1 += len,
            _ => self.runs.push((at, len)),
        }
    }

    /// Adds the runs of a node that has few.
    fn runs_of(&mut self, node: &Node, at: i64) {
        match node {
            &Node::Run { at: offset, len } => self.run(at.wrapping_add(offset), len),
            &Node::Vector {
                at: offset,
                block,
                stride,
                count,
            } => {
                for index in 0..count as i64 {
                    let here = offset.wrapping_add(stride.wrapping_mul(index));
                    self.run(at.wrapping_add(here), block);
                }
            }
            Node::Same { block, at: list } => {
                for offset in list.iter() {
                    self.run(at.wrapping_add(*offset), *block);
                }
            }
            Node::Blocks { marks, .. } => {
                for pair in marks.windows(2) {
                    self.run(at.wrapping_add(pair[0].at), pair[1].start - pair[0].start);
                }
            }
            Node::Empty | Node::Loop { .. } | Node::Groups { .. } | Node::Parts { .. } => {
                debug_assert!(
                    matches!(node, Node::Empty),
                    "internal error: a node without few runs was expanded"
                );
            }
        }
    }

    fn close_runs(&mut self) {
        if !self.runs.is_empty() {
            let node = of_runs(&std::mem::take(&mut self.runs));
            self.parts.push(Arc::new(node));
        }
    }

    pub fn finish(mut self) -> Arc<Node> {
        self.close_runs();
        match self.parts.len() {
            0 => Arc::new(Node::Empty),
            1 => self.parts.remove(0),
            _ => {
                let tallest = self.parts.iter().map(|n| n.height()).max();
                let parts = self.parts.into_iter().map(|n| (0, n.size(), Some(n)));
                Arc::new(Node::Parts {
                    height: tallest.unwrap_or(0).saturating_add(1),
                    marks: marks(parts, None),
                })
            }
        }
    }
}

/// Splits runs into words of one size, if that gives at most `WORDS` words per run on average: a
/// run whose length the branch predictor misses costs as much.
fn words_of(runs: &[(i64, usize)]) -> Option<(usize, Box<[i64]>)> {
    const WORDS: usize = 4;
    let all = runs.iter().fold(0, |bits, run| bits | run.1);
    // The greatest power of two, of 32 at most, that divides all lengths.
    let word = 1 << all.trailing_zeros().min(5);
    let number = runs.iter().fold(0, |bytes, run| bytes + run.1) / word;
    if runs.len() <= INLINE || number > WORDS.saturating_mul(runs.len()) {
        return None;
    }
    let mut places = Vec::with_capacity(number);
    for &(at, len) in runs {
        places.extend((0..len / word).map(|index| at.wrapping_add((index * word) as i64)));
    }
    Some((word, places.into()))
}

/// Returns the shortest node for runs, which may be adjacent or empty.
fn dense(all: impl Iterator<Item = (i64, usize)>) -> Node {
    let mut runs: Vec<(i64, usize)> = Vec::with_capacity(all.size_hint().0);
    // The run that the next one may extend.
    let mut last = (0_i64, 0);
    for (at, len) in all {
        if last.1 > 0 && last.0.wrapping_add(last.1 as i64) == at {
            last.1 += len;
        } else if len > 0 {
            if last.1 > 0 {
                runs.push(last);
            }
            last = (at, len);
        }
    }
    if last.1 == 0 {
        return Node::Empty;
    }
    runs.push(last);
    of_runs(&runs)
}

/// Returns the shortest node for a nonempty list of runs.
fn of_runs(runs: &[(i64, usize)]) -> Node {
    let (at, len) = runs[0];
    if runs.len() == 1 {
        return Node::Run { at, len };
    }
    if runs.iter().any(|r| r.1 != len) {
        return Node::Blocks {
            marks: marks(runs.iter().map(|&(at, len)| (at, len, ())), ()),
            words: words_of(runs),
        };
    }
    let stride = runs[1].0.wrapping_sub(at);
    if (runs.windows(2)).all(|pair| pair[1].0.wrapping_sub(pair[0].0) == stride) {
        return Node::Vector {
            at,
            block: len,
            stride,
            count: runs.len(),
        };
    }
    Node::Same {
        block: len,
        at: runs.iter().map(|r| r.0).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns `count` runs with gaps of 8 bytes, whose lengths cycle through `lengths`.
    fn runs(count: usize, lengths: &[usize]) -> Vec<(i64, usize)> {
        let mut at = 0;
        let next = |index: usize| {
            let len = lengths[index % lengths.len()];
            let run = (at, len);
            at += len as i64 + 8;
            run
        };
        (0..count).map(next).collect()
    }

    #[test]
    fn short_runs_of_changing_lengths_are_copied_by_words() {
        let (word, places) = words_of(&runs(20, &[8, 24])).unwrap();
        assert_eq!((word, places.len()), (8, 40));
        assert_eq!(&places[..6], [0, 16, 24, 32, 48, 64]);
        let (word, places) = words_of(&runs(20, &[12, 4])).unwrap();
        assert_eq!((word, places.len()), (4, 40));
        // Few runs, and long ones.
        assert!(words_of(&runs(INLINE, &[8, 24])).is_none());
        assert!(words_of(&runs(20, &[8, 80])).is_none());
    }
}
