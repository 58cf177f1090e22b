//! Traversal of nested datatypes with a stack on the heap: a program may nest more constructors
//! than the thread's stack has room for.

use std::sync::Arc;

use super::contents::Constructor;
use super::layout::SHALLOW;
use super::{Datatype, Inner, Predefined, Program, Repr, Signature};

impl Inner {
    /// Compiles the type after all types that it is constructed from.
    #[cold]
    pub(super) fn compile(&self) -> &Program {
        let known = |inner: &Inner| inner.program.get().is_some();
        self.after_parts(known, |inner| {
            inner.program.get_or_init(|| inner.compile_one());
        });
        // Done by `after_parts`; the closure runs only if another thread has not won.
        self.program.get_or_init(|| self.compile_one())
    }

    /// Computes the type's signature after those of all types that it is constructed from.
    #[cold]
    pub(super) fn make_signature(&self) -> &Arc<Signature> {
        let known = |inner: &Inner| inner.signature.get().is_some();
        self.after_parts(known, |inner| {
            inner.signature.get_or_init(|| inner.signature_of_parts());
        });
        // Done by `after_parts`; the closure runs only if another thread has not won.
        self.signature.get_or_init(|| self.signature_of_parts())
    }

    /// Runs `find_out` on each constituent type for which `is_known` is false, then on the type
    /// itself.
    fn after_parts(&self, is_known: impl Fn(&Inner) -> bool, find_out: impl Fn(&Inner)) {
        // Types in progress, and the number of their parts that are done.
        let mut open: Vec<(&Inner, usize)> = Vec::new();
        let mut now = (self, 0);
        loop {
            let (inner, done) = now;
            match inner.constructor.datatypes().get(done) {
                Some(part) => {
                    now.1 += 1;
                    let part = part.inner();
                    if !is_known(part) {
                        open.push(now);
                        now = (part, 0);
                    }
                }
                None => {
                    find_out(inner);
                    match open.pop() {
                        Some(next) => now = next,
                        None => return,
                    }
                }
            }
        }
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        if self.depth <= SHALLOW {
            return;
        }
        // The program and the signature of a type refer to those of its parts, which this loop
        // drops later.
        let mut left = parts_of(self);
        self.program.take();
        self.signature.take();
        while let Some(datatype) = left.pop() {
            if let Repr::Shared(shared) = datatype.0
                && let Some(mut last) = Arc::into_inner(shared)
            {
                left.append(&mut parts_of(&mut last));
            }
        }
    }
}

/// Takes the constituent datatypes out of a type.
fn parts_of(inner: &mut Inner) -> Vec<Datatype> {
    let none = Constructor::Named(Predefined::Byte);
    std::mem::replace(&mut inner.constructor, none)
        .datatypes()
        .to_vec()
}
