//! Which bytes an element consists of, in order.

/// The bytes of one element.
#[derive(Clone)]
pub(super) enum Node {
    /// One run: offset and length.
    Run(i64, usize),
    /// Several runs.
    Blocks(Box<[(i64, usize)]>),
    /// Something repeated: how often, the distance in bytes, and what.
    Loop(usize, i64, Box<Node>),
}

impl Node {
    pub(super) fn size(&self) -> usize {
        match self {
            Node::Run(_, len) => *len,
            Node::Blocks(blocks) => blocks.iter().map(|b| b.1).sum(),
            Node::Loop(count, _, body) => count * body.size(),
        }
    }

    pub(super) fn repeat(body: &Node, count: usize, stride: i64) -> Node {
        match body {
            Node::Run(offset, len) if *len as i64 == stride => Node::Run(*offset, len * count),
            _ => Node::Loop(count, stride, Box::new(body.clone())),
        }
    }

    fn walk(&self, at: i64, mut skip: usize, mut len: usize, visit: &mut impl FnMut(i64, usize)) {
        match self {
            Node::Run(offset, _) => visit(at + offset + skip as i64, len),
            Node::Blocks(blocks) => {
                for &(offset, block) in blocks.iter() {
                    if skip >= block {
                        skip -= block;
                        continue;
                    }
                    let part = len.min(block - skip);
                    if part == 0 {
                        return;
                    }
                    visit(at + offset + skip as i64, part);
                    (skip, len) = (0, len - part);
                }
            }
            Node::Loop(count, stride, body) => {
                walk_loop(body, *count, *stride, at, skip, len, visit);
            }
        }
    }
}

/// Visits bytes `skip` to `skip + len` of `count` repetitions of `body`.
pub(super) fn walk_loop(
    body: &Node,
    count: usize,
    stride: i64,
    at: i64,
    skip: usize,
    mut len: usize,
    visit: &mut impl FnMut(i64, usize),
) {
    let size = body.size();
    if size == 0 {
        return;
    }
    let (first, mut skip) = (skip / size, skip % size);
    for index in first..count {
        let part = len.min(size - skip);
        if part == 0 {
            return;
        }
        body.walk(at + stride * index as i64, skip, part, &mut *visit);
        (skip, len) = (0, len - part);
    }
}
