"""Draws what the benchmarks measured: plot.py BENCHMARKS.json OUT.svg"""

import json
import sys

import matplotlib

matplotlib.use("svg")
matplotlib.rcParams.update({"svg.fonttype": "none", "svg.hashsalt": "lodstone", "font.size": 8})
import matplotlib.pyplot as plt  # noqa: E402  (after the backend)

COLOURS = {"limit": "#b0b0b0", "lodstone": "#c2410c", "peer": "#64748b"}
SHOWN = [
    "load into memory",
    "load into memory, cold",
    "save from memory, durable",
    "convert, durable",
    "verify what is sealed",
    "verify what is sealed, cold",
]


def main():
    with open(sys.argv[1]) as file:
        rows = json.load(file)
    mib = min(row["mib"] for row in rows)
    tensors = min(row["tensors"] for row in rows)
    rows = [row for row in rows if row["mib"] == mib and row["tensors"] == tensors]
    figure, all_axes = plt.subplots(3, 2, figsize=(9, 7.5), constrained_layout=True)
    figure.suptitle(f"GiB/s, {mib} MiB in {tensors} tensors; higher is better")
    for operation, axes in zip(SHOWN, all_axes.flat):
        of_it = [row for row in rows if row["operation"] == operation][::-1]
        names = [
            f"Lodstone, {row['system']}" if row["role"] == "lodstone" else row["system"]
            for row in of_it
        ]
        speeds = [row["mib"] / 1024 / row["median"] for row in of_it]
        bars = axes.barh(names, speeds, color=[COLOURS[row["role"]] for row in of_it])
        axes.bar_label(bars, fmt="%.2f", padding=2)
        axes.set_title(operation)
        axes.margins(x=0.15)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(sys.argv[2], metadata={"Date": None})


if __name__ == "__main__":
    main()
