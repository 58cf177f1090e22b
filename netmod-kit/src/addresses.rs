//! The addresses of a transport's open VCIs.

use std::sync::{Mutex, MutexGuard, PoisonError};

use netmod::{OpenError, VciId};

use crate::peer_table::NumberMap;

/// The addresses of a transport's open VCIs.
#[derive(Default)]
pub struct Addresses(Mutex<NumberMap<u64, Vec<u8>>>);

impl Addresses {
    /// Opens a VCI by `open`, which returns the lane and the VCI's address.
    ///
    /// # Errors
    /// The VCI is already open, or the error of `open`.
    pub fn open<T>(
        &self,
        vci: VciId,
        open: impl FnOnce() -> Result<(T, Vec<u8>), OpenError>,
    ) -> Result<T, OpenError> {
        let mut all = self.lock();
        if all.contains_key(&vci.into()) {
            return Err(OpenError(format!(
                "internal error: VCI {vci} is already open"
            )));
        }
        let (lane, address) = open()?;
        all.insert(vci.into(), address);
        Ok(lane)
    }

    /// Returns the address of an open VCI, or nothing.
    pub fn get(&self, vci: VciId) -> Vec<u8> {
        self.lock().get(&vci.into()).cloned().unwrap_or_default()
    }

    fn lock(&self) -> MutexGuard<'_, NumberMap<u64, Vec<u8>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_vci_is_opened_once() {
        let addresses = Addresses::default();
        assert!(addresses.get(3).is_empty());
        assert_eq!(addresses.open(3, || Ok(('a', vec![7]))), Ok('a'));
        assert_eq!(addresses.get(3), [7]);
        assert!(addresses.open(3, || Ok(('b', vec![8]))).is_err());
        let failed = || Err::<(char, _), _>(OpenError("none".to_string()));
        assert_eq!(
            addresses.open(4, failed),
            Err(OpenError("none".to_string()))
        );
        assert!(addresses.get(4).is_empty());
    }
}
