//! `lodstone train`, of a program that PaddlePaddle 2.6.2 made.

#![expect(clippy::disallowed_methods, reason = "reads what the command wrote")]

mod common;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;

use common::{bad, command, dir, good, read, root, run};

/// The program, what it begins with, and what its losses were in PaddlePaddle.
const PROGRAM: &str = "examples/digits/training";

/// What it is fed.
const DATA: &str = "examples/digits/train.npz";

/// The columns of a table of losses.
fn columns(table: &Path) -> Vec<Vec<f64>> {
    let text = std::fs::read_to_string(table).unwrap();
    let mut lines = text.lines();
    let count = lines.next().unwrap().split(',').count();
    let rows: Vec<Vec<f64>> =
        lines.map(|line| line.split(',').map(|cell| cell.parse().unwrap()).collect()).collect();
    (0..count).map(|column| rows.iter().map(|row| row[column]).collect()).collect()
}

/// An array of PaddlePaddle's losses.
fn recorded(name: &str) -> Vec<f64> {
    let said = good(["cat", &format!("{PROGRAM}/losses.npz"), name]);
    let text = said.out.replace(['[', ']', ','], " ");
    text.split_whitespace().map(|number| number.parse().unwrap()).collect()
}

#[test]
fn losses_are_those_that_paddlepaddle_had() {
    let dir = dir();
    let out = dir.path().join("out");
    let trained = out.display().to_string();
    let steps = ["--steps", "20", "--batch-size", "32", "--watch", "accuracy_0.tmp_2"];
    let train = ["train", PROGRAM, "--data", DATA, "-o", &trained];
    let said = good(train.iter().chain(&steps));
    assert_eq!(said.out.lines().count(), 20, "{}", said.out);
    assert!(said.out.starts_with("step 1  loss 3.0152"), "{}", said.out);
    let found = columns(&out.join("losses.csv"));
    assert_eq!(found[0], (1..=20).map(f64::from).collect::<Vec<_>>());
    for (found, wanted) in found[1..].iter().zip([recorded("loss"), recorded("accuracy")]) {
        assert_eq!(found.len(), wanted.len());
        for (found, wanted) in found.iter().zip(wanted) {
            assert!(
                (found - wanted).abs() <= 1e-5 * wanted.abs(),
                "{found}, and {wanted} recorded"
            );
        }
    }
    let picture = std::fs::read_to_string(out.join("losses.svg")).unwrap();
    assert!(picture.starts_with("<svg") && picture.contains("polyline"), "{picture}");
}

#[test]
fn what_is_trained_goes_on_where_it_was() {
    let dir = dir();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let (whole, half, rest) = (at("whole"), at("half"), at("rest"));
    let train = |from: &str, steps: &str, to: &str| {
        good(["train", from, "--data", DATA, "--steps", steps, "-o", to]);
    };
    train(PROGRAM, "4", &whole);
    train(PROGRAM, "2", &half);
    train(&half, "2", &rest);
    let same = good(["diff", &whole, &rest]);
    assert!(same.out.contains("the same"), "{}", same.out);
}

