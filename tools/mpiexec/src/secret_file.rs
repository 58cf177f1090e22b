//! Secrets in files, which the user gives to all processes that are to meet.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::unix::fs::MetadataExt;

use netmod_kit::admission::Secret;
use rustix::process::geteuid;

/// Least and most bytes of a secret in a file.
const LENGTHS: std::ops::RangeInclusive<usize> = 16..=4096;

/// The use of a secret in a file.
pub struct SecretFile {
    /// The option that names the file.
    pub option: &'static str,
    /// The purpose, so that one file gives another secret for another use.
    pub purpose: &'static str,
    /// The advice about copies of the file.
    pub copy: &'static str,
    /// The permissions that the file must not have.
    pub forbidden: u32,
}

impl SecretFile {
    /// Reads the secret.
    ///
    /// # Errors
    /// The file can't be read, others could have read or changed it, or it is too short for a secret.
    pub fn read(&self, path: &OsStr) -> Result<Secret, String> {
        let name = path.display();
        let wrong = |why: String| format!("the file '{name}' ({}) {why}", self.option);
        let failed = |error: io::Error| {
            let hint = match error.kind() {
                io::ErrorKind::NotFound => format!(
                    "; make it by '(umask 077; head -c 32 /dev/urandom | base64 > {name})', and {}",
                    self.copy
                ),
                _ => String::new(),
            };
            wrong(format!("can't be read: {error}{hint}"))
        };
        // Checked before opening the file, since opening a pipe would block.
        if !fs::metadata(path).map_err(failed)?.is_file() {
            return Err(wrong("is not a regular file".to_owned()));
        }
        let file = File::open(path).map_err(failed)?;
        let data = file.metadata().map_err(failed)?;
        if ![geteuid().as_raw(), 0].contains(&data.uid()) {
            return Err(wrong(
                "belongs to another user; copy it to a file of your own".to_owned(),
            ));
        }
        if data.mode() & self.forbidden != 0 {
            return Err(wrong(format!(
                "can be read or changed by others (its mode is {:o}); chmod 600 {name}",
                data.mode() & 0o777
            )));
        }
        let mut text = Vec::new();
        let limit = *LENGTHS.end() as u64 + 1;
        file.take(limit).read_to_end(&mut text).map_err(failed)?;
        let text = text.trim_ascii();
        if !LENGTHS.contains(&text.len()) {
            return Err(wrong(format!(
                "has {} bytes; a secret has {} to {}",
                text.len(),
                LENGTHS.start(),
                LENGTHS.end()
            )));
        }
        Ok(Secret::derive(self.purpose, text))
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    const FILE: SecretFile = SecretFile {
        option: "-secret",
        purpose: "test",
        copy: "copy it",
        forbidden: 0o077,
    };

    #[test]
    fn a_secret_is_read_from_a_file_that_others_can_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let read = |text: &[u8], mode| {
            let path = dir.path().join("secret");
            let _ = fs::remove_file(&path);
            fs::write(&path, text).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
            FILE.read(path.as_os_str())
        };
        let secret = read(b"0123456789abcdef\n", 0o600).unwrap();
        assert_eq!(read(b" 0123456789abcdef", 0o400), Ok(secret));
        assert_ne!(read(b"0123456789abcdeg", 0o600), Ok(secret));
        for mode in [0o640, 0o604, 0o620, 0o602] {
            let why = read(b"0123456789abcdef", mode).unwrap_err();
            assert!(why.contains("chmod 600"), "{why}");
        }
        for text in [&b"0123456789abcde\n"[..], b"", &[b'x'; 5000]] {
            assert!(
                read(text, 0o600)
                    .unwrap_err()
                    .contains("bytes; a secret has")
            );
        }
        let why = FILE.read(dir.path().join("none").as_os_str()).unwrap_err();
        assert!(why.contains("head -c 32"), "{why}");
        assert!(FILE.read(dir.path().as_os_str()).is_err());
    }
}
