//! Accumulates by the network's atomics, in windows over several nodes whose members have all
//! promised to use only supported operations ([`Promise`]).
//!
//! Invariant: the network carries out all accumulates on such a window, also those on memory of the
//! same node and of the process itself, since an adapter's atomics need not be atomic with the
//! processor's. Only if the transport declares them coherent ([`netmod::Atomics::coherent`]) does
//! the processor carry out those on mapped memory.

use std::sync::atomic::AtomicU64;

use netmod::{AtomicOp, RemoteKey};
use parking_lot::RwLock;

use crate::messages::message::{Kind, Layout};
use crate::messages::service::Service;
use crate::network::capabilities::{Domain, NetworkAtomics};
use crate::network::transfer::Remote;
use crate::window::Window;
use crate::window::accumulate::{Accumulate, Atomicity, CompareAndSwap, NetworkDomain};
use crate::window::apply;
use crate::window::buffers::{Completion, Origin};
use crate::window::keys::{WireKey, key_of, transports, word};
use crate::window::promise::{AccumulateKind, Promise, WORD};
use crate::window::registry::Windows;
use mpi_core::process::Process;
use mpi_core::process::loan::Loan;
use mpi_core::pt2pt::operations::{Act, Atomic, Blocks};
use mpi_core::pt2pt::request::RequestId;
use mpi_types::error::{Class, Error, Result};
use mpi_types::op::PredefinedOp;

/// Maximum number of words of an accumulate.
const WORDS: usize = 8;

impl Service {
    /// Agrees whether the network's atomics carry out the promised accumulates. Collective; the
    /// members have exchanged their keys before.
    pub fn agree_on_atomics(&self, process: &Process, promise: Promise) -> Result<()> {
        let able = || {
            let (index, transport) = transports(process).next()?;
            let atomics = transport.limits().atomics?;
            let wanted = match process.source::<Windows>().atomics() {
                NetworkAtomics::Auto => atomics.passive_target,
                NetworkAtomics::Always => true,
                NetworkAtomics::Never => false,
            };
            let (base, len) = self.memory()?;
            let name = word(transport.name());
            // Several endpoints may belong to one process, but keys belong to members.
            let fits = base.addr() % WORD == 0 && !self.comm.has_endpoints();
            let reached = len == 0 || self.expose(process, name)[0] == name;
            (wanted && fits && reached).then_some((index, name, atomics))
        };
        let own = if self.keys.on { able() } else { None };
        let name = own.map_or(0, |own| own.1);
        let mut agreed = [u64::from(own.is_none()), name, !name];
        mpi_coll::greatest_u64(process, &self.comm, &mut agreed)?;
        let (Some((transport_index, name, atomics)), 0, true) =
            (own, agreed[0], agreed[1] == !agreed[2])
        else {
            return Ok(());
        };
        let _ = self.atomics.set(Domain {
            promise,
            transport_index,
            name,
            atomics,
            keys: RwLock::new(self.received_keys(name).collect()),
        });
        Ok(())
    }

    /// Returns the key of a member's memory. In large windows the first use requests it and waits.
    fn atomics_key(&self, process: &Process, domain: &Domain, rank: u32) -> Result<RemoteKey> {
        if let Some(key) = domain.keys.read().get(&rank) {
            return Ok(*key);
        }
        self.ask_atomics_key(process, domain, rank)
    }

    #[cold]
    fn ask_atomics_key(&self, process: &Process, domain: &Domain, rank: u32) -> Result<RemoteKey> {
        let answer = match rank == self.comm.rank() {
            true => self.expose(process, domain.name),
            false => {
                let tag = self.lanes.get(0).tag();
                let post = |buffer| self.expect(process, (rank, 0), tag, buffer);
                let answer = Loan::new(Box::new(WireKey::default()), post)?;
                let asked = [domain.name, 0];
                let message = self.message(Kind::Key, tag, asked, Layout::NONE);
                if let Err(error) = self.ask(process, (rank, 0), message) {
                    answer.abort(process)?;
                    return Err(error);
                }
                *answer.wait(process)?
            }
        };
        if answer[0] != domain.name {
            return Err(Error::new(
                Class::Intern,
                format!(
                    "internal error: rank {rank} does not expose its memory to the network's atomics"
                ),
            ));
        }
        let key = key_of(&answer);
        domain.keys.write().insert(rank, key);
        Ok(key)
    }
}

impl Window {
    /// Returns the program's promise about accumulates, if the network carries them out.
    pub fn promise(&self) -> Option<Promise> {
        Some(self.domain()?.promise)
    }

    #[inline]
    pub(crate) fn domain(&self) -> Option<&Domain> {
        self.service.as_ref()?.atomics.get()
    }
}

