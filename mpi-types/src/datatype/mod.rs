//! Datatypes (MPI-3.1 chapter 4).
//!
//! A [`Datatype`] describes which bytes of a buffer belong to a message and in which order. It is
//! immutable, cheap to clone and may be shared between threads.
//!
//! Size and bounds are computed when a type is made; its signature when first asked for. Its layout
//! is compiled once, at [`Datatype::commit`] or first use, to a short program of runs (contiguous
//! blocks), vectors, lists and loops, in which adjacent runs are merged.
//!
//! Only access to buffers is unsafe: the caller of [`Datatype::pack`] or [`Datatype::unpack`]
//! promises memory that the type's bytes lie in.

mod array;
mod blocks;
mod construct;
mod contents;
mod copy;
mod debugger;
mod external32;
mod fortran;
mod layout;
mod nesting;
mod packing;
pub mod predefined;
mod quad;
mod shape;
mod signature;
mod walk;

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, OnceLock};

use crate::{Class, Error, Result};
pub use blocks::{Blocks, Cursor};
pub use contents::{
    Combiner, Constructor, Contents, Distribution, Envelope, Marker, Numbers, Order,
};
pub use debugger::Specimen;
pub use fortran::TypeClass;
use layout::{Builder, Node};
#[cfg(all(test, target_arch = "x86_64"))]
pub(crate) use predefined::BINARY128;
pub(crate) use predefined::C_CHAR;
pub use predefined::{Group, Predefined, Representation};
use shape::Shape;
use signature::Signature;
pub use signature::SignatureDigest;

/// A datatype, predefined or derived.
///
/// Clones of a derived type count references; a clone of a predefined one writes to no shared
/// memory at all.
#[derive(Clone)]
pub struct Datatype(Repr);

#[derive(Clone)]
enum Repr {
    Static(&'static Inner),
    Shared(Arc<Inner>),
}

struct Inner {
    size: usize,
    shape: Shape,
    alignment: usize,
    element: Option<Predefined>,
    /// Computed when first asked for.
    signature: OnceLock<Arc<Signature>>,
    /// Nesting depth of constructors; 0 for predefined types.
    depth: u32,
    constructor: Constructor,
    /// Whether the constructor's arguments were large counts (MPI-4.0 section 5.1.13).
    large: bool,
    committed: AtomicBool,
    program: OnceLock<Program>,
}

/// The compiled layout of a type.
struct Program {
    /// The bytes of one element; of a single run made when first walked over.
    node: OnceLock<Arc<Node>>,
    /// Offset and length of one element's data, if it is a single run.
    run: Option<(i64, usize)>,
    /// Whether any number of elements forms one run.
    contiguous: bool,
}

impl Program {
    fn node(&self) -> &Arc<Node> {
        self.node.get_or_init(|| {
            // Only a single run is made late.
            let (at, len) = self.run.unwrap_or_default();
            Arc::new(match len {
                0 => Node::Empty,
                _ => Node::Run { at, len },
            })
        })
    }
}

/// A type under construction.
struct Draft {
    size: usize,
    shape: Shape,
    alignment: usize,
    element: Option<Predefined>,
    /// `None` if it follows from the constructor.
    signature: Option<Arc<Signature>>,
    depth: u32,
    constructor: Constructor,
    committed: bool,
}

static PREDEFINED: LazyLock<Box<[Inner]>> = LazyLock::new(|| {
    let table = Predefined::TABLE.iter();
    table
        .map(|&(p, ..)| Draft::alias(p, Constructor::Named(p)).finish())
        .collect()
});

static MARKERS: LazyLock<[Inner; 2]> = LazyLock::new(|| {
    [Marker::LowerBound, Marker::UpperBound].map(|marker| {
        let draft = Draft {
            size: 0,
            shape: Shape::EMPTY,
            alignment: 1,
            element: None,
            signature: Some(Signature::empty()),
            depth: 0,
            constructor: Constructor::Marker(marker),
            committed: true,
        };
        draft.finish()
    })
});

impl Draft {
    /// Returns a type like a predefined one but with another constructor.
    fn alias(p: Predefined, constructor: Constructor) -> Draft {
        let kind = p.kind();
        let data = match kind {
            // The only kind with a gap inside.
            Representation::ShortInt => 8,
            _ => kind.size() as i64,
        };
        let signature = match p {
            Predefined::Long | Predefined::UnsignedLong => Signature::long(kind),
            _ => Signature::of(kind),
        };
        Draft {
            size: kind.size(),
            shape: Shape {
                bounds: Some((0, kind.extent() as i64)),
                data: Some((0, data)),
            },
            alignment: construct::alignment(p),
            element: Some(p),
            signature: Some(signature),
            depth: 0,
            constructor,
            committed: true,
        }
    }

