//! The numeric data of PyTorch models, which is outside of the pickle that refers to it.

use std::collections::{BTreeMap, BTreeSet};

use lodstone_store::{Blob, Cursor};

use super::effects::effects;
use super::storages::{Storage, keys, storages};
use super::tape;
use crate::encoding::pickle::known::is_known_module;
use crate::encoding::pickle::{Loads, Node, Tree};
use crate::scan::{Outside, Place};

/// Archives since 1.6, and older files, which consist of pickles and their data.
pub(crate) static OUTSIDE: Outside = Outside {
    place,
    members,
    keeps,
    is_file,
    is_tape: tape::is_tape,
    elements: tape::elements,
    own_modules,
    shadows,
    is_code: |member| member.contains(CODE) && member.ends_with(".py"),
    effects,
    joined: &["distcp"],
    is_native: |member| {
        let ending = member.rsplit_once('.').map_or("", |(_, ending)| ending);
        member.contains("/data/aotinductor/") && NATIVE.contains(&ending)
    },
};

/// Extensions of compiled code in packages of AOTInductor, and of source code that is compiled when they are loaded.
const NATIVE: &[&str] = &[
    "a", "c", "cc", "cpp", "cu", "cubin", "dll", "dylib", "fatbin", "h", "hsaco", "ll", "metal",
    "mm", "o", "ptx", "py", "so", "spv",
];

/// The folder of the code of TorchScript, in the folder of an archive.
const CODE: &str = "/code/";

/// Members that are pickles with storages, and the folders of these storages.
const PICKLES: &[(&str, &str)] = &[
    ("data.pkl", "data/"),
    ("constants.pkl", "constants/"),
    ("traced_inputs.pkl", "traced_inputs/"),
];

/// Extensions of pickles in packages.
const PACKAGED: &[&str] = &[".pkl", ".pickle", ".pt", ".pth", ".bin"];

/// Returns the modules of TorchScript: those with a file in an archive that is a program.
fn own_modules(members: &BTreeSet<&str>) -> BTreeSet<String> {
    let module = |member: &&str| {
        let (folder, file) = member.split_once(CODE)?;
        let is_program = ["version", "constants.pkl", "data.pkl"]
            .iter()
            .all(|name| members.contains(format!("{folder}/{name}").as_str()));
        let module = file.strip_suffix(".py")?.replace('/', ".");
        (is_program && module.split('.').next() == Some("__torch__")).then_some(module)
    };
    members.iter().filter_map(module).collect()
}

/// Returns the source files in a package of `torch.package` whose modules are in the table of imports.
fn shadows(members: &BTreeSet<&str>) -> Vec<(String, String)> {
    let source = |member: &&str| {
        let (folder, file) = member.split_once('/')?;
        let file = file.strip_suffix(".py")?;
        let module = file.strip_suffix("/__init__").unwrap_or(file).replace('/', ".");
        (is_package(folder, members) && is_known_module(&module))
            .then(|| ((*member).to_owned(), module))
    };
    members.iter().filter_map(source).collect()
}

/// The number of pickles at the beginning of a file from before 1.6.
const FIRST_PICKLES: usize = 5;

/// Returns whether pickle number `number` of a file is one of those at the beginning of a file from before 1.6, if all
/// before it are.
fn keeps(number: usize, pickle: &Tree) -> bool {
    number < FIRST_PICKLES && (number > 0 || is_magic(pickle))
}

/// Returns whether a pickle is the magic number of those files.
pub(super) fn is_magic(tree: &Tree) -> bool {
    /// `0x1950a86a20f9469cfc6c`, in bytes and in digits.
    const MAGIC: [&[u8]; 2] = [b"l\xfc\x9cF\xf9 j\xa8P\x19", b"119547037146038801333356"];
    match tree.node(tree.root()) {
        Node::BigInt(span) | Node::Digits(span) => {
            tree.bytes(*span).is_ok_and(|bytes| MAGIC.contains(&&*bytes))
        }
        _ => false,
    }
}

/// Returns whether a file begins with the pickle of the magic number.
pub(crate) fn is_numbered(head: &[u8], _len: u64) -> bool {
    const NUMBER: &[u8] = b"\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19.";
    // After the protocol, and the frame header in later protocols.
    let start = head.get(..32).unwrap_or(head);
    start.windows(NUMBER.len()).any(|found| found == NUMBER)
}

/// Returns where the data of a pickle is. In a package, any member may be a pickle.
fn place(member: &str, members: &BTreeSet<&str>) -> Option<Place> {
    if let Some((folder, name)) = member.split_once('/')
        && is_package(folder, members)
    {
        let is_pickle = !name.starts_with(".data/") && PACKAGED.iter().any(|it| name.ends_with(it));
        let (folder, before) = (format!("{folder}/"), format!("{folder}/.data/"));
        return is_pickle.then_some(Place { folder, before, after: ".storage" });
    }
    PICKLES.iter().find_map(|(own, data)| {
        let folder = member.strip_suffix(own)?;
        let is_folder = folder.is_empty() || folder.ends_with('/');
        let place =
            || Place { folder: folder.to_owned(), before: format!("{folder}{data}"), after: "" };
        is_folder.then(place)
    })
}

/// Returns whether a folder of an archive is a package of `torch.package`.
fn is_package(folder: &str, members: &BTreeSet<&str>) -> bool {
    members.contains(format!("{folder}/.data/extern_modules").as_str())
}

/// Returns the archive members that hold the numeric data of a pickle, by name, with their sizes.
fn members(place: &Place, pickle: &Tree) -> Option<BTreeMap<String, u64>> {
    let Place { before, after, .. } = place;
    let sized = |(key, storage): (String, Storage)| {
        Some((format!("{before}{key}{after}"), storage.size()?))
    };
    let storages = storages(pickle)?;
    // PyTorch numbers them.
    let is_number = |key: &String| key.bytes().all(|byte| byte.is_ascii_digit());
    if !storages.keys().all(is_number) {
        return None;
    }
    storages.into_iter().map(sized).collect()
}

/// Returns whether a file consists exactly of five pickles and the data that the fourth refers to, in the order of the
/// fifth.
fn is_file(blob: &Blob, loads: &Loads) -> bool {
    let [_, _, _, value, order] = loads.kept.as_slice() else { return false };
    let (Some(known), Some(keys)) = (storages(value), keys(order)) else { return false };
    let mut cursor = Cursor::at(blob, order.end());
    let mut left = known.len();
    for key in keys {
        let Some(storage) = known.get(&key) else { return false };
        let Ok(count) = cursor.u64("a number of elements") else { return false };
        let Some(size) = storage.size().filter(|_| count == storage.count) else { return false };
        let end = cursor.position().saturating_add(size);
        if end > blob.len() || left == 0 {
            return false;
        }
        cursor.seek(end);
        left -= 1;
    }
    left == 0 && cursor.position() == blob.len()
}
