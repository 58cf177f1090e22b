//! Detects how fast the processor's copy instruction is.

use std::arch::x86_64::{__cpuid_count, CpuidResult};
use std::sync::atomic::{AtomicU8, Ordering};

/// Speed of `rep movsb` for long copies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Instruction {
    /// It may be much slower than vectors.
    Avoided = 1,
    /// It is faster than vectors, unless the target's lines were prefetched.
    Quicker = 2,
    /// It is faster even then.
    Quickest = 3,
}

/// Returns the speed on this processor; detected once.
#[inline]
pub(super) fn instruction() -> Instruction {
    // 0: not yet detected.
    static FOUND: AtomicU8 = AtomicU8::new(0);
    match FOUND.load(Ordering::Relaxed) {
        0 => {
            let found = look();
            FOUND.store(found as u8, Ordering::Relaxed);
            found
        }
        1 => Instruction::Avoided,
        2 => Instruction::Quicker,
        _ => Instruction::Quickest,
    }
}

/// Returns whether a hypervisor runs this system (leaf 1, ECX, bit 31).
pub(super) fn has_hypervisor() -> bool {
    ask(1).ecx >> 31 == 1
}

/// Reads a CPUID leaf, subleaf 0.
fn ask(leaf: u32) -> CpuidResult {
    #[allow(
        unused_unsafe,
        reason = "it is an unsafe function for compilers of 1.89"
    )]
    // SAFETY: every x86-64 processor has the instruction.
    unsafe {
        __cpuid_count(leaf, 0)
    }
}

#[cold]
fn look() -> Instruction {
    let vendor = ask(0);
    if vendor.eax < 7 {
        return Instruction::Avoided;
    }
    let features = ask(7);
    // (A virtual machine may hide the features; the instruction then counts as slow.)
    let quick = features.ebx & ERMS != 0 && features.edx & FSRM != 0;
    let mut name = [0; 12];
    for (part, register) in name
        .chunks_exact_mut(4)
        .zip([vendor.ebx, vendor.edx, vendor.ecx])
    {
        part.copy_from_slice(&register.to_le_bytes());
    }
    of(&name, family(ask(1).eax), quick)
}

/// "Enhanced REP MOVSB/STOSB", in leaf 7, EBX.
const ERMS: u32 = 1 << 9;
/// "Fast Short REP MOV", in leaf 7, EDX.
const FSRM: u32 = 1 << 4;
/// The family of AMD's Zen 5 (1Ah).
const ZEN_5: u32 = 0x1a;

/// Classifies processors by vendor, family and feature bits.
fn of(vendor: &[u8; 12], family: u32, quick: bool) -> Instruction {
    match vendor {
        b"AuthenticAMD" if quick && family >= ZEN_5 => Instruction::Quickest,
        b"GenuineIntel" if quick => Instruction::Quicker,
        _ => Instruction::Avoided,
    }
}

/// Returns the family from the signature in leaf 1: base family, plus the extended one if the base
/// is 0Fh.
fn family(signature: u32) -> u32 {
    match signature >> 8 & 0xf {
        0xf => 0xf + (signature >> 20 & 0xff),
        short => short,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn processors_are_classified_by_vendor_family_and_features() {
        // Zen 4 (EPYC 9004), Zen 5 (EPYC 9005), a Xeon of the fourth generation.
        assert_eq!(family(0x00a1_0f11), 0x19);
        assert_eq!(family(0x00b0_0f21), 0x1a);
        assert_eq!(family(0x0008_06f8), 0x6);
        assert_eq!(of(b"AuthenticAMD", 0x19, true), Instruction::Avoided);
        assert_eq!(of(b"AuthenticAMD", 0x1a, true), Instruction::Quickest);
        assert_eq!(of(b"AuthenticAMD", 0x1a, false), Instruction::Avoided);
        assert_eq!(of(b"GenuineIntel", 6, true), Instruction::Quicker);
        assert_eq!(of(b"GenuineIntel", 6, false), Instruction::Avoided);
        assert_eq!(of(b"HygonGenuine", 0x18, true), Instruction::Avoided);
    }
}
