//! Atomic operations on remote memory.

use std::sync::atomic::{AtomicU64, Ordering};

/// 8-byte atomic operations on remote memory. All of them return the value found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AtomicOp {
    /// Reads; the operand is not used.
    Load,
    /// Replaces by the operand.
    Swap,
    /// Adds the operand, wrapping.
    Add,
    /// Bitwise and.
    And,
    /// Bitwise or.
    Or,
    /// Bitwise exclusive or.
    Xor,
    /// Replaces by the operand if the value found equals `compare`.
    CompareSwap,
}

impl AtomicOp {
    /// Carries it out by this processor, for transports whose hardware does not. Gives what was found.
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
