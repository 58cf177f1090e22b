//! Accumulates on a single word of 8 bytes, by a transport that has the target's processor carry them out
//! when it takes them in.
//!
//! Messages do as much, but are matched, kept, taken out and answered by messages. Both are one domain:
//! such a transport's atomics are the processor's own, and so is what messages bring where threads could
//! meet. What an origin sends is carried out in order (section 11.7.2): an atomic is carried out when it
//! arrives, and a message later, so no atomic is issued while messages to its target are unanswered.

use netmod::AtomicOp;

use crate::epochs::DIRTY;
use crate::network::capabilities::NetworkAtomics;
use crate::window::Window;
use crate::window::apply::Reduction;
use crate::window::buffers::{Completion, Origin, Target};
use crate::window::keys::{Far, transports};
use crate::window::promise::WORD;
use crate::window::registry::Windows;
use mpi_core::process::Process;
use mpi_core::pt2pt::operations::{Access, Act, Atomic, Blocks, Operands, refused};
use mpi_core::pt2pt::request::RequestId;
use mpi_types::datatype::Kind;
use mpi_types::error::Result;
use mpi_types::op::PredefinedOp;

/// What is to be done to a word.
struct Work {
    op: AtomicOp,
    operand: u64,
    compare: u64,
}

/// The transport of that name, as the process counts them, if its atomics are the processor's own, carried
/// out in the order in which they and messages were sent.
pub(crate) fn way(process: &Process, name: &str) -> Option<usize> {
    if process.source::<Windows>().atomics() == NetworkAtomics::Never {
        return None;
    }
    let (way, transport) = transports(process).find(|(_, it)| it.name() == name)?;
    let limits = transport.limits();
    let like = limits.atomics?;
    // An adapter's are not: there the program has to promise something (see `crate::network::atomics`).
    let own = like.coherent && like.ordered && !like.passive_target;
    (own && limits.ordered_put).then_some(way)
}

/// The atomic that does to a word of a kind what an operation does.
fn atomic_for(op: PredefinedOp, kind: Kind) -> Option<AtomicOp> {
    let integer = matches!(kind, Kind::I64 | Kind::U64);
    match op {
        PredefinedOp::Replace => Some(AtomicOp::Swap),
        PredefinedOp::NoOp => Some(AtomicOp::Load),
        PredefinedOp::Sum if integer => Some(AtomicOp::Add),
        PredefinedOp::Band if integer => Some(AtomicOp::And),
        PredefinedOp::Bor if integer => Some(AtomicOp::Or),
        PredefinedOp::Bxor if integer => Some(AtomicOp::Xor),
        _ => None,
    }
}

impl Window {
    /// [`Window::accumulate`] of one word by the transport, if it can; `None`: nothing was done.
    ///
    /// # Safety
    /// As for that; the place `at` in the target's memory is within it.
    pub(crate) unsafe fn accumulate_word(
        &self,
        process: &Process,
        origin: &Option<Origin<'_>>,
        result: &Option<Origin<'_>>,
        (target, at): (&Target<'_>, i64),
        reduction: &Reduction,
        completion: Completion,
    ) -> Result<Option<Option<RequestId>>> {
        let one = target.datatype.as_run(target.count);
        let (Some((skip, WORD)), WORD) = (one, reduction.extent()) else {
            return Ok(None);
        };
        let Some(op) = atomic_for(reduction.op, reduction.element.kind()) else {
            return Ok(None);
        };
        let mut operand = [0; WORD];
        if let Some(origin) = origin {
            // SAFETY: the caller's promise; it is as long as the target's data.
            unsafe { origin.pack(&mut operand) };
        }
        let work = Work {
            op,
            operand: u64::from_ne_bytes(operand),
            compare: 0,
        };
        let at = at + skip as i64;
        // SAFETY: passed on.
        unsafe {
            self.change_word(
                process,
                work,
                result.as_ref(),
                (target.rank, at),
                completion,
            )
        }
    }

    /// [`Window::compare_and_swap`] by the transport, if it can; `None`: nothing was done.
    ///
    /// # Safety
    /// As for that; the element at `at` is within the target's memory.
    pub(crate) unsafe fn swap_word(
        &self,
        process: &Process,
        [compare, new]: [u64; 2],
        result: Origin<'_>,
        (target, at): (&Target<'_>, i64),
    ) -> Result<Option<()>> {
        if target.len() != WORD {
            return Ok(None);
        }
        let work = Work {
            op: AtomicOp::CompareSwap,
            operand: new,
            compare,
        };
        let to = (target.rank, at);
        // SAFETY: passed on.
        let done =
            unsafe { self.change_word(process, work, Some(&result), to, Completion::Blocking)? };
        Ok(done.map(drop))
    }

    /// # Safety
    /// The word is within the target's memory; `result` is not used before all is complete.
    unsafe fn change_word(
        &self,
        process: &Process,
        work: Work,
        result: Option<&Origin<'_>>,
        (target, at): (u32, i64),
        completion: Completion,
    ) -> Result<Option<Option<RequestId>>> {
        let service = self.service()?;
        let number = service.lanes.accumulate();
        let Some(Far {
            key,
            few_small,
            words: Some(way),
        }) = service.key(process, target, number)?
        else {
            return Ok(None);
        };
        let lane = service.lanes.get(number);
        if !key
            .address
            .wrapping_add(at as u64)
            .is_multiple_of(WORD as u64)
            || few_small && completion == Completion::Blocking && lane.flight.is_burst()
        {
            return Ok(None);
        }
        let behind = number == 0 && self.epochs.targets.get(target) & DIRTY != 0;
        if behind || lane.is_unconfirmed(target) || !lane.origin.lock().is_idle() {
            return Ok(None);
        }
        let (mut local, mut buffer, mut found) = (std::ptr::null_mut::<u8>(), None, None);
        if let Some(result) = result {
            match result.contiguous() {
                Some(plain) if plain.addr().is_multiple_of(WORD) => local = plain,
                _ => {
                    let mut word = vec![0u64];
                    local = word.as_mut_ptr().cast();
                    found = Some(word);
                    // SAFETY: the caller's promise.
                    buffer = Some(unsafe { result.buffer() });
                }
            }
        }
        let mut access = Access::new(
            (target, service.address(target, number).there),
            (key, Blocks::One([(at as u64, WORD)])),
            Act::Atomic(Atomic {
                transport: way,
                op: work.op,
                operands: Operands::One(work.operand),
                compare: work.compare,
                previous: found,
            }),
            local,
            lane.flight.clone(),
        );
        access.buffer = buffer;
        match service.issue(process, access, number, completion)? {
            Ok(request) => Ok(Some(request)),
            Err(_) => Err(refused(target, netmod::LaneError::Unsupported)),
        }
    }
}
