"""Writes caffe2_operators.txt: the names of the operators that Caffe2 registers, without those of single engines.

Run with Python 3.8, torch==1.9.1, numpy<1.24, protobuf<3.21, future and six.
"""

from pathlib import Path

from caffe2.python import workspace

names = sorted(name for name in workspace.RegisteredOperators() if "_ENGINE_" not in name)
Path(__file__).with_name("caffe2_operators.txt").write_text("\n".join(names) + "\n")