impl Atomicity for NetworkDomain<'_> {
    unsafe fn accumulate(self, call: &Accumulate<'_>) -> Result<Option<RequestId>> {
        let Accumulate {
            target,
            at,
            reduction,
            ..
        } = call;
        let promise = &self.0.promise;
        let operation = AccumulateKind::Reduce(reduction.op);
        let (kind, len) = (reduction.element.kind(), target.len());
        promise.check(operation, Some(kind), len)?;
        let op = match reduction.op {
            PredefinedOp::Sum => AtomicOp::Add,
            PredefinedOp::Band => AtomicOp::And,
            PredefinedOp::Bor => AtomicOp::Or,
            PredefinedOp::Bxor => AtomicOp::Xor,
            PredefinedOp::Replace => AtomicOp::Swap,
            // The promise allows only MPI_NO_OP besides the operations above.
            _ => AtomicOp::Load,
        };
        if op == AtomicOp::Load && call.result.is_none() {
            return Ok(None);
        }
        let words = match target.datatype.as_block(target.count) {
            Some((skip, WORD)) => Blocks::from_buf([((at + skip as i64) as u64, WORD)]),
            _ => {
                let runs = apply::runs(target.datatype, target.count, *at, reduction);
                let each = |(at, count): (i64, usize)| {
                    (0..count).map(move |i| ((at + (i * WORD) as i64) as u64, WORD))
                };
                runs.iter().copied().flat_map(each).collect()
            }
        };
        let operands = match &call.origin {
            None => [0].into(),
            Some(origin) => {
                let mut data = [0u8; WORDS * WORD];
                // SAFETY: the buffer is readable by this function's contract; `check` has found no more
                // than `WORDS` words in it.
                unsafe { origin.pack(&mut data[..len]) };
                let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
                data[..len].chunks_exact(WORD).map(word).collect()
            }
        };
        let atomic = Atomic {
            op,
            operands,
            compare: 0,
        };
        let to = (call.window, call.process, target.rank);
        // SAFETY: the result's buffer is writable by this function's contract; the words are the
        // target's data.
        unsafe { self.change(to, (words, atomic), call.result, call.completion) }
    }

    unsafe fn compare_and_swap(self, call: &CompareAndSwap<'_>) -> Result<()> {
        let target = &call.target;
        let kind = target.datatype.element().map(|element| element.kind());
        let promise = &self.0.promise;
        promise.check(AccumulateKind::CompareAndSwap, kind, target.len())?;
        let words = Blocks::from_buf([(call.at as u64, WORD)]);
        let (work, result) = ((words, call.on_word()), Some(call.result()));
        let to = (call.window, call.process, target.rank);
        // SAFETY: the result's buffer is writable by this function's contract; the word is the
        // target's element.
        unsafe { self.change(to, work, result, Completion::Blocking) }.map(drop)
    }
}

impl NetworkDomain<'_> {
    /// Carries out an accumulate on some words.
    ///
    /// # Safety
    /// The words are within the target's memory; `result` has room for as many, and is not used before
    /// all is complete.
    unsafe fn change(
        &self,
        (window, process, target): (&Window, &Process, u32),
        (words, atomic): (Blocks, Atomic),
        result: Option<Origin<'_>>,
        completion: Completion,
    ) -> Result<Option<RequestId>> {
        let domain = self.0;
        for &(at, _) in &words {
            domain.promise.check_place(at as i64)?;
        }
        let service = window.service()?;
        if domain.atomics.coherent
            && let Some(here) = window.here(target)
        {
            let mut found = [0; WORDS];
            for (number, (found, &(at, _))) in found.iter_mut().zip(&words).enumerate() {
                let place = here.wrapping_add(at as usize);
                // SAFETY: `check_place` above has checked offset and alignment, and the window's
                // memory begins aligned (`agree_on_atomics`).
                *found = unsafe { by_processor(place, &atomic, number) };
            }
            if let Some(result) = result {
                let len = words.len() * WORD;
                // SAFETY: `found` has these bytes; the result has room for them by this function's
                // contract.
                unsafe {
                    let bytes = std::slice::from_raw_parts(found.as_ptr().cast::<u8>(), len);
                    result.unpack(bytes);
                }
            }
            return Ok(None);
        }
        let number = service.lanes.accumulate();
        let lane = service.lanes.get(number);
        if !domain.atomics.ordered && !service.lanes.are_unordered() && !lane.flight.is_quiet() {
            // Invariant (section 11.7.2): an origin's accumulates on the same location are carried out
            // in order. If the transport keeps no order, one is complete before the next is issued.
            let until = lane.flight.next_number();
            service.wait_for(process, lane.vci, Some(target), || {
                if lane.flight.has_refused() {
                    service.do_by_messages(process, number)?;
                }
                Ok((!lane
                    .flight
                    .is_pending_before(until, |member| member == target))
                .then_some(()))
            })?;
        }
        let remote = Remote {
            target,
            lane: number,
            transport: Some(domain.transport_index),
            key: service.atomics_key(process, domain, target)?,
            shift: 0,
            blocks: words,
        };
        // SAFETY: the words and the buffer are valid by this function's contract.
        unsafe { service.change(process, remote, Act::Atomic(atomic), result, completion) }
    }
}

/// Carries out one word of an accumulate on mapped memory. Returns the previous value.
///
/// # Safety
/// The place is an aligned word of the window's memory.
unsafe fn by_processor(place: *mut u8, atomic: &Atomic, number: usize) -> u64 {
    // SAFETY: an aligned word by this function's contract; the window's accumulates change it only
    // atomically (module invariant).
    let word = unsafe { &*place.cast::<AtomicU64>() };
    let operand = atomic.operands.get(number).copied().unwrap_or_default();
    atomic.op.carry_out(word, operand, atomic.compare)
}
