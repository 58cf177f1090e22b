//! The line that an agent gets over its standard input: the version that it must have, the number of its
//! host, the addresses of its parent, and the secret to prove there.

use std::net::SocketAddr;

use netmod_kit::admission::Secret;

/// The option that makes `mpiexec` an agent.
pub const OPTION: &str = "-weft-agent";

/// The first word. It and the version after it stay as they are in all versions.
const FIRST: &str = "weft-agent";

/// The version of this program.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The line's content.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Greeting {
    /// The number of the agent's host.
    pub host: u32,
    /// The secret to prove to the parent.
    pub secret: Secret,
    /// Seconds to reach the parent.
    pub patience: u32,
    /// The addresses of the parent.
    pub addresses: Vec<SocketAddr>,
}

impl Greeting {
    /// Formats the line.
    pub fn line(&self) -> String {
        let secret = self.secret.to_hex();
        let addresses: Vec<String> = self.addresses.iter().map(SocketAddr::to_string).collect();
        format!(
            "{FIRST} {VERSION} {} {secret} {} {}\n",
            self.host,
            self.patience,
            addresses.join(",")
        )
    }

    /// Parses the line. The parent prints the error.
    pub fn read(line: &str) -> Result<Greeting, String> {
        let mut words = line.split_whitespace();
        if words.next() != Some(FIRST) {
            return Err(
                "what came over standard input is not what mpiexec sends to an agent; the \
                 command of -bootstrap-exec must pass its standard input on"
                    .to_owned(),
            );
        }
        let version = words.next().unwrap_or("unknown");
        if version != VERSION {
            let path = std::env::current_exe().unwrap_or_default();
            return Err(format!(
                "mpiexec of this job is of version {version}, but {} here is of version {VERSION}; \
                 all hosts need the same (-prefix names its folder)",
                path.display()
            ));
        }
        let mut read = || {
            Some(Greeting {
                host: words.next()?.parse().ok()?,
                secret: Secret::from_hex(words.next()?)?,
                patience: words.next()?.parse().ok()?,
                addresses: words
                    .next()?
                    .split(',')
                    .map(|address| address.parse().ok())
                    .collect::<Option<_>>()?,
            })
        };
        read().ok_or_else(|| "the line that mpiexec sends to an agent has come garbled".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn greeting() -> Greeting {
        Greeting {
            host: 3,
            secret: Secret::from_bytes(std::array::from_fn(|at| at as u8 * 7)),
            patience: 20,
            addresses: vec!["10.0.0.1:77".parse().unwrap(), "[::1]:5".parse().unwrap()],
        }
    }

    #[test]
    fn the_line_comes_back() {
        assert_eq!(Greeting::read(&greeting().line()), Ok(greeting()));
    }

    #[test]
    fn another_version_is_refused_with_both_named() {
        let line = greeting().line().replace(VERSION, "77.1");
        let error = Greeting::read(&line).unwrap_err();
        assert!(error.contains("77.1") && error.contains(VERSION), "{error}");
        for line in ["", "hello", "\n"] {
            let error = Greeting::read(line).unwrap_err();
            assert!(error.contains("standard input"), "{error}");
        }
        let line = greeting().line().replace("07", "0");
        assert!(Greeting::read(&line).unwrap_err().contains("garbled"));
    }
}
