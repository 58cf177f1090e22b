//! Accumulates on a single 8-byte word, by a transport whose atomics the target's processor carries
//! out when they arrive.
//!
//! A message would do the same at the cost of matching, queueing and an answer. Both belong to one
//! domain of atomicity, since such a transport uses the processor's atomics, as does the service
//! of messages where several threads run. An origin's accumulates are carried out in order (section
//! 11.7.2): an atomic is carried out on arrival and a message later, so no atomic is issued while
//! messages to its target are unanswered.

use netmod::AtomicOp;

use crate::epochs::DIRTY;
use crate::messages::service::Service;
use crate::network::capabilities::NetworkAtomics;
use crate::network::transfer::Remote;
use crate::window::Window;
use crate::window::accumulate::{Accumulate, CompareAndSwap};
use crate::window::buffers::Completion;
use crate::window::keys::{Far, transports};
use crate::window::promise::WORD;
use crate::window::registry::Windows;
use mpi_core::process::Process;
use mpi_core::pt2pt::operations::{Atomic, Blocks};
use mpi_types::datatype::Representation;
use mpi_types::error::Result;
use mpi_types::op::PredefinedOp;

/// Returns the number of the named transport, if its atomics are the processor's and keep their
/// order with messages.
pub(crate) fn transport_with_processor_atomics(process: &Process, name: &str) -> Option<usize> {
    if process.source::<Windows>().atomics() == NetworkAtomics::Never {
        return None;
    }
    let (index, transport) = transports(process).find(|(_, it)| it.name() == name)?;
    let limits = transport.limits();
    let atomics = limits.atomics?;
    // An adapter's atomics need a promise of the program (`crate::network::atomics`).
    let by_processor = atomics.coherent && atomics.ordered && !atomics.passive_target;
    (by_processor && limits.ordered_put).then_some(index)
}

/// Returns the atomic equivalent to an operation on a word of this representation.
fn atomic_for(op: PredefinedOp, kind: Representation) -> Option<AtomicOp> {
    let integer = matches!(kind, Representation::I64 | Representation::U64);
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

/// Returns the atomic operation on a word that an accumulate amounts to. `None` if it is not one, or
/// must go by messages.
///
/// # Safety
/// The origin's buffer is readable.
pub(crate) unsafe fn of_accumulate(
    call: &Accumulate<'_>,
    service: &Service,
) -> Result<Option<(Remote, Atomic)>> {
    let Accumulate {
        target, reduction, ..
    } = call;
    let block = target.datatype.as_block(target.count);
    let (Some((skip, WORD)), WORD) = (block, reduction.extent()) else {
        return Ok(None);
    };
    let Some(op) = atomic_for(reduction.op, reduction.element.kind()) else {
        return Ok(None);
    };
    let place = (target.rank, call.at + skip as i64);
    let Some(remote) = find(call.window, call.process, service, place, call.completion)? else {
        return Ok(None);
    };
    let mut operand = [0; WORD];
    if let Some(origin) = &call.origin {
        // SAFETY: the buffer is readable by this function's contract, and as long as the target's
        // data (`Window::accumulate`).
        unsafe { origin.pack(&mut operand) };
    }
    let atomic = Atomic {
        op,
        operands: [u64::from_ne_bytes(operand)].into(),
        compare: 0,
    };
    Ok(Some((remote, atomic)))
}

/// Returns the atomic operation on a word that a compare-and-swap amounts to. `None` if it is not
/// one, or must go by messages.
pub(crate) fn of_swap(
    call: &CompareAndSwap<'_>,
    service: &Service,
) -> Result<Option<(Remote, Atomic)>> {
    if call.size != WORD {
        return Ok(None);
    }
    let place = (call.target.rank, call.at);
    let remote = find(
        call.window,
        call.process,
        service,
        place,
        Completion::Blocking,
    )?;
    Ok(remote.map(|remote| (remote, call.on_word())))
}

/// Returns the word at an offset in a target's memory. `None` if an operation on it must go by
/// messages: the transport does not reach it, or the order asks for it.
fn find(
    window: &Window,
    process: &Process,
    service: &Service,
    (target, at): (u32, i64),
    completion: Completion,
) -> Result<Option<Remote>> {
    let number = service.lanes.accumulate();
    let Some(Far {
        key,
        few_small,
        words: Some(transport),
    }) = service.key(process, target, number)?
    else {
        return Ok(None);
    };
    let lane = service.lanes.get(number);
    let address = key.address.wrapping_add(at as u64);
    let burst = few_small && completion == Completion::Blocking && lane.flight.is_burst();
    let behind = number == 0 && window.epochs.targets.get(target) & DIRTY != 0;
    if !address.is_multiple_of(WORD as u64)
        || burst
        || behind
        || lane.is_unconfirmed(target)
        || !lane.origin.lock().is_idle()
    {
        return Ok(None);
    }
    Ok(Some(Remote {
        target,
        lane: number,
        transport: Some(transport),
        key,
        shift: 0,
        blocks: Blocks::from_buf([(at as u64, WORD)]),
    }))
}
