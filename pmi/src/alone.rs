//! A process without a launcher: rank 0 of 1, everything in memory.

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard};

use crate::PmiError;
use crate::channel::lock;
use crate::link::Link;

#[derive(Debug, Default)]
pub(crate) struct Alone(Mutex<Memory>);

#[derive(Debug, Default)]
struct Memory {
    keys: HashMap<String, String>,
    names: HashMap<String, String>,
    finalized: bool,
}

impl Alone {
    fn alive(&self) -> Result<MutexGuard<'_, Memory>, PmiError> {
        let memory = lock(&self.0);
        if memory.finalized {
            return Err(PmiError::Over("the call came after finalize".to_owned()));
        }
        Ok(memory)
    }
}

impl Link for Alone {
    fn describe(&self) -> String {
        "none (rank 0 of 1)".to_owned()
    }

    fn space(&self) -> &str {
        "singleton"
    }

    fn put(&self, key: &str, value: &str) -> Result<(), PmiError> {
        let mut memory = self.alive()?;
        memory.keys.insert(key.to_owned(), value.to_owned());
        Ok(())
    }

    fn get(&self, _from: u32, key: &str) -> Result<Option<String>, PmiError> {
        Ok(self.alive()?.keys.get(key).cloned())
    }

    fn fence(&self) -> Result<(), PmiError> {
        self.alive().map(drop)
    }

    fn publish(&self, service: &str, port: &str) -> Result<(), PmiError> {
        let mut memory = self.alive()?;
        if memory.names.contains_key(service) {
            return Err(PmiError::Refused {
                command: "publish_name",
                reason: format!("'{service}' is already published"),
            });
        }
        memory.names.insert(service.to_owned(), port.to_owned());
        Ok(())
    }

    fn unpublish(&self, service: &str) -> Result<(), PmiError> {
        match self.alive()?.names.remove(service) {
            Some(_) => Ok(()),
            None => Err(PmiError::Refused {
                command: "unpublish_name",
                reason: format!("'{service}' is not published"),
            }),
        }
    }

    fn lookup(&self, service: &str) -> Result<Option<String>, PmiError> {
        Ok(self.alive()?.names.get(service).cloned())
    }

    fn abort(&self, _code: i32, _message: &str) -> Result<(), PmiError> {
        Ok(())
    }

    fn finalize(&self) -> Result<(), PmiError> {
        lock(&self.0).finalized = true;
        Ok(())
    }

    fn appnum(&self) -> Result<Option<i32>, PmiError> {
        Ok(None)
    }

    fn universe_size(&self) -> Result<Option<u32>, PmiError> {
        Ok(None)
    }

    fn nodes(&self, _size: u32) -> Result<Option<Vec<u32>>, PmiError> {
        Ok(Some(vec![0]))
    }
}