    fn finish(self) -> Inner {
        Inner {
            size: self.size,
            shape: self.shape,
            alignment: self.alignment,
            element: self.element,
            signature: self.signature.map_or_else(OnceLock::new, OnceLock::from),
            depth: self.depth,
            constructor: self.constructor,
            large: false,
            committed: AtomicBool::new(self.committed),
            program: OnceLock::new(),
        }
    }

    fn build(self) -> Datatype {
        Datatype(Repr::Shared(Arc::new(self.finish())))
    }
}

impl Inner {
    #[inline]
    fn program(&self) -> &Program {
        match self.program.get() {
            Some(program) => program,
            None => self.compile(),
        }
    }

    #[inline]
    fn signature(&self) -> &Arc<Signature> {
        match self.signature.get() {
            Some(signature) => signature,
            None => self.make_signature(),
        }
    }

    /// Computes the signature from those of the constituent types, which exist.
    fn signature_of_parts(&self) -> Arc<Signature> {
        match &self.constructor {
            Constructor::Struct { blocks, types, .. } => {
                let parts = blocks.iter().zip(types).filter(|(number, _)| **number > 0);
                Signature::sequence(parts.map(|(&number, part)| {
                    Signature::repeat(number as u64, part.inner().signature())
                }))
            }
            made => match made.datatypes() {
                [old] => {
                    let old = old.inner();
                    // All data is of the old type.
                    let times = self.size.checked_div(old.size).unwrap_or(0);
                    Signature::repeat(times as u64, old.signature())
                }
                _ => Signature::empty(),
            },
        }
    }

    /// Compiles the type after its constituent types.
    fn compile_one(&self) -> Program {
        let (node, run) = match self.plain_run() {
            Some(run) => (OnceLock::new(), Some(run)),
            None => {
                let node = self.layout();
                let run = match *node {
                    Node::Empty => Some((0, 0)),
                    Node::Run { at, len } => Some((at, len)),
                    _ => None,
                };
                (OnceLock::from(node), run)
            }
        };
        let contiguous = run.is_some_and(|run| run.1 == 0 || run.1 as i64 == self.shape.extent());
        Program {
            node,
            run,
            contiguous,
        }
    }

    /// Returns the run that contiguous, duplicated or resized types of a single run form.
    fn plain_run(&self) -> Option<(i64, usize)> {
        let (old, times) = match &self.constructor {
            Constructor::Contiguous { count, old } => (old, *count as usize),
            Constructor::Dup { old } | Constructor::Resized { old, .. } => {
                return old.inner().program().run;
            }
            _ => return None,
        };
        let program = old.inner().program();
        let (at, len) = program.run.filter(|run| run.1 > 0)?;
        (program.contiguous && times > 0).then_some((at, len * times))
    }

