//! Agreement on a communicator's VCIs: members choose numbers that all have, open these VCIs and
//! exchange their addresses.

use std::sync::Arc;

use netmod::{Transport, VciId};

use mpi_coll::{Buffers, Call};
use mpi_core::comm::Comm;
use mpi_core::comm::vci_map::{Plan, VciHints, VciMap};
use mpi_core::datatype::{Datatype, Predefined};
use mpi_core::error::{Class, Error, Result};
use mpi_core::process::{CriticalSections, Process};
use mpi_core::vci::pool::{MASK_WORDS, MAX_VCIS, Taken, choose};
use mpi_sched::Layout;

/// The most bytes of all addresses of a member. More violates the protocol.
const MAX_BLOB: u64 = 1 << 24;

/// Returns the addresses of some VCIs on all transports, one after the other.
pub(crate) fn addresses(process: &Process, comm: &Comm, vcis: &[VciId]) -> Vec<u8> {
    let own = process.transports().iter().skip(1);
    let mut transports: Vec<(String, Arc<dyn Transport>)> = own
        .map(|one| (one.name().to_string(), one.clone()))
        .collect();
    let foreign = process.foreign();
    if comm.local().peers().any(|peer| foreign.is_foreign(peer)) {
        transports.extend(foreign.named_transports());
    }
    let mut bytes = Vec::new();
    for vci in vcis {
        for (name, transport) in &transports {
            let address = transport.address(*vci);
            bytes.extend(vci.to_le_bytes());
            bytes.push(name.len() as u8);
            bytes.extend((address.len() as u16).to_le_bytes());
            bytes.extend(name.as_bytes());
            bytes.extend(address);
        }
    }
    bytes
}

/// Splits the next address off such a list.
pub(crate) fn next_address<'a>(bytes: &mut &'a [u8]) -> Option<(VciId, &'a str, &'a [u8])> {
    let (head, rest) = bytes.split_first_chunk::<5>()?;
    let (name, rest) = rest.split_at_checked(head[2].into())?;
    let (address, rest) = rest.split_at_checked(u16::from_le_bytes([head[3], head[4]]).into())?;
    *bytes = rest;
    let vci = VciId::from_le_bytes([head[0], head[1]]);
    Some((vci, std::str::from_utf8(name).ok()?, address))
}

/// Gives an unused communicator the VCIs that all its members ask for. Collective.
///
/// Unavailable VCIs are left out; [`Comm::vci_hints`] returns the ones in force. Does nothing for
/// intercommunicators, communicators with endpoints, which have their VCIs, and used communicators.
pub fn agree_on_vcis(process: &Process, comm: &Comm, hints: &VciHints) -> Result<()> {
    if comm.remote().is_some() || comm.endpoint_table().is_some() {
        return Ok(());
    }
    let mut hints = *hints;
    // Any thread may carry out accesses to a window.
    let all_lockless = process.critical_sections() == CriticalSections::Lockless;
    hints.lockless |= all_lockless && !hints.window;
    let digest = hints.digest();
    let own = [digest, process.pool() as u64, u64::from(comm.is_used())];
    let all = mpi_coll::gather_all_u64(process, comm, own)?;
    let same = all
        .iter()
        .all(|received| received[0] == digest && received[2] == 0);
    let pool = all.iter().map(|received| received[1]).min().unwrap_or(1);
    let pool = (pool as usize).clamp(1, MAX_VCIS);
    let Some(plan) = hints.plan(pool).filter(|_| same && digest != 0) else {
        return Ok(());
    };
    if hints.lockless {
        // Another thread may be taking the same ones, so try others. VCIs that the program names
        // stay the same.
        let tries = if matches!(plan, Plan::These(..)) {
            1
        } else {
            4
        };
        for _ in 0..tries {
            if try_vcis(process, comm, &plan, pool, true)? {
                return Ok(());
            }
        }
    }
    try_vcis(process, comm, &plan, pool, false).map(drop)
}

