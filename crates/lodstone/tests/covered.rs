//! The files that a seal covers, in any directory, and the handling of other files.
#![expect(clippy::disallowed_methods, reason = "tests damage files")]

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};

use lodstone::Location;
use lodstone::formats::Error as FormatError;
use lodstone::model::Programs;
use lodstone::open::tensor_at;
use lodstone::verify::Verification;
use lodstone::{
    ConvertOptions, Error, Loss, Model, OpenOptions, Progress, Target, WriteOptions, convert, open,
    open_with, seal, verify,
};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn digits() -> PathBuf {
    root().join("examples/digits/paddle")
}

/// Copies files to paths in a directory.
fn copied(dir: &Path, files: &[(&str, &str)]) {
    for (from, to) in files {
        let to = dir.join(to);
        std::fs::create_dir_all(to.parent().expect("a directory")).expect("made");
        std::fs::copy(root().join("examples/digits").join(from), to).expect("copied");
    }
}

fn options(params: &Path) -> OpenOptions {
    OpenOptions::default().with_params(Some(params.into()))
}

fn written(model: Model, out: &Path, format: &str, sealed: bool) -> Vec<String> {
    let to = Some(Target::Format(format.to_owned()));
    let write = WriteOptions::default().with_seal(sealed);
    let options = ConvertOptions::default().with_to(to).with_write(write);
    let options = options.with_allow(vec![Loss::Program]);
    let told = convert(model, out, &options).expect("written").report.warnings;
    told.into_iter().filter(|warning| warning.contains("lodstone.seal")).collect()
}

fn sealed(path: &Path) {
    seal(path, &OpenOptions::default(), false, &Progress::default()).expect("sealed");
}

fn checked(path: &Path) -> Verification {
    verify(path, &OpenOptions::default(), &Progress::default()).expect("verified")
}

fn flip(path: &Path) {
    let mut bytes = std::fs::read(path).expect("a file");
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    std::fs::write(path, bytes).expect("write");
}

/// Reads all tensors.
fn read(path: &Path, options: &OpenOptions) -> Result<Model, Error> {
    let model = open_with(path, options)?;
    for parameter in &model.parameters {
        parameter.tensor.data.bytes()?;
    }
    Ok(model)
}

fn refused(path: &Path, options: &OpenOptions, what: &str) {
    let error = read(path, options).expect_err("refused").to_string();
    assert!(error.contains(what), "{}: {error}", path.display());
}

/// Returns several paths of the same file: through a link to it, a link to its directory, and `..`.
fn ways(dir: &Path, to: &Path) -> Vec<PathBuf> {
    let (parent, name) = (to.parent().expect("a directory"), to.file_name().expect("a name"));
    let (file, directory) = (dir.join("file"), dir.join("directory"));
    symlink(to, &file).expect("a link");
    symlink(parent, &directory).expect("a link");
    let up = parent.join("..").join(parent.file_name().expect("a name")).join(name);
    vec![to.to_path_buf(), file, directory.join(name), up]
}

#[test]
fn a_file_below_the_directory_of_its_seal_is_verified_by_every_path() {
    let dir = tempfile::tempdir().expect("a directory");
    let at = |name: &str| dir.path().join(name);
    copied(&at("q"), &[("paddle/inference.pdmodel", "inference.pdmodel")]);
    copied(&at("q"), &[("paddle/inference.pdiparams", "p/inference.pdiparams")]);
    let (program, params) = (at("q/inference.pdmodel"), at("q/p/inference.pdiparams"));
    seal(&program, &options(&params), false, &Progress::default()).expect("sealed");
    assert!(!at("q/p/lodstone.seal").exists());
    let ways = ways(dir.path(), &params);
    for params in &ways {
        read(&program, &options(params)).expect("whole");
        assert!(checked(params).sealed, "{}", params.display());
    }
    flip(&params);
    for params in &ways {
        refused(&program, &options(params), "is damaged");
        refused(params, &OpenOptions::default(), "is damaged");
        let found = checked(params);
        assert!(!found.whole && found.sealed, "{}: {found:?}", params.display());
    }
}

#[test]
fn a_variable_in_a_subdirectory_is_verified_when_it_is_opened_alone() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut model = open(digits()).expect("a model");
    model.programs = Programs::default();
    "sub/w".clone_into(&mut model.parameters[0].name);
    let path = dir.path().join("m");
    written(model, &path, "paddle-vars", true);
    let found = checked(&path.join("sub/w"));
    assert!(found.whole && found.sealed, "{found:?}");
    flip(&path.join("sub/w"));
    refused(&path.join("sub/w"), &OpenOptions::default(), "is damaged");
    refused(&path, &OpenOptions::default(), "is damaged");
    assert!(!checked(&path.join("sub/w")).whole);
}