    fn layout(&self) -> Arc<Node> {
        fn part(old: &Datatype) -> (&Arc<Node>, i64) {
            (old.inner().program().node(), old.inner().shape.extent())
        }
        let strided = |old, count: &i64, block: &i64, stride: i64| {
            let (node, extent) = part(old);
            let row = Node::repeat(node, *block as usize, extent);
            Node::repeat(&row, *count as usize, stride)
        };
        match &self.constructor {
            Constructor::Contiguous { count, old } => {
                let (node, extent) = part(old);
                Node::repeat(node, *count as usize, extent)
            }
            Constructor::Vector {
                count,
                block,
                stride,
                old,
            } => strided(old, count, block, stride.wrapping_mul(part(old).1)),
            Constructor::Hvector {
                count,
                block,
                stride,
                old,
            } => strided(old, count, block, *stride),
            Constructor::Indexed {
                blocks,
                displacements,
                old,
            } => {
                let (node, extent) = part(old);
                let groups = displacements.iter().map(|at| at.wrapping_mul(extent));
                Node::groups(node, extent, groups.zip(blocks.iter().map(|&n| n as usize)))
            }
            Constructor::Hindexed {
                blocks,
                displacements,
                old,
            } => {
                let (node, extent) = part(old);
                let groups = displacements.iter().copied();
                Node::groups(node, extent, groups.zip(blocks.iter().map(|&n| n as usize)))
            }
            Constructor::IndexedBlock {
                block,
                displacements,
                old,
            } => {
                let (node, extent) = part(old);
                let groups = displacements.iter().map(|at| at.wrapping_mul(extent));
                Node::groups(node, extent, groups.map(|at| (at, *block as usize)))
            }
            Constructor::HindexedBlock {
                block,
                displacements,
                old,
            } => {
                let (node, extent) = part(old);
                let groups = displacements.iter().map(|&at| (at, *block as usize));
                Node::groups(node, extent, groups)
            }
            Constructor::Struct {
                blocks,
                displacements,
                types,
            } => {
                let mut builder = Builder::default();
                for ((&block, &at), member) in blocks.iter().zip(displacements).zip(types) {
                    let (node, extent) = part(member);
                    builder.push(at, node, block as usize, extent);
                }
                builder.finish()
            }
            made @ (Constructor::Subarray { old, .. } | Constructor::Darray { old, .. }) => {
                let node = old.array_layout(made);
                debug_assert!(
                    node.is_some(),
                    "internal error: the array's arguments were not checked"
                );
                node.unwrap_or_else(|| Arc::new(Node::Empty))
            }
            Constructor::Dup { old } | Constructor::Resized { old, .. } => part(old).0.clone(),
            Constructor::Named(_)
            | Constructor::Marker(_)
            | Constructor::F90Real { .. }
            | Constructor::F90Complex { .. }
            | Constructor::F90Integer { .. } => {
                let mut builder = Builder::default();
                let run = |at, len| Arc::new(Node::Run { at, len });
                match self.element.map(Predefined::kind) {
                    Some(Representation::ShortInt) => {
                        builder.push(0, &run(0, 2), 1, 2);
                        builder.push(0, &run(4, 4), 1, 4);
                    }
                    _ => builder.push(0, &run(0, self.size), 1, 0),
                }
                builder.finish()
            }
        }
    }
}

impl Datatype {
    /// Returns the predefined datatype `p`.
    #[inline]
    pub fn predefined(p: Predefined) -> Datatype {
        Datatype(Repr::Static(&PREDEFINED[p as usize]))
    }

    fn marker(marker: Marker) -> Datatype {
        Datatype(Repr::Static(&MARKERS[marker as usize]))
    }

    #[inline]
    fn inner(&self) -> &Inner {
        match &self.0 {
            Repr::Static(inner) => inner,
            Repr::Shared(inner) => inner,
        }
    }

    /// Returns whether both are clones of the same datatype.
    pub fn is_same(&self, other: &Datatype) -> bool {
        std::ptr::eq(self.inner(), other.inner())
    }

    /// Makes the type ready for communication (`MPI_Type_commit`), for all its clones.
    pub fn commit(&self) {
        self.inner().program();
        self.inner().committed.store(true, Ordering::Release);
    }

    /// Returns whether the type may be used in communication. Predefined types always may.
    #[inline]
    pub fn is_committed(&self) -> bool {
        self.inner().committed.load(Ordering::Acquire)
    }

    /// Returns whether the program may not free the type: it is predefined or a parameterised
    /// Fortran type.
    pub fn is_builtin(&self) -> bool {
        self.inner().depth == 0
    }

    /// Bytes of data in one element (`MPI_Type_size`): gaps do not count.
    #[inline]
    pub fn size(&self) -> usize {
        self.inner().size
    }

