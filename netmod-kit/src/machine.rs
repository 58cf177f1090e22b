//! What copies cost on this machine, measured once per node. Protocols and algorithms within a node
//! are tables by the answer.
//!
//! Which cores share a cache is [`Nearness`](crate::Nearness).

use std::fmt;
use std::hint::black_box;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::copy::streaming_pays;

/// Bytes that the measurement copies: as few as fit into a core's own cache, as many as the shortest
/// message that the kernel may copy.
const LEN: usize = 64 << 10;
/// Runs of each copy, of which the shortest counts: the first ones meet cold memory.
const RUNS: usize = 4;
/// Break-even of the kernel's copy against two copies between cores, in copies within a core's own
/// cache (docs/decisions/long-messages.md).
const LOCAL_COPIES: f32 = 4.0;

/// The costs as this process knows them.
static MACHINE: OnceLock<Machine> = OnceLock::new();

/// The costs of copies.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Machine {
    /// Time of the kernel's copy between address spaces (CMA), in copies within a core's own cache.
    /// `None` if the kernel refuses.
    pub kernel_copy: Option<f32>,
    /// Whether cores that share no cache exchange data faster by stores that bypass the caches.
    pub streaming_pays: bool,
}

impl Machine {
    /// Returns the costs on this machine. The first call measures them, which takes some 0.1 ms,
    /// unless [`Machine::adopt`] came before: a process of a node measures, and tells the others before
    /// the program runs.
    pub fn get() -> &'static Machine {
        MACHINE.get_or_init(|| Machine {
            kernel_copy: kernel_copy(),
            streaming_pays: streaming_pays(),
        })
    }

    /// Takes the costs that another process of this node has measured, unless this one has.
    pub fn adopt(bytes: [u8; Machine::SIZE]) {
        let _ = MACHINE.set(Machine::from_bytes(bytes));
    }

    fn from_bytes([a, b, c, d, streaming_pays]: [u8; Machine::SIZE]) -> Machine {
        let price = f32::from_ne_bytes([a, b, c, d]);
        Machine {
            kernel_copy: Some(price).filter(|price| !price.is_nan()),
            streaming_pays: streaming_pays != 0,
        }
    }

    /// Bytes of [`Machine::to_bytes`].
    pub const SIZE: usize = 5;

    /// Returns the costs for [`Machine::adopt`].
    pub fn to_bytes(self) -> [u8; Machine::SIZE] {
        let [a, b, c, d] = self.kernel_copy.unwrap_or(f32::NAN).to_ne_bytes();
        [a, b, c, d, u8::from(self.streaming_pays)]
    }

    /// Returns whether the kernel's copy is expected to take less time than two copies between
    /// cores.
    pub fn has_cheap_kernel_copy(&self) -> bool {
        self.kernel_copy.is_some_and(|price| price < LOCAL_COPIES)
    }
}

impl fmt::Display for Machine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kernel_copy {
            Some(price) => write!(
                f,
                "the kernel's copy takes {price:.1} times as long as a plain one"
            )?,
            None => write!(f, "the kernel's copy is not permitted")?,
        }
        let stores = match self.streaming_pays {
            true => "streaming",
            false => "plain",
        };
        write!(f, ", {stores} stores to far cores")
    }
}

/// Measures the kernel's copy within this process against a plain one.
fn kernel_copy() -> Option<f32> {
    let from = vec![1_u8; LEN];
    let mut to = vec![2_u8; LEN];
    let local = shortest(|| {
        to.copy_from_slice(black_box(&from));
        // Otherwise the compiler might leave copies out that the next one overwrites.
        black_box(&mut to);
        true
    })?;
    let here = libc::iovec {
        iov_base: to.as_mut_ptr().cast(),
        iov_len: LEN,
    };
    let there = libc::iovec {
        iov_base: from.as_ptr().cast_mut().cast(),
        iov_len: LEN,
    };
    let kernel = shortest(|| {
        // SAFETY: both buffers have this length, and both belong to this process.
        let copied = unsafe { libc::process_vm_readv(libc::getpid(), &here, 1, &there, 1, 0) };
        copied == LEN as isize
    })?;
    Some(kernel.as_secs_f32() / local.as_secs_f32().max(1e-9))
}

/// Returns the shortest time of some runs; `None` if one fails.
fn shortest(mut run: impl FnMut() -> bool) -> Option<Duration> {
    let times = (0..RUNS).map(|_| {
        let begun = Instant::now();
        run().then(|| begun.elapsed())
    });
    times.collect::<Option<Vec<_>>>()?.into_iter().min()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_never_changes() {
        let [one, other] = [Machine::get(), Machine::get()];
        assert!(std::ptr::eq(one, other));
        // A copy by the kernel is one system call more than a local one.
        assert!(one.kernel_copy.is_none_or(|price| price > 0.0));
    }

    #[test]
    fn other_processes_read_the_same_costs() {
        for kernel_copy in [None, Some(4.5)] {
            for streaming_pays in [false, true] {
                let machine = Machine {
                    kernel_copy,
                    streaming_pays,
                };
                assert_eq!(Machine::from_bytes(machine.to_bytes()), machine);
            }
        }
    }

    #[test]
    fn what_others_have_measured_does_not_replace_an_own_answer() {
        let own = *Machine::get();
        let other = Machine {
            kernel_copy: None,
            streaming_pays: !own.streaming_pays,
        };
        Machine::adopt(other.to_bytes());
        assert_eq!(*Machine::get(), own);
    }

    #[test]
    fn the_kernel_copy_is_cheap_below_the_break_even() {
        let cheap = |kernel_copy| {
            let streaming_pays = false;
            Machine {
                kernel_copy,
                streaming_pays,
            }
            .has_cheap_kernel_copy()
        };
        assert!(cheap(Some(3.3)) && !cheap(Some(5.2)) && !cheap(None));
    }

    #[test]
    fn the_description_names_both_answers() {
        let machine = |kernel_copy, streaming_pays| Machine {
            kernel_copy,
            streaming_pays,
        };
        assert_eq!(
            machine(Some(5.23), true).to_string(),
            "the kernel's copy takes 5.2 times as long as a plain one, streaming stores to far cores"
        );
        assert_eq!(
            machine(None, false).to_string(),
            "the kernel's copy is not permitted, plain stores to far cores"
        );
    }
}
