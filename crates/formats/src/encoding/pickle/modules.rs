//! Modules that an installation of Python may have: importing one of them runs its code.

/// Returns whether there may be a module of this name: one that comes with Python, a common package, or a part of one.
pub(crate) fn may_exist(module: &str) -> bool {
    let top = module.split('.').next().unwrap_or_default();
    is_name(module) && (STANDARD.binary_search(&top).is_ok() || COMMON.binary_search(&top).is_ok())
}

/// Returns whether a module, or something in one, can have this name: identifiers with dots between them.
pub(crate) fn is_name(module: &str) -> bool {
    let is_identifier = |part: &str| {
        let is_letter = |c: char| c.is_alphanumeric() || c == '_';
        !part.is_empty()
            && !part.starts_with(|c: char| c.is_numeric())
            && part.chars().all(is_letter)
    };
    module.split('.').all(is_identifier)
}

/// The standard library, in the releases from 2.7 to 3.13, sorted.
#[rustfmt::skip]
const STANDARD: &[&str] = &[
    "StringIO", "__builtin__", "__future__", "__main__", "_abc", "_aix_support", "_ast", "_asyncio", "_bisect",
    "_blake2", "_bootsubprocess", "_bz2", "_codecs", "_codecs_cn", "_codecs_hk", "_codecs_iso2022", "_codecs_jp",
    "_codecs_kr", "_codecs_tw", "_collections", "_collections_abc", "_compat_pickle", "_compression", "_contextvars",
    "_crypt", "_csv", "_ctypes", "_curses", "_curses_panel", "_datetime", "_dbm", "_decimal", "_elementtree",
    "_frozen_importlib", "_frozen_importlib_external", "_functools", "_gdbm", "_hashlib", "_heapq", "_imp", "_io",
    "_json", "_locale", "_lsprof", "_lzma", "_markupbase", "_md5", "_msi", "_multibytecodec", "_multiprocessing",
    "_opcode", "_operator", "_osx_support", "_overlapped", "_pickle", "_posixshmem", "_posixsubprocess", "_py_abc",
    "_pydecimal", "_pyio", "_queue", "_random", "_scproxy", "_sha1", "_sha256", "_sha3", "_sha512", "_signal",
    "_sitebuiltins", "_socket", "_sqlite3", "_sre", "_ssl", "_stat", "_statistics", "_string", "_strptime", "_struct",
    "_symtable", "_thread", "_threading_local", "_tkinter", "_tokenize", "_tracemalloc", "_typing", "_uuid",
    "_warnings", "_weakref", "_weakrefset", "_winapi", "_zoneinfo", "abc", "aifc", "antigravity", "argparse", "array",
    "ast", "asynchat", "asyncio", "asyncore", "atexit", "audioop", "base64", "bdb", "binascii", "binhex", "bisect",
    "builtins", "bz2", "cPickle", "cProfile", "calendar", "cgi", "cgitb", "chunk", "cmath", "cmd", "code", "codecs",
    "codeop", "collections", "colorsys", "commands", "compileall", "concurrent", "configparser", "contextlib",
    "contextvars", "copy", "copy_reg", "copyreg", "crypt", "csv", "ctypes", "curses", "dataclasses", "datetime",
    "dbm", "decimal", "difflib", "dis", "distutils", "doctest", "dummy_threading", "email", "encodings", "ensurepip",
    "enum", "errno", "faulthandler", "fcntl", "filecmp", "fileinput", "fnmatch", "formatter", "fractions", "ftplib",
    "functools", "gc", "genericpath", "getopt", "getpass", "gettext", "glob", "graphlib", "grp", "gzip", "hashlib",
    "heapq", "hmac", "html", "http", "idlelib", "imaplib", "imghdr", "imp", "importlib", "inspect", "io", "ipaddress",
    "itertools", "json", "keyword", "lib2to3", "linecache", "locale", "logging", "lzma", "macpath", "mailbox",
    "mailcap", "marshal", "math", "mimetypes", "mmap", "modulefinder", "msilib", "msvcrt", "multiprocessing", "netrc",
    "nis", "nntplib", "nt", "ntpath", "nturl2path", "numbers", "opcode", "operator", "optparse", "os", "os2",
    "ossaudiodev", "parser", "pathlib", "pdb", "pickle", "pickletools", "pipes", "pkgutil", "platform", "plistlib",
    "popen2", "poplib", "posix", "posixpath", "pprint", "profile", "pstats", "pty", "pwd", "py_compile", "pyclbr",
    "pydoc", "pydoc_data", "pyexpat", "queue", "quopri", "random", "re", "readline", "reprlib", "resource",
    "rlcompleter", "runpy", "sched", "secrets", "select", "selectors", "shelve", "shlex", "shutil", "signal", "site",
    "smtpd", "smtplib", "sndhdr", "socket", "socketserver", "spwd", "sqlite3", "sre_compile", "sre_constants",
    "sre_parse", "ssl", "stat", "statistics", "string", "stringprep", "struct", "subprocess", "sunau", "symbol",
    "symtable", "sys", "sysconfig", "syslog", "tabnanny", "tarfile", "telnetlib", "tempfile", "termios", "test",
    "textwrap", "this", "thread", "threading", "time", "timeit", "tkinter", "token", "tokenize", "tomllib", "trace",
    "traceback", "tracemalloc", "tty", "turtle", "turtledemo", "types", "typing", "unicodedata", "unittest", "urllib",
    "urllib2", "uu", "uuid", "venv", "warnings", "wave", "weakref", "webbrowser", "winreg", "winsound", "wsgiref",
    "xdrlib", "xml", "xmlrpc", "zipapp", "zipfile", "zipimport", "zlib", "zoneinfo",
];