    /// Bytes of data in `times` buffers of `count` elements each.
    ///
    /// # Errors
    /// `MPI_ERR_COUNT` if the data or its extent exceeds the address space (2^63 bytes). After
    /// success the caller may multiply size, extent, `count` and `times` unchecked.
    #[inline]
    pub fn total(&self, count: usize, times: usize) -> Result<usize> {
        let size = self.size();
        let reach = match size {
            0 => 0,
            _ => size.max(self.extent().unsigned_abs()),
        };
        let most = reach
            .checked_mul(count)
            .and_then(|all| all.checked_mul(times));
        match most {
            Some(most) if most <= isize::MAX as usize => Ok(size * count * times),
            _ => Err(self.too_many(count, times)),
        }
    }

    #[cold]
    fn too_many(&self, count: usize, times: usize) -> Error {
        let times = match times {
            1 => String::new(),
            _ => format!(", {times} times,"),
        };
        let detail = format!(
            "{count} elements of {} bytes of data (extent {}){times} are more than an address space \
             holds (2^63 bytes); check the count and the datatype",
            self.size(),
            self.extent()
        );
        Error::new(Class::Count, detail)
    }

    /// Bytes from one element to the next; may be negative (`MPI_Type_get_extent`).
    #[inline]
    pub fn extent(&self) -> isize {
        self.inner().shape.extent() as isize
    }

    /// Lower bound, in bytes from an element's address (`MPI_Type_get_extent`).
    #[inline]
    pub fn lb(&self) -> isize {
        self.inner().shape.lb() as isize
    }

    /// Upper bound, in bytes from an element's address: `lb() + extent()`.
    #[inline]
    pub fn ub(&self) -> isize {
        self.inner().shape.ub() as isize
    }

    /// Offset of the first byte of data, from an element's address (`MPI_Type_get_true_extent`).
    #[inline]
    pub fn true_lb(&self) -> isize {
        self.inner().shape.data.map_or(0, |data| data.0) as isize
    }

    /// Bytes from the first to the last byte of data (`MPI_Type_get_true_extent`).
    #[inline]
    pub fn true_extent(&self) -> isize {
        self.inner().shape.data.map_or(0, |data| data.1 - data.0) as isize
    }

    /// C's alignment of the strictest member, in bytes.
    pub fn alignment(&self) -> usize {
        self.inner().alignment
    }

    /// Returns whether `count` elements are one run of `count * size()` bytes without gaps, in
    /// order, that starts [`true_lb`](Self::true_lb) bytes from the buffer's address, for every
    /// `count`.
    #[inline]
    pub fn is_contiguous(&self) -> bool {
        self.inner().program().contiguous
    }

    /// Returns offset and bytes of the data of `count` elements, if it is one run. Unlike
    /// [`is_contiguous`](Self::is_contiguous) also finds single elements with gaps around them.
    #[inline]
    pub fn as_block(&self, count: usize) -> Option<(isize, usize)> {
        let program = self.inner().program();
        let (at, len) = program.run?;
        (program.contiguous || count <= 1).then(|| (at as isize, len.wrapping_mul(count)))
    }

    /// Returns the predefined datatype, if it is one. Types of `MPI_Type_create_f90_real` and its
    /// kin count: they are unnamed predefined types (MPI-4.1 section 2.4), which reductions and
    /// accumulates take like those that they stand for (section 6.9.2).
    #[inline]
    pub fn as_predefined(&self) -> Option<Predefined> {
        match self.inner().constructor {
            Constructor::Named(p) => Some(p),
            Constructor::F90Real { .. }
            | Constructor::F90Complex { .. }
            | Constructor::F90Integer { .. } => self.inner().element,
            _ => None,
        }
    }

    /// Returns the predefined datatype that the whole type map consists of, if it is a single one.
    #[inline]
    pub fn element(&self) -> Option<Predefined> {
        self.inner().element
    }

    /// How the type was made.
    pub fn constructor(&self) -> &Constructor {
        &self.inner().constructor
    }

    /// Sizes of the contents (`MPI_Type_get_envelope`).
    pub fn envelope(&self) -> Envelope {
        self.constructor().envelope(self.inner().large)
    }

