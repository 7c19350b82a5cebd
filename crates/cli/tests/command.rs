//! The command as a whole: help, completions, streams, colors.

#![expect(clippy::disallowed_methods, reason = "tests write files directly")]
#![expect(clippy::disallowed_types, reason = "opens a terminal and a full device")]

use crate::common;
use std::fs::File;
use std::io::Read;
use std::path::Path;
use std::process::Stdio;

use crate::common::{DIGITS, command, dir, golden, good, large, run};

const COMMANDS: [&str; 9] =
    ["inspect", "cat", "convert", "diff", "scan", "seal", "verify", "recover", "checkpoint"];

#[test]
fn help_of_each_command_has_examples() {
    let help = good(["--help"]);
    for name in COMMANDS {
        assert!(help.out.contains(name), "{help:?}");
        for flag in ["--help", "-h"] {
            let outcome = good([name, flag]);
            let (_, examples) = outcome.out.split_once("\nExamples:\n").expect("examples");
            let prefix = format!("  lodstone {name} ");
            assert!(examples.lines().count() >= 3, "{examples}");
            assert!(examples.lines().all(|line| line.starts_with(&prefix)), "{examples}");
            assert_eq!(outcome.err, "");
        }
    }
    assert!(good(["convert", "--help"]).out.contains("same:"));
}

#[test]
fn examples_in_the_help_use_existing_options() {
    for name in COMMANDS {
        let help = good([name, "--help"]).out;
        let (options, examples) = help.split_once("\nExamples:\n").expect("examples");
        for word in examples.split_whitespace().filter(|word| word.starts_with('-')) {
            assert!(options.contains(word), "`{word}` in the examples of {name}");
        }
    }
}

#[test]
fn the_version_is_that_of_the_package() {
    let expected = format!("lodstone {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(good(["--version"]).out, expected);
}

#[test]
fn the_version_with_details_names_features_and_vectors() {
    for arguments in [["--version", "--verbose"], ["-v", "-V"]] {
        let details = good(arguments).out;
        let first = format!("lodstone {}\n", env!("CARGO_PKG_VERSION"));
        assert!(details.starts_with(&first), "{details}");
        for name in ["commit", "target", "features", "left out", "vectors", "numerics"] {
            assert!(details.lines().any(|line| line.starts_with(name)), "{name}: {details}");
        }
        assert!(details.contains("remote"), "{details}");
    }
    // Beside something else, `--version` is what clap makes of it.
    assert_eq!(good(["--version", "--quiet"]).out, good(["--version"]).out);
}

#[test]
fn the_manual_has_a_page_for_each_command_beside_other_files() {
    let dir = dir();
    let pages = dir.path().join("man1");
    good(["man", pages.to_str().expect("UTF-8")]);
    std::fs::write(pages.join("other.1"), "another").expect("a file");
    good(["man", pages.to_str().expect("UTF-8")]);
    let read = |name: &str| std::fs::read_to_string(pages.join(name)).expect("a page");
    assert_eq!(read("other.1"), "another");
    let whole = lodstone_cli::command();
    assert!(whole.get_subcommands().count() > 10);
    for command in whole.get_subcommands() {
        let page = read(&format!("lodstone-{}.1", command.get_name()));
        assert!(page.starts_with(".ie") && page.contains("SYNOPSIS"), "{page}");
    }
    assert!(read("lodstone.1").contains("lodstone\\-inspect(1)"));
    assert!(read("lodstone-checkpoint-list.1").contains("SYNOPSIS"));
}

#[test]
fn completions_contain_the_commands_and_formats() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let outcome = good(["completions", shell]);
        for word in ["inspect", "convert", "completions", "strip-source"] {
            assert!(outcome.out.contains(word), "`{word}` for {shell}");
        }
        // The other two shells do not complete values.
        let values = ["bash", "zsh", "fish"].contains(&shell);
        assert_eq!(outcome.out.contains("paddle-vars"), values, "{shell}");
    }
    let outcome = run(["completions", "cmd"]);
    assert_eq!((outcome.code, outcome.out.as_str()), (Some(2), ""), "{outcome:?}");
}

#[test]
fn invalid_usage_is_an_error_on_stderr() {
    for arguments in [
        &["frob"][..],
        &["inspect"],
        &["inspect", DIGITS, "--frob"],
        &["diff", DIGITS],
        &["convert", DIGITS],
        &[],
    ] {
        let outcome = run(arguments);
        assert_eq!(
            (outcome.code, outcome.out.as_str()),
            (Some(2), ""),
            "{arguments:?}: {outcome:?}"
        );
        assert!(outcome.err.contains("Usage: lodstone"), "{arguments:?}: {outcome:?}");
    }
}

