"""Converts a directory of mixed models with Ray Data.

    pip install lodstone 'ray[data]'
    python ray_convert.py models/ out/ --to safetensors --workers 2

Each model is converted to the same path below the output directory. Outputs appear as a whole and are never replaced, so the
script can be interrupted and repeated, and several of them can work on the same models. Exits with 1 if a model failed.
"""

import argparse
import os
import sys
import time
from pathlib import Path


def find_models(directory: Path) -> dict[Path, set[str] | None]:
    """Returns the models below a directory with the names of their tensors, or with `None` if they are damaged.

    Files that are parts of a larger model are not listed: the directory has their tensors too, and other files.
    """
    import lodstone

    found: dict[Path, set[str] | None] = {}
    for path in sorted(directory.iterdir()):
        models = find_models(path) if path.is_dir() else {}
        try:
            names = set(lodstone.open(path).keys())
        except (lodstone.NoModelError, lodstone.UnknownFormatError):
            found |= models
        except lodstone.LodstoneError:
            # The conversion reports it.
            found |= models or {path: None}
        else:
            is_whole = all(part is not None and part <= names for part in models.values())
            is_alone = path.is_dir() and len(list(path.iterdir())) == 1
            found |= models if models and (is_alone or not is_whole) else {path: names}
    return found


def convert(batch: dict, root: str, out: str, to: str, allow: list[str]) -> dict:
    """Converts the models of a batch; a failure is a row like any other."""
    import lodstone

    rows: dict[str, list] = {"path": [], "status": [], "error": [], "nbytes": [], "seconds": []}
    for path in map(str, batch["item"]):
        begun, status, error, nbytes = time.monotonic(), "converted", "", 0
        target = Path(out) / Path(path).relative_to(root)
        target = target.with_name(target.name + "." + to)
        try:
            if target.exists():
                status = "present"
            else:
                os.makedirs(target.parent, exist_ok=True)
                nbytes = lodstone.convert(path, target, to=to, allow=allow, no_clobber=True)["nbytes"]
        except FileExistsError:
            status = "present"
        except Exception as failure:
            status, error = "failed", f"{type(failure).__name__}: {failure}"
        found = [path, status, error, nbytes, time.monotonic() - begun]
        for column, value in zip(rows.values(), found, strict=True):
            column.append(value)
    return rows


def main() -> int:
    parser = argparse.ArgumentParser(description="Converts a directory of mixed models with Ray Data")
    parser.add_argument("models", type=Path, help="directory of models")
    parser.add_argument("out", type=Path, help="directory of outputs")
    parser.add_argument("--to", default="safetensors", help="format to write [default: safetensors]")
    parser.add_argument("--workers", type=int, default=2, help="number of conversions at a time [default: 2]")
    parser.add_argument("--allow", action="append", default=[], help="accept a loss by its name; may be repeated")
    arguments = parser.parse_args()

    import ray

    root, out = arguments.models.resolve(), arguments.out.resolve()
    paths = [str(path) for path in find_models(root)]
    print(f"{len(paths)} models in {root}")
    if not paths:
        return 0
    settings = {"root": str(root), "out": str(out), "to": arguments.to, "allow": arguments.allow}
    work = ray.data.from_items(paths, override_num_blocks=len(paths)).map_batches(
        convert, fn_kwargs=settings, batch_size=1, compute=ray.data.TaskPoolStrategy(size=arguments.workers)
    )
    rows = []
    for row in work.iter_rows():
        rows.append(row)
        name = Path(row["path"]).relative_to(root)
        print(f"[{len(rows)}/{len(paths)}] {row['status']:9} {name} ({row['seconds']:.2f} s)", flush=True)
    failed = sorted((str(Path(row["path"]).relative_to(root)), row["error"]) for row in rows if row["status"] == "failed")
    if failed:
        width = max(len(name) for name, _ in failed)
        print(f"\n{'failed'.ljust(width)}  error")
        for name, error in failed:
            print(f"{name.ljust(width)}  {error.splitlines()[0]}")
    total = {status: sum(row["status"] == status for row in rows) for status in ("converted", "present", "failed")}
    print(", ".join(f"{count} {status}" for status, count in total.items()))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
