//! Versions of system libraries that an installation needs.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use super::text_of;
use crate::Result;

/// Oldest glibc that packages name, since wheels have no tag for an older one.
const OLDEST: [u32; 2] = [2, 17];
/// Libraries of gcc 8, the compiler of the systems with glibc 2.28.
const GCC: &[(&str, [u32; 3])] = &[
    ("GLIBCXX", [3, 4, 25]),
    ("CXXABI", [1, 3, 11]),
    ("GCC", [7, 0, 0]),
];

/// The newest version of each set of symbols, with the file that needs it.
pub struct Needs(BTreeMap<String, (Vec<u32>, PathBuf)>);

/// Returns what these programs and libraries need.
pub fn of(files: &[PathBuf]) -> Result<Needs> {
    let mut needs = Needs(BTreeMap::new());
    for file in files {
        let path = file.to_string_lossy();
        needs.add(
            file,
            &text_of("readelf", &["--wide", "--version-info", &path])?,
        );
    }
    Ok(needs)
}

impl Needs {
    /// Adds what `readelf --version-info` prints about a file.
    fn add(&mut self, file: &Path, text: &str) {
        let names = text
            .split("Name: ")
            .skip(1)
            .filter_map(|rest| rest.split_whitespace().next());
        for (set, version) in names.filter_map(|name| name.rsplit_once('_')) {
            let version: Vec<u32> = version.split('.').map_while(|n| n.parse().ok()).collect();
            let newest = self.0.entry(set.to_owned()).or_default();
            if version > newest.0 {
                *newest = (version, file.to_owned());
            }
        }
    }

    /// Returns the version of glibc that packages have to ask for.
    pub fn glibc(&self) -> String {
        let needed = self.0.get("GLIBC").map_or(&[][..], |(version, _)| version);
        dotted(needed.max(&OLDEST))
    }

    /// Fails if a file needs a newer glibc than this, or a newer library of gcc than gcc 8's.
    pub fn check(&self, glibc: &str) -> Result {
        let glibc: Vec<u32> = glibc.split('.').map_while(|n| n.parse().ok()).collect();
        let allowed = GCC.iter().map(|(set, version)| (*set, &version[..]));
        for (set, newest) in allowed.chain([("GLIBC", &glibc[..])]) {
            if let Some((version, file)) = self.0.get(set)
                && version[..] > *newest
            {
                let (version, newest) = (dotted(version), dotted(newest));
                let file = file.display();
                return Err(format!("{file} needs {set}_{version}, newer than {newest}"));
            }
        }
        Ok(())
    }
}

fn dotted(version: &[u32]) -> String {
    let parts: Vec<String> = version.iter().map(u32::to_string).collect();
    parts.join(".")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_of_any_file_counts() {
        let mut needs = Needs(BTreeMap::new());
        assert_eq!(needs.glibc(), "2.17");
        let entry = |name: &str| format!("  0x0010:   Name: {name}  Flags: none  Version: 5\n");
        let old = entry("GLIBC_2.2.5") + &entry("GLIBC_2.28") + &entry("GLIBC_PRIVATE");
        needs.add(Path::new("libmpi.so.12"), &old);
        needs.add(Path::new("libmpicxx.so.12"), &entry("GLIBCXX_3.4.21"));
        assert_eq!(needs.glibc(), "2.28");
        assert_eq!(needs.check("2.28"), Ok(()));
        let refused = needs.check("2.27").expect_err("a newer glibc");
        assert!(
            refused.contains("libmpi.so.12 needs GLIBC_2.28"),
            "{refused}"
        );

        needs.add(Path::new("mpiexec"), &entry("GLIBC_2.34"));
        assert_eq!(needs.glibc(), "2.34");
        assert!(
            needs
                .check("2.28")
                .is_err_and(|error| error.starts_with("mpiexec needs"))
        );
        needs.add(Path::new("libmpicxx.so.12"), &entry("GLIBCXX_3.4.29"));
        assert!(
            needs
                .check("2.34")
                .is_err_and(|error| error.contains("GLIBCXX_3.4.29"))
        );
    }
}
