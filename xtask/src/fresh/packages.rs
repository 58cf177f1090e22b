//! The wheel, the Debian packages and an installation from the source tree in a fresh system: each by itself runs all
//! commands of the tutorial.

use std::fs;
use std::time::Instant;

use super::{System, cargo_home, enter};
use crate::{Result, dist, workspace};

/// What the packages are made for: a compiler and Python.
pub const BEFOREHAND: &str = "build-essential,ca-certificates,python3-venv";

/// The ways: a name, what is done once, and where the programs are then.
const WAYS: &[(&str, &str, &str)] = &[
    (
        "the wheel",
        "python3 -m venv /root/venv && /root/venv/bin/pip install --quiet --no-index /packages/*.whl",
        "/root/venv/bin:/usr/bin:/bin",
    ),
    (
        "the Debian packages",
        "apt-get install --quiet --yes --no-install-recommends /packages/weft_*.deb /packages/weft-dev_*.deb",
        "/usr/bin:/bin",
    ),
    (
        // With nothing of the others left.
        "the source tree",
        "apt-get remove --quiet --yes weft weft-dev && rm -r /root/venv && \
         cd \"$SOURCES\" && cargo xtask install --prefix /root/weft $FAST",
        "/root/weft/bin:/usr/bin:/bin",
    ),
];

/// Makes the packages, and tries each way.
pub fn run(system: &System, dev: bool) -> Result {
    let began = Instant::now();
    let packages = system.root.join("packages");
    dist::run(Some(&packages), dev)?;
    println!("xtask: packages made in {} s", began.elapsed().as_secs());
    let page = workspace::root().join("docs/tutorial.md");
    let text = fs::read_to_string(&page).map_err(|error| format!("{}: {error}", page.display()))?;
    let script = system.root.join("root/tutorial.sh");
    fs::write(&script, tutorial(&text)?)
        .map_err(|error| format!("{}: {error}", script.display()))?;
    for (name, first, path) in WAYS {
        let began = Instant::now();
        let sources = workspace::root();
        let fast = if dev { "--dev" } else { "" };
        let told = format!(
            "export SOURCES='{}' FAST={fast}; {first}",
            sources.display()
        );
        enter(system, &told)?;
        let installed = began.elapsed().as_secs();
        enter(system, &format!("PATH={path} sh -e /root/tutorial.sh"))?;
        println!(
            "xtask: {}: {name} installed in {installed} s, the tutorial done after {} s",
            system.release.name,
            began.elapsed().as_secs()
        );
    }
    Ok(())
}

/// The tutorial as a script: its files, and its commands as they stand.
pub fn tutorial(text: &str) -> Result<String> {
    let mut script = "rm -rf ~/tutorial; mkdir ~/tutorial; cd ~/tutorial; set -x\n".to_owned();
    let mut parts = text.split("```");
    let mut commands = 0;
    parts.next();
    while let (Some(block), _) = (parts.next(), parts.next()) {
        let (head, body) = block.split_once('\n').unwrap_or_default();
        match head.split_once(' ') {
            Some(("c", name)) => {
                script += &format!("cat > {name} << 'END OF FILE'\n{body}END OF FILE\n");
            }
            None if head == "sh" => {
                // One after the other fails if one of them does.
                commands += 1;
                script += body;
            }
            _ => {}
        }
    }
    // A page that is cut up otherwise must not pass for nothing.
    match commands {
        5.. => Ok(script),
        _ => Err(format!(
            "the tutorial has {commands} blocks of commands only"
        )),
    }
}

/// Folders of this machine that the system has in common with it: what builds, and what it has built.
pub fn shared() -> Result<String> {
    let mut folders = vec![workspace::root(), workspace::target()?];
    folders.extend(cargo_home());
    let names: Vec<String> = folders
        .iter()
        .map(|one| one.display().to_string())
        .collect();
    if names.iter().any(|name| name.contains(char::is_whitespace)) {
        return Err("a folder of this machine has spaces in its name".to_owned());
    }
    Ok(names.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tutorial_is_a_script() {
        let page = workspace::root().join("docs/tutorial.md");
        let script = tutorial(&fs::read_to_string(page).unwrap()).unwrap();
        assert!(script.contains("mpicc -O2 -o heat heat.c\nmpiexec -n 4 ./heat"));
        assert!(script.contains("cat > threads.c << 'END OF FILE'\n#include <mpi.h>"));
        let checked = std::process::Command::new("sh")
            .args(["-n", "-c", &script])
            .status();
        assert!(checked.unwrap().success());
        assert!(tutorial("no commands").is_err());
    }
}