#[test]
fn files_that_a_model_names_are_verified_under_every_spelling_and_by_nearer_seals() {
    let dir = tempfile::tempdir().expect("a directory");
    copied(dir.path(), &[("paddle/inference.pdiparams", "sub/x")]);
    sealed(&dir.path().join("sub/x"));
    flip(&dir.path().join("sub/x"));
    symlink("sub/x", dir.path().join("link")).expect("a link");
    let directory = OpenOptions::default().dir(&Location::from(dir.path())).expect("a directory");
    for name in ["sub/x", "./sub//x", "sub/./x", "link"] {
        let blob = directory.open_file(name).expect("open").expect("there");
        assert!(blob.read().expect_err(name).to_string().contains("is damaged"), "{name}");
    }
}

#[test]
fn an_epoch_that_was_added_to_a_sealed_model_is_not_read() {
    let dir = tempfile::tempdir().expect("a directory");
    copied(
        dir.path(),
        &[
            ("mxnet/digits-symbol.json", "digits-symbol.json"),
            ("mxnet/digits-0012.params", "digits-0012.params"),
        ],
    );
    sealed(dir.path());
    copied(dir.path(), &[("mxnet/digits-0012.params", "digits-0013.params")]);
    let paths = ["", "digits", "digits-symbol.json"].map(|name| dir.path().join(name));
    for path in &paths {
        let error = open(path).expect_err("added");
        assert!(matches!(error, Error::Format(FormatError::Unsealed { .. })), "{error}");
        assert!(error.to_string().contains("digits-0013.params"), "{error}");
        assert!(!checked(path).whole);
        let trusting = OpenOptions::default().with_verify(false);
        read(path, &trusting).expect("not compared");
    }
    // Sealing again adds it.
    sealed(dir.path());
    paths.iter().for_each(|path| assert!(open(path).is_ok() && checked(path).sealed));
}

#[test]
fn an_index_that_was_added_to_a_sealed_file_is_not_read() {
    let dir = tempfile::tempdir().expect("a directory");
    let at = |name: &str| dir.path().join(name);
    let model = open(digits()).expect("a model");
    written(model.clone(), &at("model.safetensors"), "safetensors", true);
    written(model.clone(), &at("evil.safetensors"), "safetensors", false);
    let names = model.parameters.iter().map(|parameter| format!("\"{}\"", parameter.name));
    // One file keeps its path, so that the sealed file is a part of it.
    let files = std::iter::once("model").chain(std::iter::repeat("evil"));
    let map: Vec<_> =
        names.zip(files).map(|(name, file)| format!("{name}: \"{file}.safetensors\"")).collect();
    let index = format!("{{\"metadata\": {{}}, \"weight_map\": {{{}}}}}", map.join(", "));
    std::fs::write(at("model.safetensors.index.json"), index).expect("write");
    refused(&at(""), &OpenOptions::default(), "index.json` is not listed in the seal");
    read(&at("model.safetensors"), &OpenOptions::default()).expect("what was sealed");
}

#[test]
fn a_model_of_another_format_does_not_take_a_sealed_prefix() {
    let dir = tempfile::tempdir().expect("a directory");
    let at = |name: &str| dir.path().join(name);
    for name in ["inference.pdmodel", "inference.pdiparams"] {
        copied(dir.path(), &[(&format!("paddle/{name}"), name)]);
    }
    sealed(&at("inference"));
    let read_before = open(at("inference")).expect("a model").format;
    copied(dir.path(), &[("mxnet/digits-symbol.json", "inference-symbol.json")]);
    copied(dir.path(), &[("mxnet/digits-0012.params", "inference-0001.params")]);
    if let Ok(model) = open(at("inference")) {
        assert_eq!(model.format, read_before);
    }
}

#[test]
fn files_beside_the_seal_of_another_model_are_not_verified() {
    let dir = tempfile::tempdir().expect("a directory");
    let at = |name: &str| dir.path().join(name);
    let model = open(digits()).expect("a model");
    written(model.clone(), &at("a.safetensors"), "safetensors", true);
    written(model, &at("b.npz"), "npz", false);
    assert!(open(at("a.safetensors")).expect("sealed").report.warnings.is_empty());
    assert!(open(at("b.npz")).expect("another model").report.warnings.is_empty());
}

#[test]
fn a_record_of_a_file_that_is_not_sealed_with_its_program_is_not_read() {
    let dir = tempfile::tempdir().expect("a directory");
    let at = |name: &str| dir.path().join(name);
    copied(dir.path(), &[("paddle/inference.pdmodel", "inference.pdmodel")]);
    sealed(&at("inference.pdmodel"));
    copied(dir.path(), &[("paddle/inference.pdiparams", "inference.pdiparams")]);
    let error = tensor_at(at("inference.pdiparams"), 1, &OpenOptions::default());
    let error = error.expect_err("the program is sealed, and they are not").to_string();
    assert!(error.contains("inference.pdiparams` is not listed in the seal"), "{error}");
}

