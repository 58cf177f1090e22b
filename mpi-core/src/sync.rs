//! Atomics, cells and locks, which are loom's in loom tests.

#[cfg(not(loom))]
pub(crate) use std::cell::UnsafeCell;
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{
    AtomicBool, AtomicI32, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
#[cfg(not(loom))]
pub(crate) use std::thread::yield_now;

#[cfg(not(loom))]
pub(crate) use parking_lot::Mutex;

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{
    AtomicBool, AtomicI32, AtomicU16, AtomicU32, AtomicU64, AtomicUsize, Ordering, fence,
};
#[cfg(loom)]
pub(crate) use loom::thread::yield_now;

/// Loom's cell with the interface of the standard library's. Each `get` counts as a write at that
/// moment.
#[cfg(loom)]
pub(crate) struct UnsafeCell<T>(loom::cell::UnsafeCell<T>);

#[cfg(loom)]
impl<T> UnsafeCell<T> {
    pub fn new(value: T) -> Self {
        UnsafeCell(loom::cell::UnsafeCell::new(value))
    }

    pub fn get(&self) -> *mut T {
        self.0.with_mut(|value| value)
    }
}

/// Loom's mutex, without poisoning.
#[cfg(loom)]
pub(crate) struct Mutex<T>(loom::sync::Mutex<T>);

#[cfg(loom)]
impl<T> Mutex<T> {
    pub fn new(value: T) -> Self {
        Mutex(loom::sync::Mutex::new(value))
    }

    pub fn lock(&self) -> loom::sync::MutexGuard<'_, T> {
        self.0
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Fails to compile if the type is `Send` or `Sync`: then two implementations of the trait apply,
/// and the call is ambiguous.
#[cfg(all(test, not(loom)))]
macro_rules! assert_of_one_thread {
    ($type:ty) => {
        const _: fn() = || {
            trait OneOnly<A> {
                fn holds() {}
            }
            struct IsSend;
            struct IsSync;
            impl<T: ?Sized> OneOnly<()> for T {}
            impl<T: ?Sized + Send> OneOnly<IsSend> for T {}
            impl<T: ?Sized + Sync> OneOnly<IsSync> for T {}
            <$type as OneOnly<_>>::holds();
        };
    };
}
#[cfg(all(test, not(loom)))]
pub(crate) use assert_of_one_thread;
