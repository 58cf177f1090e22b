//! What is known of the processor that copies.

use std::arch::x86_64::{__cpuid_count, CpuidResult};
use std::sync::atomic::{AtomicU8, Ordering};

/// How `rep movsb` copies many bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(super) enum Instruction {
    /// It may take much longer than vectors.
    Avoided = 1,
    /// It is quicker than vectors, unless the lines of the target were asked for ahead.
    Quicker = 2,
    /// It is quicker even then.
    Quickest = 3,
}

/// How it does here.
#[inline]
pub(super) fn instruction() -> Instruction {
    // 0 is unknown.
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

/// What the processor says of itself in a leaf, the first of its parts.
fn ask(leaf: u32) -> CpuidResult {
    #[allow(
        unused_unsafe,
        reason = "it is an unsafe function for compilers of 1.89"
    )]
    // SAFETY: every processor that this is compiled for has the instruction.
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
    // (A virtual machine may hide that the instruction is quick; then it may not be.)
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
/// "Fast Short REP MOV", there, EDX.
const FSRM: u32 = 1 << 4;
/// The family of AMD's Zen 5 (1Ah).
const ZEN_5: u32 = 0x1a;

/// Of processors of this vendor and family that say that it is quick, or don't.
fn of(vendor: &[u8; 12], family: u32, quick: bool) -> Instruction {
    match vendor {
        b"AuthenticAMD" if quick && family >= ZEN_5 => Instruction::Quickest,
        b"GenuineIntel" if quick => Instruction::Quicker,
        _ => Instruction::Avoided,
    }
}

/// The family, of what leaf 1 says: the short one, and from 0fh on the long one on top.
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
    fn processors_are_told_apart_by_vendor_family_and_what_they_say() {
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
