//! `cargo xtask dist`: the files of a release, in `target/dist`.
//!
//! | file | contents |
//! |---|---|
//! | `lodstone-*.whl` | the Python package with the command, for manylinux and every Python from 3.11 on; each architecture |
//! | `lodstone-*-TARGET` | the command, statically linked; each architecture |
//! | `lodstone-*-TARGET.cdx.json` | what is in it, as CycloneDX |
//! | `lodstone-*.tar.gz` | the source with all dependencies, which builds without a network |
//! | `man/*.1` | a page of the manual for each subcommand |
//! | `completions/*` | completions for each shell |
//! | `SHA256SUMS` | checksums of all of these |
//!
//! Everything is built from the archive of the source, without a network. `--profile release` builds what users compile, in a
//! third of the time. `--check` builds nothing: it proves that the files there work without a compiler, Rust, or any other
//! package. Files for another architecture run with the emulator of user programs of QEMU, if it is installed.

mod bill;
mod source;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

use crate::python::{could_not_run, environment, paths_with, pythons};
use crate::run::{Outcome, cannot, root, run, target};

/// The architectures: as Rust names them, and the emulator.
const ARCHITECTURES: [(&str, &str); 2] = [("x86_64", "qemu-x86_64"), ("aarch64", "qemu-aarch64")];

/// The oldest C library that the wheel runs on: glibc 2.17. Zig compiles and links for it on any host.
const MANYLINUX: &str = "manylinux2014";

/// The variable that leaves symbols out of the command. `strip` of the profile does not hold for packages with a level of their
/// own.
pub(crate) const STRIP: (&str, &str) = ("RUSTFLAGS", "-C strip=symbols");

/// The requirements for building the wheel.
const PACKAGING: &str = "crates/python/requirements-dist.txt";

const SHELLS: [(&str, &str); 5] = [
    ("bash", "lodstone.bash"),
    ("zsh", "_lodstone"),
    ("fish", "lodstone.fish"),
    ("powershell", "_lodstone.ps1"),
    ("elvish", "lodstone.elv"),
];

/// The file of the checksums, as `sha256sum --check` reads it.
const CHECKSUMS: &str = "SHA256SUMS";

pub(crate) fn dist(rest: &[String]) -> Result<(), Outcome> {
    match rest.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        [] => build("dist")?,
        ["--profile", profile] => build(profile)?,
        ["--check"] => {}
        _ => {
            let usage = "usage: cargo xtask dist [--check | --profile PROFILE]";
            return Err(Outcome::CouldNotRun(usage.to_owned()));
        }
    }
    check()
}

/// Returns the target of a statically linked command.
fn musl(architecture: &str) -> String {
    format!("{architecture}-unknown-linux-musl")
}

fn build(profile: &str) -> Result<(), Outcome> {
    let dist = target().join("dist");
    let _ = fs::remove_dir_all(&dist);
    for directory in ["man", "completions"] {
        fs::create_dir_all(dist.join(directory)).map_err(cannot("create a directory"))?;
    }
    let (_, python) = pythons().into_iter().next().ok_or_else(|| {
        Outcome::CouldNotRun("there is no Python 3.11 or newer with venv".to_owned())
    })?;
    let python = environment(&python, PACKAGING)?;
    let name = format!("lodstone-{}", env!("CARGO_PKG_VERSION"));
    let archive = dist.join(format!("{name}.tar.gz"));
    let source = source::source(&target().join("dist-source"), &name, &archive)?;
    let offline = |program: &mut Command| {
        // Only what is in the archive.
        let home = target().join("dist-home");
        let path = paths_with(&python)?;
        run(program.env("CARGO_HOME", home).env("CARGO_NET_OFFLINE", "true").env("PATH", path))
    };
    for (architecture, _) in ARCHITECTURES {
        let (musl, gnu) = (musl(architecture), format!("{architecture}-unknown-linux-gnu"));
        let mut rustup = Command::new("rustup");
        rustup.args(["--quiet", "target", "add", &musl, &gnu]).current_dir(&source.root);
        run(&mut rustup).map_err(could_not_run)?;
        let built = target().join("dist-build");
        let mut zigbuild = Command::new("cargo-zigbuild");
        zigbuild.args(["zigbuild", "--quiet", "--locked", "--package", "lodstone-cli"]);
        zigbuild.args(["--profile", profile, "--target", &musl, "--target-dir"]).arg(&built);
        zigbuild.env(STRIP.0, STRIP.1);
        offline(zigbuild.current_dir(&source.root))?;
        let binary = built.join(&musl).join(profile).join("lodstone");
        let command = dist.join(format!("{name}-{musl}"));
        fs::copy(&binary, &command).map_err(cannot("copy the command"))?;
        let bill = bill::bill(&musl, &source.time)?;
        fs::write(dist.join(format!("{name}-{musl}.cdx.json")), bill)
            .map_err(cannot("write the bill of materials"))?;
        let mut maturin = Command::new(&python);
        maturin.args(["-m", "maturin", "build", "--quiet", "--locked", "--zig", "--compatibility"]);
        maturin.args([MANYLINUX, "--profile", profile, "--target", &gnu, "--target-dir"]);
        maturin.arg(&built).arg("--out").arg(&dist);
        offline(maturin.current_dir(source.root.join("crates/python")))?;
    }
    let command = dist.join(format!("{name}-{}", musl(std::env::consts::ARCH)));
    for (shell, name) in SHELLS {
        let script = output(Command::new(&command).args(["completions", shell]))?;
        fs::write(dist.join("completions").join(name), script).map_err(cannot("write a script"))?;
    }
    run(Command::new(&command).args(["man", "--quiet"]).arg(dist.join("man")))?;
    let sums = checksums(&dist)?;
    fs::write(dist.join(CHECKSUMS), sums).map_err(cannot("write the checksums"))
}

