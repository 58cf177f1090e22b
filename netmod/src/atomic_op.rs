//! Atomic operations on remote memory.

use std::sync::atomic::{AtomicU64, Ordering};

/// 8-byte atomic operations on remote memory. All return the previous value.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AtomicOp {
    /// Reads; the operand is not used.
    Load,
    /// Stores the operand.
    Swap,
    /// Adds the operand, wrapping.
    Add,
    /// Bitwise and.
    And,
    /// Bitwise or.
    Or,
    /// Bitwise exclusive or.
    Xor,
    /// Stores the operand if the previous value equals `compare`.
    CompareSwap,
}

impl AtomicOp {
    /// Carries the operation out with this processor's atomics, for transports whose network has
    /// none. Returns the previous value.
    #[inline]
    pub fn carry_out(self, word: &AtomicU64, operand: u64, compare: u64) -> u64 {
        const ORDER: Ordering = Ordering::SeqCst;
        match self {
            AtomicOp::Load => word.load(ORDER),
            AtomicOp::Swap => word.swap(operand, ORDER),
            AtomicOp::Add => word.fetch_add(operand, ORDER),
            AtomicOp::And => word.fetch_and(operand, ORDER),
            AtomicOp::Or => word.fetch_or(operand, ORDER),
            AtomicOp::Xor => word.fetch_xor(operand, ORDER),
            AtomicOp::CompareSwap => word
                .compare_exchange(compare, operand, ORDER, ORDER)
                .unwrap_or_else(|found| found),
        }
    }
}
