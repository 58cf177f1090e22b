//! Accumulates on a single 8-byte word, by a transport whose atomics the target's processor carries
//! out when they arrive.
//!
//! A message would do the same at the cost of matching, queueing and an answer. Both belong to one
//! domain of atomicity, since such a transport uses the processor's atomics, as does the service
//! of messages where several threads run. An origin's accumulates are carried out in order (section
//! 11.7.2): an atomic is carried out on arrival and a message later, so no atomic is issued while
//! messages to its target are unanswered.

use netmod::{AtomicOp, RemoteKey};

use crate::epochs::DIRTY;
use crate::messages::service::Service;
use crate::network::capabilities::NetworkAtomics;
use crate::window::Window;
use crate::window::accumulate::{Accumulate, CompareAndSwap};
use crate::window::buffers::{Completion, Origin};
use crate::window::keys::{Far, transports};
use crate::window::promise::WORD;
use crate::window::registry::Windows;
use mpi_core::process::Process;
use mpi_core::pt2pt::operations::{Access, Act, Atomic, Blocks, Operands, refused};
use mpi_core::pt2pt::request::RequestId;
use mpi_types::datatype::Representation;
use mpi_types::error::Result;
use mpi_types::op::PredefinedOp;

/// An atomic operation on a word of 8 bytes, and how it reaches the word.
pub(crate) struct WordUpdate<'a> {
    op: AtomicOp,
    operand: u64,
    compare: u64,
    /// The buffer for the old value, if that is wanted.
    result: Option<Origin<'a>>,
    /// The word's offset in the target's memory.
    at: i64,
    path: Path,
}

/// How an atomic operation reaches a target's memory.
struct Path {
    target: u32,
    key: RemoteKey,
    /// Index of the transport in the process.
    transport: usize,
    /// Index of the lane in the window.
    lane: usize,
}

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

impl<'a> WordUpdate<'a> {
    /// Returns the operation that an accumulate amounts to. `None` if it is not one on a word, or must
    /// go by messages.
    ///
    /// # Safety
    /// The origin's buffer is readable.
    pub unsafe fn of_accumulate(
        call: &Accumulate<'a>,
        service: &Service,
    ) -> Result<Option<WordUpdate<'a>>> {
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
        let at = call.at + skip as i64;
        let place = (target.rank, at);
        let Some(path) = Path::find(call.window, call.process, service, place, call.completion)?
        else {
            return Ok(None);
        };
        let mut operand = [0; WORD];
        if let Some(origin) = &call.origin {
            // SAFETY: the buffer is readable by this function's contract, and as long as the target's
            // data (`Window::accumulate`).
            unsafe { origin.pack(&mut operand) };
        }
        Ok(Some(WordUpdate {
            op,
            operand: u64::from_ne_bytes(operand),
            compare: 0,
            result: call.result,
            at,
            path,
        }))
    }

    /// Returns the operation that a compare-and-swap amounts to. `None` if it is not one on a word, or
    /// must go by messages.
    pub fn of_swap(
        call: &CompareAndSwap<'a>,
        service: &Service,
        result: Origin<'a>,
    ) -> Result<Option<WordUpdate<'a>>> {
        if call.size != WORD {
            return Ok(None);
        }
        let place = (call.target.rank, call.at);
        let completion = Completion::Blocking;
        let path = Path::find(call.window, call.process, service, place, completion)?;
        Ok(path.map(|path| WordUpdate {
            op: AtomicOp::CompareSwap,
            operand: call.new as u64,
            compare: call.compare as u64,
            result: Some(result),
            at: call.at,
            path,
        }))
    }

    /// Issues the operation.
    ///
    /// # Safety
    /// The word is within the target's memory; the result's buffer is writable, and not used before
    /// the call is complete.
    pub unsafe fn issue(
        self,
        service: &Service,
        process: &Process,
        completion: Completion,
    ) -> Result<Option<RequestId>> {
        let (target, number) = (self.path.target, self.path.lane);
        let lane = service.lanes.get(number);
        let (mut local, mut buffer, mut found) = (std::ptr::null_mut::<u8>(), None, None);
        if let Some(result) = self.result {
            match result.contiguous() {
                Some(plain) if plain.addr().is_multiple_of(WORD) => local = plain,
                _ => {
                    let mut word = vec![0u64];
                    local = word.as_mut_ptr().cast();
                    found = Some(word);
                    // SAFETY: the buffer is writable until the call is complete, by this function's
                    // contract.
                    buffer = Some(unsafe { result.buffer() });
                }
            }
        }
        let mut access = Access::new(
            (target, service.address(target, number).there),
            (self.path.key, Blocks::One([(self.at as u64, WORD)])),
            Act::Atomic(Atomic {
                transport: self.path.transport,
                op: self.op,
                operands: Operands::One(self.operand),
                compare: self.compare,
                previous: found,
            }),
            local,
            lane.flight.clone(),
        );
        access.buffer = buffer;
        match service.issue(process, access, number, completion)? {
            Ok(request) => Ok(request),
            Err(_) => Err(refused(target, netmod::LaneError::Unsupported)),
        }
    }
}

impl Path {
    /// Returns the path to the word at an offset in a target's memory. `None` if an operation on it must
    /// go by messages: the transport does not reach it, or the order asks for it.
    fn find(
        window: &Window,
        process: &Process,
        service: &Service,
        (target, at): (u32, i64),
        completion: Completion,
    ) -> Result<Option<Path>> {
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
        Ok(Some(Path {
            target,
            key,
            transport,
            lane: number,
        }))
    }
}