/// Tries to apply a plan. Returns whether all members could.
fn try_vcis(
    process: &Process,
    comm: &Comm,
    plan: &Plan,
    pool: usize,
    lockless: bool,
) -> Result<bool> {
    let (spread, vcis) = match plan {
        Plan::These(spread, vcis) => (*spread, vcis.clone()),
        Plan::Some(spread, count) => {
            let all = mpi_coll::gather_all_u64(process, comm, used_vcis(process))?;
            let mut taken = Taken::default();
            for received in &all {
                let (used, rest) = received.split_at(MASK_WORDS);
                let (lockless, _) = rest.split_at(MASK_WORDS);
                taken
                    .used
                    .iter_mut()
                    .zip(used)
                    .for_each(|(sum, one)| *sum |= one);
                taken
                    .lockless
                    .iter_mut()
                    .zip(lockless)
                    .for_each(|(sum, one)| *sum |= one);
            }
            let turn = all.first().map_or(0, |first| first[2 * MASK_WORDS]);
            (*spread, choose(*count, &taken, pool, turn, lockless))
        }
    };
    if vcis.is_empty() {
        return Ok(false);
    }
    // A member that can't open them publishes that, and none uses them.
    let opened = vcis
        .iter()
        .try_for_each(|vci| process.open_vci(*vci))
        .is_ok();
    let map = opened.then(|| VciMap::new(spread, vcis, process.users(), lockless));
    let map = map.flatten();
    // Another thread may have begun to use it; from here on it waits until all members know the
    // result.
    let unused = comm.keep_unused();
    let map = map.filter(|_| unused.is_some());
    let own = map.as_ref().map(|map| addresses(process, comm, map.vcis()));
    let known = exchange_addresses(process, comm, own.as_deref())?;
    if let Some(map) = map.filter(|_| known) {
        comm.use_vcis(Arc::new(map));
        return Ok(true);
    }
    Ok(false)
}

/// Tells all members this process's addresses of VCIs, and learns theirs. Returns false, with no
/// address learned, if a member has none.
pub(crate) fn exchange_addresses(
    process: &Process,
    comm: &Comm,
    own: Option<&[u8]>,
) -> Result<bool> {
    let Some(all) = gather_all_bytes(process, comm, own)? else {
        return Ok(false);
    };
    for (rank, mut received) in all.iter().map(Vec::as_slice).enumerate() {
        let peer = comm.local().peer(rank as u32);
        while let Some((vci, transport, address)) = next_address(&mut received) {
            process.learn(peer, vci, transport, address);
        }
    }
    Ok(true)
}

/// Returns the VCIs in use, those of them without a lock, and the next one to share when none is
/// free.
fn used_vcis(process: &Process) -> [u64; 2 * MASK_WORDS + 1] {
    let mut words = [0; 2 * MASK_WORDS + 1];
    for (vci, users) in process.users().counts().enumerate().take(MAX_VCIS) {
        if users > 0 {
            words[vci / 64] |= 1 << (vci % 64);
        }
        if process.is_lockless(vci as VciId) {
            words[MASK_WORDS + vci / 64] |= 1 << (vci % 64);
        }
    }
    words[2 * MASK_WORDS] = process.next_vci_turn();
    words
}

/// Gathers bytes from all members; `None` if one of them has none.
pub(crate) fn gather_all_bytes(
    process: &Process,
    comm: &Comm,
    own: Option<&[u8]>,
) -> Result<Option<Vec<Vec<u8>>>> {
    let len = own.map_or(u64::MAX, |own| own.len() as u64);
    let lens = mpi_coll::gather_all_u64(process, comm, [len])?;
    let longest = lens.iter().map(|len| len[0]).max().unwrap_or(0);
    let Some(own) = own.filter(|_| longest != u64::MAX) else {
        return Ok(None);
    };
    if longest > MAX_BLOB {
        let why = format!("internal error: a member announces {longest} bytes of addresses");
        return Err(Error::new(Class::Intern, why));
    }
    let longest = longest as usize;
    let mut all = vec![0u8; longest * lens.len()];
    let start = comm.rank() as usize * longest;
    all[start..start + own.len()].copy_from_slice(own);
    if longest > 0 {
        let bytes = Datatype::predefined(Predefined::Byte);
        let recv = Layout::Uniform(mpi_sched::Part {
            count: longest,
            datatype: &bytes,
        });
        let buffers = Buffers {
            send: std::ptr::null(),
            recv: all.as_mut_ptr().cast(),
        };
        // SAFETY: the call reads and writes a block of `longest` bytes of `all` for each member.
        unsafe { mpi_coll::call(process, comm, buffers, &Call::Allgather(None, recv))? };
    }
    let cut = |(rank, len): (usize, &[u64; 1])| {
        let start = rank * longest;
        all[start..start + len[0] as usize].to_vec()
    };
    Ok(Some(lens.iter().enumerate().map(cut).collect()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_lists_of_addresses_end_early() {
        let mut good = vec![3, 0, 2, 1, 0];
        good.extend(b"abX");
        for end in 0..good.len() {
            assert_eq!(next_address(&mut &good[..end]), None);
        }
        assert_eq!(next_address(&mut &good[..]), Some((3, "ab", &b"X"[..])));
    }
}
