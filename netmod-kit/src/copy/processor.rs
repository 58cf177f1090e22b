//! What is known of the processor that copies.

use std::arch::x86_64::{__cpuid, __cpuid_count};
use std::sync::atomic::{AtomicU8, Ordering};

const UNKNOWN: u8 = 0;
const NO: u8 = 1;
const YES: u8 = 2;

/// Whether `rep movsb` is the quickest way to copy 2 KiB and more: on AMD's Zen 5 and what comes after it.
#[inline]
pub(super) fn copies_by_instruction() -> bool {
    static FOUND: AtomicU8 = AtomicU8::new(UNKNOWN);
    match FOUND.load(Ordering::Relaxed) {
        UNKNOWN => {
            let found = look();
            FOUND.store(if found { YES } else { NO }, Ordering::Relaxed);
            found
        }
        known => known == YES,
    }
}

#[cold]
fn look() -> bool {
    let vendor = __cpuid(0);
    if vendor.eax < 7 {
        return false;
    }
    let by_amd = (vendor.ebx, vendor.edx, vendor.ecx)
        == (
            u32::from_le_bytes(*b"Auth"),
            u32::from_le_bytes(*b"enti"),
            u32::from_le_bytes(*b"cAMD"),
        );
    // (A virtual machine may hide that the instruction is quick; then it may not be.)
    let quick = __cpuid_count(7, 0).ebx & ERMS != 0;
    by_amd && quick && family(__cpuid(1).eax) >= ZEN_5
}

/// "Enhanced REP MOVSB/STOSB", in leaf 7.
const ERMS: u32 = 1 << 9;
/// The family of Zen 5 (1Ah).
const ZEN_5: u32 = 0x1a;

/// The family, of what leaf 1 says: the short one, and from 0fh on the long one on top.
fn family(signature: u32) -> u32 {
    match signature >> 8 & 0xf {
        0xf => 0xf + (signature >> 20 & 0xff),
        short => short,
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn families_are_read_from_signatures() {
        // Zen 4 (EPYC 9004), Zen 5 (EPYC 9005), a Xeon of the fourth generation.
        assert_eq!(super::family(0x00a1_0f11), 0x19);
        assert_eq!(super::family(0x00b0_0f21), 0x1a);
        assert_eq!(super::family(0x0008_06f8), 0x6);
    }
}
