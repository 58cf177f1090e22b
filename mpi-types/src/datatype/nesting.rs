//! Datatypes that are made of others, of others, and so on: what goes through all levels keeps what
//! is still to be done in a list, because a program may nest more types than the stack has room for.

use std::sync::Arc;

use super::contents::Constructor;
use super::layout::SHALLOW;
use super::{Datatype, Inner, Predefined, Program, Repr, Signature};

impl Inner {
    /// Compiles the type, and before it those that it is made of.
    #[cold]
    pub(super) fn compile(&self) -> &Program {
        let known = |inner: &Inner| inner.program.get().is_some();
        self.after_parts(known, |inner| {
            inner.program.get_or_init(|| inner.compile_one());
        });
        // There by now.
        self.program.get_or_init(|| self.compile_one())
    }

    /// Makes the type's signature, and before it those of the types that it is made of.
    #[cold]
    pub(super) fn make_signature(&self) -> &Arc<Signature> {
        let known = |inner: &Inner| inner.signature.get().is_some();
        self.after_parts(known, |inner| {
            inner.signature.get_or_init(|| inner.signature_of_parts());
        });
        // There by now.
        self.signature.get_or_init(|| self.signature_of_parts())
    }

    /// Finds out something of the type, and before it of those that it is made of, of which it is not known.
    fn after_parts(&self, is_known: impl Fn(&Inner) -> bool, find_out: impl Fn(&Inner)) {
        // Types whose parts are looked at, and how many of these are done.
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
        // What a type was compiled to and its signature refer to those of its parts, which therefore
        // must go later, in this loop.
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

/// Takes the datatypes that a type was made of out of it.
fn parts_of(inner: &mut Inner) -> Vec<Datatype> {
    let none = Constructor::Named(Predefined::Byte);
    std::mem::replace(&mut inner.constructor, none).into_datatypes()
}
