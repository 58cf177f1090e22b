//! Selection of the kernel for an operation on a datatype.

use super::PredefinedOp;
use super::half::{Binary16, Brain, Half};
use super::kernels::{
    Band, Bits, Bor, Bxor, Complex, Kernel, Land, Level, Lor, Lxor, Max, Min, Number, Operator,
    Prod, Replace, Sum, Truth, kernel, no_op,
};
use super::pairs::{Greatest, Least, located, replace};
use super::quad::F128;
#[cfg(target_arch = "x86_64")]
use super::x87::F80;
use crate::datatype::{C_CHAR, Predefined, Representation};

/// Returns the kernel of `op` on `predefined` for `level`; `None` where accumulates do not take the
/// pair ([`PredefinedOp::accumulates`]), or where `long double` is two doubles.
pub fn select(op: PredefinedOp, predefined: Predefined, level: Level) -> Option<Kernel> {
    let accumulates = op.accumulates(predefined.group());
    accumulates.then(|| of_kind(op, predefined.kind(), level))?
}

/// Returns the kernel of `op` on a kind, if the operation is defined there.
pub(super) fn of_kind(op: PredefinedOp, kind: Representation, level: Level) -> Option<Kernel> {
    if op == PredefinedOp::NoOp {
        return Some(no_op);
    }
    // Kernels that vector instructions do not speed up are compiled for the baseline only.
    let scalar = Level::Baseline;
    match kind {
        Representation::Bool | Representation::U8 => unsigned::<u8>(op, level),
        Representation::U16 => unsigned::<u16>(op, level),
        Representation::U32 | Representation::Wchar | Representation::Logical4 => {
            unsigned::<u32>(op, level)
        }
        Representation::U64 => unsigned::<u64>(op, level),
        // Signed and unsigned differ in order only: arithmetic wraps.
        Representation::I8 => order::<i8>(op, level).or_else(|| unsigned::<u8>(op, level)),
        Representation::Byte | Representation::Char => of_kind(op, C_CHAR, level),
        Representation::I16 => order::<i16>(op, level).or_else(|| unsigned::<u16>(op, level)),
        Representation::I32 => order::<i32>(op, level).or_else(|| unsigned::<u32>(op, level)),
        Representation::I64 => order::<i64>(op, level).or_else(|| unsigned::<u64>(op, level)),
        Representation::I128 => order::<i128>(op, scalar).or_else(|| unsigned::<u128>(op, scalar)),
        Representation::F16 => floating::<Half<Binary16>>(op, scalar),
        Representation::Bf16 => floating::<Half<Brain>>(op, scalar),
        Representation::C16 => arithmetic::<Complex<Half<Binary16>>>(op, scalar),
        Representation::F32 => floating::<f32>(op, level),
        Representation::F64 => floating::<f64>(op, level),
        Representation::F128 => floating::<F128>(op, scalar),
        Representation::C32 => arithmetic::<Complex<f32>>(op, level),
        Representation::C64 => arithmetic::<Complex<f64>>(op, level),
        Representation::C128 => arithmetic::<Complex<F128>>(op, scalar),
        Representation::F128Int => pair::<F128, i32>(op),
        Representation::FloatInt => pair::<f32, i32>(op),
        Representation::DoubleInt => pair::<f64, i32>(op),
        Representation::LongInt => pair::<i64, i32>(op),
        Representation::IntInt => pair::<i32, i32>(op),
        Representation::ShortInt => pair::<i16, i32>(op),
        Representation::FloatFloat => pair::<f32, f32>(op),
        Representation::DoubleDouble => pair::<f64, f64>(op),
        #[cfg(target_arch = "x86_64")]
        Representation::F80 => floating::<F80>(op, scalar),
        #[cfg(target_arch = "x86_64")]
        Representation::C80 => arithmetic::<Complex<F80>>(op, scalar),
        #[cfg(target_arch = "x86_64")]
        Representation::F80Int => pair::<F80, i32>(op),
        #[cfg(not(target_arch = "x86_64"))]
        Representation::F80 | Representation::C80 | Representation::F80Int => None,
    }
}

fn at<O: Operator>(level: Level) -> Option<Kernel> {
    Some(kernel::<O>(level))
}

fn unsigned<T: Bits + Number + PartialOrd>(op: PredefinedOp, level: Level) -> Option<Kernel> {
    match op {
        PredefinedOp::Band => at::<Band<T>>(level),
        PredefinedOp::Bor => at::<Bor<T>>(level),
        PredefinedOp::Bxor => at::<Bxor<T>>(level),
        _ => floating::<T>(op, level),
    }
}

fn floating<T: Number + Truth + PartialOrd>(op: PredefinedOp, level: Level) -> Option<Kernel> {
    match op {
        PredefinedOp::Land => at::<Land<T>>(level),
        PredefinedOp::Lor => at::<Lor<T>>(level),
        PredefinedOp::Lxor => at::<Lxor<T>>(level),
        _ => order::<T>(op, level).or_else(|| arithmetic::<T>(op, level)),
    }
}

fn order<T: Copy + PartialOrd>(op: PredefinedOp, level: Level) -> Option<Kernel> {
    match op {
        PredefinedOp::Max => at::<Max<T>>(level),
        PredefinedOp::Min => at::<Min<T>>(level),
        _ => None,
    }
}

fn arithmetic<T: Number>(op: PredefinedOp, level: Level) -> Option<Kernel> {
    match op {
        PredefinedOp::Sum => at::<Sum<T>>(level),
        PredefinedOp::Prod => at::<Prod<T>>(level),
        PredefinedOp::Replace => at::<Replace<T>>(level),
        _ => None,
    }
}

fn pair<V: Copy + PartialOrd, I: Copy + PartialOrd>(op: PredefinedOp) -> Option<Kernel> {
    match op {
        PredefinedOp::Minloc => Some(located::<V, I, Least>()),
        PredefinedOp::Maxloc => Some(located::<V, I, Greatest>()),
        PredefinedOp::Replace => Some(replace::<V, I>()),
        _ => None,
    }
}