#[test]
fn the_startup_program_gives_first_values() {
    let dir = dir();
    let bare = dir.path().join("bare");
    std::fs::create_dir(&bare).unwrap();
    for name in ["main_program", "startup_program"] {
        std::fs::write(bare.join(name), read(&root().join(PROGRAM).join(name))).unwrap();
    }
    let out = dir.path().join("out").display().to_string();
    let bare_path = bare.display().to_string();
    let train = ["train", &bare_path, "--data", DATA, "--steps", "60", "-o", &out];
    good(train.iter().chain(&["--batch-size", "64", "--shuffle", "3", "--check-finite"]));
    let losses = columns(&dir.path().join("out/losses.csv")).remove(1);
    assert!(losses[0] > 2.0 && losses[59] < 0.7, "{losses:?}");

    // One of another name may have a startup program of its own.
    let named = bare.join("net.pdmodel");
    std::fs::rename(bare.join("main_program"), &named).unwrap();
    let (path, to) = (named.display().to_string(), dir.path().join("named").display().to_string());
    let named = ["train", &path, "--data", DATA, "--steps", "1", "-o", &to];
    let said = run(named);
    assert!(said.code == Some(0) && said.err.contains("`startup_program` in the same"), "{said:?}");
    let startup = bare.join("startup_program").display().to_string();
    let said = run(named.iter().chain(&["--startup", &startup]));
    assert!(said.code == Some(0) && !said.err.contains("startup_program"), "{said:?}");
    std::fs::rename(path, bare.join("main_program")).unwrap();

    std::fs::remove_file(bare.join("startup_program")).unwrap();
    let said = run(train);
    assert_eq!(said.code, Some(2), "{said:?}");
    assert!(said.err.contains("error: ") && said.err.contains("no startup program"), "{said:?}");
}

#[test]
fn what_does_not_fit_is_said_before_the_first_step() {
    let dir = dir();
    let out = dir.path().join("out").display().to_string();
    let said = |more: &[&str]| {
        let train = ["train", PROGRAM, "--steps", "2", "-o", &out];
        bad(train.iter().chain(more))
    };
    let images = dir.path().join("images.npy").display().to_string();
    good(["cat", DATA, "image", "-o", &images]);
    let alone = format!("image={images}");
    for (arguments, wanted) in [
        (vec!["--data", &alone], "the input `label` is missing"),
        (
            vec!["--data", DATA, "--batch-size", "2000"],
            "`image`: expected a batch size from 1 to 1437, found 2000",
        ),
        (vec!["--data", DATA, "--batch-size", "0"], "from 1 to 1437, found 0"),
        (vec!["--data", DATA, "--loss", "nothing"], "`nothing`"),
        (vec!["--data", DATA, "--startup", DATA], "train.npz"),
    ] {
        let said = said(&arguments);
        assert!(said.contains(wanted), "{said}");
    }
    let said = bad(["train", "examples/digits/paddle", "--data", DATA, "--steps", "1"]);
    assert!(said.contains("it computes no gradients"), "{said}");
    assert!(!dir.path().join("out").exists());
}

#[test]
fn the_number_of_threads_changes_nothing() {
    let dir = dir();
    let trained = |threads: &str| {
        let out = dir.path().join(threads);
        let path = out.display().to_string();
        let mut train = command(["train", PROGRAM, "--data", DATA, "--steps", "3", "-o", &path]);
        let done = train.env("RAYON_NUM_THREADS", threads).status().unwrap();
        assert!(done.success());
        read(&out.join("__params__"))
    };
    let one = trained("1");
    assert!(trained("2") == one && trained("7") == one);
}

/// What training with checkpoints ends with, if it is killed again and again.
#[test]
fn killed_training_that_resumes_ends_as_if_nothing_had_been() {
    let dir = dir();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let (whole, resumed, run) = (at("whole"), at("resumed"), at("run"));
    let train = ["train", PROGRAM, "--data", DATA, "--steps", "40", "--batch-size", "32"];
    let train = train.iter().copied().chain(["--shuffle", "9", "-o"]);
    good(train.clone().chain([whole.as_str()]));
    let checkpoints = ["--checkpoint", &run, "--every", "3", "--keep", "2", "--resume"];
    let resume = train.chain([resumed.as_str()]).chain(checkpoints);
    let mut kills = 0;
    loop {
        let mut child = command(resume.clone()).stdout(Stdio::piped()).spawn().unwrap();
        // The checkpoint of the third step is there before that of the sixth is begun.
        let steps = BufReader::new(child.stdout.take().unwrap()).lines().take(7).count();
        if steps < 7 {
            break assert!(child.wait().unwrap().success());
        }
        child.kill().and_then(|()| child.wait().map(drop)).unwrap();
        kills += 1;
    }
    assert!(kills >= 2, "{kills} kills");
    let same = good(["diff", &whole, &resumed]);
    assert!(same.out.contains("the same"), "{}", same.out);
    let listed = good(["checkpoint", "list", &run]).out;
    assert!(listed.contains("40") && listed.contains("39"), "{listed}");
    good(["checkpoint", "verify", &run]);
    let said = bad(["train", PROGRAM, "--data", DATA, "--steps", "50", "--checkpoint", &run]);
    assert!(said.contains("up to step 40") && said.contains("--resume"), "{said}");
}