#[test]
fn invalid_arguments_are_escaped_for_the_terminal() {
    let hostile = "--\u{1b}[2J\n\u{9b}31m\u{202e}\u{61c}";
    for arguments in [
        &[hostile][..],
        &["inspect", DIGITS, hostile],
        &["diff", DIGITS, DIGITS, &hostile[2..]],
        &["convert", DIGITS, "out", "--to", &hostile[2..]],
        &["convert", DIGITS, "out", "--align", &hostile[2..]],
    ] {
        let outcome = run(arguments);
        assert_eq!(
            (outcome.code, outcome.out.as_str()),
            (Some(2), ""),
            "{arguments:?}: {outcome:?}"
        );
        assert!(outcome.err.contains("\\u{1b}[2J\\n\\u{9b}31m\\u{202e}\\u{61c}"), "{outcome:?}");
        assert!(outcome.err.contains("Usage: ") || outcome.err.contains("--help"), "{outcome:?}");
        let shown = on_terminal(arguments, &[]);
        assert!(!shown.contains(['\u{9b}', '\u{202e}', '\u{61c}']), "{arguments:?}: {shown:?}");
        assert!(!shown.contains("\u{1b}[2J"), "{arguments:?}: {shown:?}");
    }
}

#[test]
fn a_closed_stdout_is_not_an_error() {
    let output = tempfile::tempdir().expect("a directory");
    let output = output.path().join("out.pdmodel");
    for arguments in [
        &["inspect", DIGITS][..],
        &["inspect", DIGITS, "--json"],
        &["cat", DIGITS, "conv2d_1.w_0"],
        &["convert", DIGITS, output.to_str().expect("UTF-8")],
        &["completions", "bash"],
    ] {
        let (reader, writer) = std::io::pipe().expect("a pipe");
        drop(reader);
        let outcome = command(arguments).stdout(Stdio::from(writer)).output();
        let outcome = common::Outcome::from(outcome.expect("the command runs"));
        assert_eq!(outcome.code, Some(0), "{arguments:?}: {outcome:?}");
        assert!(!outcome.err.contains("error") && !outcome.err.contains("panick"), "{outcome:?}");
    }
}

#[test]
fn a_full_disk_is_an_error() {
    let full = File::options().write(true).open("/dev/full").expect("a full device");
    let outcome = command(["inspect", DIGITS]).stdout(full).output();
    let outcome = common::Outcome::from(outcome.expect("the command runs"));
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert!(outcome.err.starts_with("error: "), "{outcome:?}");
}

#[test]
fn commands_work_if_no_threads_can_be_started() {
    let dir = dir();
    let path = |name: &str| dir.path().join(name).to_str().expect("UTF-8").to_owned();
    let (model, copy) = (path("model.safetensors"), path("copy.npz"));
    large(Path::new(&model), 8, 3 << 20);
    for arguments in [
        &["seal", &model][..],
        &["verify", &model],
        &["inspect", &model, "--hash"],
        &["convert", &model, &copy, "--seal"],
        &["diff", &model, &copy],
    ] {
        // The stack of a new thread does not fit into the address space.
        let mut command = command(arguments);
        let outcome = command.env("RUST_MIN_STACK", (1_u64 << 60).to_string()).output();
        let outcome = common::Outcome::from(outcome.expect("the command runs"));
        assert_eq!(outcome.code, Some(0), "{arguments:?}: {outcome:?}");
        assert!(!outcome.err.contains("panicked"), "{arguments:?}: {outcome:?}");
    }
}

/// Runs the command with a terminal as its stderr; returns the output there.
fn on_terminal(arguments: &[&str], environment: &[(&str, &str)]) -> String {
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
    grantpt(&master).and_then(|()| unlockpt(&master)).expect("a terminal");
    let name = ptsname(&master, Vec::new()).expect("a name").into_string().expect("UTF-8");
    let terminal = File::options().read(true).write(true).open(name).expect("a terminal");
    let mut command = command(arguments);
    command.env("TERM", "xterm").envs(environment.iter().copied());
    let mut child =
        command.stdout(Stdio::null()).stderr(terminal).spawn().expect("the command runs");
    // This process must not keep the terminal open.
    drop(command);
    let mut shown = Vec::new();
    // Reading from a terminal whose writers have closed it fails.
    let _ = File::from(master).read_to_end(&mut shown);
    child.wait().expect("the command ends");
    String::from_utf8(shown).expect("UTF-8")
}

#[test]
fn colors_depend_on_the_terminal_and_the_environment() {
    let wrong_usage = ["inspect"];
    let missing = ["inspect", "missing"];
    let warned = golden("2.6.2/lenet/train.pb");
    let warned = ["inspect", warned.as_str()];
    for arguments in [&wrong_usage[..], &missing, &warned] {
        let shown = on_terminal(arguments, &[]);
        assert!(shown.contains("\x1b["), "{arguments:?}: {shown}");
        let shown = on_terminal(arguments, &[("NO_COLOR", "")]);
        assert!(shown.contains("\x1b["), "empty is as if not set: {arguments:?}: {shown}");
        let shown = on_terminal(arguments, &[("NO_COLOR", "1")]);
        assert!(!shown.is_empty() && !shown.contains('\x1b'), "{arguments:?}: {shown}");
        assert!(!run(arguments).err.contains('\x1b'), "{arguments:?}");
    }
}
