//! Stores to slots, by what is known of the readers' caches ([`Nearness`]).

pub(crate) use netmod_kit::Nearness;

/// Bytes from which on nearness matters for a store.
pub(crate) const MIN_BYTES: usize = 2 << 10;
/// Copies to a slot whose readers are `far` or not.
///
/// # Safety
/// `from` is readable and `to` writable for `len` bytes, and they don't overlap
/// ([`netmod_kit::copy`]).
#[inline(always)]
pub(crate) unsafe fn store(far: bool, from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: both are valid for `len` bytes and don't overlap, by this function's contract.
    unsafe {
        match len < MIN_BYTES {
            true => netmod_kit::copy(from, to, len),
            false => store_long(far, from, to, len),
        }
    }
}

/// Copies [`MIN_BYTES`] bytes or more to a slot.
///
/// # Safety
/// That of [`store`].
#[inline(never)]
unsafe fn store_long(far: bool, from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: both are valid for `len` bytes and don't overlap, by this function's contract.
    unsafe {
        match far {
            true => netmod_kit::copy_to_far(from, to, len),
            false => netmod_kit::copy_to_shared(from, to, len),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_is_stored_whole_either_way() {
        let from: Vec<u8> = (0..2 * MIN_BYTES).map(|i| (i % 251) as u8 + 1).collect();
        for (far, at) in [(true, 0), (true, 5), (false, 0)] {
            for len in [0, 8, MIN_BYTES - 1, MIN_BYTES, MIN_BYTES + 77] {
                let mut to = vec![0; 2 * MIN_BYTES];
                // SAFETY: both are long enough and apart.
                unsafe { store(far, from.as_ptr(), to.as_mut_ptr().add(at), len) };
                assert_eq!(&to[at..at + len], &from[..len]);
                assert!(to[at + len..].iter().all(|&byte| byte == 0));
            }
        }
    }
}
