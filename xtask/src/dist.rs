//! `cargo xtask dist`: the files of a release, in `target/dist`.
//!
//! | file | contents |
//! |---|---|
//! | `lodstone-*.whl` | the Python package with the command, for manylinux and every Python from 3.11 on |
//! | `lodstone-*-TARGET` | the command, statically linked |
//! | `man/*.1` | a page of the manual for each subcommand |
//! | `completions/*` | completions for each shell |
//! | `SHA256SUMS` | checksums of all of these |
//!
//! `--check` builds nothing: it proves that the files there work without a compiler, Rust, or any other package.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest, Sha256};

use crate::python::{environment, pythons, wheel_in};
use crate::run::{Outcome, cannot, cargo, root, run, target};

/// The target whose C library is linked statically. No dependency needs a C compiler; the linker is that of the host.
const STATIC: &str = "x86_64-unknown-linux-musl";

/// The oldest C library that the wheel runs on: glibc 2.17. Zig links against it on any host.
const MANYLINUX: &str = "manylinux2014";

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
    match rest {
        [] => build()?,
        [only] if only == "--check" => {}
        _ => return Err(Outcome::CouldNotRun("usage: cargo xtask dist [--check]".to_owned())),
    }
    check()
}

fn build() -> Result<(), Outcome> {
    let dist = target().join("dist");
    let _ = fs::remove_dir_all(&dist);
    for directory in ["man", "completions"] {
        fs::create_dir_all(dist.join(directory)).map_err(cannot("create a directory"))?;
    }
    let (_, python) = pythons().into_iter().next().ok_or_else(|| {
        Outcome::CouldNotRun("there is no Python 3.11 or newer with venv".to_owned())
    })?;
    let python = environment(&python, PACKAGING)?;
    let built = wheel_in(&python, &["--profile", "dist", "--zig", "--compatibility", MANYLINUX])?;
    fs::copy(&built, dist.join(built.file_name().unwrap_or_default()))
        .map_err(cannot("copy the wheel"))?;
    let mut rustup = Command::new("rustup");
    run(rustup.args(["--quiet", "target", "add", STATIC]))?;
    cargo("build", &["--target", STATIC, "--profile", "dist", "--package", "lodstone-cli"], &[])?;
    let binary = target().join(STATIC).join("dist/lodstone");
    let version = env!("CARGO_PKG_VERSION");
    let command = dist.join(format!("lodstone-{version}-{STATIC}"));
    fs::copy(&binary, &command).map_err(cannot("copy the command"))?;
    for (shell, name) in SHELLS {
        let script = output(Command::new(&command).args(["completions", shell]))?;
        fs::write(dist.join("completions").join(name), script).map_err(cannot("write a script"))?;
    }
    run(Command::new(&command).arg("man").arg(dist.join("man")))?;
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
    let wheel = find("manylinux wheel", &|name| {
        name.ends_with(".whl") && name.contains("-abi3-") && name.contains(MANYLINUX)
    })?;
    check_wheel(wheel)?;
    let command = find("static command", &|name| name.ends_with(STATIC))?;
    let bytes = fs::read(command).map_err(cannot("read the command"))?;
    expect(is_static(&bytes), "the command is statically linked")?;
    let alone = || {
        let mut command = Command::new(command);
        command.env_clear();
        command
    };
    check_command(&mut alone(), &mut alone())?;
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

/// Runs a command, which must succeed, and returns its stdout.
fn output(command: &mut Command) -> Result<Vec<u8>, Outcome> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.output().map_err(cannot("run a program"))?;
    match output.status.success() {
        true => Ok(output.stdout),
        false => Err(Outcome::Failed(format!("{name}: {}", output.status))),
    }
}

fn expect(is_so: bool, what: &str) -> Result<(), Outcome> {
    if is_so { Ok(()) } else { Err(Outcome::Failed(format!("expected that {what}"))) }
}
