//! Passive-target dynamic windows.
//!
//! A member's attached regions and their keys are in a table in its exposed memory
//! ([`crate::window::regions`]). Other members cache the table and fetch its version, one word,
//! before each access. Attaching and detaching change the version, so that programs that
//! synchronize as section 11.2.4 requires never use a withdrawn key. Other programs may; the network
//! then refuses the access and breaks the connection, and no memory changes.

use std::sync::Arc;

use netmod::RemoteKey;

use crate::network::transfer::{Issued, Remote};
use crate::network::{Passive, Word};
use crate::window::buffers::Origin;
use crate::window::regions::{BlocksInRange, Head, Regions, WORDS};
use crate::window::transfer::Transfer;
use crate::window::{Flavor, Window};
use mpi_core::process::Process;
use mpi_core::pt2pt::operations::Block;
use mpi_types::error::{Class, Error, Result};

fn to_words(bytes: &[u8]) -> Vec<u64> {
    let word = |bytes: &[u8]| u64::from_ne_bytes(bytes.try_into().unwrap_or_default());
    bytes.chunks_exact(8).map(word).collect()
}

impl Window {
    /// Whether `rank` is this member, and its memory consists of attached regions.
    pub(crate) fn is_own_dynamic(&self, rank: u32) -> bool {
        self.flavor == Flavor::Dynamic && rank == self.rank() && self.passive().is_some()
    }

    /// Adds a region to the table of attached memory.
    ///
    /// # Safety
    /// The memory stays valid until it is detached or the window is freed.
    pub(crate) unsafe fn attach_for_all(
        &self,
        passive: &Passive,
        (start, len): (usize, usize),
    ) -> Result<()> {
        let transport = passive.transport();
        // SAFETY: the memory stays valid by this function's contract; the block lives as long as the
        // window.
        unsafe {
            let place = (start, len);
            passive
                .directory
                .attach(&transport, passive.word(Word::VERSION), place)
        }
    }

    /// Translates blocks of a target's memory into blocks of exposed segments.
    pub(crate) fn within(
        &self,
        process: &Process,
        target: u32,
        runs: &[(u64, usize)],
    ) -> Result<Vec<BlocksInRange>> {
        let service = self.service()?;
        if self.flavor != Flavor::Dynamic {
            let key = service.record(process, target)?.memory;
            let runs = runs.to_vec();
            return Ok(vec![BlocksInRange {
                key,
                start: 0,
                runs,
            }]);
        }
        let found = self.regions(process, target)?.find(runs);
        found.ok_or_else(|| {
            let (at, len) = runs.first().copied().unwrap_or_default();
            Error::new(
                Class::RmaRange,
                format!(
                    "{len} bytes at address {at:#x} of rank {target}, or what follows them, are not all \
                     attached there; call MPI_Win_attach, and get addresses by MPI_Get_address"
                ),
            )
        })
    }

    /// Returns the current table of a member's attached regions.
    fn regions(&self, process: &Process, rank: u32) -> Result<Arc<Regions>> {
        let service = self.service()?;
        let block = service.record(process, rank)?.block;
        let directory = match service.passive() {
            Some(passive) => &passive.directory,
            None => {
                let text = "internal error: the window has no table of attached memory";
                return Err(Error::new(Class::Intern, text));
            }
        };
        let known = directory.known.read().get(&rank).cloned();
        if let Some(known) = known {
            let version = self.fetch_words(process, (rank, block), Word::VERSION.0, 1)?;
            if version[0] == known.version {
                return Ok(known);
            }
        }
        loop {
            let words = size_of::<Head>() / 8;
            let fetch_head = || {
                let words = self.fetch_words(process, (rank, block), Word::VERSION.0, words)?;
                Ok::<Head, Error>(words.try_into().unwrap_or_default())
            };
            let head = fetch_head()?;
            let [version, count, address, a, b] = head;
            if version % 2 == 0 {
                let key = RemoteKey {
                    address,
                    words: [a, b],
                };
                let table = match count {
                    0 => Vec::new(),
                    count => self.fetch_words(process, (rank, key), 0, count as usize * WORDS)?,
                };
                if fetch_head()? == head {
                    let regions = Arc::new(Regions::new(&head, &table));
                    directory.known.write().insert(rank, regions.clone());
                    return Ok(regions);
                }
            }
            process.poll(self.comm.vci())?;
        }
    }

    fn fetch_words(
        &self,
        process: &Process,
        (rank, key): (u32, RemoteKey),
        offset: u64,
        count: usize,
    ) -> Result<Vec<u64>> {
        let within = [BlocksInRange {
            key,
            start: 0,
            runs: vec![(offset, 8 * count)],
        }];
        let (bytes, _) = self.move_far(process, rank, &within, vec![0; 8 * count], false)?;
        Ok(to_words(&bytes))
    }

    /// Moves data to or from attached memory.
    ///
    /// # Safety
    /// That of `TargetMemory::put` (`write`) or `TargetMemory::get`.
    pub(crate) unsafe fn move_attached(
        &self,
        transfer: &Transfer<'_>,
        write: bool,
    ) -> Result<Issued> {
        let Transfer {
            process,
            origin,
            target,
            ..
        } = transfer;
        let service = self.service()?;
        let Some(runs) = self.native_runs(target, transfer.at) else {
            return Ok(Issued::Refused);
        };
        if target.rank == self.rank() {
            // SAFETY: the buffer is valid by this function's contract; the memory is attached
            // (`Window::begin`).
            unsafe { self.move_own(origin, &runs, write) };
            return Ok(Issued::Begun(None));
        }
        let mut within = self.within(process, target.rank, &runs)?;
        if within.len() == 1
            && let Some(BlocksInRange { key, start, runs }) = within.pop()
        {
            let remote = Remote {
                target: target.rank,
                lane: service.lanes.any(),
                transport: service.transport_index(),
                key,
                shift: start,
                blocks: runs.into(),
            };
            // SAFETY: the origin's buffer stays as the transfer describes it until the access is
            // complete (`TargetMemory`).
            return unsafe { service.transfer(transfer, remote, write) };
        }
        let data = match write {
            // SAFETY: the buffer is readable, by this function's contract.
            true => unsafe { origin.packed().into_owned() },
            false => vec![0; origin.len()],
        };
        let (data, _) = self.move_far(process, target.rank, &within, data, write)?;
        if !write {
            // SAFETY: the buffer is writable, by this function's contract, and as long as the
            // target's data (`Window::check`).
            unsafe { origin.unpack(&data) };
        }
        Ok(Issued::Begun(None))
    }

    /// Copies data to or from this process's own attached memory.
    ///
    /// # Safety
    /// The runs must be attached memory of this process, as long as the origin's data; the origin's
    /// buffer must be readable (`write`) or writable.
    unsafe fn move_own(&self, origin: &Origin<'_>, runs: &[Block], write: bool) {
        let mut data = match write {
            // SAFETY: the buffer is readable, by this function's contract.
            true => unsafe { origin.packed().into_owned() },
            false => vec![0; origin.len()],
        };
        let mut local = data.as_mut_ptr();
        for &(at, len) in runs {
            let place: *mut u8 = std::ptr::with_exposed_provenance_mut(at as usize);
            // SAFETY: attached memory, by this function's contract; `data` has the bytes of all runs.
            unsafe {
                match write {
                    true => netmod_kit::copy(local, place, len),
                    false => netmod_kit::copy(place, local, len),
                }
            }
            local = local.wrapping_add(len);
        }
        if !write {
            // SAFETY: the buffer is writable and as long as `data`, by this function's contract.
            unsafe { origin.unpack(&data) };
        }
    }
}