#[test]
fn what_has_nothing_left_to_do_writes_what_it_had_become() {
    let dir = dir();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let (first, again, run) = (at("first"), at("again"), at("run"));
    let train = ["train", PROGRAM, "--data", DATA, "--steps", "2", "--checkpoint", &run];
    good(train.iter().chain(&["-o", &first]));
    good(train.iter().chain(&["-o", &again, "--resume"]));
    assert!(good(["diff", &first, &again]).out.contains("the same"));
}

/// `losses.csv` has the steps of all runs, and columns that only some of them watched.
#[test]
fn resumed_training_appends_to_its_losses() {
    let dir = dir();
    let at = |name: &str| dir.path().join(name).display().to_string();
    let (whole, resumed, run) = (at("whole"), at("resumed"), at("run"));
    let train = ["train", PROGRAM, "--data", DATA, "--batch-size", "32", "--steps"];
    good(train.iter().chain(&["6", "-o", &whole]));
    let checkpoints = ["--checkpoint", &run, "--every", "2", "-o", &resumed];
    good(train.iter().chain(&["4"]).chain(&checkpoints));
    let watch = ["--resume", "--watch", "accuracy_0.tmp_2"];
    good(train.iter().chain(&["6"]).chain(&checkpoints).chain(&watch));
    let lines = |dir: &str| -> Vec<String> {
        let table = std::fs::read_to_string(Path::new(dir).join("losses.csv")).unwrap();
        table.lines().map(str::to_owned).collect()
    };
    let (wanted, found) = (lines(&whole), lines(&resumed));
    assert_eq!(found[0], "step,loss,accuracy_0.tmp_2");
    assert_eq!(found.len(), 7);
    for (wanted, found) in wanted.iter().zip(&found).skip(1) {
        assert!(found.starts_with(&format!("{wanted},")), "{wanted}, and {found}");
        let is_watched = !found.ends_with(',');
        assert_eq!(is_watched, found.starts_with(['5', '6']), "{found}");
    }
}

#[test]
fn training_continues_when_nobody_reads_its_steps() {
    let dir = dir();
    let out = dir.path().join("out");
    let path = out.display().to_string();
    let mut train = command(["train", PROGRAM, "--data", DATA, "--steps", "20", "-o", &path]);
    let mut child = train.stdout(Stdio::piped()).spawn().unwrap();
    let mut steps = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(steps.next().unwrap().unwrap().starts_with("step 1  "));
    drop(steps);
    assert!(child.wait().unwrap().success());
    assert_eq!(columns(&out.join("losses.csv"))[0].len(), 20);
}

#[test]
fn steps_are_json_lines() {
    let dir = dir();
    let path = dir.path().join("out").display().to_string();
    let said = good(["train", PROGRAM, "--data", DATA, "--steps", "2", "-o", &path, "--json"]);
    let lines: Vec<serde_json::Value> =
        said.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 3);
    assert_eq!((&lines[0]["schema"], &lines[1]["step"]), (&1.into(), &2.into()));
    assert!(lines[0]["values"]["loss"].as_f64().is_some_and(|loss| loss > 0.0), "{}", said.out);
    assert_eq!((&lines[2]["done"], &lines[2]["output"]), (&2.into(), &path.into()));
}