/// Common packages, sorted.
#[rustfmt::skip]
const COMMON: &[&str] = &[
    "IPython", "PIL", "absl", "accelerate", "aiohttp", "albumentations", "anthropic", "astropy", "asttokens", "attr",
    "attrs", "audiocraft", "awkward", "bitsandbytes", "bokeh", "boto3", "botocore", "bs4", "catboost", "cffi",
    "cloudpickle", "confluent_kafka", "coremltools", "cryptography", "cupy", "cv2", "cvxpy", "cython", "dask",
    "datasets", "deepspeed", "detectron2", "diffusers", "dill", "django", "docker", "einops", "espnet", "evaluate",
    "fabric", "fairseq", "faiss", "fastai", "flash_attn", "flask", "flax", "fsspec", "gensim", "gevent", "gluoncv",
    "gluonnlp", "google", "gradio", "grpc", "gymnasium", "h5py", "haiku", "httpx", "huggingface_hub", "hydra", "ignite",
    "imageio", "ipykernel", "jax", "jaxlib", "jinja2", "joblib", "jsonpickle", "jupyter", "keras", "kornia",
    "langchain", "librosa", "lightgbm", "lightning", "lightning_fabric", "lxml", "marimo", "matplotlib", "mlflow",
    "mmcv", "mmdet", "mmengine", "monai", "mpi4py", "msgpack", "mxnet", "mypy", "nbformat", "nemo", "networkx", "nltk",
    "notebook", "numba", "numexpr", "numpy", "omegaconf", "onnx", "onnxruntime", "openai", "openvino", "optax",
    "optuna", "orjson", "paddle", "paddlenlp", "pandas", "paramiko", "peft", "pexpect", "pip", "pkg_resources",
    "plotly", "polars", "prefect", "psutil", "pyarrow", "pyautogui", "pycocotools", "pydantic", "pygments", "pymc",
    "pymongo", "pyspark", "pytest", "pytorch_lightning", "pyximport", "redis", "regex", "requests", "ruamel",
    "sacrebleu", "safetensors", "scipy", "seaborn", "sentence_transformers", "sentencepiece", "setuptools", "shap",
    "skimage", "sklearn", "skops", "smolagents", "spacy", "speechbrain", "sqlalchemy", "stable_baselines3",
    "statsmodels", "streamlit", "sympy", "tensorboard", "tensorflow", "theano", "thinc", "tiktoken", "timm",
    "tokenizers", "toolz", "torch", "torch_geometric", "torchaudio", "torchmetrics", "torchtext", "torchvision",
    "tornado", "tqdm", "traitlets", "transformers", "triton", "trl", "twisted", "typer", "typing_extensions",
    "ultralytics", "urllib3", "uvicorn", "vllm", "wandb", "webdataset", "werkzeug", "wheel", "whisper", "xarray",
    "xformers", "xgboost", "yaml", "yolov5",
];