    /// Marks a new type as made with large counts, so that its envelope reports them as such.
    #[must_use]
    pub fn with_large_counts(mut self) -> Datatype {
        if let Repr::Shared(inner) = &mut self.0
            && let Some(inner) = Arc::get_mut(inner)
        {
            inner.large = true;
        }
        self
    }

    /// The constructor's arguments (`MPI_Type_get_contents`). Predefined types have none:
    /// `MPI_ERR_TYPE`.
    pub fn contents(&self, numbers: &Numbers) -> Result<Contents> {
        self.constructor().contents(numbers, self.inner().large)
    }

    /// Returns the number of whole elements in `bytes` bytes of data, or `None` if they end within
    /// one (`MPI_Get_count` then returns `MPI_UNDEFINED`).
    pub fn count_in(&self, bytes: usize) -> Option<usize> {
        match (bytes, self.size()) {
            (0, _) => Some(0),
            (_, 0) => None,
            (bytes, size) => (bytes % size == 0).then(|| bytes / size),
        }
    }

    /// Returns the number of basic types in `bytes` bytes of data, or `None` if they end within one
    /// (`MPI_Get_elements`). Pair types consist of two basic types.
    pub fn elements_in(&self, bytes: usize) -> Option<u64> {
        let signature = self.inner().signature();
        let full = match (bytes, signature.bytes) {
            (0, _) => return Some(0),
            (_, 0) => return None,
            (bytes, size) => bytes / size,
        };
        let rest = signature.elements_in(bytes % signature.bytes)?;
        Some(full as u64 * signature.elements + rest)
    }

    /// Returns the bytes of `elements` basic types (`MPI_Status_set_elements`), the reverse of
    /// [`elements_in`](Self::elements_in); `None` if the type has no data or the result overflows.
    pub fn bytes_of(&self, elements: u64) -> Option<usize> {
        let signature = self.inner().signature();
        if elements == 0 {
            return Some(0);
        }
        let full = usize::try_from(elements.checked_div(signature.elements)?).ok()?;
        let rest = signature.bytes_of(elements % signature.elements);
        full.checked_mul(signature.bytes)?.checked_add(rest)
    }

    /// A summary of the type signature of the first `bytes` bytes of data; `None` if they end
    /// within a basic type.
    pub fn signature(&self, bytes: usize) -> Option<SignatureDigest> {
        self.inner().signature().digest_of(bytes)
    }

    /// Copies bytes `skip` to `skip + out.len()` of the packed form of `count` elements at
    /// `base` to `out`.
    ///
    /// # Safety
    /// The data of `count` elements at `base` must be readable and not overlap `out`, and
    /// `skip + out.len()` must not exceed `count * size()`.
    #[inline]
    #[allow(
        unsafe_code,
        reason = "the caller hands over memory with a promise that it fits"
    )]
    pub unsafe fn pack(&self, base: *const u8, count: usize, skip: usize, out: &mut [u8]) {
        debug_assert!(skip + out.len() <= self.size() * count);
        // SAFETY: the caller promises readable data (`# Safety`); the walk visits `out.len()` bytes
        // of it.
        let mut sink = unsafe { copy::Pack::new(base, out.as_mut_ptr()) };
        self.walk(skip, out.len(), &mut sink);
    }

    /// Copies `data` to bytes `skip` to `skip + data.len()` of the packed form of `count`
    /// elements at `base`.
    ///
    /// # Safety
    /// The data of `count` elements at `base` must be writable and not overlap `data`, and
    /// `skip + data.len()` must not exceed `count * size()`.
    #[inline]
    #[allow(
        unsafe_code,
        reason = "the caller hands over memory with a promise that it fits"
    )]
    pub unsafe fn unpack(&self, base: *mut u8, count: usize, skip: usize, data: &[u8]) {
        debug_assert!(skip + data.len() <= self.size() * count);
        // SAFETY: the caller promises writable data (`# Safety`); the walk visits `data.len()`
        // bytes of it.
        let mut sink = unsafe { copy::Unpack::new(base, data.as_ptr()) };
        self.walk(skip, data.len(), &mut sink);
    }
}

impl fmt::Display for Datatype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self.constructor(), f)
    }
}

impl fmt::Debug for Datatype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests;
