//! Buffers of programs: contiguous, or every second byte.

use mpi_core::Buffer;
use mpi_core::datatype::{Datatype, Predefined};

pub const POISON: u8 = 0xa5;

/// Memory that is lent to an operation, with a margin that must stay untouched.
pub struct Memory {
    bytes: Vec<u8>,
    len: usize,
    /// Distance between bytes of data.
    step: usize,
}

impl Memory {
    pub fn new(data: &[u8], gaps: bool) -> Memory {
        let step = if gaps { 2 } else { 1 };
        let mut bytes = vec![POISON; data.len() * step + 8];
        for (i, &byte) in data.iter().enumerate() {
            bytes[i * step] = byte;
        }
        let len = data.len();
        Memory { bytes, len, step }
    }

    /// Returns the buffer to lend. The memory must stay until the operation is complete.
    pub fn lend(&mut self) -> Buffer {
        let address = self.bytes.as_mut_ptr();
        if self.step == 1 {
            // SAFETY: the caller keeps the memory until the operation is complete.
            return unsafe { Buffer::bytes(address, self.len) };
        }
        let byte = Datatype::predefined(Predefined::Byte);
        let every = byte.vector(self.len as i64, 1, self.step as i64).unwrap();
        // SAFETY: the caller keeps the memory until the operation is complete.
        unsafe { Buffer::typed(address, 1, &every) }
    }

    /// Returns the data.
    pub fn data(&self) -> Vec<u8> {
        (0..self.len).map(|i| self.bytes[i * self.step]).collect()
    }

    /// Whether margin and gaps are untouched.
    pub fn is_sound(&self) -> bool {
        let outside = |i: usize| i >= self.len * self.step || !i.is_multiple_of(self.step);
        (0..self.bytes.len()).all(|i| !outside(i) || self.bytes[i] == POISON)
    }
}