/// Checks that the files are complete, and that they work alone.
fn check() -> Result<(), Outcome> {
    let dist = target().join("dist");
    let sums = fs::read_to_string(dist.join(CHECKSUMS)).map_err(cannot("read the checksums"))?;
    expect(sums == checksums(&dist)?, "the checksums are those of the files")?;
    let files = files(&dist)?;
    let name = |path: &PathBuf| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let find = |what: &str, is: &dyn Fn(&str) -> bool| {
        let missing = || Outcome::Failed(format!("there is no {what} in {}", dist.display()));
        files.iter().find(|path| is(&name(path))).ok_or_else(missing)
    };
    let bytes = |path: &Path| fs::read(path).map_err(cannot("read a file of the release"));
    for (architecture, emulator) in ARCHITECTURES {
        let is_own = architecture == std::env::consts::ARCH;
        let wheel = find("manylinux wheel", &|name| {
            let is_for = |what: &str| name.contains(what);
            name.ends_with(".whl") && is_for("-abi3-") && is_for(MANYLINUX) && is_for(architecture)
        })?;
        let command = find("static command", &|name| name.ends_with(&musl(architecture)))?;
        find("bill of materials", &|name| name.ends_with(&(musl(architecture) + ".cdx.json")))?;
        expect(is_static(&bytes(command)?), "the command is statically linked")?;
        if is_own {
            check_wheel(wheel)?;
            let alone = || clean(Command::new(command));
            check_command(&mut alone(), &mut alone())?;
        } else if Command::new(emulator).arg("--version").output().is_ok() {
            let emulated = || {
                let mut emulator = Command::new(emulator);
                emulator.arg(command);
                emulator
            };
            check_command(&mut emulated(), &mut emulated())?;
        } else {
            eprintln!(
                "not run: the command for {architecture}, since `{emulator}` is not installed"
            );
        }
    }
    let own = musl(std::env::consts::ARCH);
    let command = find("static command", &|name| name.ends_with(&own))?;
    find("archive of the source", &|name| name.ends_with(".tar.gz"))?;
    let alone = || clean(Command::new(command));
    let help = output(alone().arg("--help"))?;
    let help = String::from_utf8_lossy(&help);
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands = commands.take_while(|line| !line.is_empty());
    // The text of a command may go on in the next line, which is indented further.
    let commands = commands.filter_map(|line| line.strip_prefix("  ")?.split(' ').next());
    let commands: Vec<_> = commands.filter(|name| !matches!(*name, "" | "help")).collect();
    expect(commands.len() > 10, "the help lists the commands")?;
    for subcommand in commands {
        let page = format!("lodstone-{subcommand}.1");
        find(&page, &|name| name == page)?;
    }
    for (_, script) in SHELLS {
        find(script, &|name| name == script)?;
    }
    Ok(())
}

/// Returns a command that finds no other programs.
fn clean(mut command: Command) -> Command {
    command.env_clear();
    command
}