#[test]
fn a_rewritten_file_is_not_compared_with_a_seal_above_it() {
    for again in [false, true] {
        let dir = tempfile::tempdir().expect("a directory");
        let at = |name: &str| dir.path().join(name);
        copied(dir.path(), &[("paddle/inference.pdmodel", "inference.pdmodel")]);
        copied(dir.path(), &[("paddle/inference.pdiparams", "p/inference.pdiparams")]);
        let params = at("p/inference.pdiparams");
        let options = options(&params);
        seal(at("inference.pdmodel"), &options, false, &Progress::default()).expect("sealed");
        let mut model = open(&params).expect("a model");
        model.parameters.truncate(1);
        let told = written(model, &params, "paddle-params", again);
        assert!(told.len() == 1 && told[0].starts_with(&format!("`{}", dir.path().display())));
        let found = checked(&params);
        assert!(found.whole && found.sealed == again && found.tensors == 1, "{found:?}");
        assert_eq!(open(&params).expect("what was written").parameters.len(), 1);
    }
}

#[test]
fn sealing_a_directory_again_removes_its_files_from_seals_below() {
    let dir = tempfile::tempdir().expect("a directory");
    let mut model = open(digits()).expect("a model");
    model.programs = Programs::default();
    "sub/w".clone_into(&mut model.parameters[0].name);
    let path = dir.path().join("m");
    written(model, &path, "paddle-vars", true);
    sealed(&path.join("sub/w"));
    flip(&path.join("sub/w"));
    seal(&path, &OpenOptions::default(), true, &Progress::default()).expect("as it is");
    read(&path, &OpenOptions::default()).expect("what was sealed");
    assert!(checked(&path).whole && checked(&path.join("sub/w")).sealed);
}

#[test]
fn an_unreadable_seal_is_an_error() {
    let dir = tempfile::tempdir().expect("a directory");
    copied(dir.path(), &[("paddle/inference.pdiparams", "x.pdiparams")]);
    let path = dir.path().join("x.pdiparams");
    for target in ["lodstone.seal", "nowhere"] {
        symlink(target, dir.path().join("lodstone.seal")).expect("a link");
        for path in [dir.path(), &path] {
            refused(path, &OpenOptions::default(), "lodstone.seal");
            let found = verify(path, &OpenOptions::default(), &Progress::default());
            assert!(found.is_err(), "{found:?}");
        }
        std::fs::remove_file(dir.path().join("lodstone.seal")).expect("removed");
    }
}

#[test]
fn sealing_an_overwritten_sealed_model_gives_no_warning() {
    let dir = tempfile::tempdir().expect("a directory");
    let path = dir.path().join("m.safetensors");
    let model = || open(digits()).expect("a model");
    assert!(written(model(), &path, "safetensors", true).is_empty());
    assert_eq!(written(model(), &path, "safetensors", true), Vec::<String>::new());
    assert!(checked(&path).sealed);
    assert_eq!(written(model(), &path, "safetensors", false).len(), 1);
    // The other files of the model are no longer covered.
    let prefix = dir.path().join("net");
    written(model(), &prefix, "paddle", true);
    let params = dir.path().join("net.pdiparams");
    let mut unnamed = Model { programs: Programs::default(), ..model() };
    unnamed.parameters.iter_mut().for_each(|parameter| parameter.name.clear());
    assert_eq!(written(unnamed, &params, "paddle-params", true).len(), 1);
    // Through a link, the seal is the one beside the link.
    let links = tempfile::tempdir().expect("a directory");
    let link = links.path().join("m.safetensors");
    symlink(&path, &link).expect("a link");
    sealed(&link);
    assert_eq!(written(model(), &link, "safetensors", true), Vec::<String>::new());
    assert!(checked(&link).sealed && checked(&path).sealed);
}

#[test]
fn a_seal_in_a_world_writable_directory_does_not_apply_to_models_below() {
    use std::os::unix::fs::PermissionsExt;
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::set_permissions(dir.path(), std::fs::Permissions::from_mode(0o1777)).expect("a mode");
    copied(dir.path(), &[("mxnet/digits-0012.params", "mine/digits-0012.params")]);
    std::fs::write(dir.path().join("lodstone.seal"), "theirs").expect("written");
    read(&dir.path().join("mine/digits-0012.params"), &OpenOptions::default()).expect("read");
    // It applies to models in that directory.
    copied(dir.path(), &[("mxnet/digits-0012.params", "digits-0012.params")]);
    read(&dir.path().join("digits-0012.params"), &OpenOptions::default()).expect_err("damaged");
}

#[test]
fn a_seal_above_that_does_not_list_the_written_file_does_not_change() {
    let dir = tempfile::tempdir().expect("a directory");
    copied(dir.path(), &[("mxnet/digits-0012.params", "digits-0012.params")]);
    sealed(&dir.path().join("digits-0012.params"));
    std::fs::create_dir(dir.path().join("sub")).expect("a directory");
    let changed = || std::fs::metadata(dir.path()).and_then(|found| found.modified()).expect("it");
    let before = changed();
    let model = open(digits()).expect("a model");
    assert_eq!(written(model, &dir.path().join("sub/m.npz"), "npz", false), [""; 0]);
    assert_eq!(changed(), before, "nothing was begun there");
}