/// Installs the wheel into an empty environment, and runs the command and the package with no other program in reach.
fn check_wheel(wheel: &Path) -> Result<(), Outcome> {
    for (version, python) in pythons() {
        let directory = target().join("dist-check").join(format!("python{version}"));
        run(Command::new(&python).args(["-m", "venv", "--clear"]).arg(&directory))?;
        let inside = directory.join("bin");
        let only = |program: &str| {
            let mut command = Command::new(inside.join(program));
            command.env_clear().env("PATH", &inside);
            command
        };
        let pip = ["-m", "pip", "install", "--quiet", "--no-index", "--no-cache-dir"];
        run(only("python").args(pip).arg(wheel))?;
        for compiler in ["cc", "gcc", "clang", "rustc", "cargo"] {
            expect(!inside.join(compiler).exists(), "the environment has no compiler")?;
        }
        check_command(&mut only("lodstone"), &mut only("lodstone"))?;
        let model = root().join("examples/digits/paddle");
        let code = "import importlib.metadata as m, lodstone, sys; \
            assert all('extra ==' in needed for needed in m.requires('lodstone') or []); \
            assert len(lodstone.open(sys.argv[1])) == 12; assert 'numpy' not in sys.modules";
        run(only("python").args(["-c", code]).arg(model))?;
    }
    Ok(())
}

/// Checks that a command has the version of the workspace, and inspects a model.
fn check_command(version: &mut Command, inspect: &mut Command) -> Result<(), Outcome> {
    let expected = format!("lodstone {}\n", env!("CARGO_PKG_VERSION"));
    let found = output(version.arg("--version"))?;
    expect(found == expected.as_bytes(), "the command has the version of the workspace")?;
    let summary = output(inspect.arg("inspect").arg(root().join("examples/digits/paddle")))?;
    let summary = String::from_utf8_lossy(&summary);
    expect(summary.contains("6234 elements"), "the command inspects a model")
}

/// Returns whether a 64-bit, little-endian ELF file names no interpreter, which would load shared libraries.
fn is_static(elf: &[u8]) -> bool {
    /// The type of the segment with the path of the interpreter.
    const INTERPRETER: [u8; 4] = 3_u32.to_le_bytes();
    let number = |at: usize, len: usize| {
        let bytes = elf.get(at..at + len)?.iter().rev();
        Some(bytes.fold(0_usize, |number, byte| number << 8 | usize::from(*byte)))
    };
    let table = || Some((number(32, 8)?, number(54, 2)?, number(56, 2)?));
    let Some((start, size, count)) = table().filter(|_| elf.starts_with(b"\x7fELF\x02\x01")) else {
        return false;
    };
    let mut segments = (0..count).map(|index| elf.get(start + index * size..));
    segments.all(|segment| segment.is_some_and(|segment| !segment.starts_with(&INTERPRETER)))
}

/// Returns the checksums of all files but their own, by path.
fn checksums(dist: &Path) -> Result<String, Outcome> {
    let mut lines = String::new();
    for path in files(dist)? {
        let relative = path.strip_prefix(dist).unwrap_or(&path);
        if relative != Path::new(CHECKSUMS) {
            let bytes = fs::read(&path).map_err(cannot("read a file"))?;
            let sum = Sha256::digest(&bytes);
            let sum: String = sum.iter().map(|byte| format!("{byte:02x}")).collect();
            lines += &format!("{sum}  {}\n", relative.display());
        }
    }
    Ok(lines)
}

/// Returns the files below a directory, sorted.
fn files(directory: &Path) -> Result<Vec<PathBuf>, Outcome> {
    let (mut found, mut open) = (Vec::new(), vec![directory.to_path_buf()]);
    while let Some(directory) = open.pop() {
        for entry in fs::read_dir(directory).map_err(cannot("list a directory"))?.flatten() {
            let path = entry.path();
            if path.is_dir() {
                open.push(path);
            } else {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

/// Returns the standard output of a file of the release, which must work.
fn output(command: &mut Command) -> Result<Vec<u8>, Outcome> {
    let failed = |(Outcome::Failed(why) | Outcome::CouldNotRun(why))| Outcome::Failed(why);
    crate::run::output(command).map_err(failed)
}

fn expect(is_so: bool, what: &str) -> Result<(), Outcome> {
    if is_so { Ok(()) } else { Err(Outcome::Failed(format!("expected that {what}"))) }
}
